"""Detection costs: the architecture-agnostic a-DCF of three classes, and the DCF of a CM.

Shim et al., "a-DCF: an architecture agnostic metric with application to spoofing-robust speaker
verification", 2024.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from lightning_sasv.checks import (
    ArrayLike,
    as_scores,
    as_trials,
    check_not_empty,
)
from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.functional.cheapest import cheapest_threshold
from lightning_sasv.metrics.functional.unordered import Unordered
from lightning_sasv.trials import TrialClass


class DCF(NamedTuple):
    """Normalised detection cost.

    Attributes:
        min: Smallest cost over all thresholds.
        actual: Cost at the threshold that the costs and priors ask of log-likelihood ratios.
        threshold: A threshold of the smallest cost; accept iff score > threshold.
    """

    min: float
    actual: float
    threshold: float


def a_dcf(
    scores: ArrayLike,
    labels: ArrayLike,
    costs: CostModel | str = "a-dcf1",
    *,
    threshold: float | None = None,
) -> DCF:
    """Architecture-agnostic detection cost, minimum and actual.

    a-DCF(τ) = [C_miss π_tar P_miss(τ) + C_fa,non π_non P_fa,non(τ) + C_fa,spf π_spf P_fa,spf(τ)]
    / min(C_miss π_tar, C_fa,non π_non + C_fa,spf π_spf). The minimum is over τ = -inf ("accept
    all") and every score. The actual cost takes the score for log p(s|target) / p(s|not target),
    the negatives mixed by their costs and priors, and accepts iff it exceeds
    -log[C_miss π_tar / (C_fa,non π_non + C_fa,spf π_spf)].

    Args:
        scores: One score per trial.
        labels: ``TrialClass`` codes or words.
        costs: Costs and priors, or the name of a preset; the authors' own by default.
        threshold: Another threshold for the actual cost, for scores that are no log-likelihood
            ratios (0.5 for sigmoid scores).

    Returns:
        The costs, normalised, and the threshold of the minimum.

    Raises:
        InputError: An empty class, a NaN, or a cost model without any cost to normalise by.
    """
    array, codes = as_trials(scores, labels)
    weights = a_dcf_weights(as_cost_model(costs))
    order = (TrialClass.TARGET, TrialClass.NONTARGET, TrialClass.SPOOF)
    at = bayes_threshold(weights) if threshold is None else threshold
    return _dcf([Unordered(array, codes, (member,)) for member in order], weights, at)


def cm_dcf(pos: ArrayLike, neg: ArrayLike, costs: CostModel | str = "asvspoof5") -> DCF:
    """Detection cost of a countermeasure, as in the ASVspoof 5 evaluation.

    DCF(τ) = [C_miss (1 - π_spf) P_miss(τ) + C_fa,spf π_spf P_fa(τ)] / min of the two weights.

    Args:
        pos: Scores of bona fide trials.
        neg: Scores of spoofed trials.
        costs: Costs and priors, or the name of a preset; the priors of the two bona fide classes
            are added.

    Returns:
        The costs, normalised, and the threshold of the minimum.

    Raises:
        InputError: An empty class, a NaN, or a cost model without any cost to normalise by.
    """
    positive, negative = as_scores(pos, "pos"), as_scores(neg, "neg")
    check_not_empty(positive, "positive trials (pos)")
    check_not_empty(negative, "negative trials (neg)")
    weights = cm_dcf_weights(as_cost_model(costs))
    classes = [Unordered(positive), Unordered(negative)]
    return _dcf(classes, weights, bayes_threshold(weights))


def a_dcf_weights(costs: CostModel) -> tuple[float, float, float]:
    """Weights of the miss rate and of the acceptance of nontargets and spoofs."""
    return costs.weight_miss, costs.weight_fa_nontarget, costs.weight_fa_spoof


def cm_dcf_weights(costs: CostModel) -> tuple[float, float]:
    """Weights of the countermeasure's miss rate and false-acceptance rate."""
    return costs.c_miss * (1 - costs.p_spoof), costs.weight_fa_spoof


def normaliser(weights: tuple[float, ...]) -> float:
    """Cost of the better of "reject all" and "accept all"."""
    default = min(weights[0], sum(weights[1:]))
    if default <= 0:
        raise InputError(
            f"a detection cost needs positive costs and priors on both sides, got weights {weights}"
        )
    return default


def bayes_threshold(weights: tuple[float, ...]) -> float:
    """Threshold that costs and priors ask of log-likelihood ratios."""
    normaliser(weights)
    return -math.log(weights[0] / sum(weights[1:]))


def _dcf(classes: Sequence[Unordered], weights: tuple[float, ...], threshold: float) -> DCF:
    """Costs of the positives, which come first, and one or two kinds of negatives."""
    scale = normaliser(weights)
    best = cheapest_threshold(classes[0], classes[1:], weights)
    rejected = [part.rejected(threshold) for part in classes]
    actual = weights[0] * rejected[0] / classes[0].size
    for weight, part, count in zip(weights[1:], classes[1:], rejected[1:], strict=True):
        actual += weight * (part.size - count) / part.size
    return DCF(best.cost / scale, actual / scale, best.threshold)
