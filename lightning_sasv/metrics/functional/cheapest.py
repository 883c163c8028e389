"""The threshold of the smallest weighted sum of error rates; only a window of scores is sorted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lightning_sasv.checks import Floats
from lightning_sasv.metrics.functional.ladder import Ladder, ladder, smallest_cost
from lightning_sasv.metrics.functional.sorting import ascending, merged
from lightning_sasv.metrics.functional.unordered import Unordered

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
    positive: Unordered, negatives: Sequence[Unordered], weights: tuple[float, ...]
) -> Cheapest:
    """Smallest cost over all thresholds, exact.

    Samples of the classes tell where the optimum may lie; within that window the cost is minimised
    over the rungs. Outside of it the false acceptances at its lower end, or the misses at its upper
    end, must alone cost more than the minimum found; otherwise all scores are sorted.

    Args:
        positive: The positives.
        negatives: Sets of negatives.
        weights: Weight of the miss rate, then of each set's false-acceptance rate.

    Returns:
        The cost and a threshold that has it.
    """
    classes = (positive, *negatives)
    if min(part.size for part in negatives) > _FEW:
        window = _guess(classes, weights)
        found = _within(classes, weights, *window) if window else None
        if found is not None:
            return found
    ranked = [ascending(part.all()) for part in classes]
    rungs = ladder(*ranked)
    cost, rung = smallest_cost(weights, rungs.first, rungs.below)
    return Cheapest(cost, _last_rejected(ranked, rungs, rung))


def _guess(classes: Sequence[Unordered], weights: tuple[float, ...]) -> tuple[float, float] | None:
    """Scores between which the optimum seems to lie, by samples of the classes."""
    samples = [ascending(part.sample(int(part.size ** (2 / 3))).all()) for part in classes]
    if not all(sample.size for sample in samples):
        return None
    scores = merged(*(sample[:: max(sample.size // 512, 1)] for sample in samples))
    rejected = [np.searchsorted(sample, scores) / sample.size for sample in samples]
    rates = [rejected[0], *(1 - share for share in rejected[1:])]
    costs = np.array([weight * rate for weight, rate in zip(weights, rates, strict=True)])
    variance = np.zeros(scores.size)
    for weight, rate, sample in zip(weights, rates, samples, strict=True):
        variance += weight**2 * (rate * (1 - rate) + 1 / sample.size) / sample.size
    miss, accepted = costs[0], costs[1:].sum(axis=0)
    best = int(np.argmin(miss + accepted))
    limit = float(miss[best] + accepted[best] + 4 * math.sqrt(variance[best]))
    low, high = np.flatnonzero(accepted > limit), np.flatnonzero(miss > limit)
    if not high.size:
        return None
    return float(scores[low[-1]]) if low.size else -math.inf, float(scores[high[0]])


def _within(
    classes: Sequence[Unordered], weights: tuple[float, ...], low: float, high: float
) -> Cheapest | None:
    """Optimum among the rungs from low to high, ``None`` unless it is that of all rungs."""
    found = [part.between(low, high) for part in classes]
    windows, under = [ascending(window) for window, _ in found], [below for _, below in found]
    totals = tuple(part.size for part in classes)
    rungs = ladder(*windows)
    counts = [n + ranks for n, ranks in zip(under, (rungs.first, *rungs.below), strict=True)]
    cost, rung = smallest_cost(weights, counts[0], tuple(counts[1:]), totals)
    shares = [n / total for n, total in zip(under, totals, strict=True)]
    accepted = sum(weight * (1 - n) for weight, n in zip(weights[1:], shares[1:], strict=True))
    misses = weights[0] * (under[0] + windows[0].size) / totals[0]
    certain = (under[0] == 0 or accepted > cost) and misses > cost
    threshold = _last_rejected(windows, rungs, rung)
    return Cheapest(cost, threshold) if certain and threshold > -math.inf else None


def _last_rejected(ranked: Sequence[Floats], rungs: Ladder, rung: int) -> float:
    """Largest score that a rung rejects; -inf if it rejects none."""
    rejected = (rungs.first[rung], *(below[rung] for below in rungs.below))
    return float(
        max((part[k - 1] for part, k in zip(ranked, rejected, strict=True) if k), default=-math.inf)
    )
