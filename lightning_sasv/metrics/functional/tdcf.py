"""Tandem detection cost of a countermeasure in front of a fixed verifier.

Two definitions are in use: the first, of ASVspoof 2019's challenge, and the ASV-constrained one of
Kinnunen et al., "Tandem assessment of spoofing countermeasures and automatic speaker
verification: fundamentals", 2020, which the challenges of 2021 and later use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from lightning_sasv.checks import (
    ArrayLike,
    Floats,
    UndefinedMetricError,
    as_labels,
    as_scores,
    as_trials,
    check_has_class,
    check_not_empty,
    check_same_length,
)
from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.functional.cheapest import cheapest_threshold
from lightning_sasv.metrics.functional.eer import eer_of_sorted
from lightning_sasv.metrics.functional.ladder import (
    Counts,
    Ladder,
    crossing,
)
from lightning_sasv.metrics.functional.sorting import ascending
from lightning_sasv.metrics.functional.unordered import Unordered
from lightning_sasv.trials import TrialClass

Version: TypeAlias = Literal["2019", "legacy"]
"""Which definition of the t-DCF; see :func:`t_dcf`."""


class ASVRates(NamedTuple):
    """Error rates of the verifier at its threshold.

    Attributes:
        miss: Targets rejected.
        fa_nontarget: Nontargets accepted.
        fa_spoof: Spoofs accepted.
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
    """

    min: float
    threshold: float
    asv_rates: ASVRates
    coefficients: tuple[float, float, float]


def t_dcf(
    asv: ArrayLike | None,
    cm: ArrayLike,
    labels: ArrayLike,
    costs: CostModel | str = "asvspoof5",
    *,
    version: Version = "2019",
    asv_rates: ASVRates | None = None,
) -> TDCF:
    """Minimum normalised tandem detection cost.

    - ``2019``: t-DCF(τ) = C0 + C1 Pmiss_cm(τ) + C2 Pfa_cm(τ), divided by C0 + min(C1, C2), with
      C0 = π_tar C_miss Pmiss_asv + π_non C_fa,non Pfa_asv, C1 = π_tar C_miss - C0 and
      C2 = π_spf C_fa,spf Pfa_asv,spf.
    - ``legacy``: t-DCF(τ) = C1 Pmiss_cm(τ) + C2 Pfa_cm(τ), divided by min(C1, C2), with
      C1 = π_tar (C_miss - C_miss Pmiss_asv) - π_non C_fa,non Pfa_asv and the same C2; the costs of
      a miss are the same for CM and ASV.

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
        InputError: An empty class, a NaN, neither scores nor rates of the verifier, or a verifier
            so poor that a weight becomes negative.
    """
    if version not in get_args(Version):
        names = ", ".join(get_args(Version))
        raise ValueError(f"unknown version {version!r}; expected one of {names}")
    scores, codes = as_scores(cm, "cm"), as_labels(labels)
    check_same_length({"cm": scores, "labels": codes})
    check_has_class(codes, TrialClass.SPOOF)
    genuine = [m for m in (TrialClass.TARGET, TrialClass.NONTARGET) if (codes == m.value).any()]
    check_not_empty(genuine, "bona fide (target or nontarget) trials")
    rates = asv_rates or _rates_at_eer(asv, labels)
    c0, c1, c2 = coefficients = tdcf_coefficients(rates, as_cost_model(costs), version)
    spoof = Unordered(scores, codes, (TrialClass.SPOOF,))
    best = cheapest_threshold(Unordered(scores, codes, genuine), [spoof], (c1, c2))
    return TDCF((c0 + best.cost) / (c0 + min(c1, c2)), best.threshold, rates, coefficients)


def tdcf_coefficients(
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


def verifier_rates(values: Sequence[Floats], totals: Sequence[Counts], rungs: Ladder) -> ASVRates:
    """Error rates of weighted trials at the verifier's EER threshold, accepting at the threshold.

    Args:
        values: Ascending scores of the targets, nontargets and spoofs.
        totals: For each, the summed weight of the first so many, from 0 to the total.
        rungs: Ladder of the targets against the nontargets.

    Returns:
        The rates.
    """
    at = crossing(totals[0].take(rungs.first), totals[1].take(rungs.below[0]))
    last = [
        float(part[np.searchsorted(total, count) - 1])
        for part, total, count in zip(values[:2], totals[:2], at[1:], strict=True)
        if count
    ]
    threshold = max(last, default=-float("inf"))  # nothing rejected: below every score
    miss, nontarget, spoof = (
        float(total[np.searchsorted(part, threshold)] / total[-1])
        for part, total in zip(values, totals, strict=True)
    )
    return ASVRates(miss, 1 - nontarget, 1 - spoof)


def _rates_at_eer(asv: ArrayLike | None, labels: ArrayLike) -> ASVRates:
    if asv is None:
        raise InputError("t_dcf needs the ASV scores (asv) or fixed error rates (asv_rates)")
    scores, codes = as_trials(asv, labels, "asv")
    order = (TrialClass.TARGET, TrialClass.NONTARGET, TrialClass.SPOOF)
    target, nontarget, spoof = (Unordered(scores, codes, (member,)) for member in order)
    threshold = eer_of_sorted(ascending(target.all()), nontarget).threshold
    below = [part.short_of(threshold) for part in (target, nontarget, spoof)]
    return ASVRates(
        below[0] / target.size,
        (nontarget.size - below[1]) / nontarget.size,
        (spoof.size - below[2]) / spoof.size,
    )
