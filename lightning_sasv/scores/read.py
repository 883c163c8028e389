"""Reading score files and keys of any layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lightning_sasv.errors import InputError
from lightning_sasv.scores.arrays import MAGIC as ARRAYS
from lightning_sasv.scores.arrays import read_arrays
from lightning_sasv.scores.detect import Found, find_layout
from lightning_sasv.scores.json_lines import read_json_lines
from lightning_sasv.scores.layouts import (
    LAYOUTS,
    SCORES,
    Layout,
    column_named,
    columns_named,
    is_fusible,
    is_number,
    layout_named,
)
from lightning_sasv.scores.meaning import canonical, layout_of, with_role
from lightning_sasv.scores.parquet import DAMAGED, MAGIC, check_parquet
from lightning_sasv.scores.reading import Reading
from lightning_sasv.scores.table import (
    TEXT,
    ScoreTable,
    check_duplicates,
    check_numbers,
    plain_names,
)
from lightning_sasv.scores.text import Shape, first_bytes, load, not_a_number, read_grid
from lightning_sasv.trials import Scores

if TYPE_CHECKING:
    import polars as pl

JSON_LINES = "json-lines"


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
    table = _read_parquet(path, how) or _read_arrays(path, how) or _read_json_lines(path, how)
    table = table or _read_text(path, how)
    table = check_numbers(table, how.allow_missing)
    layout = layout_of(table)
    if how.ids == "name":
        table = replace(table, frame=plain_names(table.frame))
    if how.ids == "none":
        return replace(table, by_row=True)
    ids = ("utterance",) if layout.of_utterances else table.ids
    if not layout.repeats:
        check_duplicates(table, ids)
    elif layout.role and ids and table.frame.select(ids).is_duplicated().any():
        note = f"{path}: ids stand several times; rows are taken for trials"
        return replace(table, by_row=True, notes=(*table.notes, note))
    return table


def _read_text(path: Path, how: Reading) -> ScoreTable:
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
    numbers = [name for name in found.columns if name == "score" or is_number(name)]
    texts = numbers if layout.absent else []
    header = found.header if first else 0
    shape = Shape(found.columns, [] if texts else numbers, found.separator, header, before or 0)
    grid = read_grid(path, source, shape)
    table = ScoreTable(
        grid.frame, path, layout.name, grid.line, found.guessed,
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
        if name != "score" and name not in SCORES:
            continue
        values = table.frame[name].unique()
        if 1 < len(values) <= 2 and values.is_in([-1.0, 0.0, 1.0, 2.0]).all() and len(table) > 2:
            raise InputError(
                f"{table.where()}: {name} (read as {found.layout.name}: "
                f"{found.layout.describe()}) is {' or '.join(f'{v:g}' for v in sorted(values))} in "
                "every row: a label or a decision, not a score; where it is to be the score all "
                "the same, say so with --columns or --format"
            )


def _read_arrays(path: Path, how: Reading) -> ScoreTable | None:
    """Arrays of numpy: one column each, by their names."""
    import polars as pl

    if first_bytes(path) not in ARRAYS:
        if how.format == "arrays":
            raise InputError(f"{path}: not a readable numpy file; drop --format")
        return None
    arrays, notes = read_arrays(path)
    if how.format not in (None, "arrays"):
        raise InputError(f"{path}: these are numpy arrays, not {how.format}; drop --format")
    columns = {}
    for name, values in arrays.items():
        few = values.dtype.kind != "f" and len(np.unique(values)) <= 3
        plain = "label" if few or not _are_numbers(values) else "score"
        ours = column_named(name) if name else plain
        columns[ours if ours not in columns else name] = values
    text = {
        name: values.dtype.kind != "f" and (is_number(name) or name == "score")
        for name, values in columns.items()
    }
    series = [
        pl.Series(name, values.astype(np.float64) if text[name] else values)
        for name, values in columns.items()
    ]
    table = ScoreTable(
        pl.DataFrame(series), path, "arrays", lambda row: row + 1, how.format is None,
        notes=tuple(notes),
    )  # fmt: skip
    return canonical(table, LAYOUTS["arrays"], how.labels)


def _are_numbers(values: np.ndarray) -> bool:
    try:
        values.astype(np.float64)
    except ValueError:
        return False
    return True


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
            raise InputError(not_a_number(table.path, table.line(row), name, frame[name][row]))
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


def _read_parquet(path: Path, how: Reading) -> ScoreTable | None:
    import polars as pl

    is_parquet = first_bytes(path) == MAGIC
    format = how.format
    named = layout_named(format).name if format else None
    if not is_parquet and named != "parquet":
        return None
    if named not in (None, "parquet"):
        raise InputError(f"{path}, line 1: this is a Parquet file, not {format}; drop --format")
    try:
        check_parquet(path)
        with path.open("rb") as file:  # any name, also one that is no text
            frame = pl.read_parquet(file)
    except InputError:
        raise
    except (*DAMAGED, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(
            f"{path}: not a readable Parquet file ({reason}); write it again"
        ) from None
    frame = plain_types(path, with_our_names(frame))
    table = ScoreTable(frame, path, "parquet", lambda row: row + 1, not format)
    return canonical(table, LAYOUTS["parquet"], how.labels)


def _read_json_lines(path: Path, how: Reading) -> ScoreTable | None:
    named = how.format == JSON_LINES or (how.format is None and path.suffix == ".jsonl")
    if not named or not first_bytes(path):
        return None
    frame, lines = read_json_lines(path)
    guessed = how.format is None
    table = ScoreTable(plain_types(path, frame), path, JSON_LINES, lines.__getitem__, guessed)
    return canonical(table, layout_named(JSON_LINES), how.labels)


def with_our_names(frame: pl.DataFrame) -> pl.DataFrame:
    """Columns of a table by our names of their headings."""
    return frame.rename(dict(zip(frame.columns, columns_named(frame.columns), strict=True)))


def plain_types(path: Path, frame: pl.DataFrame, start: int = 0) -> pl.DataFrame:
    """Numbers as float64, the rest as text, nothing missing; rows count from ``start``."""
    import polars as pl

    if not frame.height or not frame.width:
        raise InputError(f"{path}: the file has no trials; write it again")
    missing = [s.name for s in frame.null_count() if s[0]]
    if missing:
        row = int(frame[missing[0]].is_null().arg_max() or 0)
        raise InputError(f"{path}, row {start + row + 1}, column {missing[0]}: a value is missing")
    columns = []
    for name, kind in frame.schema.items():
        wanted = pl.Float64 if kind.is_numeric() and name not in ("label", *TEXT) else pl.String
        try:
            columns.append(frame[name].cast(wanted))
        except pl.exceptions.PolarsError:
            raise InputError(f"{path}, column {name}: cannot use values of type {kind}") from None
        if wanted == pl.String and (name in SCORES or is_number(name)):
            raise InputError(f"{path}, column {name}: holds {kind}, not numbers; write numbers")
    return pl.DataFrame(columns)
