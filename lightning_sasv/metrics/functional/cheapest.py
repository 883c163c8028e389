"""The threshold of the smallest weighted sum of error rates; only a window of scores is sorted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lightning_sasv.metrics.functional._checks import Floats
from lightning_sasv.metrics.functional.crossing import Negatives
from lightning_sasv.metrics.functional.ladder import ladder, smallest_cost
from lightning_sasv.metrics.functional.sorting import ascending

_FEW = 16384  # negatives that are not worth a first guess


class Cheapest(NamedTuple):
    """A threshold of the smallest cost.

    Attributes:
        cost: Weighted sum of the error rates.
        threshold: Accept iff score > threshold; -inf accepts all.
    """

    cost: float
    threshold: float


def cheapest_threshold(
    positive: Floats, negatives: Sequence[Negatives], weights: tuple[float, ...]
) -> Cheapest:
    """Smallest cost over all thresholds, exact.

    A sample of the negatives tells where the optimum may lie; within that window the cost is
    minimised over the rungs. Outside of it the false acceptances at its lower end, or the misses at
    its upper end, must alone cost more than the minimum found; otherwise all scores are sorted.

    Args:
        positive: Positive scores in ascending order.
        negatives: Sets of negative scores in any order.
        weights: Weight of the miss rate, then of each set's false-acceptance rate.

    Returns:
        The cost and a threshold that has it.
    """
    if min(part.size for part in negatives) > _FEW:
        window = _guess(positive, negatives, weights)
        found = _within(positive, negatives, weights, *window) if window else None
        if found is not None:
            return found
    ranked = [ascending(part.all()) for part in negatives]
    rungs = ladder(positive, *ranked)
    cost, rung = smallest_cost(weights, rungs.first, rungs.below)
    rejected = (rungs.first[rung], *(below[rung] for below in rungs.below))
    last = [part[k - 1] for part, k in zip((positive, *ranked), rejected, strict=True) if k]
    return Cheapest(cost, float(max(last)) if last else -math.inf)


def _guess(
    positive: Floats, negatives: Sequence[Negatives], weights: tuple[float, ...]
) -> tuple[float, float] | None:
    """Scores between which the optimum seems to lie, by some positives and samples of negatives."""
    ranks = np.arange(0, positive.size, max(positive.size // 512, 1))
    miss = weights[0] * ranks / positive.size
    accepted, variance = np.zeros(ranks.size), np.zeros(ranks.size)
    for weight, part in zip(weights[1:], negatives, strict=True):
        sample = ascending(part.sample(int(part.size ** (2 / 3))).all())
        if not sample.size:
            return None
        rate = 1 - np.searchsorted(sample, positive[ranks]) / sample.size
        accepted += weight * rate
        variance += weight**2 * (rate * (1 - rate) + 1 / sample.size) / sample.size
    best = int(np.argmin(accepted + miss))
    limit = float(accepted[best] + miss[best] + 4 * math.sqrt(variance[best]))
    low = np.flatnonzero(accepted > limit)
    high = np.flatnonzero(miss > limit)
    first = positive[ranks[low[-1]]] if low.size else positive[0]
    return float(first), float(positive[ranks[high[0]]] if high.size else positive[-1])


def _within(
    positive: Floats,
    negatives: Sequence[Negatives],
    weights: tuple[float, ...],
    low: float,
    high: float,
) -> Cheapest | None:
    """Optimum among the rungs from low to high, ``None`` unless it is that of all rungs."""
    start, stop = np.searchsorted(positive, low), np.searchsorted(positive, high, side="right")
    windows, under = [], []
    for part in negatives:
        window, below = part.between(low, high)
        windows.append(ascending(window))
        under.append(below)
    rungs = ladder(positive[start:stop], *windows)
    counts = [offset + below for offset, below in zip(under, rungs.below, strict=True)]
    totals = (positive.size, *(part.size for part in negatives))
    cost, rung = smallest_cost(weights, start + rungs.first, tuple(counts), totals)
    rejected = (rungs.first[rung], *(below[rung] for below in rungs.below))
    scores = zip((positive[start:stop], *windows), rejected, strict=True)
    last = [part[k - 1] for part, k in scores if k]
    sizes = zip(weights[1:], under, totals[1:], strict=True)
    outside = sum(weight * (size - below) / size for weight, below, size in sizes)
    misses = weights[0] * int(stop) / positive.size
    certain = (start == 0 or outside > cost) and misses > cost and bool(last)
    return Cheapest(cost, float(max(last))) if certain else None
