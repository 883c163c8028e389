"""Score files larger than memory: read in parts, each a table like any other.

The layout is found in the first part, by what it holds; the others are read in the same way. Text
is cut at line ends, Parquet comes in polars' batches. A key is followed in the order of its trials.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from lightning_sasv.errors import InputError
from lightning_sasv.scores.detect import Found, find_layout
from lightning_sasv.scores.layouts import LAYOUTS, is_number
from lightning_sasv.scores.meaning import canonical, with_role
from lightning_sasv.scores.parquet import MAGIC
from lightning_sasv.scores.read import plain_types
from lightning_sasv.scores.reading import Reading, turned
from lightning_sasv.scores.table import ScoreTable, check_numbers
from lightning_sasv.scores.text import Shape, first_bytes, read_grid

STDIN = "-"
PART = 1 << 26
"""Bytes of text that are read at once."""
ROWS = 1 << 18
"""Rows of Parquet that are read at once."""


def scan(
    path: str | Path, key: ScoreTable | None = None, how: Reading | None = None,
    role: str | None = None,
) -> Iterator[ScoreTable]:  # fmt: skip
    """The trials of a file, part by part.

    Args:
        path: A score file of any layout of text, Parquet, or ``-`` for standard input.
        key: Trials with labels, in the order of the file.
        how: How the file is read.
        role: Whose scores they are: ``asv``, ``cm`` or ``sasv``.

    Yields:
        Tables with labels and scores.

    Raises:
        InputError: As for :func:`.read.read_table`, with file and line; a key whose trials stand in
            another order, or are more or fewer.
    """
    how = how or Reading()
    parquet = str(path) != STDIN and first_bytes(Path(path)) == MAGIC
    start = 0
    for table in _parquet(Path(path), how) if parquet else _text(Path(path), how):
        checked = check_numbers(with_role(table, role), how.allow_missing)
        if key is not None:
            checked = _labelled(checked, key, start)
        start += len(table)
        yield turned(checked, how)
    if key is not None and start != len(key):
        raise InputError(f"{path} has {start:,} trials, the key {key.path} {len(key):,}")


def rows_of(path: str | Path) -> int:
    """About how many rows a file has: Parquet says it, text by the mean line of its beginning."""
    import polars as pl

    path = Path(path)
    if first_bytes(path) == MAGIC:
        return int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
    with path.open("rb") as file:
        head = file.read(1 << 20)
    lines = max(head.count(b"\n"), 1)
    return int(path.stat().st_size / (len(head) / lines))


def _labelled(table: ScoreTable, key: ScoreTable, start: int) -> ScoreTable:
    """A part with the labels of the same rows of a key."""
    part = key.frame[start : start + len(table)]
    ids = table.ids if len(table.ids) < len(key.ids) else key.ids
    if len(part) != len(table) or not (part.select(ids).equals(table.frame.select(ids))):
        raise InputError(
            f"{table.where()}: the trials from row {start + 1} on are not those of the key "
            f"{key.path} in its order; sort both alike, or take --exact true, which joins them in "
            "memory"
        )
    more = [name for name in part.columns if name not in table or name == "label"]
    return replace(table, frame=table.frame.with_columns(part.select(more).get_columns()))


def _parquet(path: Path, how: Reading) -> Iterator[ScoreTable]:
    import polars as pl

    if how.format not in (None, "parquet"):
        raise InputError(f"{path}, line 1: this is a Parquet file, not {how.format}; drop --format")
    start = 0
    try:
        for batch in pl.scan_parquet(path, glob=False).collect_batches(
            chunk_size=ROWS, maintain_order=True
        ):
            frame, first = plain_types(path, batch), start
            table = ScoreTable(frame, path, "parquet", lambda row, first=first: first + row + 1)  # type: ignore[misc]
            yield canonical(table, LAYOUTS["parquet"], how.labels)
            start += len(frame)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(
            f"{path}: not a readable Parquet file ({reason}); write it again"
        ) from None


def _text(path: Path, how: Reading) -> Iterator[ScoreTable]:
    found: Found | None = None
    lines = 0
    for part in _parts(path):
        if found is None:
            found = find_layout(
                path, part[: 1 << 20].rpartition(b"\n")[0] + b"\n", how.format, how.labels
            )
        numbers = [name for name in found.columns if name == "score" or is_number(name)]
        shape = Shape(found.columns, numbers, found.separator, 0 if lines else found.header)
        grid, before = read_grid(path, part, shape), lines
        line = lambda row, grid=grid, before=before: before + grid.line(row)  # noqa: E731
        notes = found.notes if not lines else ()
        table = ScoreTable(grid.frame, path, found.layout.name, line, found.guessed, notes=notes)
        yield canonical(table, found.layout, how.labels)
        lines += part.count(b"\n")
    if found is None:
        raise InputError(f"{path}, line 1: the file is empty; write it again")


def _parts(path: Path) -> Iterator[bytes]:
    """The bytes of a file or of standard input, cut at line ends."""
    if str(path) == STDIN:
        yield from _cut(sys.stdin.buffer)
        return
    with path.open("rb") as file:
        yield from _cut(file)


def _cut(file: BinaryIO) -> Iterator[bytes]:
    rest = b""
    while content := file.read(PART):
        content = (rest + content).replace(b"\r\n", b"\n")
        whole, sign, rest = content.rpartition(b"\n")
        if sign:
            yield whole + sign
    if rest:
        yield rest + b"\n"
