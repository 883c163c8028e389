"""Recognising the layout of a text file from what its columns hold.

A layout is taken only where it is the one that no column contradicts; else the user is asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lightning_sasv.errors import InputError
from lightning_sasv.scores.layouts import (
    LAYOUTS,
    WORDS,
    Layout,
    column_named,
    columns_named,
    described,
    layout_named,
)
from lightning_sasv.scores.profile import (
    Column,
    Lines,
    cannot_tell,
    label_hint,
    resolved,
    sample_of,
    shown,
    unused,
)


class Found(NamedTuple):
    """A layout with what the file says beyond it.

    Attributes:
        layout: The layout.
        columns: Our name of each column in the file.
        separator: The character between columns.
        header: Number of the header line, 0 where there is none.
        guessed: Whether the layout was recognised rather than named.
        notes: What the user should know.
        hint: What to add where labels are asked for and there are none.
    """

    layout: Layout
    columns: tuple[str, ...]
    separator: str
    header: int
    guessed: bool
    notes: tuple[str, ...] = ()
    hint: str = ""


def find_layout(
    path: Path, source: Path | bytes, name: str | None, labels: Mapping[str, str]
) -> Found:
    """The layout of a text file.

    Args:
        path: The file, for messages.
        source: What to read.
        name: The layout's name, or its columns, where the user gives it.
        labels: What labels mean beyond the words in circulation.

    Raises:
        InputError: No layout fits, or several do, a heading is missing, or the name is unknown.
    """
    lines = Lines(path, sample_of(path, source), labels)
    if not lines.lines:
        raise InputError(f"{path}, line 1: the file has no trials; write it again")
    _refuse_other_separators(lines)
    layout = layout_named(name) if name else None
    separator, notes = _separator(lines, layout)
    lines = lines._replace(separator=separator)
    found = _named(lines, layout) if layout else _guess(lines)
    return found._replace(notes=(*notes, *found.notes))


def _refuse_other_separators(lines: Lines) -> None:
    """Columns between semicolons or bars; there may be decimal commas between semicolons."""
    texts = [text for _, text in lines.lines]
    if set(lines.widths(" ")) != {1} or any("\t" in text for text in texts):
        return
    for sign, name in ((";", "semicolons"), ("|", "bars")):
        if len({text.count(sign) for text in texts}) == 1 and sign in texts[0]:
            raise InputError(
                f"{lines.where}: columns are separated by {name}; separate them by commas and "
                "write numbers with a decimal point"
            )


def _separator(lines: Lines, layout: Layout | None) -> tuple[str, list[str]]:
    """The character between columns, whatever the layout has: the file decides."""
    texts = [text for _, text in lines.lines]
    first, cells = texts[0], {sign: lines.first(sign) for sign in ("\t", ",", " ")}
    if layout and not layout.headings:  # whatever gives the right number of columns
        tabs = ["\t"] if "\t" in first and " " not in first and all(cells["\t"]) else []
        *before, _ = cells[" "]
        spaced = [","] if before and all(cell.endswith(",") for cell in before) else []
        order = [*tabs, *spaced, layout.separator, " ", ","]
        fitting = [sign for sign in order if len(cells[sign]) == len(layout.columns)]
        if len(fitting) > 1 and len(layout.columns) > 1:  # a header may hold blanks
            fitting.sort(key=lambda sign: -lines.widths(sign)[len(layout.columns)])
        return fitting[0] if fitting else max(order, key=lambda sign: len(cells[sign])), []
    if "\t" in first and not all(cells["\t"]):
        return " ", [f"{lines.path}: several tabs between columns were taken for one"]
    if len(cells[" "]) > 1 and all(text.split()[0].endswith(",") for text in texts):
        return ",", []
    for sign in ("\t", ","):
        count, rows = lines.widths(sign).most_common(1)[0]
        known = resolved(cells[sign])
        even = rows >= 0.9 * len(texts) or (len(cells[sign]) > 1 and known)
        if count > 1 and even and (" " not in first or known or len(lines.widths(" ")) > 1):
            return sign, []
    return " ", []


def _named(lines: Lines, layout: Layout) -> Found:
    """A layout that the user names is held to; a header is told from its content."""
    line, first = lines.lines[0][0], lines.first()
    if layout.headings:
        return _with_header(lines, layout, guessed=False)
    if layout.name == "columns" and len(first) != len(layout.columns):
        raise InputError(
            f"{lines.where}: {len(first)} columns ({shown(lines.columns())}) where --columns "
            f"names {len(layout.columns)}"
        )
    return Found(layout, layout.columns, lines.separator, line * _is_header(lines, layout), False)


def _is_header(lines: Lines, layout: Layout) -> bool:
    """Whether the first line names columns, where a layout does not need one."""
    if len(lines.lines) < 2:
        return False
    checked = [name in layout.numbers or name == "label" for name in layout.columns]
    first, rest = lines.first(), lines.columns(header=1)
    if not len(first) == len(rest) == len(checked):
        return False
    if not any(checked):
        return len(first) > 1 and all(resolved([cell]) for cell in first)
    ones = [Column([cell], lines.labels) for cell in first]
    sides = [
        (name, one, column)
        for name, one, column, check in zip(layout.columns, ones, rest, checked, strict=True)
        if check
    ]
    return all(
        one.contradicts(name, layout)
        and not (one.words or one.numbers)  # a label of another layout is no heading
        and not column.contradicts(name, layout)
        for name, one, column in sides
    )


def _with_header(lines: Lines, layout: Layout, guessed: bool) -> Found:
    """Our names of the columns from the header line."""
    headings = lines.first()
    twice = [heading for heading, count in Counter(headings).items() if count > 1]
    if twice:
        raise InputError(f"{lines.where}: column {twice[0]!r} stands twice; rename one")
    line = lines.lines[0][0]
    if layout.name == "csv":
        return _own_table(lines, layout, headings, guessed)
    known = {heading.lower(): heading for heading in layout.headings}
    headings = [known.get(heading.lower(), heading) for heading in headings]
    missing = [heading for heading in layout.headings if heading not in headings]
    if missing:
        raise InputError(
            f"{lines.where}: no column {missing[0]!r} (the columns are {', '.join(headings)}); "
            f"{layout.name} has {layout.describe()}"
        )
    ours = dict(zip(layout.headings, layout.columns, strict=True)) | dict(layout.optional)
    if len(headings) > len(ours) and not layout.open:
        extra = next(heading for heading in headings if heading not in ours)
        raise InputError(
            f"{lines.where}: unknown column {extra!r}; {layout.name} has {layout.describe()}"
        )
    columns = tuple(ours.get(heading, heading) for heading in headings)
    return Found(layout, columns, lines.separator, line, guessed, unused(lines, columns))


def _own_table(lines: Lines, layout: Layout, headings: Sequence[str], guessed: bool) -> Found:
    """A table with headings: our names, or others in circulation for the same."""
    names = [column_named(heading) for heading in headings]
    columns = tuple(columns_named(headings))
    scores = [h for h, name in zip(headings, names, strict=True) if name == "score"]
    if len(scores) > 1:
        raise InputError(
            cannot_tell(
                lines, lines.columns(header=1), f"{' and '.join(scores)} both look like the score"
            )
        )
    renamed = [f"{h} is {c}" for h, c in zip(headings, columns, strict=True) if h != c]
    notes = [f"{lines.path}: {', '.join(renamed)}; --columns says otherwise"] if renamed else []
    hint = "" if "label" in columns else label_hint(lines, columns)
    line = lines.lines[0][0]
    return Found(
        layout, columns, lines.separator, line, guessed, (*notes, *unused(lines, columns)), hint
    )


def _guess(lines: Lines) -> Found:
    first = lines.first()
    said = {cell.lower() for cell in first}
    by_header = [
        one
        for one in LAYOUTS.all().values()
        if one.headings and {heading.lower() for heading in one.headings} <= said
    ]
    by_header = [one for one in by_header if one.name != "csv"]
    if by_header:
        return _with_header(lines, max(by_header, key=lambda one: len(one.columns)), guessed=True)
    headed = _looks_like_header(lines)
    if headed and resolved(first):
        return _with_header(lines, LAYOUTS["csv"], guessed=True)
    columns = lines.columns(header=headed)
    fitting = _fitting(columns)
    if not fitting:
        layout = _inferred(lines, columns)
    elif len(fitting) > 1:
        both = " or ".join(f"{one.name} ({one.describe()})" for one in fitting)
        raise InputError(cannot_tell(lines, columns, f"it may be {both}"))
    else:
        layout = fitting[0]
    line = lines.lines[0][0] if headed else 0
    return Found(layout, layout.columns, lines.separator, line, True)


def _looks_like_header(lines: Lines) -> bool:
    """Whether the first line has neither numbers nor labels where the others have some."""
    if len(lines.lines) < 2:
        return resolved(lines.first()) and len(lines.first()) > 1
    first, rest = lines.first(), lines.columns(header=1)
    alone = [Column([cell], lines.labels) for cell in first]
    if len(first) != len(rest):
        return len(first) > 1 and resolved(first) and not any(one.numbers for one in alone)
    value = [one.numbers > 0.5 or one.words > 0.5 for one in rest]
    numbers, words = (any(getattr(one, n) for one in alone) for n in ("numbers", "words"))
    plain = not numbers and (not words or resolved(first, 2))
    return plain and (any(value) or (resolved(first) and len(first) > 1))


def _fitting(columns: Sequence[Column]) -> list[Layout]:
    """The layouts without header that no column contradicts; of equals that with fewer labels."""
    found: dict[tuple[str, ...], Layout] = {}
    known: dict[tuple[str, ...], float] = {}
    words: dict[str, float] = {}
    for layout in LAYOUTS.all().values():
        if layout.headings or not layout.recognised or len(layout.columns) != len(columns):
            continue
        if not layout.columns or any(
            map(Column.contradicts, columns, layout.columns, [layout] * len(columns))
        ):
            continue
        if _disagree(layout, columns):
            continue
        labels = columns[layout.columns.index("label")] if "label" in layout.columns else None
        words[layout.name] = labels.known(layout) if labels else 1.0
        share = words[layout.name] - 0.01 * len(set(layout.labels.values())) if labels else 1.0
        if layout.columns not in found or share > known[layout.columns]:
            found[layout.columns], known[layout.columns] = layout, share
    best = max((words[one.name] for one in found.values()), default=1.0)
    found = {key: one for key, one in found.items() if words[one.name] > best - 0.05}
    saying = [one for one in found.values() if one.numbers or "label" in one.columns]
    return _of_pairs(saying or list(found.values()), columns)


def _of_pairs(fitting: list[Layout], columns: Sequence[Column]) -> list[Layout]:
    """Of layouts that differ in what the first column is, an id or an attack, the one it is."""
    names = {layout.columns[0]: layout for layout in fitting}
    if len(fitting) == 2 and names.keys() == {"attack", "utterance"}:
        return [names["utterance" if columns[0].distinct else "attack"]]
    return fitting


def _disagree(layout: Layout, columns: Sequence[Column]) -> bool:
    """Whether claimed speakers are never real ones, or bona fide speech has several attacks."""
    by_name = {name: one.cells for name, one in zip(layout.columns, columns, strict=True)}
    if layout.claimed:
        return not set(by_name[layout.claimed]) & set(by_name["real_speaker"])
    if not {"attack", "label"} <= by_name.keys():
        return False
    pairs = zip(by_name["attack"], by_name["label"], strict=True)
    return (
        len({attack for attack, label in pairs if WORDS.get(label.lower(), "spoof") != "spoof"}) > 1
    )


def _inferred(lines: Lines, columns: Sequence[Column]) -> Layout:
    """The layout that the columns show by themselves: one label, at most one score, the ids."""
    kinds = [one.kind for one in columns]
    sure = [n for n, one in enumerate(columns) if one.words > 0.9]
    scores = [n for n, kind in enumerate(kinds) if kind == "number"]
    if len(sure) != 1 or len(scores) > 1 or "label?" in kinds:
        reason = "" if len(scores) < 2 else "several columns could be the score"
        raise InputError(cannot_tell(lines, columns, reason))
    names = _names(columns, sure[0], scores)
    if "utterance" not in names and "speaker" not in names:
        raise InputError(cannot_tell(lines, columns, "no column names the trials"))
    return described(names)


def _names(columns: Sequence[Column], label: int, scores: Sequence[int]) -> list[str]:
    """Our names of columns of which one is the label."""
    of_trials = any(
        WORDS.get(cell.lower()) in ("target", "nontarget") for cell in columns[label].cells
    )
    ids = [n for n, one in enumerate(columns) if one.kind in ("id", "text", "whole number")]
    single = [n for n in ids if columns[n].distinct]
    names = [f"-{n}" if one.kind == "-" else f"column{n}" for n, one in enumerate(columns, 1)]
    names[label] = "label"
    for place in scores:
        names[place] = "score"
    if of_trials and len(ids) >= 2:
        names[ids[0]], names[ids[1]] = "speaker", "utterance"
    elif len(single) == 1:
        names[single[0]] = "utterance"
    return names
