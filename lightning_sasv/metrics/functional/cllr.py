"""Cllr: the cost of log-likelihood ratios, its split, and its curve over the prior.

With natural log-likelihood ratios s of positives and of negatives, in bits,

    Cllr = 1/2 [ mean over pos of log2(1 + e^(-s)) + mean over neg of log2(1 + e^s) ].

Both classes count one half, whatever their numbers. A system that says nothing (s = 0) costs 1 bit.

    Cllr_min   = Cllr after the best increasing map of the scores: what discrimination lacks,
    Cllr_calib = Cllr - Cllr_min >= 0: what calibration lacks.

The best map gives each pool of :mod:`.pav` its own ratio x / y, x and y being the pool's shares of
the positives and of the negatives: Cllr_min = 1/2 sum [ x log2(1 + y/x) + y log2(1 + x/y) ], where
pure pools cost nothing. Brummer and du Preez, "Application-independent evaluation of speaker
detection", 2006. The paper's use: positives are targets, negatives are nontargets and spoofs pooled
by their counts.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lightning_sasv.checks import (
    ArrayLike,
    Floats,
    as_finite,
    as_scores,
    as_two_classes,
    blocks,
    check_same_length,
)
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.functional.pav import Hull, hull
from lightning_sasv.metrics.functional.points import (
    Detection,
    Steps,
    lumped,
    weighted_sum,
)


class CllrParts(NamedTuple):
    """Cllr and its two parts, in bits.

    Attributes:
        cllr: Cost of the log-likelihood ratios as they are.
        min: What remains after the best increasing map: the discrimination loss.
        calib: ``cllr - min``, never negative: the calibration loss.

    Example:
        >>> cllr_decomposition([0.0], [0.0])
        CllrParts(cllr=1.0, min=1.0, calib=0.0)
    """

    cllr: float
    min: float
    calib: float


class ECECurve(NamedTuple):
    """Empirical cross-entropy in bits over the prior.

    Attributes:
        log10_odds: log10 of the prior odds of a positive.
        ece: Cross-entropy of the log-likelihood ratios as they are.
        ece_min: After the best increasing map (pool adjacent violators).
        reference: Of the log-likelihood ratio 0: the entropy of the prior.

    Example:
        >>> ece_curve([1.0], [-1.0]).log10_odds.size
        81
    """

    log10_odds: Floats
    ece: Floats
    ece_min: Floats
    reference: Floats


def cllr(
    pos: ArrayLike,
    neg: ArrayLike,
    *,
    pos_weights: ArrayLike | None = None,
    neg_weights: ArrayLike | None = None,
) -> float:
    """Cost of log-likelihood ratios in bits, both classes counting one half.

    It does not overflow unless the sum of scores itself does (beyond 1e308). A positive of -inf or
    a negative of +inf makes it infinite, with a warning; the opposite infinities cost nothing.

    Args:
        pos: Natural log-likelihood ratios of the positives.
        neg: Natural log-likelihood ratios of the negatives.
        pos_weights: Weight of each positive in its mean; equal when absent.
        neg_weights: Weight of each negative in its mean. With weights ρ / S for the S spoofs and
            (1 - ρ) / N for the N nontargets the negatives are mixed as ρ asks.

    Returns:
        The cost in bits.

    Raises:
        InputError: An empty class, a NaN, labels for ``neg``, or weights that are negative or sum
            to zero.

    Example:
        >>> cllr([0.0, 0.0], [0.0])
        1.0
    """
    classes = as_two_classes(pos, neg, "cllr", "all_metrics")
    return _cost(
        *classes, _weights(pos_weights, classes[0], "pos"), _weights(neg_weights, classes[1], "neg")
    )


def cllr_decomposition(
    pos: ArrayLike,
    neg: ArrayLike,
    *,
    pos_weights: ArrayLike | None = None,
    neg_weights: ArrayLike | None = None,
) -> CllrParts:
    """Cllr, Cllr_min and Cllr_calib in bits; arguments and errors as for :func:`cllr`.

    Example:
        >>> cllr_decomposition([2.0, 1.0], [-2.0, -1.0]).min
        0.0
    """
    positive, negative = as_two_classes(pos, neg, "cllr_decomposition", "all_metrics")
    weights = _weights(pos_weights, positive, "pos"), _weights(neg_weights, negative, "neg")
    cost = _cost(positive, negative, *weights)
    return parts_of(cost, hull_cllr(_hull(positive, negative, *weights)))


def cllr_min(pos: ArrayLike, neg: ArrayLike) -> float:
    """Cllr in bits after the best increasing map of the scores (pool adjacent violators).

    Example:
        >>> cllr_min([3.0, 2.0], [2.5, 1.0])
        0.5
    """
    return hull_cllr(_hull(*as_two_classes(pos, neg, "cllr_min", "all_metrics")))


def ece_curve(pos: ArrayLike, neg: ArrayLike, log10_odds: ArrayLike | None = None) -> ECECurve:
    """Empirical cross-entropy of log-likelihood ratios over the prior, in bits.

    Ramos et al., "Deconstructing cross-entropy for probabilistic binary classifiers", 2018. With
    the prior π of a positive and o = log(π / (1 - π)),
    ECE(π) = π mean over pos of log2(1 + e^(-s-o)) + (1 - π) mean over neg of log2(1 + e^(s+o)).
    At π = 1/2 it is Cllr.

    Args:
        pos: Natural log-likelihood ratios of the positives.
        neg: Natural log-likelihood ratios of the negatives.
        log10_odds: Where to evaluate; 81 points from -2 to 2 by default.

    Returns:
        The curve, its minimum over increasing maps, and the reference.

    Raises:
        InputError: An empty class, a NaN, or labels for ``neg``.

    Example:
        >>> ece_curve([1.0, 2.0], [-1.0], [0.0]).reference
        array([1.])
    """
    positive, negative = as_two_classes(pos, neg, "ece_curve", "checks.by_class")
    grid = np.linspace(-2, 2, 81) if log10_odds is None else as_finite(log10_odds, "log10_odds")
    odds = grid * math.log(10)
    x, y = _hull(positive, negative).shares()
    llr = np.log(x) - np.log(y)
    curves = (
        [(_mean(positive_loss, positive, o), _mean(negative_loss, negative, o)) for o in odds],
        [(x @ positive_loss(llr + o), y @ negative_loss(llr + o)) for o in odds],
        np.stack([positive_loss(odds), negative_loss(odds)], axis=1),
    )
    prior = 2 ** -positive_loss(odds)
    shares = np.stack([prior, 1 - prior], axis=1)
    return ECECurve(
        grid, *((np.reshape(losses, (-1, 2)) * shares).sum(axis=1) for losses in curves)
    )


def positive_loss(scores: Floats) -> Floats:
    """Loss of each positive, log2(1 + e^(-s)), without overflow."""
    return negative_loss(-scores)


def negative_loss(scores: Floats) -> Floats:
    """Loss of each negative, log2(1 + e^s), without overflow."""
    loss = np.exp(-np.abs(scores))
    np.log1p(loss, out=loss)
    loss += np.maximum(scores, 0.0)
    with np.errstate(over="ignore"):
        loss /= math.log(2)
    return loss


def cllr_of(task: Detection) -> float:
    """Cllr of classes that are counted already; the losses are computed once for all weightings."""
    positive, *kinds = task.parts
    false = sum(kind.sum(negative_loss) for kind in kinds) / sum(kind.total for kind in kinds)
    return (positive.sum(positive_loss) / positive.total + false) / 2


def cllr_parts_of(task: Detection, cost: float) -> CllrParts:
    """The decomposition of classes that are counted already, with the Cllr ``cost``."""
    return parts_of(cost, hull_cllr(hull(*task.pooled)))


def hull_cllr(found: Hull) -> float:
    """Cllr of the log-likelihood ratios that pooling gives: Cllr_min."""
    return cllr_of_shares(*found.shares())


def cllr_of_shares(x: Floats, y: Floats) -> float:
    """½ Σ [x log2(1 + y/x) + y log2(1 + x/y)] of pools with shares x and y of the classes."""
    return float(np.sum(x * np.log2(1 + y / x) + y * np.log2(1 + x / y)) / 2)


def parts_of(cost: float, floor: float) -> CllrParts:
    """The decomposition; rounding cannot make ``calib`` negative."""
    return CllrParts(cost, floor, max(cost - floor, 0.0))


def warn_if_infinite(cost: float, positive: Floats, negative: Floats) -> None:
    """Say which scores make a Cllr infinite."""
    if math.isinf(cost):
        lost, false = (
            np.count_nonzero(positive == -math.inf),
            np.count_nonzero(negative == math.inf),
        )
        found = f"{lost} positive scores are -inf and {false} negative are +inf"
        huge = "the sum of the losses of huge scores is beyond 1e308"
        warnings.warn(f"Cllr is infinite: {found if lost + false else huge}", stacklevel=4)


def _cost(
    positive: Floats,
    negative: Floats,
    weight_pos: Floats | None = None,
    weight_neg: Floats | None = None,
) -> float:
    """Half the sum of the two classes' mean losses; infinite values are warned of."""
    cost = _mean(positive_loss, positive, 0.0, weight_pos)
    cost += _mean(negative_loss, negative, 0.0, weight_neg)
    warn_if_infinite(cost, positive, negative)
    return cost / 2


