"""One column of scores, counted: bins by row and by class, exact sums, exact cuts.

A *row* is what a replicate draws as one: the trials of one class (or attack) of one speaker. Bins
and rows get a place when they are first seen, so that memory is that of what occurs. Everything is
a whole number: the state does not depend on the order of the trials, nor on how they were split.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Codes, Floats, blocks
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.functional.grid import Grid
from lightning_sasv.metrics.functional.points import Index
from lightning_sasv.trials import TASKS, TrialClass

Whole = NDArray[np.integer]

FINE = 14
"""Bits of the grid on which classes are counted without their clusters."""
UNIT = 1 << 40
"""Losses are kept in whole numbers of 1/UNIT nats."""
MOST_BINS = 4096
"""More occupied bins by row than this make the grid coarser, as far as it may become."""
_LARGE = float(1 << 17)
"""Larger losses are added as Python's integers, which do not overflow."""


class Column:
    """Counts of one column.

    Args:
        name: ``sasv``, ``asv`` or ``cm``.
        least: Least bits of the grid by row.
        cuts: Thresholds at which the counts are exact.

    Attributes:
        bits: Of the grid by row: as many as leave it :data:`MOST_BINS` occupied bins, or the least.
            Thus a function of the trials, whatever their order.
    """

    def __init__(self, name: str, least: int, cuts: Sequence[float]) -> None:
        if not 0 <= least <= FINE:
            raise InputError(f"a grid has from 0 to {FINE} bits, got {least}")
        self.name, self.least, self.bits, self.cuts = name, least, FINE, tuple(cuts)
        self._bins, self._fine_bins = Places(self.grid.size), Places(self.fine_grid.size)
        self._coarse: Index = np.empty(0, np.intp)  # place of each occupied fine bin
        self._counts: Whole = np.zeros((0, 0), np.int32)
        self._fine: NDArray[np.int64] = np.zeros((3, 0), np.int64)
        self._sums = np.zeros((0, 3 + len(self.cuts)), np.int64)  # whole, rest, infinite, rejected
        self._huge: dict[int, int] = {}
        self._trials = 0

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
    def grid(self) -> Grid:
        """The grid by row."""
        return Grid(self.bits)

    @property
    def fine_grid(self) -> Grid:
        """The grid by class."""
        return Grid(FINE)

    def counts(self, rows: int) -> Whole:
        """Trials of each row in each occupied bin."""
        self._reserve(rows, self.bins.size)
        return self._counts[:rows, : self.bins.size]

    def rejected(self, rows: int) -> NDArray[np.int64]:
        """Trials of each row that each cut rejects."""
        self._reserve(rows, self.bins.size)
        return self._sums[:rows, 3:]

    def infinite(self, rows: int) -> NDArray[np.int64]:
        """Trials of each row whose loss is infinite."""
        self._reserve(rows, self.bins.size)
        return self._sums[:rows, 2]

    def losses(self, rows: int) -> list[int]:
        """Sum of the finite losses of each row, in 1/UNIT nats."""
        self._reserve(rows, self.bins.size)
        whole, rest = self._sums[:rows, 0].tolist(), self._sums[:rows, 1].tolist()
        pairs = enumerate(zip(whole, rest, strict=True))
        return [a * UNIT + b + self._huge.get(row, 0) for row, (a, b) in pairs]

    def add(self, rows: Index, codes: Codes, scores: Floats) -> None:
        """Count some trials.

        Args:
            rows: Row of each.
            codes: Class of each.
            scores: Score of each; none is NaN.
        """
        self._trials += scores.size
        if self._trials > np.iinfo(np.int32).max and self._counts.dtype == np.int32:
            self._counts = self._counts.astype(np.int64)
        most = int(rows.max(initial=-1)) + 1
        positive = np.isin(codes, [int(code) for code in TASKS[self.name].positive])
        for block in blocks(scores.size):
            self._add(rows[block], codes[block], scores[block], positive[block], most)

    def _add(
        self,
        rows: Index,
        codes: Codes,
        scores: Floats,
        positive: NDArray[np.bool_],
        most: int,
    ) -> None:
        bins = self.fine_grid.bins(scores)
        fine = self._places(bins)
        self._reserve(most, self.bins.size)
        one = self._counts.dtype.type(1)  # a plain 1 takes numpy's slow path
        np.add.at(self._counts.reshape(-1), rows * self._counts.shape[1] + self._coarse[fine], one)
        fine += codes.astype(np.intp) * self._fine.shape[1]
        np.add.at(self._fine.reshape(-1), fine, np.int64(1))
        for number, cut in enumerate(self.cuts):
            below = np.bincount(rows[scores <= cut], minlength=most)
            self._sums[:most, 3 + number] += below
        self._add_losses(rows, np.where(positive, -scores, scores), most)

    def _add_losses(self, rows: Index, scores: Floats, most: int) -> None:
        """Add log(1 + e^s) of each trial to the sums of its row."""
        with np.errstate(invalid="ignore"):
            losses = np.log1p(np.exp(-np.abs(scores)))
            losses += np.maximum(scores, 0.0)
        odd = losses > _LARGE
        if odd.any():
            for row, loss in zip(rows[odd].tolist(), losses[odd].tolist(), strict=True):
                if math.isinf(loss):
                    self._sums[row, 2] += 1
                else:
                    self._huge[row] = self._huge.get(row, 0) + int(Fraction(loss) * UNIT)
            losses = np.where(odd, 0.0, losses)
        whole = np.floor(losses)
        np.add.at(self._sums[:, 0], rows, whole.astype(np.int64))
        rest = np.rint((losses - whole) * UNIT).astype(np.int64)
        np.add.at(self._sums[:, 1], rows, rest)
        part = self._sums[:most]
        part[:, 0] += part[:, 1] // UNIT
        part[:, 1] %= UNIT

    def _places(self, bins: Index) -> Index:
        """Place of each bin of the fine grid, with a place for those that are new."""
        places = self._fine_bins.of(bins)
        unknown = np.flatnonzero(places < 0)
        if unknown.size:
            new = np.unique(bins[unknown])
            self._fine_bins.add(new)
            coarse = _moved(new, self.fine_grid, self.grid)
            known = self._bins.of(coarse)
            self._bins.add(np.unique(coarse[known < 0]))
            self._coarse = np.append(self._coarse, self._bins.of(coarse))
            self._fine = _with_room(self._fine, (3, self.fine_bins.size))
            while self.bins.size > MOST_BINS and self.bits > self.least:
                self.coarsen(self.bits - 1)
            places = self._fine_bins.of(bins)
        return places

    def coarsen(self, bits: int) -> None:
        """Join bins by row, so that at most so many bits are told apart."""
        if bits >= self.bits:
            return
        before, self.bits = self.grid, bits
        moved, counts = _moved(self.bins, before, self.grid), self._counts[:, : self.bins.size]
        places = moved[: counts.shape[1]]  # bins that were just seen have no counts yet
        self._bins, self._counts = Places(self.grid.size), np.zeros((0, 0), counts.dtype)
        self._bins.add(np.unique(moved))
        self._reserve(counts.shape[0], self.bins.size)
        if places.size:
            order = np.argsort(places)
            first = np.flatnonzero(np.diff(places[order], prepend=-1))
            at = self._bins.of(places[order][first])
            self._counts[: counts.shape[0], at] = np.add.reduceat(counts[:, order], first, axis=1)
        coarse = _moved(self.fine_bins, self.fine_grid, self.grid)
        self._coarse = self._bins.of(coarse)

    def merge(self, other: Column, rows: Index) -> None:
        """Add the counts of another column, whose rows have these numbers here."""
        self.least = min(self.least, other.least)
        self.coarsen(other.bits)
        at = self._places(other.fine_bins)
        if other.bits > self.bits:
            other = other.copy()
            other.coarsen(self.bits)
        self._trials += other._trials
        if self._trials > np.iinfo(np.int32).max:
            self._counts = self._counts.astype(np.int64)
        self._fine[:, at] += other.fine
        most = int(rows.max(initial=-1)) + 1
        self._reserve(most, self.bins.size)
        counts = other.counts(rows.size)
        own, bins = np.nonzero(counts)
        cells = rows[own], self._bins.of(other.bins)[bins]
        self._counts[cells] += counts[own, bins].astype(self._counts.dtype)
        kept = [(k, other.cuts.index(cut)) for k, cut in enumerate(self.cuts) if cut in other.cuts]
        mine = np.array([0, 1, 2, *(3 + k for k, _ in kept)])
        theirs = [0, 1, 2, *(3 + k for _, k in kept)]
        other._reserve(rows.size, other.bins.size)
        self._sums[np.ix_(rows, mine)] += other._sums[: rows.size, theirs]
        self._sums[:, 0] += self._sums[:, 1] // UNIT
        self._sums[:, 1] %= UNIT
        self._sums = self._sums[:, mine]
        self.cuts = tuple(self.cuts[k] for k, _ in kept)
        for row, loss in other._huge.items():
            number = int(rows[row])
            self._huge[number] = self._huge.get(number, 0) + loss

    def restore(
        self,
        bins: Index,
        counts: Whole,
        fine_bins: Index,
        fine: NDArray[np.int64],
        sums: NDArray[np.int64],
        huge: dict[int, int],
    ) -> None:
        """Take over counts of the grids that this column has.

        Args:
            bins: Occupied bins.
            counts: Trials of each row in each of them.
            fine_bins: Occupied bins of the fine grid.
            fine: Trials of each class in each of them.
            sums: Of each row: two limbs of its losses, infinite ones, rejected trials at the cuts.
            huge: Losses of rows that no limbs hold.
        """
        self._bins.add(bins)
        self._places(fine_bins)
        if self.bins.size != bins.size:
            raise ValueError("the bins of rows and classes differ")
        self._fine, self._sums, self._huge = fine, sums, huge
        self._trials = int(fine.sum())
        wide = self._trials > np.iinfo(np.int32).max
        self._counts = counts.astype(np.int64 if wide else np.int32)

    def copy(self) -> Column:
        """The same counts, apart."""
        return deepcopy(self)

    def _reserve(self, rows: int, bins: int) -> None:
        """Make room for so many rows and bins."""
        self._counts = _with_room(self._counts, (rows, bins))
        self._sums = _with_room(self._sums, (self._counts.shape[0], self._sums.shape[1]))


