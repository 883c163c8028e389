"""Table 1 as Markdown, CSV and LaTeX, and on the terminal."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich import box

from lightning_sasv.console import Terminal
from lightning_sasv.fusion.doubts import warning_lines
from lightning_sasv.metrics.registry import (
    BRIEF,
    METRICS,
    NO_LLR,
    UNDEFINED,
    Decimals,
    Metric,
    metrics_for,
)
from lightning_sasv.metrics_file import Metrics, costs_in, of_in
from lightning_sasv.record import NOT_RECORDED
from lightning_sasv.report.formats import in_one_line, latex, latex_heading, latex_text, markdown
from lightning_sasv.report.sure import OVER_SEEDS, Draws, Sure, judge
from lightning_sasv.report.table1 import (
    Cell,
    Check,
    Row,
    beside_paper,
    check_seeds,
    make_rows,
    mean_metrics,
    notes,
    pair_lines,
)
from lightning_sasv.report.tables import in_parts, make_table
from lightning_sasv.results import warnings_of, write_tables
from lightning_sasv.trials import TWIN

TABLE: Decimals = BRIEF
"""Decimals of the table."""


def value_text(cell: Cell) -> str:
    """``1.57``, or why there is none."""
    if math.isfinite(cell.mean):
        return f"{cell.mean:.{TABLE[cell.metric.unit]}f}"
    return NO_LLR if cell.reason == NO_LLR else UNDEFINED


def spread_text(cell: Cell) -> str:
    """``± 0.02``, or nothing of one seed."""
    return "" if math.isnan(cell.spread) else f"± {cell.spread:.{TABLE[cell.metric.unit]}f}"


def ends_text(cell: Cell) -> str:
    """``[1.21, 1.97]``; of two seeds ``(1.55, 1.59)``, the values of both; else nothing."""
    places = TABLE[cell.metric.unit]
    if len(cell.seeds) == 2 and all(map(math.isfinite, cell.seeds)):
        return "({:.{n}f}, {:.{n}f})".format(*cell.seeds, n=places)
    return "" if math.isnan(cell.low) else f"[{cell.low:.{places}f}, {cell.high:.{places}f}]"


def cell_text(cell: Cell) -> str:
    """``1.57 [1.21, 1.97] ± 0.02``: mean, its interval, deviation between seeds."""
    return " ".join(filter(None, (value_text(cell), ends_text(cell), spread_text(cell))))


def paper_text(cell: Cell) -> str:
    """``1.43 +0.14``: the paper's value, and our difference to it."""
    if cell.paper is None:
        return ""
    difference = "" if math.isnan(cell.mean) else f" {cell.mean - cell.paper:+.2f}"
    return f"{cell.paper:.2f}{difference}"


def _has_paper(row: Row) -> bool:
    return any(cell.paper is not None for cell in row.cells.values())


def _columns(rows: Sequence[Row]) -> list[str]:
    """Metrics that some system has."""
    names = [metric.name for metric in metrics_for("table1")]
    cells = [row.cells for row in rows]
    return [name for name in names if any(value_text(own[name]) != UNDEFINED for own in cells)]


def _heading(metric: Metric) -> str:
    return metric.heading.replace(" ", "_") + (" %" if metric.unit == "rate" else "")


def _lines(
    rows: Sequence[Row], columns: Sequence[str], text: Callable[[Cell], str] = cell_text
) -> list[list[str]]:
    """Cells of each system, and below it of the paper; letters behind the name."""
    letters, lines = any(row.letters for row in rows), []
    for row in rows:
        cells = [row.cells[name] for name in columns]
        lines.append([row.label, *([row.letters] if letters else []), *map(text, cells)])
        if _has_paper(row):
            lines.append(["(paper)", *([""] if letters else []), *map(paper_text, cells)])
    return lines


def _first(rows: Sequence[Row]) -> list[str]:
    return ["system", "letters"] if any(row.letters for row in rows) else ["system"]


