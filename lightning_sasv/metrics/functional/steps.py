"""One class of scores in ascending order, with the (weighted) number of them below any value."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Floats

Index = NDArray[np.intp]


class Steps:
    """Empirical distribution of one class, each score counting its weight, a whole number.

    Attributes:
        values: Scores, ascending.
        total: Summed weight of the class.
    """

    def __init__(self, values: Floats, weights: NDArray[np.generic] | None = None) -> None:
        self.values = values
        self._cumulative: Floats | None = None
        self.total = float(values.size)
        if weights is not None:
            self._cumulative = np.zeros(values.size + 1)
            np.cumsum(weights, out=self._cumulative[1:])
            self.total = float(self._cumulative[-1])

    def first(self, ranks: Index) -> Floats:
        """Summed weight of the first so many scores."""
        if self._cumulative is None:
            return np.asarray(ranks, dtype=np.float64)
        return self._cumulative.take(ranks)

    def up_to(self, thresholds: Floats) -> Floats:
        """Share of the class with score <= threshold: what the threshold rejects."""
        return self.first(np.searchsorted(self.values, thresholds, side="right")) / self.total

    def below(self, thresholds: Floats) -> Floats:
        """Share of the class with score < threshold."""
        return self.first(np.searchsorted(self.values, thresholds)) / self.total

    def over(self, thresholds: Floats) -> Floats:
        """Share of the class with score > threshold: what the threshold accepts."""
        rejected = self.first(np.searchsorted(self.values, thresholds, side="right"))
        return (self.total - rejected) / self.total

    def at_least(self, thresholds: Floats) -> Floats:
        """Share of the class with score >= threshold."""
        return (self.total - self.first(np.searchsorted(self.values, thresholds))) / self.total

    def curve(self, grid: Floats, *, accepted: bool) -> Floats:
        """Share of the class that each threshold of a grid accepts, or rejects.

        Args:
            grid: -inf, which accepts all, then ascending thresholds among which is every score.
            accepted: Whether to give the share accepted.

        Returns:
            One share per threshold. Each score is looked up once, however many thresholds.
        """
        own = None if self._cumulative is None else np.diff(self._cumulative)
        counts = np.bincount(np.searchsorted(grid, self.values), own, minlength=grid.size)
        rates: Floats = np.cumsum(counts, dtype=np.float64)
        rates[0] = 0  # a score of -inf has a threshold of its own
        if accepted:
            np.subtract(self.total, rates, out=rates)
        rates /= self.total
        return rates

    def around(self, share: Floats) -> tuple[Index, Index]:
        """Smallest rank whose summed weight is at least, and largest whose is at most, a share.

        Summed weights are whole, so a share that rounding separates from a whole one is that one.
        """
        weight = share * self.total
        whole = np.rint(weight)
        weight = np.where(np.abs(weight - whole) < 1e-15 * self.total, whole, weight)
        if self._cumulative is None:
            return np.ceil(weight).astype(np.intp), np.floor(weight).astype(np.intp)
        upper = np.searchsorted(self._cumulative, weight)
        return upper, np.searchsorted(self._cumulative, weight, side="right") - 1

    def __len__(self) -> int:
        return self.values.size
