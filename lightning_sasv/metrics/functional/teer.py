"""Tandem equal error rate of a verifier and a countermeasure used one after the other.

Kinnunen et al., "t-EER: parameter-free tandem evaluation of countermeasures and biometric
comparators", 2023. With the two decisions independent given the class, the tandem errs at the
rates

    miss   = Pmiss_cm + (1 - Pmiss_cm) Pmiss_asv
    fa_non = (1 - Pmiss_cm) Pfa_asv,non
    fa_spf = Pfa_cm Pfa_asv,spf

where the bona fide trials of the countermeasure are the targets and the nontargets. On the path
of a spoof share ρ, miss equals (1 - ρ) fa_non + ρ fa_spf; where fa_non equals fa_spf as well the
paths of all ρ meet: the concurrent t-EER.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from lightning_sasv.checks import (
    ArrayLike,
    Codes,
    Floats,
    as_labels,
    as_scores,
    check_has_class,
    check_same_length,
    select,
)
from lightning_sasv.metrics.functional.concurrent import (
    Meeting,
    Tandem,
    find_meeting,
    tandem_rates,
)
from lightning_sasv.metrics.functional.meeting_window import MANY, NoWindowError, meeting_near
from lightning_sasv.metrics.functional.sorting import ascending
from lightning_sasv.metrics.functional.steps import Steps
from lightning_sasv.metrics.functional.tandem import (
    closest_pair,
    curves_at,
    path_points,
    ratio_pair,
    thresholds_of,
)
from lightning_sasv.trials import TrialClass

Rule: TypeAlias = Literal["interpolated", "reference"]
"""How the t-EER is read off the finite set of threshold pairs; see :func:`t_eer`."""


_TAR, _NON, _SPF = TrialClass.TARGET, TrialClass.NONTARGET, TrialClass.SPOOF


class TandemEER(NamedTuple):
    """Concurrent tandem equal error rate.

    Attributes:
        value: The rate, a fraction; NaN where no concurrent point exists (``interpolated``).
        asv_threshold: ASV threshold of the pair that the rule chooses: next to the concurrent
            point, or, where none exists, closest to concurrency.
        cm_threshold: CM threshold of that pair; accept iff both scores exceed their thresholds.
        residual: Largest difference of the three tandem error rates at that pair.
        exists: Whether the curves have a point where the three rates are equal.
        closest: What a table can print in any case: ``value`` if the point exists, else the
            t-EER_ρ, (miss + (1 - ρ) fa_non + ρ fa_spf) / 2, at the pair closest to concurrency:
            that of the path of ρ (0.5 by default) with the smallest residual.
    """

    value: float
    asv_threshold: float
    cm_threshold: float
    residual: float
    exists: bool
    closest: float


class TandemPath(NamedTuple):
    """The ρ-path: for each ASV threshold, the CM threshold that balances the tandem.

    Attributes:
        value: t-EER_ρ at each ASV threshold.
        asv_threshold: ASV thresholds with a balancing CM threshold, ascending; -inf accepts all.
        cm_threshold: The balancing CM thresholds.
    """

    value: Floats
    asv_threshold: Floats
    cm_threshold: Floats


def t_eer(
    asv: ArrayLike,
    cm: ArrayLike,
    labels: ArrayLike,
    *,
    rule: Rule = "interpolated",
    rho: float = 0.5,
) -> TandemEER:
    """Concurrent t-EER, exact, in O(N log N).

    Rules:

    - ``interpolated``: error rates run straight between the operating points of distinct
      thresholds; the value is where the three tandem rates are equal, to machine precision.
      On the path miss = fa_non, 1 - Pmiss_cm = 1 / (1 + Pfa_non - Pmiss_asv), so that the
      condition fa_spf = fa_non is one equation along one monotone path. Without a root there is
      no concurrent point (the ASV scores already reject spoofs): the value is NaN, and the
      thresholds are those of ``closest``.
    - ``reference``: of the threshold pairs on the path of ρ, the one with the smallest
      abs(Pfa_non / Pfa_spf - Pfa_cm / (1 - Pmiss_cm)); the value is fa_spf there, even if no
      concurrent point exists (see ``exists``). Then the pair may be the end of the path where the
      verifier accepts everything, with a spurious rate near 0 and a residual near 2/3;
      ``closest`` does not suffer from that.

    Args:
        asv: ASV score of each trial.
        cm: CM score of each trial.
        labels: ``TrialClass`` codes or words.
        rule: Which of the rules above.
        rho: Share of spoofs among the negatives, in [0, 1]: the path on which ``reference`` and
            ``closest`` look. A concurrent point is the same for every ρ.

    Returns:
        The rate, the threshold pair and how far from concurrency it is.

    Raises:
        InputError: An empty class, a NaN, lengths that differ, an unknown rule, or ρ outside
            [0, 1].
    """
    check_rule(rule)
    _check_rho(rho)
    columns = check_pair(asv, cm, labels)
    if rule == "interpolated" and columns[2].size > MANY:
        with suppress(NoWindowError):
            near = meeting_near(*columns)
            if near is not None:
                return _interpolated(*near)
    tandem = tandem_of(*columns)
    meeting = find_meeting(tandem)
    if rule == "interpolated" and meeting is not None:
        return _interpolated(tandem, meeting)
    return _at_thresholds(tandem, rule, rho, meeting is not None)


def t_eer_path(
    asv: ArrayLike,
    cm: ArrayLike,
    labels: ArrayLike,
    rho: float = 0.5,
    *,
    rule: Rule = "interpolated",
) -> TandemPath:
    """t-EER along the path of one spoof share ρ.

    ASV thresholds whose miss rate alone reaches (1 - ρ) Pfa_non + ρ Pfa_spf have no balancing CM
    threshold and are left out.

    Args:
        asv: ASV score of each trial.
        cm: CM score of each trial.
        labels: ``TrialClass`` codes or words.
        rho: Share of spoofs among the negatives, in [0, 1].
        rule: ``interpolated`` balances on the straight line between neighbouring CM thresholds
            (``cm_threshold`` is the upper one); ``reference`` takes the CM threshold with the
            smallest difference of the two rates, and their mean.

    Returns:
        Values and thresholds, in ascending order of the ASV threshold.

    Raises:
        InputError: As for :func:`t_eer`, or ρ outside [0, 1].
    """
    check_rule(rule)
    _check_rho(rho)
    tandem = tandem_of(*check_pair(asv, cm, labels))
    grids = thresholds_of(tandem)
    columns = []
    for points in path_points(curves_at(tandem, *grids), rho):
        value, at_cm = points.interpolated() if rule == "interpolated" else points.nearest()
        columns.append((value, grids[0][points.asv], grids[1][at_cm]))
    return TandemPath(*(np.concatenate(parts) for parts in zip(*columns, strict=True)))


def check_rule(rule: str) -> None:
    """Raise a ``ValueError`` that lists the rules unless this is one of them."""
    if rule not in get_args(Rule):
        raise ValueError(f"unknown rule {rule!r}; expected one of {', '.join(get_args(Rule))}")


def _check_rho(rho: float) -> None:
    if not 0 <= rho <= 1:
        raise ValueError(f"rho must lie in [0, 1], got {rho}")


def check_pair(asv: ArrayLike, cm: ArrayLike, labels: ArrayLike) -> tuple[Floats, Floats, Codes]:
    """Both score columns and the labels, of one length and with every class present."""
    asv_scores, cm_scores = as_scores(asv, "asv"), as_scores(cm, "cm")
    codes = as_labels(labels)
    check_same_length({"asv": asv_scores, "cm": cm_scores, "labels": codes})
    for member in TrialClass:
        check_has_class(codes, member)
    return asv_scores, cm_scores, codes


def tandem_of(asv: Floats, cm: Floats, codes: Codes) -> Tandem:
    """The sorted scores of each class."""
    parts = [select(asv, codes, (member,)) for member in (_TAR, _NON, _SPF)]
    parts += [select(cm, codes, classes) for classes in ((_TAR, _NON), (_SPF,))]
    return Tandem(*(Steps(ascending(part)) for part in parts))


def _interpolated(tandem: Tandem, meeting: Meeting) -> TandemEER:
    asv = np.array(meeting.asv_thresholds)
    cm = _cm_neighbours(tandem, meeting.miss_cm)
    miss, nontarget, spoof = (rate[:, None] for rate in tandem_rates(tandem, asv))
    passed, fa_cm = tandem.bona_fide.over(cm), tandem.cm_spoof.over(cm)
    rates = np.broadcast_arrays(1 - passed + passed * miss, passed * nontarget, fa_cm * spoof)
    spread = np.ptp(np.stack(rates), axis=0)
    a, c = np.unravel_index(int(np.argmin(spread)), spread.shape)
    value, residual = meeting.value, float(spread[a, c])
    return TandemEER(value, float(asv[a]), float(cm[c]), residual, True, value)


def _cm_neighbours(tandem: Tandem, miss: float) -> Floats:
    """CM thresholds around a miss rate: all scores from the last rejected bona fide to the next."""
    values, spoof = tandem.bona_fide.values, tandem.cm_spoof.values
    upper, lower = tandem.bona_fide.around(np.array(miss))
    start = values[lower - 1] if lower > 0 else -math.inf
    stop = values[min(int(upper), values.size - 1)]
    between = spoof[np.searchsorted(spoof, start) : np.searchsorted(spoof, stop, side="right")]
    bona_fide = values[np.searchsorted(values, start) : np.searchsorted(values, stop, side="right")]
    return np.unique(np.concatenate([[start], bona_fide, between]))


def _at_thresholds(tandem: Tandem, rule: Rule, rho: float, exists: bool) -> TandemEER:
    """What the pairs of thresholds give: by the reference rule, or without a concurrent point."""
    grids = thresholds_of(tandem)
    curves = curves_at(tandem, *grids)
    closest = None if exists else closest_pair(curves, rho)
    pair = closest if closest and rule == "interpolated" else ratio_pair(curves, rho)
    rates = [float(rate) for rate in curves.rates(pair.asv, pair.cm)]
    value = rates[2] if rule == "reference" else math.nan
    at = float(grids[0][pair.asv]), float(grids[1][pair.cm])
    residual = max(rates) - min(rates)
    return TandemEER(value, *at, residual, exists, closest.mean if closest else value)
