"""Table 1 as Markdown, CSV and LaTeX, and on the terminal."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich import box

from lightning_sasv.console import Terminal
from lightning_sasv.fusion.doubts import warning_lines
from lightning_sasv.metrics.registry import METRICS, UNDEFINED, Metric, metrics_for
from lightning_sasv.metrics_file import Metrics, of_in
from lightning_sasv.report.table1 import (
    Cell,
    Check,
    Row,
    check_seeds,
    make_rows,
    mean_metrics,
    notes,
    seed_of,
)
from lightning_sasv.report.tables import make_table
from lightning_sasv.results import warnings_of, write_tables
from lightning_sasv.trials import TWIN

DAGGER = "†"


def mean_text(cell: Cell) -> str:
    """``1.58±0.02``, with a dagger where the t-EER is that of the closest point."""
    if math.isnan(cell.mean):
        return UNDEFINED
    spread = "" if math.isnan(cell.spread) else f"±{cell.spread:.2f}"
    return f"{cell.mean:.2f}{spread}{DAGGER if cell.marked else ''}"


def _against(paper: float | None, ours: float) -> str:
    if paper is None:
        return ""
    return f"{paper:.2f}" + ("" if math.isnan(ours) else f" {ours - paper:+.2f}")


def paper_text(cell: Cell) -> str:
    """``1.43 +0.15``: the paper's value and our difference to it."""
    return _against(cell.paper, cell.mean)


def cell_text(cell: Cell) -> str:
    """``1.58±0.02 (1.43 +0.15)``."""
    return mean_text(cell) + ("" if cell.paper is None else f" ({paper_text(cell)})")


def half_width_text(row: Row) -> str:
    """``±0.23``, half the length of the interval, as the paper gives it."""
    return "" if math.isnan(row.half_width) else f"±{row.half_width:.2f}"


def paper_half_width_text(row: Row) -> str:
    """``0.23 +0.01``: the paper's half-width and our difference, where we have an interval."""
    return "" if math.isnan(row.half_width) else _against(row.paper_half_width, row.half_width)


def interval_text(row: Row) -> str:
    """``[1.32, 1.79] ±0.24 (0.23 +0.01)``, or nothing where no interval was computed."""
    if math.isnan(row.low):
        return ""
    paper = "" if row.paper_half_width is None else f" ({paper_half_width_text(row)})"
    return f"[{row.low:.2f}, {row.high:.2f}] {half_width_text(row)}{paper}"


def _heading(metric: Metric) -> str:
    return metric.heading.replace(" ", "_") + (" %" if metric.unit == "rate" else "")


def _line_of(system: str, cells: Iterable[str], interval: str) -> list[str]:
    """A line of the table, in which the interval stands behind the metric that it is of."""
    first, *others = cells
    return [system, first, interval, *others]


def as_markdown(rows: Sequence[Row], remarks: Sequence[str]) -> str:
    """The table as Markdown; in brackets the paper's value and the difference."""
    headings = _line_of("system", map(_heading, metrics_for("table1")), "95 %")
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    for row in rows:
        cells = _line_of(row.label, map(cell_text, row.cells.values()), interval_text(row))
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "In brackets: the paper's value on SASV 2022 eval, and the difference.", ""]
    return "\n".join([*lines, *(f"- {_line(remark)}" for remark in remarks)]) + "\n"


def _line(text: str) -> str:
    return " ".join(text.split())


