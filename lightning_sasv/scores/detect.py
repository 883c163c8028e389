"""Recognising the layout of a file from its first lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from lightning_sasv.errors import InputError
from lightning_sasv.scores.layouts import LAYOUTS, Layout, is_number, layout_named
from lightning_sasv.scores.text import contains, lines_of, split

SAMPLE = 200
KNOWN = {"speaker", "utterance", "attack", "label", "score"}
_NUMBER = re.compile(r"[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:e[+-]?\d+)?|[+-]?inf(?:inity)?|nan", re.I)


class Found(NamedTuple):
    """A layout with what the file says beyond it.

    Attributes:
        layout: The layout.
        columns: Our name of each column in the file.
        separator: The character between columns.
        header: Number of the header line, 0 where there is none.
        guessed: Whether the layout was recognised rather than named.
    """

    layout: Layout
    columns: tuple[str, ...]
    separator: str
    header: int
    guessed: bool


def find_layout(path: Path, source: Path | bytes, name: str | None = None) -> Found:
    """The layout of a text file.

    Args:
        path: The file, for messages.
        source: What to read.
        name: The layout's name where the user gives it.

    Raises:
        InputError: No layout fits, a heading is missing, or the name is unknown.
    """
    sample = list(islice(lines_of(path, source), SAMPLE))
    if not sample:
        raise InputError(f"{path}, line 1: the file has no trials; write it again")
    layout = layout_named(name) if name else _guess(path, source, sample)
    line, first = sample[0]
    separator = _separator(layout, first)
    if not layout.headings:
        return Found(layout, layout.columns, separator, 0, not name)
    headings = [cell.strip() for cell in split(path, line, first, separator)]
    return Found(
        layout, _columns(f"{path}, line {line}", headings, layout), separator, line, not name
    )


def _separator(layout: Layout, first: str) -> str:
    """Blanks and tabs stand for one another where only one kind is in the first line."""
    if layout.separator == " " and "\t" in first and " " not in first:
        return "\t"
    if layout.separator == "\t" and "\t" not in first:
        return " "
    return layout.separator


def _columns(where: str, headings: Sequence[str], layout: Layout) -> tuple[str, ...]:
    """Our names of the columns from the header line."""
    twice = [heading for heading, count in Counter(headings).items() if count > 1]
    if twice:
        raise InputError(f"{where}: column {twice[0]!r} stands twice; rename one")
    if layout.name == "csv":
        return tuple(headings)
    missing = [heading for heading in layout.headings if heading not in headings]
    if missing:
        raise InputError(
            f"{where}: no column {missing[0]!r} (the columns are {', '.join(headings)}); "
            f"{layout.name} has {layout.describe()}"
        )
    ours = dict(zip(layout.headings, layout.columns, strict=True)) | dict(layout.optional)
    if len(headings) > len(ours) and not layout.open:
        extra = next(heading for heading in headings if heading not in ours)
        raise InputError(
            f"{where}: unknown column {extra!r}; {layout.name} has {layout.describe()}"
        )
    return tuple(ours.get(heading, heading) for heading in headings)


def _guess(path: Path, source: Path | bytes, sample: Sequence[tuple[int, str]]) -> Layout:
    line, first = sample[0]
    by_header = [layout for layout in LAYOUTS.values() if _header_fits(path, line, first, layout)]
    if by_header:
        return max(by_header, key=lambda layout: len(layout.columns))
    cells = [cell.strip() for cell in split(path, line, first, ",")]
    if len(cells) > 1 and any(cell in KNOWN or is_number(cell) for cell in cells):
        return LAYOUTS["csv"]
    rows = [text.split() for _, text in sample]
    width = Counter(map(len, rows)).most_common(1)[0][0]
    rows = [row for row in rows if len(row) == width]
    fitting = {name: _fit(LAYOUTS[name], rows) for name in LAYOUTS}
    best = max(fitting, key=lambda name: fitting[name])
    if fitting[best] <= 0:
        raise InputError(_unknown(path, line, first, width))
    if best in ("a-dcf", "wespeaker"):
        best = "a-dcf" if contains(source, b"spoof") else "wespeaker"
    return LAYOUTS[best]


def _header_fits(path: Path, line: int, first: str, layout: Layout) -> bool:
    if not layout.headings or layout.name == "csv":
        return False
    cells = split(path, line, first, _separator(layout, first))
    return set(layout.headings) <= {cell.strip() for cell in cells}


def _fit(layout: Layout, rows: Sequence[Sequence[str]]) -> float:
    """How well a layout without header fits: 0 if not, more the more columns speak for it."""
    if layout.headings or len(layout.columns) != len(rows[0]):
        return 0
    checks: dict[str, Callable[[str], object]] = dict.fromkeys(layout.numbers, _NUMBER.fullmatch)
    checks["label"] = layout.labels.__contains__
    points = 0
    for name, cells in zip(layout.columns, zip(*rows, strict=True), strict=True):
        if name in checks:
            if 2 * sum(bool(checks[name](cell)) for cell in cells) <= len(cells):
                return 0
            points += 2 if name == "label" else 1
    return points


def _unknown(path: Path, line: int, first: str, width: int) -> str:
    if ";" in first and any(cell.strip() in KNOWN for cell in first.split(";")):
        return (
            f"{path}, line {line}: columns are separated by semicolons; separate them by commas "
            "and write numbers with a decimal point"
        )
    shown = first if len(first) <= 60 else first[:57] + "..."
    return (
        f"{path}, line {line}: cannot tell the format of {width} columns like {shown!r}; name it "
        f"with --format ({', '.join(LAYOUTS)})"
    )
