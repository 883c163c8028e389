"""Score files larger than memory: read in parts, each a table like any other.

The layout is found in the first part, by what it holds; the others are read in the same way. Text
is cut at line ends, Parquet comes in polars' batches. Labels of a key: :mod:`.keys`.
"""

from __future__ import annotations

import sys
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from lightning_sasv.errors import InputError
from lightning_sasv.limits import LINE_BYTES
from lightning_sasv.scores.detect import Found, find_layout
from lightning_sasv.scores.keys import Space, labelled, rows_from
from lightning_sasv.scores.kinds import kind_of, plain_types, with_our_names
from lightning_sasv.scores.layouts import LAYOUTS
from lightning_sasv.scores.parquet import MAGIC, parquet_parts, parquet_rows
from lightning_sasv.scores.read import as_said, read_cells, read_plain
from lightning_sasv.scores.reading import Reading, canonical, turned, with_role
from lightning_sasv.scores.table import ScoreTable
from lightning_sasv.scores.text import STDIN, UTF16, first_bytes, refuse_other_kinds, unpacked

PART = 1 << 26
"""Bytes of text that are read at once."""
ROWS = 1 << 18
"""Rows of Parquet that are read at once."""


def scan(
    files: str | Path | Sequence[tuple[str | None, str | Path]],
    key: ScoreTable | str | Path | None = None,
    how: Reading | None = None,
    key_how: Reading | None = None,
    space: Space | None = None,
) -> Iterator[ScoreTable]:
    """The trials of a file, part by part.

    Args:
        files: A score file of any layout of text, Parquet, or ``-`` for standard input; or several
            that are joined by trial, each with its role: ``asv``, ``cm`` or ``sasv``.
        key: Trials with labels, or their file, which is read in parts too.
        how: How the files are read.
        key_how: How the file of the key is read.
        space: Memory and folder for files in another order than the first; takes notes.

    Yields:
        Tables with labels and scores.

    Raises:
        InputError: As for :func:`.read.read_table`, with file and line; trials of the key without
            a score.
    """
    how, space = how or Reading(), space or Space()
    given = [(None, files)] if isinstance(files, str | Path) else list(files)
    given.sort(key=lambda one: one[0] == "cm")  # trials before utterances
    role = given[0][0] if len(given) == 1 else None
    parts, *others = (_with_role(_parts_of(Path(path), how), own) for own, path in given)
    for more in others:
        parts = labelled(more, parts, space, how.allow_missing)
    if key is not None:
        parts = labelled(parts, key_parts(key, key_how), space, how.allow_missing)
    for table in _by_labels(parts, role):
        found = turned(table, how)
        space.notes += [note for note in found.notes if note not in space.notes]
        yield found


def _with_role(parts: Iterator[ScoreTable], role: str | None) -> Iterator[ScoreTable]:
    return parts if role is None else (with_role(table, role) for table in parts)


def _by_labels(parts: Iterator[ScoreTable], role: str | None) -> Iterator[ScoreTable]:
    """Scores whose role the labels tell, the same in all parts."""
    known: list[str] = []
    for table in parts:
        found = with_role(table, role)
        if not table.score_columns and "score" in table:
            known = known or found.score_columns
            if known != found.score_columns:
                raise InputError(
                    f"{table.where(0)}: the labels make this {found.score_columns[0]}, those "
                    f"before {known[0]}; say whose scores they are, e.g. sasv={table.path}"
                )
        yield found


def key_parts(key: ScoreTable | str | Path, how: Reading | None = None) -> Iterator[ScoreTable]:
    """The trials of a key in parts, with their labels.

    Args:
        key: Trials with labels, or their file.
        how: How the file is read.
    """
    if isinstance(key, ScoreTable):
        yield from (rows_from(key, start, ROWS) for start in range(0, len(key), ROWS))
        return
    for table in _parts_of(Path(key), how or Reading()):
        table.need(["label"], "a key")
        yield table.without_scores()


def _parts_of(path: Path, how: Reading) -> Iterator[ScoreTable]:
    """The parts of a file, checked."""
    stdin = str(path) == STDIN
    kind = "text" if stdin else kind_of(path, how.format)
    if kind == "parquet":
        tables = _parquet(path, how)
    elif stdin or (kind == "text" and not _has_other_lines(path)):
        tables = _text(path, how)
    else:  # of a kind that is read whole
        table = read_plain(path, how)
        yield from (rows_from(table, first, ROWS) for first in range(0, len(table), ROWS))
        return
    yield from (as_said(table, how) for table in tables)


def _has_other_lines(path: Path) -> bool:
    """Whether a text has other lines than those that it can be cut at."""
    with path.open("rb") as file:
        head = unpacked(path, file).read(1 << 16)
    return head.startswith(UTF16) or (b"\r" in head and b"\n" not in head)


def rows_of(path: str | Path) -> int:
    """About how many rows a file has: Parquet says it, text by the mean line of its beginning."""
    path = Path(path)
    if first_bytes(path) == MAGIC:
        return parquet_rows(path)
    with path.open("rb") as file:
        lines = max(unpacked(path, file).read(1 << 20).count(b"\n"), 1)
        return path.stat().st_size * lines // max(file.tell(), 1)


def _parquet(path: Path, how: Reading) -> Iterator[ScoreTable]:
    start = 0
    for batch in parquet_parts(path, ROWS):
        frame, first = plain_types(path, with_our_names(batch), start), start
        table = ScoreTable(frame, path, "parquet", lambda row, first=first: first + row + 1)  # type: ignore[misc]
        yield canonical(table, LAYOUTS["parquet"], how.labels)
        start += len(frame)


def _text(path: Path, how: Reading) -> Iterator[ScoreTable]:
    found: Found | None = None
    lines = 0
    for part in _parts(path):
        if found is None:
            refuse_other_kinds(path, part[:4])
            found = find_layout(
                path, part[: 1 << 20].rpartition(b"\n")[0] + b"\n", how.format, how.labels
            )
        if b"\0" in part:
            at = lines + part[: part.index(b"\0")].count(b"\n") + 1
            raise InputError(f"{path}, line {at}: a NUL byte, which no text has; write it again")
        yield read_cells(path, part, found, how.labels, lines)
        lines += part.count(b"\n")
    if found is None:
        raise InputError(f"{path}, line 1: the file is empty; write it again")


def _parts(path: Path) -> Iterator[bytes]:
    """The bytes of a file or of standard input, cut at line ends."""
    if str(path) == STDIN:
        yield from _cut(path, sys.stdin.buffer)
        return
    with path.open("rb") as file:
        yield from _cut(path, unpacked(path, file))


def _cut(path: Path, file: BinaryIO) -> Iterator[bytes]:
    rest = file.read(len(BOM_UTF8)).removeprefix(BOM_UTF8)
    while content := file.read(PART):
        end = b"" if len(content) == PART or content.endswith(b"\n") else b"\n"
        content = (rest + content + end).replace(b"\r\n", b"\n")
        whole, sign, rest = content.rpartition(b"\n")
        LINE_BYTES.check(path, len(rest))
        if sign:
            yield whole + sign
    if rest:
        yield rest + b"\n"
