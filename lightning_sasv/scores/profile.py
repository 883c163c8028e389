"""What the columns of a file look like, from lines that are spread evenly over it.

And what to say, and to ask, where that does not tell what they are.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from lightning_sasv.limits import LINE_BYTES
from lightning_sasv.scores.layouts import (
    FILLERS,
    LAYOUTS,
    STAR,
    WORDS,
    Layout,
    column_named,
    is_number,
    plain_label,
)
from lightning_sasv.scores.text import COMMENT, lines_of, split

FIRST, SPREAD = 200, 800
"""Lines that are looked at: from the beginning, and over the whole file."""
FEW = 10
"""In so many rows an id of two values is taken for a label."""
_NUMBER = re.compile(r"[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:e[+-]?\d+)?|[+-]?inf(?:inity)?|nan", re.I)
_FRACTION = re.compile(r"[+-]?(?:\d*[.,]\d+(?:e[+-]?\d+)?|\d+(?:[.,]\d*)?e[+-]?\d+)", re.I)
_CODE = re.compile(r"[+-]?[0123](?:\.0*)?")
_KNOWN = {"speaker", "utterance", "attack", "label"}
_NAMES = {" ": "blanks", "\t": "tabs", ",": "commas"}
_SHOWN = 12
"""How many columns a message shows."""


def sample_of(path: Path, source: Path | bytes) -> list[tuple[int, str]]:
    """Lines with their numbers: the first ones, and others from all over the file (numbered 0)."""
    first = list(islice(lines_of(path, source), FIRST))
    size = len(source) if isinstance(source, bytes) else source.stat().st_size
    start = sum(len(text.encode()) + 1 for _, text in first)
    if len(first) < FIRST or start >= size:
        return first
    seen = set()
    with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb") as stream:
        for place in range(SPREAD):
            stream.seek(start - 1 + (size - start) * place // SPREAD)
            stream.readline(LINE_BYTES.now)
            seen.add(stream.tell())
        for place in sorted(seen):
            stream.seek(place)
            text = stream.readline(LINE_BYTES.now).decode("utf-8", "replace").rstrip("\n")
            first += [(0, text)] if text.strip() and not text.startswith(COMMENT) else []
    return first


@dataclass(frozen=True)
class Column:
    """Cells of one column, and what they could be.

    Attributes:
        cells: Some of its cells.
        labels: What else than the words in circulation is a label.
    """

    cells: Sequence[str]
    labels: Mapping[str, str]

    def share(self, holds: Callable[[str], object]) -> float:
        """Of how many cells something holds."""
        return sum(bool(holds(cell)) for cell in self.cells) / len(self.cells)

    @cached_property
    def words(self) -> float:
        """Share of words that say a label."""
        known = WORDS.keys() | self.labels.keys()
        return self.share(lambda cell: plain_label(cell) in known)

    @cached_property
    def numbers(self) -> float:
        """Share of numbers."""
        return self.share(_NUMBER.fullmatch)

    @cached_property
    def fractions(self) -> float:
        """Share of numbers with a decimal point, or a comma, which is refused when it is read."""
        return self.share(_FRACTION.fullmatch)

    @cached_property
    def codes(self) -> bool:
        """Whether all are small whole numbers, at most three of them and some again: labels."""
        few = len(set(self.cells)) <= 3 and not self.distinct
        return few and all(map(_CODE.fullmatch, self.cells))

    @cached_property
    def filler(self) -> bool:
        """Whether no cell says anything."""
        return set(self.cells) <= set(FILLERS)

    @cached_property
    def distinct(self) -> bool:
        """Whether no cell stands twice."""
        return len(set(self.cells)) == len(self.cells)

    @property
    def kind(self) -> str:
        """What it looks like, in a word."""
        looks = {
            "-": self.filler,
            "label": self.words > 0.5,
            "label?": self.codes,
            "number": self.fractions > 0.5,
            "whole number": self.numbers > 0.5 and not self.distinct,
            "id": self.distinct,
        }
        return next((name for name, true in looks.items() if true), "text")

    def contradicts(self, name: str, layout: Layout) -> bool:
        """Whether the cells cannot be what a layout takes them for."""
        if name == "label" or name in layout.numbers:
            return self._is_no_value(name, layout)
        if name == STAR:
            return self.share(lambda cell: cell.count("*") == 1) < 0.9
        if self.fractions > 0.9:
            return True
        if name in ("speaker", "utterance", "real_speaker", "client"):
            two = len(set(self.cells)) == 2 and len(self.cells) >= FEW
            return self.filler or self.words > 0.5 or two or self.codes
        if name == "attack":
            of_trials = self.share(lambda cell: WORDS.get(cell.lower()) in ("target", "nontarget"))
            return of_trials > 0.5 or (self.distinct and len(self.cells) > 3)
        return False

    def _is_no_value(self, name: str, layout: Layout) -> bool:
        if name == "label":
            return self.known(layout) <= (0.5 if set(layout.labels) <= WORDS.keys() else 0.9)
        decided = {plain_label(cell) for cell in self.cells} <= {"-1", "0", "1"}
        return self.numbers <= 0.5 or self.codes or (decided and len(self.cells) > 1)

    def known(self, layout: Layout) -> float:
        """Share of words that are labels of a layout."""
        own = {plain_label(word): label for word, label in layout.labels.items()}
        classes = set(own.values())
        own |= {word: label for word, label in self.labels.items() if label in classes}
        return self.share(lambda cell: plain_label(cell) in own)


class Lines(NamedTuple):
    """Some lines of a file with their numbers, and what labels mean in it."""

    path: Path
    lines: Sequence[tuple[int, str]]
    labels: Mapping[str, str]
    separator: str = " "

    @property
    def where(self) -> str:
        """File and line of the first."""
        return f"{self.path}, line {self.lines[0][0]}"

    def first(self, separator: str | None = None) -> list[str]:
        """Cells of the first line."""
        sign = separator or self.separator
        return [cell.strip() for cell in split(self.path, *self.lines[0], sign)]

    def widths(self, separator: str) -> Counter[int]:
        """How many lines have how many columns."""
        return Counter(len(split(self.path, *line, separator)) for line in self.lines)

    def columns(self, header: int = 0) -> list[Column]:
        """The columns without the header, lines of another length than most left aside."""
        lines = self.lines[1:] if header and len(self.lines) > 1 else self.lines
        rows = [
            [cell.strip() for cell in split(self.path, *line, self.separator)] for line in lines
        ]
        width = Counter(map(len, rows)).most_common(1)[0][0]
        columns = zip(*(row for row in rows if len(row) == width), strict=True)
        return [Column(one, self.labels) for one in columns]


def shown(columns: Sequence[Column]) -> str:
    """The first cell of each column and what the column looks like."""
    cells = [f"{n} {one.cells[0][:24]!r} ({one.kind})" for n, one in enumerate(columns, 1)]
    return ", ".join(cells[:_SHOWN]) + (", …" if len(cells) > _SHOWN else "")


def cannot_tell(lines: Lines, columns: Sequence[Column], reason: str = "") -> str:
    """The first line cut into columns, the nearest layouts, and what to type."""
    text = lines.lines[0][1]
    known = [one for one in LAYOUTS.all().values() if one.columns and one.recognised]
    nearest = sorted(known, key=lambda one: _distance(one, columns))[:3]
    line = text if len(text) <= 60 else text[:57] + "..."
    return (
        f"{lines.where}: cannot tell the format of {len(columns)} columns like {line!r}"
        f"{': ' + reason if reason else ''}; between {_NAMES[lines.separator]} are "
        f"{shown(columns)}; nearest are "
        f"{', '.join(f'{one.name} ({one.describe()})' for one in nearest)}; say what they are with "
        f"--columns '{_suggested(columns)}' or --format"
    )


def _suggested(columns: Sequence[Column]) -> str:
    """A description of the columns to begin with: of several numbers the last is the score.

    Codes beside labels in words are decisions, which are scores too.
    """
    names = ["-"] * len(columns)
    there = {one.kind for one in columns}
    label = "label" if "label" in there else "label?"
    score = "label?" if label in there and "number" not in there else "number"
    for kind, name in ((score, "score"), (label, "label")):
        places = [n for n, one in enumerate(columns) if one.kind == kind]
        if places:
            names[places[-1]] = name
    ids = [n for n, one in enumerate(columns) if one.kind in ("id", "text")]
    for place, name in zip(ids, ("speaker", "utterance")[-len(ids[:2]) :], strict=False):
        names[place] = name
    return ",".join(names)


def _distance(layout: Layout, columns: Sequence[Column]) -> float:
    """How many columns are another than a layout has."""
    wrong = sum(map(Column.contradicts, columns, layout.columns, [layout] * len(columns)))
    return wrong + 1.5 * abs(len(layout.columns) - len(columns))


def unused(lines: Lines, columns: Sequence[str]) -> tuple[str, ...]:
    """A word on columns that look like scores or decisions and are none to us."""
    looks = ("score", "llr", "prob", "pred", "logit", "p_", "decision")
    cells = lines.columns(header=1)
    unused = [
        name
        for name, column in zip(columns, cells, strict=False)
        if name != "label" and not is_number(name) and column.numbers > 0.9
        and any(part in name.lower() for part in looks)
    ]  # fmt: skip
    if not unused:
        return ()
    return (
        f"{lines.path}: {', '.join(unused)} may be scores and are not used; --columns names others",
    )


def label_hint(lines: Lines, columns: Sequence[str]) -> str:
    """What to add where a table has no column of labels that is known."""
    cells = lines.columns(header=1)
    if len(cells) != len(columns):
        return ""
    maybe = [n for n, one in zip(columns, cells, strict=True) if one.codes or one.words > 0.9]
    if not maybe:
        return ""
    names = ["label" if name == maybe[-1] else name if name in _KNOWN or is_number(name) else "-"
             for name in columns]  # fmt: skip
    return (
        f"; {' or '.join(maybe)} may be it: --columns '{','.join(names)}' --labels bona=…,spoof=… "
        "(or target=…,nontarget=…), or give --key"
    )


def resolved(cells: Sequence[str], least: int = 1) -> bool:
    """Whether a line has headings that are known."""
    names = {column_named(cell) for cell in cells}
    return sum(name in _KNOWN or is_number(name) for name in names) >= least
