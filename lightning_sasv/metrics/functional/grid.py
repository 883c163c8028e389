"""A grid of thresholds that needs no look at the data: the leading bits of a float64.

The edges are 0 and ±2^e (1 + j / 2^m) for e from ``low`` to ``high``; bin b holds the scores in
(edge b − 1, edge b], so that each edge is a threshold at which the error rates are exact. The
magnitude bits of a float64, read as a whole number k with the sign of the score, are in the order
of the scores, and (k − 1) >> (52 − m) is the bin: no search. Magnitudes up to 2^low share one bin
of each sign, those above 2^high another.

Any two such grids have a common coarsening, exactly: fewer bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Floats
from lightning_sasv.metrics.functional.points import Index

LOW, HIGH = -40, 40
"""Magnitudes from 1e-12 to 1e12 are told apart; beyond, bounds are wide but hold."""
_BIAS, _MANTISSA = 1023, 52


def ordinals(scores: Floats) -> NDArray[np.int64]:
    """Scores as whole numbers in the same order; neighbours among the floats differ by one.

    Example:
        >>> ordinals(np.array([-5e-324, -0.0, 0.0, 5e-324]))
        array([-1,  0,  0,  1])
    """
    bits = np.add(scores, 0.0, dtype=np.float64).view(np.int64)
    return np.where(bits < 0, -(bits & np.iinfo(np.int64).max), bits)


def at_ordinals(numbers: NDArray[np.int64]) -> Floats:
    """The scores of some whole numbers; the reverse of :func:`ordinals`.

    Example:
        >>> at_ordinals(ordinals(np.array([-np.inf, -1.5, 0.0, 2.0])))
        array([-inf, -1.5,  0. ,  2. ])
    """
    magnitudes = np.abs(numbers).view(np.float64)
    return np.where(numbers < 0, -magnitudes, magnitudes)


class Grid(NamedTuple):
    """Bins by the leading bits of a score.

    Attributes:
        bits: Bins of an octave are 2^bits.
        low: Magnitudes up to 2^low share a bin.
        high: Magnitudes above 2^high share a bin.

    Example:
        >>> grid = Grid(0, 0, 1)
        >>> grid.edges, grid.bins(np.array([-3.0, 0.0, 0.5, 1.5, 2.0, 9.0]))
        (array([-2., -1., -0.,  1.,  2., inf]), array([0, 2, 3, 4, 4, 5]))
    """

    bits: int
    low: int = LOW
    high: int = HIGH

    @property
    def size(self) -> int:
        """Number of bins."""
        return 2 * self._side

    @property
    def _side(self) -> int:
        """Bins of one sign."""
        return ((self.high - self.low) << self.bits) + 2

    @property
    def edges(self) -> Floats:
        """The upper edge of each bin; the last is infinite."""
        return self.upper(np.arange(self.size))

    def upper(self, bins: Index) -> Floats:
        """The largest score of some bins."""
        first, last = self._ends
        negative = bins < self._side
        keys = np.where(negative, last - bins, bins - self._side + first)
        keys[bins == self._side - 1] = 0
        magnitudes = (keys << (_MANTISSA - self.bits)).view(np.float64)
        edges = np.where(negative, -magnitudes, magnitudes)
        edges[bins == self.size - 1] = np.inf
        return edges

    def lower(self, bins: Index) -> Floats:
        """The smallest finite score of some bins."""
        before = np.where(bins > 0, self.upper(np.maximum(bins - 1, 0)), -np.inf)
        return np.nextafter(before, np.inf)

    @property
    def _ends(self) -> tuple[int, int]:
        """Numbers of 2^low and of 2^high among all magnitudes of so many bits."""
        return (self.low + _BIAS) << self.bits, (self.high + _BIAS) << self.bits

    def bins(self, scores: Floats) -> Index:
        """The bin of each score, none of which may be NaN."""
        shift, (first, last) = _MANTISSA - self.bits, self._ends
        keys = np.add(scores, 0.0, dtype=np.float64).view(np.int64)  # there is no -0.0 any more
        sign = keys - 1
        sign >>= 63  # -1 up to 0.0, and 0 above it
        keys &= np.iinfo(np.int64).max
        keys -= sign
        keys -= 1 + ((first - 1) << shift)
        keys >>= shift
        np.clip(keys, 0, last - first + 1, out=keys)
        keys ^= sign  # downwards from -1 for negative scores
        keys += self._side
        return keys


class Edges(NamedTuple):
    """Bins between thresholds of one's own, in place of a :class:`Grid`.

    Attributes:
        values: Ascending; a bin ends with each, and a last one holds what is above all of them.

    Example:
        >>> Edges((0.0, 1.0)).bins(np.array([-1.0, 0.0, 0.5, 2.0]))
        array([0, 0, 1, 2])
    """

    values: tuple[float, ...]

    @property
    def size(self) -> int:
        """Number of bins."""
        return len(self.values) + 1

    def bins(self, scores: Floats) -> Index:
        """The bin of each score, none of which may be NaN."""
        return np.searchsorted(self.values, scores)

    def upper(self, bins: Index) -> Floats:
        """The largest score of some bins."""
        return np.append(self.values, np.inf)[bins]

    def lower(self, bins: Index) -> Floats:
        """The smallest finite score of some bins."""
        return np.nextafter(np.append(-np.inf, self.values)[bins], np.inf)
