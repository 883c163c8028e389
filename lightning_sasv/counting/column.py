"""One column of scores, counted: bins by row and by class, exact sums, exact cuts.

A *row* is what a replicate draws as one: the trials of one class (or attack) of one speaker. Bins
and rows get a place when they are first seen, so that memory is that of what occurs; a table of
very many rows is kept as a sparse matrix. Everything is a whole number: the state does not depend
on the order of the trials, nor on how they were split.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Codes, Floats, blocks
from lightning_sasv.counting.sums import Sums
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.binned import Edges, Grid
from lightning_sasv.metrics.functional.points import Index
from lightning_sasv.trials import TASKS, TrialClass

Whole = NDArray[np.integer]
Cells: TypeAlias = tuple[Index, Index, Whole]
"""Row, number of the bin and trials of cells that are occupied."""

FINE = 14
"""Bits of the grid on which classes are counted without their clusters."""
_LATER = 64
"""Blocks of trials that wait to be counted by row: by then the grid is hardly too fine any more,
and few trials never take a table of all rows and bins."""
_ROWS = 512
"""Rows whose counts are looked at together."""
MOST_BINS = 4096
"""More occupied bins by row than this make the grid coarser, as far as it may become."""
MOST_CELLS = 1 << 28
"""Of a table of more cells by row than this (1 GB) only those that occur are kept."""


class Column:
    """Counts of one column.

    Args:
        name: ``sasv``, ``asv`` or ``cm``.
        least: Least bits of the grid by row.
        cuts: Thresholds at which the counts are exact.
        edges: Thresholds of one's own in place of both grids.

    Attributes:
        bits: Of the grid by row: as many as leave it :data:`MOST_BINS` occupied bins, or the least.
            Thus a function of the trials, whatever their order.
        sums: Losses and rejected trials of each row.
    """

    def __init__(
        self, name: str, least: int, cuts: Sequence[float], edges: Sequence[float] = ()
    ) -> None:
        if not 0 <= least <= FINE:
            raise InputError(f"a grid has from 0 to {FINE} bits, got {least}")
        if not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
            raise InputError(f"edges of {name} must be finite and strictly ascending")
        self.name, self.edges, self.sums = name, tuple(map(float, edges)), Sums(cuts)
        self.least, self.bits = (0, 0) if self.edges else (least, FINE)
        self._bins, self._fine_bins = Places(self.grid.size), Places(self.fine_grid.size)
        self._coarse: Index = np.empty(0, np.intp)  # place of each occupied fine bin
        self._counts: Any = np.zeros((0, 0), np.int32)  # an array, or sparse where it is large
        self._fine: NDArray[np.int64] = np.zeros((3, 0), np.int64)
        self._trials = 0
        self._waiting: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = []  # rows, fine places
        self._given: list[Cells] = []
        codes = [int(code) for code in TASKS[name].positive]
        self._positive = np.isin(np.arange(len(TrialClass)), codes)

    @property
    def cuts(self) -> tuple[float, ...]:
        """Thresholds at which the counts are exact."""
        return self.sums.cuts

    @property
    def bins(self) -> Index:
        """Occupied bins of the grid by row, in the order in which they were seen."""
        return self._bins.known

    @property
    def fine_bins(self) -> Index:
        """Occupied bins of the fine grid."""
        return self._fine_bins.known

    @property
    def fine(self) -> NDArray[np.int64]:
        """Trials of each class (in code order) in each occupied bin of the fine grid."""
        return self._fine[:, : self.fine_bins.size]

    @property
    def grid(self) -> Grid | Edges:
        """The grid by row."""
        return Edges(self.edges) if self.edges else Grid(self.bits)

    @property
    def fine_grid(self) -> Grid | Edges:
        """The grid by class."""
        return Edges(self.edges) if self.edges else Grid(FINE)

    def counts(self, rows: int) -> Any:
        """Trials of each row in each occupied bin: an array, or SciPy's sparse one of it."""
        self._count(rows)
        return self._counts[:rows, : self.bins.size]

    def add(self, rows: Index, codes: Codes, scores: Floats) -> None:
        """Count some trials.

        Args:
            rows: Row of each.
            codes: Class of each.
            scores: Score of each; none is NaN.
        """
        self._expect(scores.size)
        most = int(rows.max(initial=-1)) + 1
        for block in blocks(scores.size):
            fine = self._places(self.fine_grid.bins(scores[block]))
            self._waiting.append((rows[block].astype(np.int32), fine.astype(np.int32)))
            fine += np.multiply(codes[block], self._fine.shape[1], dtype=np.intp)
            np.add.at(self._fine.reshape(-1), fine, np.int64(1))
            positive = self._positive.take(codes[block])
            self.sums.add(rows[block], scores[block], positive, most)
            if len(self._waiting) >= _LATER:
                self._count(most)

    def _count(self, rows: int) -> None:
        """Make room for so many rows at least, and count the trials that wait."""
        known: list[Whole] = [one[0] for one in (*self._waiting, *self._given)]
        rows = max([rows, *(int(own.max(initial=-1)) + 1 for own in known)])
        self._make_room(rows)
        waiting, given, self._waiting, self._given = self._waiting, self._given, [], []
        one = self._counts.dtype.type(1)  # a plain 1 takes numpy's slow path
        if not isinstance(self._counts, np.ndarray):
            for own, fine in waiting:
                places = own.astype(np.intp), self._coarse.take(fine)
                given.append((*places, np.full(own.size, one)))
            waiting = []
        for own, fine in waiting:
            cells = np.multiply(own, self._counts.shape[1], dtype=np.intp)
            cells += self._coarse.take(fine)
            np.add.at(self._counts.reshape(-1), cells, one)
        self._take(given, np.arange(rows), np.arange(self.bins.size))

    def _make_room(self, rows: int) -> None:
        """Make the table one of so many rows at least, and of all bins."""
        rows, have = max(rows, self._counts.shape[0]), isinstance(self._counts, np.ndarray)
        if have and rows * self.bins.size <= MOST_CELLS:
            self._counts = _with_room(self._counts, (rows, self.bins.size))
            return
        from scipy.sparse import csr_array

        if have:
            cells, kind = _joined(_occupied(self._counts)), self._counts.dtype
            self._counts = csr_array((cells[2], cells[:2]), (rows, self.bins.size), dtype=kind)
        self._counts.resize(rows, self.bins.size)

    def _expect(self, trials: int) -> None:
        """So many trials come: cells that could overflow are widened."""
        self._trials += trials
        if self._trials > np.iinfo(np.int32).max:
            self._counts = self._counts.astype(np.int64, copy=False)

    def _places(self, bins: Index) -> Index:
        """Place of each bin of the fine grid, with a place for those that are new."""
        places = self._fine_bins.of(bins)
        if places.min(initial=0) < 0:
            new = _distinct(bins[places < 0])
            self._fine_bins.add(new)
            coarse = _moved(new, self.fine_grid, self.grid)
            known = self._bins.of(coarse)
            self._bins.add(_distinct(coarse[known < 0]))
            self._coarse = np.append(self._coarse, self._bins.of(coarse))
            self._fine = _with_room(self._fine, (3, self.fine_bins.size))
            if self.bins.size > MOST_BINS and self.bits > self.least:
                self.coarsen(self._few())
            places = self._fine_bins.of(bins)
        return places

    def _few(self) -> int:
        """Most bits that leave few enough bins occupied, if there are any."""
        for bits in range(self.bits - 1, self.least, -1):
            if _distinct(_moved(self.fine_bins, self.fine_grid, Grid(bits))).size <= MOST_BINS:
                return bits
        return self.least

    def coarsen(self, bits: int) -> None:
        """Join bins by row, so that at most so many bits are told apart."""
        if bits >= self.bits:
            return
        before, counts, self.bits = self.grid, self._counts, bits
        moved = _moved(self.bins, before, self.grid)
        self._bins = Places(self.grid.size)
        self._bins.add(_distinct(moved))
        self._coarse = self._bins.of(_moved(self.fine_bins, self.fine_grid, self.grid))
        places, rows = self._bins.of(moved), counts.shape[0]
        self._given = [(own, places[bins], trials) for own, bins, trials in self._given]
        self._counts = np.zeros((0, 0), counts.dtype)
        self._make_room(rows)
        self._take(_occupied(counts), np.arange(rows), places)

    def _cells(self) -> Iterator[Cells]:
        """All cells that are occupied and do not wait."""
        yield from self._given
        yield from _occupied(self._counts)

    def _take(self, cells: Iterable[Cells], rows: Index, places: Index) -> None:
        """Add cells, whose rows and bins have these numbers here."""
        width, kind = self._counts.shape[1], self._counts.dtype
        if isinstance(self._counts, np.ndarray):
            flat = self._counts.reshape(-1)
            for own, bins, trials in cells:
                np.add.at(flat, rows[own] * width + places[bins], trials.astype(kind))
            return
        own, bins, trials = _joined(cells)
        self._counts = self._counts + type(self._counts)(
            (trials.astype(kind), (rows[own], places[bins])), self._counts.shape
        )

    def merge(self, other: Column, rows: Index) -> None:
        """Add the counts of another column, whose rows have these numbers here."""
        self.least = min(self.least, other.least)
        self.coarsen(other.bits)
        at = self._places(other.fine_bins)
        self._expect(other._trials)
        self._fine[:, at] += other.fine
        if other._waiting:
            other._count(rows.size)
        self._count(int(rows.max(initial=-1)) + 1)
        self._take(other._cells(), rows, self._bins.of(_moved(other.bins, other.grid, self.grid)))
        self.sums.merge(other.sums, rows)

    def restore(self, bins: Index, cells: Cells, fine_bins: Index, fine: NDArray[np.int64]) -> None:
        """Take over counts of the grids that this column has.

        Args:
            bins: Occupied bins.
            cells: Row, number of the bin and trials of each cell that is occupied.
            fine_bins: Occupied bins of the fine grid.
            fine: Trials of each class in each of them.
        """
        self._bins.add(bins)
        self._places(fine_bins)
        if self.bins.size != bins.size:
            raise ValueError("the bins of rows and classes differ")
        self._fine, self._given = fine, [cells]
        self._expect(int(fine.sum()))

    def trials_of_rows(self, rows: int) -> NDArray[np.int64]:
        """Trials of each row, without a table of all cells."""
        totals = np.zeros(rows, np.int64)
        if self._waiting:
            self._count(rows)
        for own, _, trials in self._cells():
            np.add.at(totals, own, trials.astype(np.int64))
        return totals

    def copy(self) -> Column:
        """The same counts, apart."""
        return deepcopy(self)


