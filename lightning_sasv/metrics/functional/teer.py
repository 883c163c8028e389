"""Tandem equal error rate (t-EER) of a verifier and a countermeasure used one after the other.

With the two decisions independent given the class, the tandem errs at the rates

    miss   = Pmiss_cm + (1 - Pmiss_cm) Pmiss_asv
    fa_non = (1 - Pmiss_cm) Pfa_asv,non
    fa_spf = Pfa_cm Pfa_asv,spf

where the bona fide trials of the countermeasure are the targets and the nontargets. On the path
of a spoof share ρ, miss = (1 - ρ) fa_non + ρ fa_spf; where fa_non = fa_spf as well, the paths of
all ρ meet: the concurrent t-EER = miss = fa_non = fa_spf. Kinnunen et al., "t-EER: parameter-free
tandem evaluation of countermeasures and biometric comparators", 2023.

Conventions (rules):

- ``interpolated``: error rates run straight between the operating points of distinct thresholds;
  the value is where the three rates are equal, to machine precision. On the path miss = fa_non,
  1 - Pmiss_cm = 1 / (1 + Pfa_non - Pmiss_asv), so that fa_spf = fa_non is one equation along one
  monotone path. Without a root there is no concurrent point (the ASV scores already reject
  spoofs): the value is NaN, and the thresholds are those of ``closest``.
- ``reference``: of the threshold pairs on the path of ρ, the one with the smallest
  abs(Pfa_non / Pfa_spf - Pfa_cm / (1 - Pmiss_cm)); the value is fa_spf there, even if no
  concurrent point exists (see ``exists``). Then the pair may be the end of the path where the
  verifier accepts everything, with a spurious rate near 0 and a residual near 2/3; ``closest``
  does not suffer from that.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from lightning_sasv.checks import (
    ArrayLike,
    Floats,
    as_labels,
    as_scores,
    check_has_class,
    check_known,
    check_same_length,
    real,
)
from lightning_sasv.metrics.functional.concurrent import (
    Meeting,
    around,
    find_meeting,
)
from lightning_sasv.metrics.functional.points import Classes, Points
from lightning_sasv.metrics.functional.tandem import (
    Tandem,
    closest_pair,
    curves_at,
    path_points,
    ratio_pair,
)
from lightning_sasv.trials import TrialClass

Rule: TypeAlias = Literal["interpolated", "reference"]
"""How the t-EER is read off the finite set of threshold pairs; see :func:`t_eer`."""


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

    Example:
        >>> t_eer([2.0, 1.0, 2.0], [1.0, 1.0, 0.0], ["target", "nontarget", "spoof"]).exists
        True
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

    Example:
        >>> path = t_eer_path([2.0, 1.0, 2.0], [1.0, 1.0, 0.0], ["target", "nontarget", "spoof"])
        >>> path.cm_threshold
        array([1., 0.])
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

    Args:
        asv: ASV score of each trial.
        cm: CM score of each trial.
        labels: ``TrialClass`` codes or words.
        rule: ``interpolated`` or ``reference``; see the top of this module.
        rho: Share of spoofs among the negatives, in [0, 1]: the path on which ``reference`` and
            ``closest`` look. A concurrent point is the same for every ρ.

    Returns:
        The rate, the threshold pair and how far from concurrency it is.

    Raises:
        InputError: An empty class, a NaN, or lengths that differ.
        ValueError: An unknown rule, or ρ outside [0, 1].

    Example:
        >>> t_eer([2.0, 1.0, 2.0], [1.0, 1.0, 0.0], ["target", "nontarget", "spoof"]).value
        0.0
    """
    check_known("rule", rule, Rule)
    _check_rho(rho)
    return tandem_eer_of(_classes_of(asv, cm, labels), rule, rho)


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
        InputError: As for :func:`t_eer`.
        ValueError: As for :func:`t_eer`.

    Example:
        >>> t_eer_path([2.0, 1.0, 2.0], [1.0, 1.0, 0.0], ["target", "nontarget", "spoof"]).value
        array([0.33333333, 0.        ])
    """
    check_known("rule", rule, Rule)
    _check_rho(rho)
    tandem = tandem_of(asv, cm, labels)
    points = tandem.points()
    path = path_points(curves_at(tandem, points), rho)
    value, at_cm = path.interpolated() if rule == "interpolated" else path.nearest()
    return TandemPath(value, points[0].thresholds[: value.size], points[1].thresholds[at_cm])


def meeting_of(classes: Classes) -> float:
    """Concurrent t-EER of the columns ``asv`` and ``cm``, NaN where none exists."""
    meeting = _meeting(classes)
    return math.nan if meeting is None else meeting.value


def tandem_eer_of(classes: Classes, rule: Rule = "interpolated", rho: float = 0.5) -> TandemEER:
    """:func:`t_eer` of the columns ``asv`` and ``cm``."""
    tandem, meeting = Tandem(*classes.tandem()), _meeting(classes)
    if rule == "interpolated" and meeting is not None:
        return at_meeting(tandem, meeting)
    points = classes.for_all_weights("points of the tandem", tandem.points)
    return at_thresholds(tandem, points, rule, rho, meeting is not None)


def _meeting(classes: Classes) -> Meeting | None:
    return classes.once("meeting", lambda: find_meeting(Tandem(*classes.tandem())))


def _check_rho(rho: float) -> None:
    if not 0 <= real("rho", rho) <= 1:
        raise ValueError(f"rho must lie in [0, 1], got {rho}")


def tandem_of(asv: ArrayLike, cm: ArrayLike, labels: ArrayLike) -> Tandem:
    """The sorted scores of each class, checked: of one length and with every class present."""
    return Tandem(*_classes_of(asv, cm, labels).tandem())


def _classes_of(asv: ArrayLike, cm: ArrayLike, labels: ArrayLike) -> Classes:
    columns, codes = {"asv": as_scores(asv, "asv"), "cm": as_scores(cm, "cm")}, as_labels(labels)
    check_same_length({**columns, "labels": codes})
    check_has_class(codes, *TrialClass)
    return Classes(columns, codes)


def at_meeting(tandem: Tandem, meeting: Meeting) -> TandemEER:
    """The pair of thresholds next to a concurrent point at which the rates differ least."""
    asv, (miss, nontarget, spoof) = meeting.asv_thresholds, meeting.asv_rates[..., None]
    cm, passed, fa_cm = _cm_neighbours(tandem, meeting.miss_cm)
    rates = np.broadcast_arrays(1 - passed + passed * miss, passed * nontarget, fa_cm * spoof)
    spread = np.ptp(np.stack(rates), axis=0)
    a, c = np.unravel_index(int(np.argmin(spread)), spread.shape)
    value, residual = meeting.value, float(spread[a, c])
    return TandemEER(value, float(asv[a]), float(cm[c]), residual, True, value)


def _cm_neighbours(tandem: Tandem, miss: float) -> tuple[Floats, Floats, Floats]:
    """CM thresholds around a miss rate: all scores from the last rejected bona fide to the next.

    Equal scores are rejected together; the next but one counts as well.

    Returns:
        The thresholds, and the shares of bona fide trials and of spoofs that they accept.
    """
    values, spoof = tandem.bona_fide.values, tandem.cm_spoof.values
    following = values[around(tandem.bona_fide, np.array(miss))[1]]
    below = np.searchsorted(values, following)
    up_to = np.searchsorted(values, following, side="right")
    start = values[below - 1] if below else -math.inf
    stop = values[min(int(up_to), values.size - 1)]
    between = spoof[np.searchsorted(spoof, start) : np.searchsorted(spoof, stop, side="right")]
    bona_fide = values[np.searchsorted(values, start) : np.searchsorted(values, stop, side="right")]
    cm = np.append(start, np.unique(np.concatenate([bona_fide, between])))
    passed, accepted = tandem.bona_fide.accepted(cm), tandem.cm_spoof.accepted(cm)
    if not below:
        passed[0] = accepted[0] = 1.0  # "accept all", below any score
    return cm, passed, accepted


def at_thresholds(
    tandem: Tandem, points: tuple[Points, Points], rule: Rule, rho: float, exists: bool
) -> TandemEER:
    """What the pairs of thresholds give: by the reference rule, or without a concurrent point."""
    curves = curves_at(tandem, points)
    closest = None if exists else closest_pair(curves, rho)
    pair = closest if closest and rule == "interpolated" else ratio_pair(curves, rho)
    rates = [float(rate) for rate in curves.rates(pair.asv, pair.cm)]
    value = rates[2] if rule == "reference" else math.nan
    at = float(points[0].thresholds[pair.asv]), float(points[1].thresholds[pair.cm])
    residual = max(rates) - min(rates)
    return TandemEER(value, *at, residual, exists, closest.mean if closest else value)