def _mean(
    loss: Callable[[Floats], Floats], scores: Floats, odds: float, weights: Floats | None = None
) -> float:
    """Mean loss of the scores at some prior log-odds, block by block."""
    total = 0.0
    for block in blocks(scores.size):
        shares = None if weights is None else weights[block]
        total += weighted_sum(loss(scores[block] + odds), shares)
    return total / (scores.size if weights is None else float(weights.sum()))


def _hull(
    positive: Floats,
    negative: Floats,
    weight_pos: Floats | None = None,
    weight_neg: Floats | None = None,
) -> Hull:
    if weight_pos is None and weight_neg is None:
        first = Steps(np.sort(positive))
        return hull(*Detection(first, lumped(negative, first.values[0])).pooled)
    parts = []
    for scores, weights in ((positive, weight_pos), (negative, weight_neg)):
        order = np.argsort(scores)
        parts.append(Steps(scores[order], None if weights is None else weights[order]))
    return hull(*Detection(*parts).pooled)


def _weights(weights: ArrayLike | None, scores: Floats, name: str) -> Floats | None:
    if weights is None:
        return None
    column = as_scores(weights, f"{name}_weights")
    check_same_length({name: scores, f"{name}_weights": column})
    if column.min() < 0 or not 0 < column.sum() < math.inf:
        raise InputError(
            f"{name}_weights must be finite, at least 0 and not all 0; "
            f"their minimum is {column.min()} and their sum {column.sum()}"
        )
    return column
