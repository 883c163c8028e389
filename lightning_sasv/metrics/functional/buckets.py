"""A rough order of scores at the price of a few sums: they are counted in intervals, not sorted."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import BLOCK, Floats

Index = NDArray[np.intp]


class Buckets:
    """Intervals in ascending order: a larger score is never in a lower one, equal ones share one.

    The first holds what is below ``low``, the last what is well above ``high``; those between are
    of equal width.

    Args:
        low: The smallest score of the second bucket.
        high: A score of the last bucket but one.
        number: How many buckets, at least 4.
    """

    def __init__(self, low: float, high: float, number: int) -> None:
        self.number = number
        self._low, self._scale = low, (number - 3) / (high - low)

    def of(self, scores: Floats) -> Index:
        """Bucket of each score; every step of the sum keeps the order, its rounding included."""
        with np.errstate(over="ignore"):  # what is too far away ends up in the last bucket
            place = scores - self._low
            place *= self._scale
        place += 1
        return np.clip(place, 0, self.number - 1, out=place).astype(np.intp)

    def counts(self, scores: Floats) -> Index:
        """Number of scores in each bucket."""
        total = np.zeros(self.number, dtype=np.intp)
        for start in range(0, scores.size, BLOCK):
            total += np.bincount(self.of(scores[start : start + BLOCK]), minlength=self.number)
        return total

    def within(self, scores: Floats, wanted: NDArray[np.bool_]) -> Floats:
        """Scores of the wanted buckets, in the order in which they came."""
        chosen = []
        for start in range(0, scores.size, BLOCK):
            block = scores[start : start + BLOCK]
            chosen.append(block.take(np.flatnonzero(wanted.take(self.of(block)))))
        return np.concatenate(chosen)


def overlap(positive: Floats, negative: Floats) -> Buckets | None:
    """Buckets over the range in which both classes have scores.

    Args:
        positive: Scores of the positives, in any order.
        negative: Scores of the negatives, in any order.

    Returns:
        The buckets, more of them for more scores; ``None`` if there is no such range, or no finite
        one.
    """
    low, high = float(positive.min()), float(negative.max())
    number = 4 + int((positive.size + negative.size) ** 0.7)
    scale = (number - 3) / (high - low) if high > low else math.inf
    return Buckets(low, high, number) if 0 < scale < math.inf else None
