"""Pool adjacent violators: the best increasing map of scores to probabilities, and the ROC hull.

In ascending order of the scores, isotonic regression of the labels is the greatest convex minorant
of the points (rejected trials, rejected positives), and its vertices lie on the rungs of the
ladder: anywhere else the next score adds no positive, so the slope cannot grow there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from lightning_sasv.checks import Floats
from lightning_sasv.metrics.functional.buckets import overlap
from lightning_sasv.metrics.functional.ladder import Counts, Ranks, ladder, points_eer
from lightning_sasv.metrics.functional.sorting import ascending

_FEW = 16384  # scores that are sorted at once


class Hull(NamedTuple):
    """Vertices of the convex hull of the operating points, from "accept all" to "reject all".

    Attributes:
        positives: Rejected positives (or their weight) at each vertex, from 0 to the total.
        negatives: Rejected negatives at each vertex, from 0 to the total.
    """

    positives: Counts
    negatives: Counts


def hull(positives: Counts, negatives: Counts) -> Hull:
    """Convex hull of the operating points by pooling adjacent violators.

    Args:
        positives: Rejected positives at each rung, ascending to their total.
        negatives: Rejected negatives at each rung, ascending to their total.

    Returns:
        The vertices; both columns start at 0.
    """
    new_positives, new_negatives = np.diff(positives, prepend=0), np.diff(negatives, prepend=0)
    trials = new_positives + new_negatives
    some = np.flatnonzero(trials > 0)
    weight = trials[some].astype(np.float64)
    pooled = isotonic_regression(new_positives[some] / weight, weights=weight)
    ends = some[pooled.blocks[1:] - 1]
    return Hull(
        np.concatenate([positives[:0], [0], positives[ends]]),
        np.concatenate([negatives[:0], [0], negatives[ends]]),
    )


def score_hull(positive: Floats, negative: Floats) -> Hull:
    """Convex hull of the operating points of scores in any order.

    The points at the ends of buckets of scores have a hull of their own. From one end to the next
    no point can be better than to have rejected all negatives of the bucket and none of its
    positives; where that is not below the hull the bucket holds no vertex. The scores of the other
    buckets, a small share, are sorted.

    Args:
        positive: Scores of the positives, at least one.
        negative: Scores of the negatives, at least one.

    Returns:
        The vertices.
    """
    few = positive.size + negative.size < _FEW
    buckets = None if few else overlap(positive, negative)
    if buckets is None:
        rungs = ladder(ascending(positive), ascending(negative))
        return hull(rungs.first, rungs.below[0])
    counts = buckets.counts(positive), buckets.counts(negative)
    ends = [np.concatenate([[0], np.cumsum(part)]) for part in counts]
    coarse = hull(*ends)
    wanted = _may_dip(coarse, ends[0][:-1], ends[1][1:]) & (counts[0] > 0) & (counts[1] > 0)
    inner = ascending(buckets.within(positive, wanted))
    rungs = ladder(inner, ascending(buckets.within(negative, wanted)))
    bucket = buckets.of(inner[rungs.first[:-1]])
    columns = []
    for vertices, ranks, part in zip(coarse, (rungs.first, *rungs.below), counts, strict=True):
        others = np.cumsum(np.where(wanted, 0, part))  # rejected before a bucket, not looked at
        columns.append(np.concatenate([vertices, ranks[:-1] + others[bucket]]))
    order = np.argsort(columns[0] + columns[1], kind="stable")
    return hull(columns[0][order], columns[1][order])


def _may_dip(vertices: Hull, positives: Ranks, negatives: Ranks) -> NDArray[np.bool_]:
    """Which operating points lie below a hull, in whole numbers: no rounding."""
    y, x = vertices.positives, vertices.positives + vertices.negatives
    trials = positives + negatives
    right = np.clip(np.searchsorted(x, trials), 1, x.size - 1)
    left = right - 1
    return (positives - y[left]) * (x[right] - x[left]) < (y[right] - y[left]) * (trials - x[left])


def hull_eer(vertices: Hull) -> float:
    """Where the hull meets FRR = FAR, a fraction."""
    return points_eer(vertices.positives, vertices.negatives)
