"""Trials that are known up to the bins of a grid, as classes that every metric takes.

The order of the trials within a bin is unknown, all else is known. The *optimistic* order puts each
bin's negatives before its positives, the *pessimistic* one the reverse, and *ties* takes all trials
of a bin for one score, its upper edge. Losses and costs at cuts are exact.

A :class:`Grid` needs no look at the data: its bins are the leading bits of a float64. The edges are
0 and ±2^e (1 + j / 2^m) for e from ``low`` to ``high``; bin b holds the scores in
(edge b − 1, edge b], so that each edge is a threshold at which the error rates are exact. The
magnitude bits of a float64, read as a whole number k with the sign of the score, are in the order
of the scores, and (k − 1) >> (52 − m) is the bin: no search. Magnitudes up to 2^low share one bin
of each sign, those above 2^high another. Any two such grids have a common coarsening, exactly:
fewer bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Floats
from lightning_sasv.metrics.functional.cllr import negative_loss, positive_loss
from lightning_sasv.metrics.functional.points import Classes, Index, Steps
from lightning_sasv.trials import TASKS, TrialClass

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


Order = Literal["optimistic", "pessimistic", "ties"]


class Bounded(NamedTuple):
    """A metric of counts.

    Attributes:
        value: Its value with the trials of a bin at the upper edge.
        low: No order of the trials within the bins gives less.
        high: No order gives more.
        exact: Whether the value is that of the trials.

    Example:
        >>> Bounded(0.012, 0.0119, 0.0121, False).high
        0.0121
    """

    value: float
    low: float
    high: float
    exact: bool


_MULTIPLIABLE = 1 << 30
"""Trials of each of three classes whose products fit into 64 bits."""


def multipliable(counts: NDArray[np.int64]) -> NDArray[Any]:
    """Trials of a class in bins as numbers whose products with those of others do not overflow.

    Floats hold whole numbers up to 2^53; their products are rounded by 1e-16.

    Example:
        >>> [multipliable(np.array([k])).dtype.kind for k in (2**29, 2**31)]
        ['i', 'f']
    """
    return counts if int(counts.sum()) < _MULTIPLIABLE else counts.astype(np.float64)


class Binned(Steps):
    """One class of trials in bins, whose losses and counts at cuts are known exactly.

    Args:
        values: Where each bin counts, ascending.
        weights: Trials of each bin.
        cuts: Trials that some thresholds reject.
        loss: A function of the scores and its sum over the trials.
    """

    def __init__(
        self,
        values: Floats,
        weights: NDArray[np.int64],
        cuts: Mapping[float, int],
        loss: tuple[Callable[[Floats], Floats], float],
    ) -> None:
        memo: dict[Hashable, Floats] = {}
        super().__init__(values, multipliable(weights), memo)
        self._cuts, self._loss = cuts, loss

    def up_to(self, thresholds: Floats | float) -> object:
        """Weight of the scores <= threshold, exact at the cuts."""
        if isinstance(thresholds, float) and thresholds in self._cuts:
            return np.int64(self._cuts[thresholds])
        return super().up_to(thresholds)

    def sum(self, function: Callable[[Floats], Floats]) -> float:
        """Sum of a loss, exact if it is the one that was summed."""
        return self._loss[1] if function is self._loss[0] else super().sum(function)


class View(NamedTuple):
    """What is known of one column, by class in code order.

    Attributes:
        starts: Smallest score of each bin.
        edges: Largest score of each bin.
        counts: Trials of each class in each bin.
        cuts: Thresholds at which counts are exact.
        rejected: Trials of each class that each cut rejects.
        losses: Sum of the losses of each class in bits.
    """

    starts: Floats
    edges: Floats
    counts: NDArray[np.int64]
    cuts: tuple[float, ...]
    rejected: NDArray[np.int64]
    losses: Sequence[float]


class BinnedClasses(Classes):
    """Classes of trials that are known up to the bins of a grid, in one order within them."""

    def __init__(self, views: Mapping[str, View], order: Order) -> None:
        super().__init__({name: view.edges for name, view in views.items()}, np.empty(0, np.int8))
        self.views, self.order = views, order

    def _steps(self, column: str, members: tuple[TrialClass, ...]) -> Steps:
        view, codes = self.views[column], [int(member) for member in members]
        counts = view.counts[codes].sum(axis=0)
        kept = np.flatnonzero(counts)
        positive = members[0] in TASKS[column].positive
        late = self.order == "ties" or (self.order == "optimistic") == positive
        values = (view.edges if late else view.starts)[kept]
        cuts = dict(zip(view.cuts, view.rejected[codes].sum(axis=0).tolist(), strict=True))
        loss = sum(view.losses[code] for code in codes)
        return Binned(
            values, counts[kept], cuts, (positive_loss if positive else negative_loss, loss)
        )


def between(value: float, low: float, high: float) -> Bounded:
    """A value, brought within its bounds if rounding took it out of them.

    Where the bounds are one number, found by other sums than the value, the value is exact.
    """
    if low == high and math.isclose(value, low, rel_tol=1e-12, abs_tol=1e-12):
        return Bounded(value, value, value, True)
    return Bounded(min(max(value, low), high), low, high, low == high)
