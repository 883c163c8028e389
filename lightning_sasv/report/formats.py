"""Tables as Markdown, LaTeX and HTML; those of an evaluation, a row per system.

Bold in the latter is the best system together with all that cannot be told apart from it, or
nothing. What is not marked as :class:`Html` is escaped here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

from lightning_sasv.metrics.registry import ON_PAGE, Metric, metrics_for
from lightning_sasv.report.tables import value_text, worst_shares
from lightning_sasv.terminal import clean, in_a_row

_LATEX_CHARACTERS = {
    "\\": r"\textbackslash{}",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": "$-$",
    "π": r"$\pi$",
    "ρ": r"$\rho$",
    "–": "--",
}


def in_one_line(text: str) -> str:
    """Text without line ends and control characters."""
    return clean(" ".join(text.split()))


def markdown(headings: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of cells that are Markdown already."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def latex_text(text: str) -> str:
    r"""Text that LaTeX sets as it stands, on one line, whatever characters are in it.

    Example:
        >>> print(latex_text("95 % of my_corpus, +0.1"))
        95 \% of my\_corpus, $+$0.1
    """
    shown = "".join(_LATEX_CHARACTERS.get(sign, sign) for sign in in_one_line(text))
    return re.sub(r"(?<= )([+-])(?=\d)", r"$\1$", shown)


def latex_heading(metric: Metric) -> str:
    """Heading of a column in LaTeX."""
    return (metric.latex or latex_text(metric.heading)) + (r" \%" if metric.unit == "rate" else "")


def latex(headings: Sequence[str], rows: Iterable[Iterable[str]], *notes: str) -> list[str]:
    """Lines of a tabular (booktabs) of cells that are LaTeX already, with notes below it."""
    lines = [r"\begin{tabular}{l" + "r" * (len(headings) - 1) + "}", r"\toprule"]
    lines += [" & ".join(headings) + r" \\", r"\midrule"]
    lines += [" & ".join(cells) + r" \\" for cells in rows]
    return [*lines, r"\bottomrule", *notes, r"\end{tabular}"]


class Html(str):
    """A text that is HTML already: a whole cell, or a whole row."""

    __slots__ = ()


def html_cells(cells: Iterable[str], kind: str = "td") -> str:
    """Cells of a row, those that are not yet HTML escaped."""
    return "".join(
        cell if isinstance(cell, Html) else f"<{kind}>{escape(cell)}</{kind}>" for cell in cells
    )


def html_table(
    headings: Iterable[str], rows: Iterable[Iterable[str] | Html], label: str = ""
) -> str:
    """A table of the page, which scrolls where it is too wide."""
    named = f' aria-label="{escape(label)}"' if label else ""
    body = (row if isinstance(row, Html) else f"<tr>{html_cells(row)}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table{named}><thead><tr>{html_cells(headings, "th")}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def folded(summary: str, content: str) -> str:
    """A part of the page that opens on a click."""
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def sentence(text: str) -> str:
    """A note as a sentence.

    Example:
        >>> sentence("one seed"), sentence("No intervals.")
        ('One seed.', 'No intervals.')
    """
    return f"{text[0].upper()}{text[1:].removesuffix('.')}."


def _main(result: Any) -> list[Metric]:
    """Metrics that some table shows, and that are defined of some system."""
    return [
        metric
        for metric in metrics_for("all")
        if metric.tables
        and any(not math.isnan(own.get(metric.name, math.nan)) for own in result.metrics.values())
    ]


def _lines(result: Any, bold: str, text: Callable[[str], str]) -> list[list[str]]:
    """Cells of each system, its name first; ``bold`` is how a bold cell is written."""
    best = {metric: result.best(metric.name) for metric in _main(result)}
    lines = []
    for system in result.metrics:
        cells = [text(system)]
        for metric, systems in best.items():
            cell = text(value_text(metric, system, result.metrics, result.intervals, ON_PAGE))
            cells.append(bold.format(cell) if system in systems else cell)
        lines.append(cells)
    return lines


def _headings(result: Any) -> list[str]:
    return ["system", *(metric.title() for metric in _main(result))]


def _notes(result: Any) -> str:
    """What the numbers are: title, caption, whose misses they are, what is bold."""
    bold = any(result.best(metric.name) for metric in _main(result))
    shares = [f"{name} {share}" for name, share in worst_shares(result.draws.misses).items()]
    found = [result.title, result.caption]
    if shares and result.intervals:
        found.append(f"misses of the worst speaker: {', '.join(shares)}")
    return "; ".join(found + ["bold: not told apart from the best"] * bold)


def as_markdown(result: Any) -> str:
    """The table and what its numbers are.

    Args:
        result: An ``evaluation.Results``.
    """
    table = markdown(_headings(result), _lines(result, "**{}**", in_a_row))
    return f"{table}\n{_notes(result)}.\n"


def as_latex(result: Any) -> str:
    """A table with booktabs and a caption.

    Args:
        result: An ``evaluation.Results``.
    """
    headings = ["system", *map(latex_heading, _main(result))]
    lines = [r"% needs \usepackage{booktabs}", r"\begin{table}", r"\centering"]
    lines += latex(headings, _lines(result, r"\textbf{{{}}}", latex_text))
    lines += [rf"\caption{{{latex_text(_notes(result))}.}}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def as_html(result: Any) -> str:
    """A table for notebooks.

    Args:
        result: An ``evaluation.Results``.
    """
    rows = [
        f"<tr><th>{name}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        for name, *cells in _lines(result, "<b>{}</b>", escape)
    ]
    return (
        f"<table><caption>{escape(_notes(result))}</caption><thead><tr>"
        f"{html_cells(_headings(result), 'th')}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )
