"""Reading score files and keys of any layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lightning_sasv.errors import InputError
from lightning_sasv.scores.layouts import (
    LAYOUTS,
    SCORES,
    Layout,
    is_fusible,
    is_number,
)
from lightning_sasv.scores.reading import Reading, canonical, layout_of, with_role
from lightning_sasv.scores.table import (
    TEXT,
    ScoreTable,
    check_duplicates,
    check_numbers,
    plain_names,
)
from lightning_sasv.scores.text import Shape, load, not_a_number, read_grid
from lightning_sasv.trials import Scores

if TYPE_CHECKING:
    import polars as pl

    from lightning_sasv.scores.detect import Found


def read_scores(path: str | Path, format: str | None = None, mend: bool = True) -> Scores:
    """Read a labelled file of ASV and CM scores as plain arrays; see :func:`read_table`."""
    table = read_table(path, format, mend=mend)
    table.need(["label", "asv_score", "cm_score"], "a table of score pairs")
    return table.to_scores()


def read_table(
    path: str | Path, format: str | None = None, *, role: str | None = None, mend: bool = True
) -> ScoreTable:
    """Read a score file or a key.

    Args:
        path: The file.
        format: Name of its layout (``layouts.LAYOUTS``), or its columns
            (``utterance,score,label``); recognised when not given.
        role: Which side a file with one column of scores speaks for: ``asv``, ``cm`` or ``sasv``;
            by default what its layout is for, and ``cm`` where labels say bona fide or spoof.
        mend: Accept a byte-order mark and Windows line ends.

    Returns:
        The trials in the order of the file.

    Raises:
        InputError: The file cannot be read, or told what it is, has a row of another length, a
            missing column, a score that is no finite number (SASV scores may be infinite), an
            unknown label, or a trial twice; with file, line and remedy.
    """
    table = with_role(read_plain(Path(path), Reading(format, mend=mend)), role)
    return check_numbers(table)


def read_plain(path: Path, how: Reading) -> ScoreTable:
    """A file as it stands: a score whose role only the labels of a key can tell is ``score``."""
    from lightning_sasv.scores.kinds import kind_of, read_kind

    kind = kind_of(path, how.format)
    table = as_said(_read_text(path, how) if kind == "text" else read_kind(path, kind, how), how)
    layout = layout_of(table)
    if how.ids == "none":
        return table
    ids = ("utterance",) if layout.of_utterances else table.ids
    if not layout.repeats:
        check_duplicates(table, ids)
    elif layout.role and ids and table.frame.select(ids).is_duplicated().any():
        note = f"{path}: ids stand several times; rows are taken for trials"
        return replace(table, by_row=True, notes=(*table.notes, note))
    return table


def as_said(table: ScoreTable, how: Reading) -> ScoreTable:
    """A table with numbers where there have to be some, and with ids as the user wants them."""
    table = check_numbers(table, how.allow_missing)
    if how.ids == "name":
        table = replace(table, frame=plain_names(table.frame))
    return replace(table, by_row=True) if how.ids == "none" else table


def _read_text(path: Path, how: Reading) -> ScoreTable:
    from lightning_sasv.scores.detect import find_layout

    source, notes = load(path, how.mend)
    found = find_layout(path, source, how.format, how.labels)
    table = read_cells(path, source, found, how.labels)
    return replace(table, notes=(*notes, *table.notes))


def read_cells(
    path: Path,
    source: Path | bytes,
    found: Found,
    labels: Mapping[str, str],
    before: int | None = None,
) -> ScoreTable:
    """The rows of a text of known layout.

    Args:
        path: The file, for messages.
        source: What to read.
        found: Its layout.
        labels: What labels mean beyond the words in circulation.
        before: Lines of the file before a part of it; nothing where all of it is read.
    """
    layout, first = found.layout, not before
    numbers = list(filter(is_number, found.columns))
    texts = numbers if layout.absent else []
    header = found.header if first else 0
    shape = Shape(found.columns, [] if texts else numbers, found.separator, header, before or 0)
    frame, line = read_grid(path, source, shape)
    table = ScoreTable(
        frame, path, layout.name, line, found.guessed,
        notes=found.notes if first else (), hint=found.hint,
    )  # fmt: skip
    table = replace(table, frame=_without_absent(table, texts))
    if found.guessed and first:
        _refuse_decisions(table, found)
    if layout.open and not layout.columns and before is None:
        table = replace(table, frame=_numbers_where_exact(table.frame))
    table = canonical(table, layout, labels)
    return _of_verifier(table, layout) if found.guessed else table


def _of_verifier(table: ScoreTable, layout: Layout) -> ScoreTable:
    """Of layouts with the same columns and labels the verifier's, where there are no spoofs."""
    twins = [
        one.name
        for one in LAYOUTS.values()
        if (one.columns, one.labels, one.role) == (layout.columns, layout.labels, "asv")
    ]
    if not twins or "label" not in table or (table.frame["label"] == "spoof").any():
        return table
    return replace(table, layout=twins[0])


def _refuse_decisions(table: ScoreTable, found: Found) -> None:
    """Refuse a guess that takes decisions or labels for scores: one of two whole numbers."""
    for name in table.frame.columns:
        if name not in ("score", *SCORES):
            continue
        values = table.frame[name].unique()
        if 1 < len(values) <= 2 and values.is_in([-1.0, 0.0, 1.0, 2.0]).all() and len(table) > 2:
            raise InputError(
                f"{table.where()}: {name} (read as {found.layout.name}: "
                f"{found.layout.describe()}) is {' or '.join(f'{v:g}' for v in sorted(values))} in "
                "every row: a label or a decision, not a score; where it is to be the score all "
                "the same, say so with --columns or --format"
            )


def _without_absent(table: ScoreTable, names: list[str]) -> pl.DataFrame:
    """Scores of a layout where ``-`` says that a whole column is absent."""
    import polars as pl

    frame = table.frame
    for name in names:
        if (frame[name] == "-").all():
            frame = frame.drop(name)
            continue
        numbers = frame[name].cast(pl.Float64, strict=False)
        if numbers.null_count():
            row = int(numbers.is_null().arg_max() or 0)
            raise InputError(not_a_number(table.where(row), name, frame[name][row]))
        frame = frame.with_columns(numbers)
    return frame


def _numbers_where_exact(frame: pl.DataFrame) -> pl.DataFrame:
    """Further columns as numbers where their text is exactly how we write those numbers.

    Of scores by their names, ``asv_…`` and ``cm_…``, it is enough that they are numbers.
    """
    import polars as pl

    for name, kind in frame.schema.items():
        if name in ("label", *TEXT) or kind != pl.String:
            continue
        numbers = frame[name].cast(pl.Float64, strict=False)
        exact = is_fusible(name) or (numbers.cast(pl.String) == frame[name]).all()
        if not numbers.null_count() and exact:
            frame = frame.with_columns(numbers)
    return frame
