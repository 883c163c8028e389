"""Detection costs: weighted sums of error rates, at the best threshold and at the one asked for.

With the products w of cost and prior, accepting iff score > τ, each cost is normalised by that of
the better of "reject all" and "accept all":

    a-DCF(τ) = [ w_miss P_miss(τ) + w_non P_fa,non(τ) + w_spf P_fa,spf(τ) ]
               / min(w_miss, w_non + w_spf)
    DCF(τ)   = [ w_miss P_miss(τ) + w_spf P_fa(τ) ] / min(w_miss, w_spf), of a countermeasure
    t-DCF(τ) = [ C0 + C1 P_miss,cm(τ) + C2 P_fa,cm(τ) ] / [ C0 + min(C1, C2) ]

where the verifier's own errors are in C0, C1 and C2 (:func:`t_dcf`). *Minimum*: over τ = -inf and
every score, which the rungs of :mod:`.points` suffice for. *Actual*: at the threshold that costs
and priors ask of log-likelihood ratios, τ = -log(w_miss / sum of the other weights).

Shim et al., "a-DCF: an architecture agnostic metric with application to spoofing-robust speaker
verification", 2024; Kinnunen et al., "Tandem assessment of spoofing countermeasures and automatic
speaker verification: fundamentals", 2020.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import starmap
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from lightning_sasv.checks import (
    ArrayLike,
    UndefinedMetricError,
    as_labels,
    as_scores,
    as_threshold,
    as_trials,
    as_two_classes,
    check_known,
    check_same_length,
)
from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.functional.eer import threshold_of
from lightning_sasv.metrics.functional.points import (
    Classes,
    Detection,
    Steps,
    operating_points,
)
from lightning_sasv.trials import TrialClass

Version: TypeAlias = Literal["2019", "legacy"]
"""Which definition of the t-DCF; see :func:`t_dcf`."""


class DCF(NamedTuple):
    """Normalised detection cost.

    Attributes:
        min: Smallest cost over all thresholds.
        actual: Cost at the threshold that the costs and priors ask of log-likelihood ratios.
        threshold: A threshold of the smallest cost; accept iff score > threshold.

    Example:
        >>> cm_dcf([1.0], [0.0]).threshold
        0.0
    """

    min: float
    actual: float
    threshold: float


class ASVRates(NamedTuple):
    """Error rates of the verifier at its threshold.

    Attributes:
        miss: Targets rejected.
        fa_nontarget: Nontargets accepted.
        fa_spoof: Spoofs accepted.

    Example:
        >>> ASVRates(miss=0.02, fa_nontarget=0.02, fa_spoof=0.4).fa_spoof
        0.4
    """

    miss: float
    fa_nontarget: float
    fa_spoof: float


ASVSPOOF5_RATES = ASVRates(0.01880141010575793, 0.01881016557566423, 0.4607082907604729)
"""What the ASVspoof 5 evaluation assumes of the verifier when no ASV scores are given."""


class TDCF(NamedTuple):
    """Normalised tandem detection cost.

    Attributes:
        min: Smallest cost over all CM thresholds.
        threshold: A CM threshold of it; accept iff CM score > threshold.
        asv_rates: Error rates of the verifier that entered.
        coefficients: C0, C1 and C2; C0 is 0 for ``legacy``.

    Example:
        >>> labels = ["target", "nontarget", "spoof"]
        >>> t_dcf([2.0, 1.0, 2.0], [1.0, 1.0, 0.0], labels).asv_rates
        ASVRates(miss=0.0, fa_nontarget=1.0, fa_spoof=1.0)
    """

    min: float
    threshold: float
    asv_rates: ASVRates
    coefficients: tuple[float, float, float]


def a_dcf(
    scores: ArrayLike,
    labels: ArrayLike,
    costs: CostModel | str = "a-dcf1",
    *,
    threshold: float | None = None,
) -> DCF:
    """Architecture-agnostic detection cost, minimum and actual.

    The actual cost takes the score for log p(s|target) / p(s|not target), the negatives mixed by
    their costs and priors.

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

    Example:
        >>> a_dcf([4.0, 3.0, -2.0, -1.0], ["target", "target", "nontarget", "spoof"])
        DCF(min=0.0, actual=0.0, threshold=-1.0)
    """
    array, codes = as_trials(scores, labels)
    threshold = None if threshold is None else as_threshold(threshold)
    task = Classes({"sasv": array}, codes).task("sasv")
    return dcf_of(task, a_dcf_weights(as_cost_model(costs)), threshold)


class MacroDCF(NamedTuple):
    """Mean detection cost over the parts of a test set, each counting the same.

    Attributes:
        mean: Mean of the smallest costs of the parts, each at its own threshold.
        common: Smallest mean of the costs at one threshold for all parts.
        threshold: A threshold of that; accept iff score > threshold.

    Example:
        >>> MacroDCF(mean=0.1, common=0.2, threshold=0.0).common
        0.2
    """

    mean: float
    common: float
    threshold: float


def macro_a_dcf(
    parts: Sequence[tuple[ArrayLike, ArrayLike]], costs: CostModel | str = "a-dcf1"
) -> MacroDCF:
    """Macro a-DCF: (1/K) Σ_k min_τ a-DCF_k(τ), and with one τ for all K parts.

    Args:
        parts: Scores and labels of each part.
        costs: Costs and priors, or the name of a preset.

    Returns:
        The two costs, and the threshold of the second.

    Raises:
        InputError: No part, an empty class in one, a NaN, or a cost model without any cost to
            normalise by.

    Example:
        >>> labels = ["target", "nontarget", "spoof"]
        >>> macro_a_dcf([([3.0, 1.0, 0.0], labels), ([2.0, 3.0, 0.0], labels)], "equal").mean
        0.5
    """
    if not parts:
        raise InputError("a macro a-DCF needs parts")
    weights = a_dcf_weights(as_cost_model(costs))
    tasks = [Classes({"sasv": a}, codes).task("sasv") for a, codes in starmap(as_trials, parts)]
    own = [dcf_of(task, weights).min for task in tasks]
    parts_of_all = [part for task in tasks for part in task.parts]
    points = operating_points(*parts_of_all)
    total = np.zeros(points.thresholds.size)
    for k, rejected in enumerate(points.rejected(*parts_of_all)):
        kind, whole = k % len(weights), rejected[-1]
        total += weights[kind] * ((whole - rejected if kind else rejected) / whole)
    at = int(np.argmin(total))
    common = float(total[at]) / (len(tasks) * normaliser(weights))
    return MacroDCF(sum(own) / len(own), common, float(points.thresholds[at]))


def cm_dcf(pos: ArrayLike, neg: ArrayLike, costs: CostModel | str = "asvspoof5") -> DCF:
    """Detection cost of a countermeasure, as in the ASVspoof 5 evaluation.

    Args:
        pos: Scores of bona fide trials.
        neg: Scores of spoofed trials.
        costs: Costs and priors, or the name of a preset; the priors of the two bona fide classes
            are added.

    Returns:
        The costs, normalised, and the threshold of the minimum.

    Raises:
        InputError: An empty class, a NaN, labels for ``neg``, or a cost model without any cost to
            normalise by.

    Example:
        >>> cm_dcf([4.0, 3.0], [-2.0, -1.0]).min
        0.0
    """
    parts = as_two_classes(pos, neg, "cm_dcf", "all_metrics")
    task = Detection(*(Steps(np.sort(part)) for part in parts))
    return dcf_of(task, cm_dcf_weights(as_cost_model(costs)))


def t_dcf(
    asv: ArrayLike | None,
    cm: ArrayLike,
    labels: ArrayLike,
    costs: CostModel | str = "asvspoof5",
    *,
    version: Version = "2019",
    asv_rates: ASVRates | None = None,
) -> TDCF:
    """Minimum normalised tandem detection cost of a countermeasure in front of a fixed verifier.

    - ``2019`` (ASV-constrained, challenges of 2021 and later):
      C0 = π_tar C_miss Pmiss_asv + π_non C_fa,non Pfa_asv, C1 = π_tar C_miss - C0 and
      C2 = π_spf C_fa,spf Pfa_asv,spf.
    - ``legacy`` (ASVspoof 2019's challenge): the same C1 and C2, but C0 = 0; the costs of a miss
      are the same for CM and ASV.

    The ASV threshold is that of its EER, targets against nontargets (``asvspoof`` convention). As
    in the challenges' tools a trial at that very threshold counts as accepted by the verifier.

    Args:
        asv: ASV score of each trial; may be ``None`` when ``asv_rates`` are given.
        cm: CM score of each trial; bona fide are the targets and the nontargets.
        labels: ``TrialClass`` codes or words.
        costs: Costs and priors, or the name of a preset; those of ASVspoof 2019 to 5 by default.
        version: Which definition.
        asv_rates: Fixed error rates of the verifier, instead of those of ``asv``.

    Returns:
        The cost, its CM threshold, and what it was made of.

    Raises:
        InputError: An empty class, a NaN, neither scores nor rates of the verifier, rates outside
            [0, 1], or a verifier so poor that a weight becomes negative.
        ValueError: An unknown version.

    Example:
        >>> labels = ["target", "nontarget", "spoof"]
        >>> round(t_dcf(None, [2.0, 1.0, 0.0], labels, asv_rates=ASVSPOOF5_RATES).min, 6)
        0.077934
    """
    check_known("version", version, Version)
    columns, codes = {"cm": as_scores(cm, "cm")}, as_labels(labels)
    check_same_length({**columns, "labels": codes})
    if asv_rates is None:
        if asv is None:
            raise InputError("t_dcf needs the ASV scores (asv) or fixed error rates (asv_rates)")
        columns["asv"], _ = as_trials(asv, codes, "asv")
    elif not all(0 <= rate <= 1 for rate in asv_rates):
        raise InputError(f"asv_rates must lie in [0, 1], got {tuple(asv_rates)}")
    classes = Classes(columns, codes)
    task = classes.task("cm")
    return t_dcf_of(task, asv_rates or rates_at_eer(classes), as_cost_model(costs), version)


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


def smallest_cost(task: Detection, weights: tuple[float, ...]) -> tuple[float, int]:
    """Smallest weighted sum of error rates, and the first rung that has it."""
    positives, *negatives = task.counts
    cost = positives * (weights[0] / task.parts[0].total)
    for weight, counts in zip(weights[1:], negatives, strict=True):
        cost += (counts[-1] - counts) * (weight / counts[-1])
    rung = int(np.argmin(cost))
    return float(cost[rung]), rung


def cost_at(task: Detection, weights: tuple[float, ...], threshold: float) -> float:
    """Weighted sum of the error rates at a threshold."""
    positive, *kinds = task.parts
    cost = weights[0] * float(positive.up_to(threshold) / positive.total)
    for weight, kind in zip(weights[1:], kinds, strict=True):
        cost += weight * float((kind.total - kind.up_to(threshold)) / kind.total)
    return cost


def cheapest_threshold(task: Detection, rung: int) -> float:
    """Largest score that a rung rejects; -inf if it rejects none."""
    rejected = zip(task.parts, task.counts, strict=True)
    return max((p.value(n[rung]) for p, n in rejected if n[rung]), default=-math.inf)


def dcf_of(task: Detection, weights: tuple[float, ...], threshold: float | None = None) -> DCF:
    """Detection cost of classes that are counted already."""
    scale = normaliser(weights)
    cost, rung = smallest_cost(task, weights)
    at = bayes_threshold(weights) if threshold is None else threshold
    actual = cost_at(task, weights, at)
    return DCF(cost / scale, actual / scale, cheapest_threshold(task, rung))


def verifier_rates(task: Detection, spoof: Steps) -> ASVRates:
    """Error rates of a verifier at its EER threshold, accepting at the threshold.

    Args:
        task: Its targets against its nontargets.
        spoof: Its spoofs.
    """
    threshold = threshold_of(task)
    target, *others = *task.parts, spoof
    accepted = (float((part.total - part.below(threshold)) / part.total) for part in others)
    return ASVRates(float(target.below(threshold) / target.total), *accepted)


def rates_at_eer(classes: Classes) -> ASVRates:
    """:func:`verifier_rates` of the column ``asv``, computed once."""
    spoof = classes.steps("asv", TrialClass.SPOOF)
    return classes.once("rates at EER", lambda: verifier_rates(classes.task("asv"), spoof))


def t_dcf_coefficients(
    rates: ASVRates, costs: CostModel, version: Version
) -> tuple[float, float, float]:
    """C0, C1 and C2 of a t-DCF; see :func:`t_dcf`."""
    c0 = costs.weight_miss * rates.miss + costs.weight_fa_nontarget * rates.fa_nontarget
    c1, c2 = costs.weight_miss - c0, costs.weight_fa_spoof * rates.fa_spoof
    if version == "legacy":
        c0 = 0.0
    if c1 < 0 or c2 < 0 or c0 + min(c1, c2) <= 0:
        raise UndefinedMetricError(
            f"the t-DCF is undefined for C0={c0:.6g}, C1={c1:.6g}, C2={c2:.6g} "
            f"(ASV error rates {tuple(rates)}): they must not be negative nor all vanish"
        )
    return c0, c1, c2


def t_dcf_of(task: Detection, rates: ASVRates, costs: CostModel, version: Version) -> TDCF:
    """Tandem detection cost of a countermeasure whose classes are counted already."""
    c0, c1, c2 = coefficients = t_dcf_coefficients(rates, costs, version)
    cost, rung = smallest_cost(task, (c1, c2))
    value = (c0 + cost) / (c0 + min(c1, c2))
    return TDCF(value, cheapest_threshold(task, rung), rates, coefficients)
