"""Operating points that can be optimal: one rung just below each distinct positive score.

Between two positive scores a higher threshold only rejects more negatives, at no cost. Whatever
rewards rejected negatives and punishes rejected positives (a detection cost, the ROC hull, the
crossing of the two error rates) is therefore found on the rungs alone: P + 1 of them at most,
however many negatives there are.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Floats

Ranks: TypeAlias = NDArray[np.intp]
Counts: TypeAlias = NDArray[np.intp] | Floats
"""Rejected trials at each rung: plain or weighted numbers, ascending to the total."""


class Ladder(NamedTuple):
    """Rejected trials at each rung; the last rung is "reject all".

    Attributes:
        first: Positives below the rung, the last being their number P.
        below: For each set of negatives, those below the rung, the last being their number.
    """

    first: Ranks
    below: tuple[Ranks, ...]


def ladder(positive: Floats, *negatives: Floats) -> Ladder:
    """Rungs of ascending positive scores against sets of ascending negative scores."""
    new = np.empty(positive.size, dtype=bool)
    new[:1] = True
    np.not_equal(positive[1:], positive[:-1], out=new[1:])
    first = np.flatnonzero(new)
    values = positive if first.size == positive.size else positive[first]
    below = (np.append(np.searchsorted(part, values), part.size) for part in negatives)
    return Ladder(np.append(first, positive.size), tuple(below))


class Crossing(NamedTuple):
    """Operating point of the equal error rate when trials are rejected one by one.

    Attributes:
        value: (FRR + FAR) / 2 there.
        positives: Rejected positives.
        negatives: Rejected negatives.
    """

    value: float
    positives: int
    negatives: int


def crossing(positives: Counts, negatives: Counts) -> Crossing:
    """Equal error rate under the ``asvspoof`` convention from whole counts at the rungs.

    From one rung to the next the equal positives go first, then the negatives; within either run
    the first point with FRR >= FAR follows from the counts.

    Args:
        positives: Rejected positives at each rung, ascending to their total.
        negatives: Rejected negatives at each rung, ascending to their total.

    Returns:
        The operating point.
    """
    P, N = int(positives[-1]), int(negatives[-1])
    # FRR >= FAR as whole numbers, i N + m P >= P N; Python's integers do not overflow.
    low, high = 0, len(positives) - 1
    while low < high:
        middle = (low + high) // 2
        if int(positives[middle]) * N + int(negatives[middle]) * P >= P * N:
            high = middle
        else:
            low = middle + 1
    i, m = int(positives[high]), int(negatives[high - 1]) if high else 0
    if i * N + m * P < P * N:  # the positives alone do not suffice: a negative makes the crossing
        after = (i, -(-N * (P - i) // P))
        before = (i, after[1] - 1)
    else:
        after = (-(-P * (N - m) // N), m)
        before = (after[0] - 1, m)
    # The first minimum of abs(FRR - FAR) is one of the two points around the crossing.
    gaps = [abs(i / P - (N - m) / N) for i, m in (before, after)]
    i, m = before if gaps[0] <= gaps[1] else after
    return Crossing((i / P + (N - m) / N) / 2, i, m)


def points_eer(positives: Counts, negatives: Counts, worst: bool = False) -> float:
    """Equal error rate when equal scores are rejected together, from counts at every threshold.

    Args:
        positives: Rejected positives at each operating point, from 0 to their total.
        negatives: Rejected negatives at each operating point, from 0 to their total.
        worst: Take the smaller max(FRR, FAR) of the two points around FRR = FAR (``max``)
            instead of the straight line between them (``interpolated``).

    Returns:
        The rate, a fraction.
    """
    frr = positives / positives[-1]
    far = (negatives[-1] - negatives) / negatives[-1]
    after = int(np.argmax(frr >= far))
    (x, y), (v, w) = ((float(frr[k]), float(far[k])) for k in (after - 1, after))
    if worst:
        return min(y, v)
    return x + (y - x) / ((y - x) + (v - w)) * (v - x)


def smallest_cost(
    weights: tuple[float, ...],
    positives: Counts,
    negatives: tuple[Counts, ...],
    totals: tuple[float, ...] | None = None,
) -> tuple[float, int]:
    """Smallest weighted sum of error rates over the rungs, and its rung.

    Args:
        weights: Weight of the miss rate, then of each false-acceptance rate.
        positives: Rejected positives at each rung.
        negatives: Rejected negatives of each set at each rung.
        totals: Number of the positives and of each set; those of the last rung when absent.

    Returns:
        The cost and the first rung that has it. A set without trials makes the cost NaN.
    """
    sizes = totals or (positives[-1], *(part[-1] for part in negatives))
    if not all(sizes):
        return math.nan, 0
    cost = positives * (weights[0] / sizes[0])
    for weight, part, size in zip(weights[1:], negatives, sizes[1:], strict=True):
        cost += (size - part) * (weight / size)
    rung = int(np.argmin(cost))
    return float(cost[rung]), rung
