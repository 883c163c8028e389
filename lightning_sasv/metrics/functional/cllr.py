"""Cost of log-likelihood ratios, and its split into discrimination and calibration.

Brümmer and du Preez, "Application-independent evaluation of speaker detection", 2006. The paper's
use: positives are targets, negatives are nontargets and spoofs pooled by their counts.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lightning_sasv.checks import (
    BLOCK,
    ArrayLike,
    Floats,
    as_scores,
    check_not_empty,
    check_same_length,
)
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.functional.ladder import ladder
from lightning_sasv.metrics.functional.pav import Hull, hull, score_hull


class CllrParts(NamedTuple):
    """Cllr and its two parts, in bits.

    Attributes:
        cllr: Cost of the log-likelihood ratios as they are.
        min: What remains after the best increasing map: the discrimination loss.
        calib: ``cllr - min``, never negative: the calibration loss.
    """

    cllr: float
    min: float
    calib: float


def cllr(
    pos: ArrayLike,
    neg: ArrayLike,
    *,
    pos_weights: ArrayLike | None = None,
    neg_weights: ArrayLike | None = None,
) -> float:
    """Cost of log-likelihood ratios in bits, both classes counting one half.

    Cllr = ½ [ mean over pos of log2(1 + e^(-s)) + mean over neg of log2(1 + e^s) ]. A constant
    zero costs 1 bit. It does not overflow, whatever the scores. A positive of -inf or a negative
    of +inf makes it infinite, with a warning; the opposite infinities cost nothing.

    Args:
        pos: Natural log-likelihood ratios of the positives.
        neg: Natural log-likelihood ratios of the negatives.
        pos_weights: Weight of each positive in its mean; equal when absent.
        neg_weights: Weight of each negative in its mean. With weights ρ / S for the S spoofs and
            (1 - ρ) / N for the N nontargets the negatives are mixed as ρ asks.

    Returns:
        The cost in bits.

    Raises:
        InputError: An empty class, a NaN, or weights that are negative or sum to zero.
    """
    positive, weight_pos = _class_of(pos, pos_weights, "pos")
    negative, weight_neg = _class_of(neg, neg_weights, "neg")
    return _cost(positive, weight_pos, negative, weight_neg)


def cllr_decomposition(
    pos: ArrayLike,
    neg: ArrayLike,
    *,
    pos_weights: ArrayLike | None = None,
    neg_weights: ArrayLike | None = None,
) -> CllrParts:
    """Cllr, Cllr_min and Cllr_calib in bits.

    Cllr_min is the Cllr of the scores after pooling adjacent violators (equal scores pooled), the
    best that any increasing map of the scores can reach. Arguments and errors as for :func:`cllr`.
    """
    positive, weight_pos = _class_of(pos, pos_weights, "pos")
    negative, weight_neg = _class_of(neg, neg_weights, "neg")
    cost = _cost(positive, weight_pos, negative, weight_neg)
    return parts_of(cost, _hull_of(positive, weight_pos, negative, weight_neg))


def cllr_min(pos: ArrayLike, neg: ArrayLike) -> float:
    """Cllr in bits after the best increasing map of the scores (pool adjacent violators)."""
    positive, negative = as_scores(pos, "pos"), as_scores(neg, "neg")
    check_not_empty(positive, "positive trials (pos)")
    check_not_empty(negative, "negative trials (neg)")
    return hull_cllr(_hull_of(positive, None, negative, None))


def positive_loss(scores: Floats) -> Floats:
    """Loss of each positive, log2(1 + e^(-s)), without overflow."""
    return negative_loss(-scores)


def negative_loss(scores: Floats) -> Floats:
    """Loss of each negative, log2(1 + e^s), without overflow."""
    loss = np.exp(-np.abs(scores))
    np.log1p(loss, out=loss)
    loss += np.maximum(scores, 0.0)
    loss /= math.log(2)
    return loss


def hull_cllr(vertices: Hull) -> float:
    """Cllr of the log-likelihood ratios that pooling gives, from the vertices of the hull.

    A pool with the share x of the positives and y of the negatives has the likelihood ratio x/y;
    it costs ½ [x log2(1 + y/x) + y log2(1 + x/y)], and nothing when it is pure.
    """
    x = np.diff(vertices.positives) / vertices.positives[-1]
    y = np.diff(vertices.negatives) / vertices.negatives[-1]
    mixed = (x > 0) & (y > 0)
    x, y = x[mixed], y[mixed]
    return float(np.sum(x * np.log2(1 + y / x) + y * np.log2(1 + x / y)) / 2)


def parts_of(cost: float, vertices: Hull) -> CllrParts:
    """The decomposition of a Cllr whose hull is known; rounding cannot make ``calib`` negative."""
    floor = hull_cllr(vertices)
    return CllrParts(cost, floor, max(cost - floor, 0.0))


def _cost(
    positive: Floats, weight_pos: Floats | None, negative: Floats, weight_neg: Floats | None
) -> float:
    """Half the sum of the two classes' mean losses; infinite values are warned of."""
    if positive.min() == -math.inf or negative.max() == math.inf:
        lost = int(np.count_nonzero(np.isneginf(positive)))
        false = int(np.count_nonzero(np.isposinf(negative)))
        warnings.warn(
            f"Cllr is infinite: {lost} positive scores are -inf and {false} negative are +inf",
            stacklevel=3,
        )
    means = _mean(positive_loss, positive, weight_pos), _mean(negative_loss, negative, weight_neg)
    return sum(means) / 2


def _mean(loss: Callable[[Floats], Floats], scores: Floats, weights: Floats | None) -> float:
    """Mean loss, summed block by block."""
    sums = []
    for start in range(0, scores.size, BLOCK):
        losses = loss(scores[start : start + BLOCK])
        if weights is not None:
            part = weights[start : start + BLOCK]
            losses = np.multiply(losses, part, out=np.zeros_like(losses), where=part > 0)
        sums.append(float(losses.sum()))
    return sum(sums) / (scores.size if weights is None else float(weights.sum()))


def _hull_of(
    positive: Floats, weight_pos: Floats | None, negative: Floats, weight_neg: Floats | None
) -> Hull:
    if weight_pos is None and weight_neg is None:
        return score_hull(positive, negative)
    order_pos, order_neg = np.argsort(positive), np.argsort(negative)
    rungs = ladder(positive[order_pos], negative[order_neg])
    columns = ((weight_pos, order_pos, rungs.first), (weight_neg, order_neg, rungs.below[0]))
    counts = []
    for weights, order, ranks in columns:
        ordered = np.ones(order.size) if weights is None else weights[order]
        counts.append(np.concatenate([[0.0], np.cumsum(ordered)])[ranks])
    return hull(counts[0], counts[1])


def _class_of(
    values: ArrayLike, weights: ArrayLike | None, name: str
) -> tuple[Floats, Floats | None]:
    scores = as_scores(values, name)
    check_not_empty(scores, f"{'positive' if name == 'pos' else 'negative'} trials ({name})")
    if weights is None:
        return scores, None
    column = as_scores(weights, f"{name}_weights")
    check_same_length({name: scores, f"{name}_weights": column})
    if column.min() < 0 or not 0 < column.sum() < math.inf:
        raise InputError(
            f"{name}_weights must be finite, at least 0 and not all 0; "
            f"their minimum is {column.min()} and their sum {column.sum()}"
        )
    return scores, column