def as_markdown(table: Table1) -> str:
    """The table as Markdown; t-EERs of pairs and remarks below."""
    columns = _columns(table.rows)
    headings = [*_first(table.rows), *(_heading(METRICS[name]) for name in columns)]
    parts = [markdown(headings, _lines(table.rows, columns))]
    if table.pairs:
        parts += [f"{PAIRS}:\n", markdown(["pair of", "t-EER %", "paper"], table.pairs)]
    return "\n".join([*parts, *(f"- {in_one_line(remark)}" for remark in table.remarks)]) + "\n"


PAIRS = "t-EER of the pairs of scores, whatever rule fuses them; mean over seeds"


_ENDS = ("method", "drawn", "replicates", "seeds", "speakers")


def as_csv(
    rows: Sequence[Row], corpus: str, simulated: bool = False, costs: str = NOT_RECORDED
) -> str:
    """The table as CSV, one line per system and metric; costs name theirs in the note."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = ["mean", "sd", "low", "high", *_ENDS, "paper", "difference"]
    writer.writerow(["corpus", "system", "metric", *names, "note"])
    for row in rows:
        for key, cell in row.cells.items():
            difference = math.nan if cell.paper is None else cell.mean - cell.paper
            numbers = (cell.mean, cell.spread, cell.low, cell.high, cell.paper, difference)
            shown = ["" if v is None or math.isnan(v) else repr(v) for v in numbers]
            drawn = " ".join(map(str, cell.ends.get("drawn", ())))
            found = {"seeds": len(cell.seeds)} | dict(cell.ends) | {"drawn": drawn}
            shown[4:4] = [str(found.get(name, "")) for name in _ENDS]
            words = [("simulated corpus", simulated), ("doubtful fit", row.doubtful)]
            words += [(cell.reason, bool(cell.reason))]
            words += [(f"costs {costs}", METRICS[key].unit == "cost")]
            note = "; ".join(word for word, holds in words if holds)
            writer.writerow([corpus, row.system, _heading(METRICS[key]), *shown, note])
    return text.getvalue()


def as_latex(table: Table1) -> str:
    """The table as a LaTeX tabular (booktabs): below each system the paper's line, then notes."""
    rows, columns = table.rows, _columns(table.rows)
    headings = [*_first(rows), *(latex_heading(METRICS[name]) for name in columns)]
    across = rf"\multicolumn{{{len(headings)}}}{{p{{0.9\linewidth}}}}"
    remarks = (*_pair_text(table.pairs), *table.remarks)
    notes = [rf"{across}{{\footnotesize {latex_text(remark)}}} \\" for remark in remarks]
    cells = (map(latex_text, line) for line in _lines(rows, columns))
    lines = [r"% needs \usepackage{booktabs}", *latex(headings, cells, *notes)]
    return "\n".join(lines) + "\n"


def _pair_text(pairs: Sequence[tuple[str, str, str]]) -> list[str]:
    """``t-EER …: B1, Post 2.10 (paper 2.10); …``."""
    shown = [f"{names} {own}" + f" (paper {paper})" * bool(paper) for names, own, paper in pairs]
    return [f"{PAIRS}, %: {'; '.join(shown)}"] if pairs else []


class Table1(NamedTuple):
    """The table.

    Attributes:
        rows: A row for each system.
        pairs: t-EER of each pair of scores: systems that fuse it, value, and the paper's.
        remarks: What its reader must know.
        warnings: What makes fits doubtful.
    """

    rows: list[Row]
    pairs: Sequence[tuple[str, str, str]]
    remarks: list[str]
    warnings: Sequence[str] = ()