def as_csv(rows: Sequence[Row], corpus: str) -> str:
    """The table as CSV, one line per system and metric."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = ["mean", "sd", "low", "high", "paper", "difference"]
    writer.writerow(["corpus", "system", "metric", *names, "note"])
    for row in rows:
        for key, cell in row.cells.items():
            ends = (row.low, row.high) if key == "sasv_eer" else (math.nan, math.nan)
            difference = math.nan if cell.paper is None else cell.mean - cell.paper
            values = [cell.mean, cell.spread, *ends, cell.paper, difference]
            shown = ["" if v is None or math.isnan(v) else repr(v) for v in values]
            words = [("simulated corpus", corpus == TWIN), ("closest point", cell.marked)]
            words += [("doubtful fit", row.doubtful)]
            note = "; ".join(word for word, holds in words if holds)
            writer.writerow([corpus, row.system, _heading(METRICS[key]), *shown, note])
    return text.getvalue()


_LATEX_CHARACTERS = {
    "\\": r"\textbackslash{}",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "†": r"$^\dagger$",
    "ρ": r"$\rho$",
    "–": "--",
}


def latex_text(text: str) -> str:
    r"""Text that LaTeX sets as it stands, on one line, whatever characters are in it.

    Example:
        >>> print(latex_text("95 % of my_corpus, +0.1"))
        95 \% of my\_corpus, $+$0.1
    """
    shown = "".join(_LATEX_CHARACTERS.get(sign, sign) for sign in _line(text))
    return re.sub(r"(?<= )([+-])(?=\d)", r"$\1$", shown)


def latex_heading(metric: Metric) -> str:
    """Heading of a column in LaTeX."""
    return (metric.latex or latex_text(metric.heading)) + (r" \%" if metric.unit == "rate" else "")


def as_latex(rows: Sequence[Row], remarks: Sequence[str]) -> str:
    """The table as a LaTeX tabular (booktabs): below each system the paper's line, then notes."""
    headings = _line_of("system", map(latex_heading, metrics_for("table1")), r"95 \%")
    width = len(headings)
    lines = [r"% needs \usepackage{booktabs}", r"\begin{tabular}{l" + "r" * (width - 1) + "}"]
    lines += [r"\toprule", " & ".join(headings) + r" \\", r"\midrule"]
    for row in rows:
        cells = row.cells.values()
        shown = [_line_of(row.label, map(mean_text, cells), half_width_text(row))]
        if any(cell.paper is not None for cell in cells):
            shown += [_line_of("(paper)", map(paper_text, cells), paper_half_width_text(row))]
        lines += [" & ".join(map(latex_text, line)) + r" \\" for line in shown]
    lines.append(r"\bottomrule")
    explained = "Lines (paper): the paper's value on SASV 2022 eval, and the difference."
    for remark in (explained, *remarks):
        note = rf"\footnotesize {latex_text(remark)}"
        lines.append(rf"\multicolumn{{{width}}}{{p{{0.9\linewidth}}}}{{{note}}} \\")
    return "\n".join([*lines, r"\end{tabular}"]) + "\n"


def write_table(
    folder: Path, seeds: Sequence[Metrics], systems: Sequence[str]
) -> tuple[list[Row], list[str], list[str]]:
    """Write ``table.{md,csv,tex}`` and ``metrics.json``; return rows, remarks and warnings."""
    check_seeds(seeds, systems)
    rows, first = make_rows(seeds, systems), of_in(seeds[0][systems[0]], "eval")
    corpus = str(first["corpus"])
    remarks = notes(rows, corpus, [seed_of(metrics[systems[0]]) for metrics in seeds])
    metrics = mean_metrics(seeds, systems)
    warnings = warning_lines(warnings_of(metrics))
    texts = {"md": as_markdown(rows, [*remarks, *warnings]), "csv": as_csv(rows, corpus)}
    texts["tex"] = as_latex(rows, [*remarks, *warnings])
    write_tables(folder, texts, metrics)
    return rows, remarks, warnings


def print_table1(rows: Sequence[Row], remarks: Sequence[str]) -> None:
    """Table 1, each system on two lines: ours, and below it the paper's and the difference."""
    titles = (metric.title("%", narrow=True) for metric in metrics_for("table1"))
    system, *headings = _line_of("system", titles, "95 %")
    table = make_table([system], headings)
    table.title = "Table 1, eval: mean over seeds ± spread; below, the paper and difference"
    table.box, table.padding, table.pad_edge = box.SIMPLE_HEAD, (0, 0, 0, 1), False
    for row in rows:
        cells = list(row.cells.values())
        table.add_row(*_line_of(row.label, map(mean_text, cells), half_width_text(row)))
        if cells[0].paper is not None:
            width = "" if row.paper_half_width is None else f"{row.paper_half_width:.2f}"
            paper = _line_of("(paper)", map(paper_text, cells), width)
            table.add_row(*paper, style="dim")
    console = Terminal(wrap=True)
    console.print(table)
    for remark in remarks:
        console.print(remark)


def print_checks(checks: Sequence[Check]) -> None:
    """Which statements about the order of the systems hold."""
    console = Terminal()
    if checks:
        held = sum(check.holds for check in checks)
        console.print(f"Order of the paper on the twin: {held} of {len(checks)} checks hold")
    for check in checks:
        console.print(f"  {'✓' if check.holds else '✗'} {check.statement}")