class Places:
    """Numbers of what occurs, in the order in which it was seen.

    The table of all values is mapped, but takes memory only where something occurs.

    Args:
        size: All values are below it.

    Attributes:
        known: What occurs.
    """

    def __init__(self, size: int) -> None:
        self.known: Index = np.empty(0, np.intp)
        room = mmap.mmap(-1, 4 * size)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):  # of which one would hold a whole table
            room.madvise(mmap.MADV_NOHUGEPAGE)
        self._table: NDArray[np.int32] = np.frombuffer(room, np.int32)  # the number + 1

    def of(self, values: Index) -> Index:
        """The place of each value; -1 where it has none."""
        return np.subtract(self._table.take(values), 1, dtype=np.intp)

    def add(self, values: Index) -> None:
        """Give a place to values that have none."""
        size = self.known.size
        self._table[values] = np.arange(size + 1, size + 1 + values.size)
        self.known = np.append(self.known, values)

    def __deepcopy__(self, memo: dict[int, Any]) -> Places:
        other = Places(self._table.size)
        other.add(self.known)
        return other


def _distinct(values: Index) -> Index:
    """What occurs, in ascending order; numpy's ``unique`` hashes, which is slower here."""
    ordered = np.sort(values)
    return ordered[np.diff(ordered, prepend=-1) > 0]


