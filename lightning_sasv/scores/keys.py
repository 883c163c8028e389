"""Labels of a key for a score file that is read in parts, either of which may exceed memory.

Files of one protocol nearly always have its order: rows are compared part by part. From the first
difference on both files are joined by the hash of their ids, in memory where that fits, else in
ranges of hashes: both are written to a scratch folder in parts sorted by hash, and a range is read
back from all of them at a time.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lightning_sasv.errors import InputError
from lightning_sasv.files import ensure_directory
from lightning_sasv.scores.join import beside, match, nothing_shared, stacked
from lightning_sasv.scores.reading import layout_of
from lightning_sasv.scores.table import SHOWN, ScoreTable, check_duplicates, id_hashes, names_of

if TYPE_CHECKING:
    import polars as pl

_ALL = 1 << 64
_HASH, _LINE = "_hash", "_line"
_GROUP = 1 << 14
"""Rows of a file that are read together."""


@dataclass
class Space:
    """Where a join may take place, and what is to be said of it.

    Attributes:
        memory: Bytes that it may take.
        scratch: Folder for what does not fit; that of the system where there is none.
        notes: What happened, for the user.
    """

    memory: float = math.inf
    scratch: str | None = None
    notes: list[str] = field(default_factory=list)

    def folder(self, stack: ExitStack) -> Path:
        """A new folder, removed with all that is in it when the stack is left."""
        place = None if self.scratch is None else ensure_directory(self.scratch)
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="join_", dir=place)))


class _Spool:
    """Tables that are kept in memory as far as it goes, then in files sorted by hash.

    Args:
        name: Of its files.
        ids: Columns that name a trial.
        space: Where they may be kept.
        stack: Removes the files at the end, whatever happens.

    Attributes:
        size: Bytes of all tables.
    """

    def __init__(self, name: str, ids: Sequence[str], space: Space, stack: ExitStack) -> None:
        self._name, self._ids, self._space, self._stack = name, ids, space, stack
        self._frames: list[pl.DataFrame] = []
        self._files: list[Path] = []
        self._template: ScoreTable | None = None
        self._folder: Path | None = None
        self._held, self.size = 0, 0

    @property
    def spilled(self) -> bool:
        """Whether some tables are in files."""
        return bool(self._files)

    def add(self, table: ScoreTable) -> None:
        """Keep a table."""
        import polars as pl

        first, last = table.line(0), table.line(len(table) - 1)
        lines = np.arange(first, first + len(table))
        if lines[-1] != last:  # there are lines without trials between them
            lines = np.fromiter(map(table.line, range(len(table))), np.int64, len(table))
        hashes = pl.Series(_HASH, id_hashes(table, self._ids))
        frame = table.frame.with_columns(hashes, pl.Series(_LINE, lines))
        bare = replace(table, frame=table.frame.clear(), joined={})  # its places are of other rows
        self._template = self._template or bare
        self._frames.append(frame)
        size = int(frame.estimated_size())
        self.size, self._held = self.size + size, self._held + size
        if self._held > self._space.memory / 8:
            self._spill()

    def between(self, low: int, high: int) -> ScoreTable | None:
        """All trials whose hashes lie in a range; nothing where there are none."""
        import polars as pl

        inside = pl.col(_HASH).is_between(pl.lit(low, pl.UInt64), pl.lit(high, pl.UInt64))
        parts = [  # groups of rows outside the range are not read
            pl.scan_parquet(path, glob=False).filter(inside).collect() for path in self._files
        ]
        frame = pl.concat([*parts, *(frame.filter(inside) for frame in self._frames)])
        if self._template is None or not frame.height:
            return None
        lines = frame[_LINE]
        return replace(
            self._template, frame=frame.drop(_HASH, _LINE), line=lambda row: int(lines[int(row)])
        )

    def _spill(self) -> None:
        """Write what is in memory to a file."""
        import polars as pl

        try:
            if self._folder is None:
                self._folder = self._space.folder(self._stack)
            path = self._folder / f"{self._name}{len(self._files)}.parquet"
            frame = pl.concat(self._frames).sort(_HASH, _LINE)
            frame.write_parquet(path, compression="lz4", row_group_size=_GROUP)
        except (OSError, pl.exceptions.PolarsError) as error:
            reason = " ".join(str(error).split())[:160]
            where = self._space.scratch or tempfile.gettempdir()
            raise InputError(
                f"--scratch {where}: cannot write the {self._name} that do not fit into memory "
                f"({reason}); give a folder with {math.ceil(self.size / 1e9)} GB and more"
            ) from None
        self._files.append(path)
        self._frames, self._held = [], 0


def labelled(
    scores: Iterator[ScoreTable], key: Iterator[ScoreTable], space: Space, allow_missing: bool
) -> Iterator[ScoreTable]:
    """Parts of a score file with the labels of a key.

    Args:
        scores: Parts of the score file.
        key: Parts of the key, of any size.
        space: Where files of another order are joined.
        allow_missing: Leave out trials of the key that have no score, instead of raising.

    Raises:
        InputError: A trial without score, a trial twice, labels that contradict the key.
    """
    keys, start = _Queue(key), 0
    for part in scores:
        own = keys.take(len(part))
        if own is None and keys.ids:
            space.notes.append(_too_many(part, len(part) + sum(map(len, scores))))
            return
        if own is None or not _same(part, own):
            join = _Join(part, own or part, space, start)
            yield from join.run(chain([part], scores), keys.rest(), allow_missing)
            return
        rows = np.arange(len(part))
        yield beside(part, own, rows, rows)
        start += len(part)
    left = sum(map(len, keys.rest()))
    lacking = f"{left:,} of {start + left:,} trials of {keys.path}, from trial {start + 1:,} on"
    if left and not (allow_missing and keys.ids):
        raise InputError(
            f"no score for {lacking}; score them, or pass --allow-missing to leave them out"
        )
    space.notes += [f"{lacking}, are left out, having no score"] if left else []


def _too_many(scores: ScoreTable, number: int) -> str:
    return f"{scores.path}: {number:,} scores belong to no trial of the key and are left out"


def _same(part: ScoreTable, own: ScoreTable) -> bool:
    """Whether rows are of the same trials; without ids, whether there are as many."""
    ids = min(part.ids, own.ids, key=len)
    alike = len(part.ids) == len(own.ids) or not ids
    equal = not ids or part.frame.select(ids).equals(own.frame.select(ids))
    return alike and len(part) == len(own) and equal


class _Queue:
    """A key whose rows are taken in order."""

    def __init__(self, parts: Iterator[ScoreTable]) -> None:
        self._parts, self._open = parts, list[ScoreTable]()
        self.path, self.ids = Path(), tuple[str, ...]()

    def take(self, rows: int) -> ScoreTable | None:
        """The next rows, fewer at the end; nothing after it."""
        have = sum(map(len, self._open))
        while have < rows and (part := next(self._parts, None)) is not None:
            self._open.append(part)
            have += len(part)
            self.path, self.ids = part.path, part.ids
        if not self._open:
            return None
        found, self._open = self._open, []
        if have > rows:
            size = len(found[-1]) - (have - rows)
            self._open = [rows_from(found[-1], size)]
            found[-1] = rows_from(found[-1], 0, size)
        return found[0] if len(found) == 1 else stacked(found)

    def rest(self) -> Iterator[ScoreTable]:
        """All rows that were not taken."""
        yield from self._open
        yield from self._parts


def rows_from(table: ScoreTable, start: int, size: int | None = None) -> ScoreTable:
    """Rows of a table that follow one another."""
    line, joined = table.line, table.places(table.joined, np.arange(start, len(table)))
    frame = table.frame.slice(start, size)
    return replace(table, frame=frame, line=lambda row: line(start + row), joined=joined)


class _Join:
    """A join of what is left of a score file and of its key."""

    def __init__(self, scores: ScoreTable, key: ScoreTable, space: Space, start: int) -> None:
        self._scores, self._key, self._space, self._start = scores, key, space, start
        self._ids = min(scores.ids, key.ids, key=len)
        self._missing: list[tuple[int, str]] = []
        self._lost, self._extra, self._rows, self._found = 0, 0, 0, 0

    def run(
        self, scores: Iterable[ScoreTable], key: Iterable[ScoreTable], allow_missing: bool
    ) -> Iterator[ScoreTable]:
        """Tables of trials with scores and labels.

        Args:
            scores: All parts of the scores.
            key: Parts of the key after the first.
            allow_missing: As for :func:`labelled`.
        """
        if not self._ids:
            raise InputError(
                f"{self._scores.where(0)}: {self._scores.path} and its key have different numbers "
                "of rows; without trial ids the rows must correspond"
            )
        with ExitStack() as stack:
            spools = [_Spool(name, self._ids, self._space, stack) for name in ("scores", "key")]
            for table in scores:
                spools[0].add(table)
            for table in chain([self._key], key):
                spools[1].add(table)
            size = sum(spool.size for spool in spools)
            ranges = 1
            if any(spool.spilled for spool in spools):
                ranges = math.ceil(4 * size / self._space.memory)
            for k in range(ranges):
                low, high = _ALL * k // ranges, _ALL * (k + 1) // ranges - 1
                both = [spool.between(low, high) for spool in spools]
                yield from self._joined(both[0], both[1], alone=ranges == 1)
        self._end(allow_missing)

    def _joined(
        self, scores: ScoreTable | None, key: ScoreTable | None, alone: bool
    ) -> Iterator[ScoreTable]:
        """The trials of one range that have scores."""
        if key is None:
            self._extra += 0 if scores is None else len(scores)
            return
        self._rows += len(key)
        if not layout_of(key).repeats:
            check_duplicates(key, key.ids)
        if scores is None:
            self._left_out(key, np.arange(len(key)))
            return
        check_duplicates(scores, scores.ids)
        place = match(scores, key, self._ids)
        rows = np.flatnonzero(place >= 0)
        if alone and not rows.size and not self._start:
            raise InputError(nothing_shared(scores, key, self._ids))
        self._left_out(key, np.flatnonzero(place < 0))
        self._found += rows.size
        self._extra += len(scores) - np.unique(place[rows]).size
        if rows.size:
            yield beside(scores, key, rows, place[rows])

    def _left_out(self, key: ScoreTable, rows: np.ndarray) -> None:
        self._lost += len(rows)
        few = sorted(rows.tolist(), key=key.line)[:SHOWN] if len(rows) else []
        named = [(key.line(row), names_of(key, self._ids, [row])) for row in few]
        self._missing = sorted([*self._missing, *named])[:SHOWN]

    def _end(self, allow_missing: bool) -> None:
        """Say what has no score or no label, or refuse it."""
        names = ", ".join(name for _, name in self._missing)
        names += ", …" if self._lost > len(self._missing) else ""
        total = self._start + self._rows
        if self._lost and (not allow_missing or not self._found + self._start):
            raise InputError(
                f"{self._scores.path}: no score for {self._lost:,} of {total:,} trials of "
                f"{self._key.path}, line {self._missing[0][0]} and after: {names}; score "
                "them, or pass --allow-missing to leave them out"
            )
        if self._lost:
            self._space.notes.append(
                f"{self._scores.path}: {self._lost:,} of {total:,} trials of the key are left "
                f"out, having no score: {names}"
            )
        if self._extra:
            self._space.notes.append(_too_many(self._scores, self._extra))
