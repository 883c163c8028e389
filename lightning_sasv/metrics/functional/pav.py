"""Pool adjacent violators: the best increasing map of scores to probabilities, and the ROC hull.

In ascending order of the scores, isotonic regression of the labels is the greatest convex minorant
of the points (rejected trials, rejected positives), and its vertices lie on the rungs of the
ladder: anywhere else the next score adds no positive, so the slope cannot grow there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

from lightning_sasv.metrics.functional._checks import Floats
from lightning_sasv.metrics.functional.ladder import Counts, ladder, points_eer


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
    """Convex hull of the operating points of ascending positive and negative scores."""
    rungs = ladder(positive, negative)
    return hull(rungs.first, rungs.below[0])


def hull_eer(vertices: Hull) -> float:
    """Where the hull meets FRR = FAR, a fraction."""
    return points_eer(vertices.positives, vertices.negatives)