def _occupied(counts: Any) -> Iterator[Cells]:
    """The cells of a table that are occupied, of few rows at a time."""
    for start in range(0, counts.shape[0], _ROWS):
        part = counts[start : start + _ROWS]
        if isinstance(part, np.ndarray):
            own, bins = np.nonzero(part)
            trials = part[own, bins]
        else:
            (own, bins), trials = part.tocoo().coords, part.data
        if own.size:
            yield start + own.astype(np.intp), bins, trials


def _joined(cells: Iterable[Cells]) -> Cells:
    """All cells at once."""
    none = np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0, np.int32)
    own, bins, trials = (np.concatenate(one) for one in zip(*chain([none], cells), strict=True))
    return own, bins, trials


def _with_room(array: Whole, shape: tuple[int, int]) -> Any:
    """The array, of at least a shape; what grows becomes twice as large."""
    have = array.shape
    if shape[0] <= have[0] and shape[1] <= have[1]:
        return array
    room = [m if n <= m else max(n, 2 * m) for n, m in zip(shape, have, strict=True)]
    if room[0] * room[1] > MOST_CELLS:
        room = [max(n, m) for n, m in zip(shape, have, strict=True)]
    larger = np.zeros(room, array.dtype)
    larger[: have[0], : have[1]] = array
    return larger


def _moved(bins: Index, before: Grid | Edges, after: Grid | Edges) -> Index:
    """Bins of a grid on another with fewer edges."""
    return after.bins(np.where(bins == 0, -np.inf, before.upper(bins)))


def block_of(counts: Any, rows: Index, bins: Index) -> Any:
    """Some rows of a table, their bins in some order."""
    return counts[np.ix_(rows, bins)] if isinstance(counts, np.ndarray) else counts[rows][:, bins]


def by_class(counts: Any, codes: Codes) -> Whole:
    """Sums over the rows of each class, in code order."""
    return np.stack([counts[codes == int(code)].sum(axis=0) for code in TrialClass])
