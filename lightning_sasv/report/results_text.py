"""Results of an evaluation as Markdown, LaTeX and HTML, and pages of published values.

Of an evaluation these are the main metrics, a row per system. Bold is the best system together with
all that cannot be told apart from it, or nothing.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lightning_sasv.files import write_text
from lightning_sasv.metrics.registry import ON_PAGE, Metric, metrics_for
from lightning_sasv.places import head, refuse
from lightning_sasv.report.table1_text import latex_heading, latex_text
from lightning_sasv.report.tables import value_text, worst_shares
from lightning_sasv.terminal import in_a_row

HEADINGS = ("system", "metric", "set", "published", "recomputed", "verdict", "what explains it")
_HTML = re.compile(r"<(?!https?://[^\s<>]+>)")
"""Any but addresses, which stand in angle brackets."""
_HEAD = f"| {' | '.join(HEADINGS)} |"


def _main(result: Any) -> list[Metric]:
    """Metrics that some table shows, and that are defined of some system."""
    return [
        metric
        for metric in metrics_for("all")
        if metric.tables
        and any(not math.isnan(own.get(metric.name, math.nan)) for own in result.metrics.values())
    ]


def _lines(result: Any, bold: str, text: Any = str) -> list[list[str]]:
    """Cells of each system, its name first; ``bold`` is how a bold cell is written."""
    metrics = _main(result)
    best = {metric.name: result.best(metric.name) for metric in metrics}
    lines = []
    for system in result.metrics:
        cells = [text(system)]
        for metric in metrics:
            found = result.metrics, result.intervals
            cell = text(value_text(metric, system, *found, ON_PAGE))
            cells.append(bold.format(cell) if system in best[metric.name] else cell)
        lines.append(cells)
    return lines


def _notes(result: Any) -> list[str]:
    """What the numbers are: title, caption, whose misses they are, what is bold."""
    bold = any(result.best(metric.name) for metric in _main(result))
    shares = [f"{name} {share}" for name, share in worst_shares(result.draws.misses).items()]
    found = [result.title, result.caption]
    if shares and result.intervals:
        found.append(f"misses of the worst speaker: {', '.join(shares)}")
    return found + ["bold: not told apart from the best"] * bold


def as_markdown(result: Any) -> str:
    """The table and what its numbers are.

    Args:
        result: An ``evaluation.Results``.
    """
    headings = ["system", *(metric.title() for metric in _main(result))]
    rows = [headings, ["---"] * len(headings), *_lines(result, "**{}**", in_a_row)]
    lines = ["| " + " | ".join(cells) + " |" for cells in rows]
    return "\n".join([*lines, "", "; ".join(_notes(result)) + "."]) + "\n"


def as_latex(result: Any) -> str:
    """A table with booktabs and a caption.

    Args:
        result: An ``evaluation.Results``.
    """
    headings = ["system", *map(latex_heading, _main(result))]
    rows = [" & ".join(cells) + r" \\" for cells in _lines(result, r"\textbf{{{}}}", latex_text)]
    columns = "l" + "r" * (len(headings) - 1)
    lines = [r"% needs \usepackage{booktabs}", r"\begin{table}", r"\centering"]
    lines += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", " & ".join(headings) + r" \\"]
    lines += [r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\caption{{{latex_text('; '.join(_notes(result)))}.}}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def as_html(result: Any) -> str:
    """A table for notebooks.

    Args:
        result: An ``evaluation.Results``.
    """
    headings = ["system", *(metric.title() for metric in _main(result))]
    top = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    rows = [
        f"<tr><th>{name}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        for name, *cells in _lines(result, "<b>{}</b>", html.escape)
    ]
    caption = html.escape("; ".join(_notes(result)))
    return (
        f"<table><caption>{caption}</caption><thead><tr>{top}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def write_page(
    path: str | Path,
    title: str,
    about: str,
    parts: Mapping[str, Iterable[Sequence[str]]],
    sources: Iterable[str],
    overwrite: bool = False,
) -> Path:
    """Write a page of tables.

    Args:
        path: File to write.
        title: Its heading.
        about: What stands before the tables.
        parts: Rows, with a cell for each of ``HEADINGS``, by the heading of their table.
        sources: Where the published values come from.
        overwrite: Replace the file though it holds something else.

    Raises:
        InputError: The file holds something else.
    """
    if not overwrite and Path(path).exists() and _HEAD not in head(Path(path)):
        refuse(path, "something else than published and recomputed values", "another --markdown")
    lines = [f"# {_one_line(title)}", "", *_HTML.sub("&lt;", about).strip().splitlines()]
    for heading, rows in parts.items():
        cells = [f"| {' | '.join(_one_line(cell) for cell in row)} |" for row in rows]
        if cells:
            lines += ["", f"## {heading}", "", _HEAD, "|---" * len(HEADINGS) + "|", *cells]
    listed = [f"- {_one_line(source)}" for source in dict.fromkeys(sources)]
    if listed:
        lines += ["", "## Sources", "", *listed]
    return write_text(path, "\n".join(lines) + "\n")


def _one_line(text: str) -> str:
    """Text that ends neither a cell nor a line, and holds no HTML."""
    return in_a_row(_HTML.sub("&lt;", text))