def write_table(
    folder: Path,
    seeds: Sequence[Metrics],
    systems: Sequence[str],
    draws: Sequence[Draws] = (),
    paper: bool = True,
    failed: Sequence[str] = (),
) -> Table1:
    """Write ``table.{md,csv,tex}`` and ``metrics.json``.

    Args:
        folder: Folder of the table.
        seeds: Metrics of each seed.
        systems: Names of the systems.
        draws: Replicates of each seed, where intervals are wanted.
        paper: Whether the paper's numbers stand beside ours.
        failed: What is said of systems that could not be fitted.
    """
    check_seeds(seeds, systems)
    metrics = mean_metrics(seeds, systems)
    sure = judge(draws, OVER_SEEDS, metrics, "eval") if draws else Sure()
    for name, own in sure.intervals.items():
        metrics[name]["sets"]["eval"]["intervals"] = own
    of = of_in(metrics[systems[0]], "eval")
    paper = paper and beside_paper(of)
    rows = make_rows(metrics, systems, paper, sure.letters.get("sasv_eer"))
    warnings = [*failed, *warning_lines(warnings_of(metrics))]
    remarks = notes(rows, metrics, sure)
    table = Table1(rows, pair_lines(metrics, paper), remarks, warnings)
    whole = table._replace(remarks=[*remarks, *warnings])
    simulated = of["simulated"] is True or of["corpus"] == TWIN
    costs = costs_in(metrics, "eval") or NOT_RECORDED
    texts = {"md": as_markdown(whole), "csv": as_csv(rows, str(of["corpus"]), simulated, costs)}
    texts["tex"] = as_latex(whole)
    compared = [one.as_dict() for one in sure.comparisons]
    write_tables(folder, texts, metrics, compared)
    return table


def _title(cells: Sequence[Cell]) -> str:
    """What a number of the table is: of how many seeds, and what stands beside or below it."""
    seeds = max(len(cell.seeds) for cell in cells)
    if seeds == 2:
        return "mean over two seeds ± deviation, values of both"
    mean = "one seed" if seeds == 1 else "mean over seeds ± deviation"
    return f"{mean}, 95 % interval" if any(map(ends_text, cells)) else mean


def print_table1(table: Any) -> None:
    """Print it: below each mean its interval, then the paper's value and the difference.

    Args:
        table: A :class:`Table1`, or the ``experiment.TableResults`` of one.
    """
    console, rows = Terminal(wrap=True), table.rows
    for columns in _parts(rows, console.width):
        titles = [METRICS[name].title("%", narrow=True) for name in columns]
        shown = make_table(_first(rows), titles)
        shown.title = (
            f"Table 1, eval: {_title([one for row in rows for one in row.cells.values()])}"
        )
        shown.box, shown.padding, shown.pad_edge = box.SIMPLE_HEAD, (0, 0, 0, 1), False
        for row in rows:
            cells, blank = [row.cells[name] for name in columns], [""] * len(_first(rows)[1:])
            letters = [row.letters] if blank else []
            values = (f"{value_text(cell)} {spread_text(cell)}".strip() for cell in cells)
            shown.add_row(row.label, *letters, *values)
            if any(map(ends_text, cells)):
                shown.add_row("", *blank, *map(ends_text, cells))
            if any(cell.paper is not None for cell in cells):
                shown.add_row("(paper)", *blank, *map(paper_text, cells), style="dim")
        console.print(shown)
    for remark in (*_pair_text(table.pairs), *table.remarks):
        console.print(remark)


def _parts(rows: Sequence[Row], room: int) -> list[list[str]]:
    """The columns in parts that fit into a number of characters."""
    texts = ["(paper)", *_first(rows)[:1], *(row.label for row in rows)]
    names = max(map(len, texts)) + sum(len(one) + 2 for one in _first(rows)[1:]) + 4
    widths = {}
    for name in _columns(rows):
        cells = [row.cells[name] for row in rows]
        lines = [f"{value_text(one)} {spread_text(one)}" for one in cells]
        texts = [*lines, *map(ends_text, cells), *map(paper_text, cells)]
        widths[name] = max(len(METRICS[name].title("%", narrow=True)), *map(len, texts)) + 2
    return in_parts(widths, room - names)


def print_checks(checks: Sequence[Check]) -> None:
    """Which statements about the order of the systems hold."""
    console = Terminal()
    if checks:
        held = sum(check.holds for check in checks)
        console.print(f"Order of the paper on the twin: {held} of {len(checks)} checks hold")
    for check in checks:
        console.print(f"  {'✓' if check.holds else '✗'} {check.statement}")