class Places:
    """Numbers of what occurs, in the order in which it was seen.

    Args:
        size: All values are below it.

    Attributes:
        known: What occurs.
    """

    def __init__(self, size: int) -> None:
        self.known: Index = np.empty(0, np.intp)
        self._table: NDArray[np.int32] = np.full(size, -1, np.int32)

    def of(self, values: Index) -> Index:
        """The place of each value; -1 where it has none."""
        return self._table[values].astype(np.intp)

    def add(self, values: Index) -> None:
        """Give a place to values that have none."""
        self._table[values] = np.arange(self.known.size, self.known.size + values.size)
        self.known = np.append(self.known, values)


def _with_room(array: Whole, shape: tuple[int, int]) -> Any:
    """The array, of at least a shape; what grows becomes twice as large."""
    have = array.shape
    if shape[0] <= have[0] and shape[1] <= have[1]:
        return array
    room = [n if n <= m else max(n, 2 * m) for n, m in zip(shape, have, strict=True)]
    larger = np.zeros([max(n, m) for n, m in zip(room, have, strict=True)], array.dtype)
    larger[: have[0], : have[1]] = array
    return larger


def _moved(bins: Index, before: Grid, after: Grid) -> Index:
    """Bins of a grid on another with fewer edges."""
    return after.bins(np.where(bins == 0, -np.inf, before.upper(bins)))


def by_class(counts: Whole, codes: Codes) -> Whole:
    """Sums over the rows of each class, in code order."""
    return np.stack([counts[codes == int(code)].sum(axis=0) for code in TrialClass])
