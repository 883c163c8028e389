"""Curves: detection error trade-off, receiver operating characteristic, empirical cross-entropy."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lightning_sasv.checks import (
    BLOCK,
    ArrayLike,
    Floats,
    as_scores,
    check_not_empty,
)
from lightning_sasv.metrics.functional.pav import score_hull
from lightning_sasv.metrics.functional.sorting import ascending, merged
from lightning_sasv.metrics.functional.steps import Steps


class DETCurve(NamedTuple):
    """Error rates at every distinct threshold.

    Attributes:
        thresholds: -inf ("accept all"), then every distinct score; accept iff score > threshold.
        miss: Share of the positives rejected, from 0 to 1.
        false_acceptance: Share of the negatives accepted, from 1 to 0.
    """

    thresholds: Floats
    miss: Floats
    false_acceptance: Floats


class ROCCurve(NamedTuple):
    """Receiver operating characteristic at every distinct threshold.

    Attributes:
        false_positive: Share of the negatives accepted, from 0 to 1.
        true_positive: Share of the positives accepted, from 0 to 1.
        thresholds: Descending; the last, -inf, accepts all.
    """

    false_positive: Floats
    true_positive: Floats
    thresholds: Floats


class ECECurve(NamedTuple):
    """Empirical cross-entropy in bits over the prior.

    Attributes:
        log10_odds: log10 of the prior odds of a positive.
        ece: Cross-entropy of the log-likelihood ratios as they are.
        ece_min: After the best increasing map (pool adjacent violators).
        reference: Of the log-likelihood ratio 0: the entropy of the prior.
    """

    log10_odds: Floats
    ece: Floats
    ece_min: Floats
    reference: Floats


def det_curve(pos: ArrayLike, neg: ArrayLike) -> DETCurve:
    """Detection error trade-off; equal scores are rejected together.

    Args:
        pos: Scores that should be accepted.
        neg: Scores that should be rejected.

    Returns:
        One point per distinct score, and "accept all".

    Raises:
        InputError: An empty class or a NaN.
    """
    positive, negative = _two_classes(pos, neg)
    positives, negatives = Steps(ascending(positive)), Steps(ascending(negative))
    thresholds = np.concatenate([[-math.inf], merged(positives.values, negatives.values)])
    return DETCurve(
        thresholds,
        positives.curve(thresholds, accepted=False),
        negatives.curve(thresholds, accepted=True),
    )


def roc_curve(pos: ArrayLike, neg: ArrayLike) -> ROCCurve:
    """Receiver operating characteristic: the curve of :func:`det_curve` from the other end."""
    thresholds, miss, false_acceptance = det_curve(pos, neg)
    return ROCCurve(false_acceptance[::-1], (1 - miss)[::-1], thresholds[::-1])


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
        InputError: An empty class or a NaN.
    """
    positive, negative = _two_classes(pos, neg)
    grid = np.linspace(-2, 2, 81) if log10_odds is None else as_scores(log10_odds, "log10_odds")
    odds = grid * math.log(10)
    prior = np.exp(-_softplus(-odds))
    own = np.stack([_mean_losses(positive, odds, -1), _mean_losses(negative, odds, 1)], axis=1)
    vertices = score_hull(positive, negative)
    x = np.diff(vertices.positives) / vertices.positives[-1]
    y = np.diff(vertices.negatives) / vertices.negatives[-1]
    mixed = (x > 0) & (y > 0)
    x, y = x[mixed], y[mixed]
    llr = np.log(x) - np.log(y)
    best = [(x @ _softplus(-llr - o), y @ _softplus(llr + o)) for o in odds]
    bits = np.stack([prior, 1 - prior]) / math.log(2)
    reference = bits[0] * _softplus(-odds) + bits[1] * _softplus(odds)
    ece, ece_min = ((np.asarray(losses) * bits.T).sum(axis=1) for losses in (own, best))
    return ECECurve(grid, ece, ece_min, reference)


def _mean_losses(scores: Floats, odds: Floats, sign: int) -> Floats:
    """Mean of log(1 + e^(sign (s + o))) for each of the odds, summed block by block."""
    total = np.zeros(odds.size)
    for start in range(0, scores.size, BLOCK):
        block = sign * scores[start : start + BLOCK]
        total += [_softplus(block + o).sum() for o in sign * odds]
    return total / scores.size


def _softplus(x: Floats) -> Floats:
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0.0)


def _two_classes(pos: ArrayLike, neg: ArrayLike) -> tuple[Floats, Floats]:
    positive, negative = as_scores(pos, "pos"), as_scores(neg, "neg")
    check_not_empty(positive, "positive trials (pos)")
    check_not_empty(negative, "negative trials (neg)")
    return positive, negative
