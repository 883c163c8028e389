"""Sums over trials that do not depend on their order: losses in whole numbers, rejected trials.

A loss log(1 + e^s) is kept in units of 2^-40 nats, in two limbs of 64 bits; its sums are whole
numbers, so that any order and any split give the same bits, and a mean is wrong by 2^-41 at most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import BLOCK, Floats
from lightning_sasv.metrics.functional.points import Index

_UNIT_BITS = 40
UNIT = 1 << _UNIT_BITS
"""Losses are kept in whole numbers of 1/UNIT nats."""
_FULL = 1 << 61
"""A limb of so much goes to Python's integers, which do not overflow."""
_LARGE = float(_FULL // BLOCK)
"""Larger losses are added as Python's integers: those of a block could fill a limb."""
_SMALL = 2.0**62 / UNIT / BLOCK
"""The losses of a block, none of them larger, are added as they are."""


def in_bits(loss: int) -> float:
    """A sum of losses in bits, infinite where no float holds it."""
    try:
        return loss / UNIT / math.log(2)
    except OverflowError:
        return math.inf


class Sums:
    """Sums of each row.

    Args:
        cuts: Thresholds whose rejected trials are counted.

    Attributes:
        cuts: The same.
    """

    def __init__(self, cuts: Sequence[float]) -> None:
        self.cuts = tuple(cuts)
        self._table = np.zeros((3 + len(self.cuts), 0), np.int64)  # limbs, infinite, rejected
        self._huge: dict[int, int] = {}

    def rejected(self, rows: int) -> NDArray[np.int64]:
        """Trials of each row that each cut rejects."""
        return self._of(rows)[3:].T

    def infinite(self, rows: int) -> NDArray[np.int64]:
        """Trials of each row whose loss is infinite."""
        return self._of(rows)[2]

    def losses(self, rows: int) -> list[int]:
        """Sum of the finite losses of each row, in 1/UNIT nats."""
        pairs = enumerate(zip(*self._of(rows)[:2].tolist(), strict=True))
        return [a * UNIT + b + self._huge.get(row, 0) for row, (a, b) in pairs]

    def add(self, rows: Index, scores: Floats, positive: NDArray[np.bool_], most: int) -> None:
        """Add a block of trials.

        Args:
            rows: Row of each.
            scores: Score of each.
            positive: Whether its loss is that of a positive, log(1 + e^-s).
            most: All rows are below it.
        """
        self._of(most)
        for number, cut in enumerate(self.cuts, 3):
            np.add.at(self._table[number], rows, (scores <= cut).astype(np.int64))
        losses = np.abs(scores)
        over = np.maximum(np.where(positive, -scores, scores), 0.0)
        np.log1p(np.exp(np.negative(losses, out=losses), out=losses), out=losses)
        losses += over
        if (largest := losses.max(initial=0.0)) > _LARGE:
            losses = self._without_huge(rows, losses)
        if largest < _SMALL:
            self._add_rest(rows, losses, most)
            return
        whole = np.floor(losses)
        np.add.at(self._table[0], rows, whole.astype(np.int64))
        self._add_rest(rows, losses - whole, most)

    def _add_rest(self, rows: Index, losses: Floats, most: int) -> None:
        """Add losses of a block that do not overflow the lower limb, and carry."""
        units = np.rint(np.multiply(losses, UNIT, out=losses), out=losses)
        np.add.at(self._table[1], rows, units.astype(np.int64))
        self._carry(most)

    def _without_huge(self, rows: Index, losses: Floats) -> Floats:
        """Losses with 0 in place of those that were added as Python's integers."""
        odd = losses > _LARGE
        for row, loss in zip(rows[odd].tolist(), losses[odd].tolist(), strict=True):
            if math.isinf(loss):
                self._table[2, row] += 1
            else:
                self._huge[row] = self._huge.get(row, 0) + int(Fraction(loss) * UNIT)
        return np.where(odd, 0.0, losses)

    def merge(self, other: Sums, rows: Index) -> None:
        """Add other sums, whose rows have these numbers here; cuts that one lacks are dropped."""
        kept = [(k, other.cuts.index(cut)) for k, cut in enumerate(self.cuts) if cut in other.cuts]
        mine, theirs = ([0, 1, 2, *(3 + pair[k] for pair in kept)] for k in (0, 1))
        self._of(int(rows.max(initial=-1)) + 1)
        self._table = self._table[mine]
        self._table[:, rows] += other._of(rows.size)[theirs]
        self._carry(self._table.shape[1])
        self.cuts = tuple(self.cuts[k] for k, _ in kept)
        for row, loss in other._huge.items():
            number = int(rows[row])
            self._huge[number] = self._huge.get(number, 0) + loss

    def restore(self, table: NDArray[np.int64], huge: dict[int, int]) -> None:
        """Take over sums.

        Args:
            table: Of each row: two limbs of its losses, infinite ones, rejected trials at the cuts.
            huge: Losses of rows that no limbs hold.
        """
        self._table, self._huge = np.ascontiguousarray(table.T), huge

    def _carry(self, rows: int) -> None:
        part = self._table[:, :rows]
        part[0] += part[1] >> _UNIT_BITS
        part[1] &= UNIT - 1
        for row in np.flatnonzero(part[0] >= _FULL).tolist():
            self._huge[row] = self._huge.get(row, 0) + int(part[0, row]) * UNIT
            part[0, row] = 0

    def _of(self, rows: int) -> NDArray[np.int64]:
        """The sums of the first rows, for which there is room then."""
        have = self._table.shape[1]
        if rows > have:
            larger = np.zeros((self._table.shape[0], max(rows, 2 * have)), np.int64)
            larger[:, :have] = self._table
            self._table = larger
        return self._table[:, :rows]
