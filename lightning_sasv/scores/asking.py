"""What to say, and what to ask, where a file does not tell what its columns are."""

from __future__ import annotations

from collections.abc import Sequence

from lightning_sasv.scores.layouts import LAYOUTS, Layout, column_named, is_number
from lightning_sasv.scores.profile import Column, Lines

_NAMES = {" ": "blanks", "\t": "tabs", ",": "commas"}
_SHOWN = 12
"""How many columns a message shows."""


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
    """A description of the columns to begin with: of several numbers the last is the score."""
    names = ["-"] * len(columns)
    for kinds, name in ((("number",), "score"), (("label", "label?"), "label")):
        places = [n for n, one in enumerate(columns) if one.kind in kinds]
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
        if name != "label" and not is_number(name) and name != "score" and column.numbers > 0.9
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
    names = ["label" if name == maybe[-1] else name if name in KNOWN or is_number(name) else "-"
             for name in columns]  # fmt: skip
    return (
        f"; {' or '.join(maybe)} may be it: --columns '{','.join(names)}' --labels bona=…,spoof=… "
        "(or target=…,nontarget=…), or give --key"
    )


def resolved(cells: Sequence[str], least: int = 1) -> bool:
    """Whether a line has headings that are known."""
    names = {column_named(cell) for cell in cells}
    return sum(name in KNOWN or is_number(name) for name in names) >= least


KNOWN = {"speaker", "utterance", "attack", "label", "score"}
