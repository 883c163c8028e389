"""Trials that are known up to the bins of a grid, as classes that every metric takes.

The order of the trials within a bin is unknown, all else is known. The *optimistic* order puts each
bin's negatives before its positives, the *pessimistic* one the reverse, and *ties* takes all trials
of a bin for one score, its upper edge. Losses and costs at cuts are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Floats
from lightning_sasv.metrics.functional.cllr import negative_loss, positive_loss
from lightning_sasv.metrics.functional.points import Classes, Steps
from lightning_sasv.trials import TASKS, TrialClass

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
        super().__init__(values, weights, memo)
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
