"""Pool adjacent violators: the best increasing map of scores to probabilities, and the ROC hull.

In ascending order of the scores, isotonic regression of the labels is the greatest convex minorant
of the points (rejected trials, rejected positives). Its vertices are those of the ROC hull, and
between two of them lies a *pool*: trials that get one probability, and one log-likelihood ratio

    LLR = log (positives of the pool / all positives) - log (negatives of the pool / all negatives).

All vertices lie on the rungs: anywhere else the next score adds no positive, so the slope cannot
grow there. Ayer et al., "An empirical distribution function for sampling with incomplete
information", 1955; Fawcett and Niculescu-Mizil, "PAV and the ROC convex hull", 2007.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Floats
from lightning_sasv.metrics.functional.points import (
    Counts,
    Index,
    Steps,
    operating_points,
)

FEW = 4096
"""Groups that are pooled without the compiled function of scipy."""


class Hull(NamedTuple):
    """Vertices of the convex hull of the operating points, from "accept all" to "reject all".

    Attributes:
        positives: Rejected positives (or their weight) at each vertex, from 0 to the total.
        negatives: Rejected negatives at each vertex, from 0 to the total.
    """

    positives: Counts
    negatives: Counts

    def shares(self) -> tuple[Floats, Floats]:
        """Shares of the positives and of the negatives in each pool that holds both."""
        x, y = (np.diff(counts) / counts[-1] for counts in self)
        mixed = (x > 0) & (y > 0)
        return x[mixed], y[mixed]


class Pools(NamedTuple):
    """Pools of scores in ascending order: a step function from score to log-likelihood ratio.

    Attributes:
        start: Lowest score of each pool.
        end: Highest score of each pool.
        llr: Natural log-likelihood ratio of each pool; infinite where it is pure.
        positives: Positives of each pool.
        negatives: Negatives of each pool.
    """

    start: Floats
    end: Floats
    llr: Floats
    positives: Counts
    negatives: Counts


def vertices(positives: Counts, negatives: Counts) -> Index:
    """Which operating points are vertices of the hull, by pooling adjacent violators.

    Args:
        positives: Rejected positives at each operating point, ascending to their total.
        negatives: Rejected negatives at each operating point, ascending to their total.

    Returns:
        Places of the last operating point of each pool, ascending.

    Example:
        >>> vertices(np.array([0, 1, 1, 2]), np.array([1, 1, 2, 2]))
        array([0, 2, 3])
    """
    some = np.flatnonzero(np.diff(negatives, prepend=0) > 0)  # elsewhere no slope grows
    if positives[some[-1]] < positives[-1]:
        some = np.append(some, positives.size - 1)
    x, y = (np.diff(counts[some], prepend=0) for counts in (positives, negatives))
    ends: Index = some[pooled(x, y)[1:] - 1]
    return ends


def pooled(positives: Counts, negatives: Counts, few: int = FEW) -> Index:
    """Where pools begin, and the end, of groups of trials in ascending order, none of them empty.

    Up to ``few`` groups are pooled without scipy.

    Example:
        >>> pooled(np.array([0, 1, 0, 1]), np.array([1, 0, 1, 0]))
        array([0, 1, 3, 4])
    """
    if positives.size <= few:
        return _merged(positives, positives + negatives)
    from scipy.optimize import isotonic_regression  # takes longer to import than few groups take

    weight = np.add(positives, negatives, dtype=np.float64)
    blocks: Index = isotonic_regression(positives / weight, weights=weight).blocks
    return blocks


def _merged(positives: Counts, trials: Counts) -> Index:
    """Pools by merging all neighbours at once whose shares do not grow, until all do."""
    starts = np.arange(positives.size)
    while True:
        p, n = (np.add.reduceat(counts, starts) for counts in (positives, trials))
        grows = p[:-1] * n[1:] < p[1:] * n[:-1]
        if grows.all():
            return np.append(starts, positives.size)
        starts = starts[np.append(True, grows)]


def hull(positives: Counts, negatives: Counts) -> Hull:
    """Convex hull of operating points; arguments as for :func:`vertices`."""
    ends = vertices(positives, negatives)
    return Hull(*(np.append(counts[:0], [0, *counts[ends]]) for counts in (positives, negatives)))


def pools(positive: Floats, negative: Floats, misleading: int = 0) -> Pools:
    """The pools of scores; equal scores are pooled.

    Args:
        positive: Scores of the positives, in any order.
        negative: Scores of the negatives, in any order.
        misleading: So many positives are added at the lowest score and negatives at the highest,
            before and after all others: no pool is pure then, and every ratio is finite.

    Returns:
        The pools.

    Example:
        >>> pools(np.array([2.0, 0.0]), np.array([0.0, -1.0])).llr
        array([-inf,   0.,  inf])
    """
    parts = Steps(np.sort(positive)), Steps(np.sort(negative))
    points = operating_points(*parts)
    p, n = (counts[1:] for counts in points.rejected(*parts))
    positives = np.concatenate([[0], p, p[-1:]]) + misleading
    negatives = np.concatenate([[0], n, n[-1:] + misleading])
    scores = np.concatenate([points.thresholds[1:2], points.thresholds[1:], points.thresholds[-1:]])
    ends = vertices(positives, negatives)
    x, y = (np.diff(counts[ends], prepend=0) for counts in (positives, negatives))
    with np.errstate(divide="ignore"):
        llr = np.log(x / positives[-1]) - np.log(y / negatives[-1])
    return Pools(scores[np.append(0, ends[:-1] + 1)], scores[ends], llr, x, y)


def may_dip(found: Hull, positives: Counts, negatives: Counts) -> NDArray[np.bool_]:
    """Which operating points lie below a hull, in whole numbers: no rounding."""
    y, x = found.positives, found.positives + found.negatives
    trials = positives + negatives
    right = np.clip(np.searchsorted(x, trials), 1, x.size - 1)
    left = right - 1
    return (positives - y[left]) * (x[right] - x[left]) < (y[right] - y[left]) * (trials - x[left])
