"""Tables that are kept in memory as far as it goes, then in files, by the hash of their ids."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lightning_sasv.errors import InputError
from lightning_sasv.files import ensure_directory
from lightning_sasv.scores.table import ScoreTable, id_hashes

if TYPE_CHECKING:
    import polars as pl

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


class Spool:
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
        self._template = self._template or replace(table, frame=table.frame.clear())
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
