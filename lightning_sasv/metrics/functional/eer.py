"""Equal error rates: one detection task, and the three of spoofing-aware verification.

A trial is accepted when its score is greater than the threshold. After rejecting i of P positives
and m of N negatives, FRR = i/P and FAR = (N - m)/N; the difference FRR - FAR grows with every
rejected score, so the crossing is found by bisection over the sorted positives. The negatives are
counted, never sorted.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from lightning_sasv.checks import (
    ArrayLike,
    Floats,
    as_scores,
    as_trials,
    check_not_empty,
    select,
)
from lightning_sasv.metrics.functional.crossing import Found, find_crossing
from lightning_sasv.metrics.functional.pav import hull_eer, score_hull
from lightning_sasv.metrics.functional.sorting import ascending
from lightning_sasv.metrics.functional.unordered import Unordered
from lightning_sasv.trials import TrialClass

Convention: TypeAlias = Literal["asvspoof", "interpolated", "max", "rocch"]
"""How the equal error rate is read off the finite set of operating points; see :func:`eer`."""


class EER(NamedTuple):
    """Equal error rate and its threshold.

    Attributes:
        value: The rate, a fraction.
        threshold: Score of the operating point; accept iff score > threshold.
    """

    value: float
    threshold: float


class SASVEERs(NamedTuple):
    """The three equal error rates of one spoofing-aware score.

    Attributes:
        sasv: Targets against nontargets and spoofs together.
        sv: Targets against nontargets.
        spf: Targets against spoofs.
        sasv_threshold: Threshold of ``sasv``.
        sv_threshold: Threshold of ``sv``.
        spf_threshold: Threshold of ``spf``.
    """

    sasv: float
    sv: float
    spf: float
    sasv_threshold: float
    sv_threshold: float
    spf_threshold: float


def eer(pos: ArrayLike, neg: ArrayLike, *, convention: Convention = "asvspoof") -> EER:
    """Equal error rate of a detection task, exact, without sorting the negatives.

    Conventions:

    - ``asvspoof``: the rule of the ASVspoof evaluation tools, which gives the published numbers.
      All scores are rejected one by one in ascending order, positives before negatives of the
      same score; at the first minimum of abs(FRR - FAR) the value is (FRR + FAR) / 2. Ties are
      thus counted against the system: if all scores are equal the value is 1.
    - ``interpolated``: equal scores are rejected together; the value is where the straight line
      between the two operating points on either side of FRR = FAR meets it.
    - ``max``: equal scores are rejected together; the smallest max(FRR, FAR) of all thresholds.
    - ``rocch``: the crossing of FRR = FAR with the convex hull of the operating points, which is
      the smallest EER that interpolation between thresholds can reach.

    Infinite scores are ordered like any other.

    Args:
        pos: Scores that should be accepted.
        neg: Scores that should be rejected.
        convention: Which of the rules above.

    Returns:
        The rate as a fraction, and the threshold. With ``asvspoof`` the threshold of "nothing
        rejected" is the smallest score minus 0.001; with ``interpolated`` and ``rocch`` it is the
        operating point on the side of the larger FRR.

    Raises:
        InputError: An empty class, a NaN, or an unknown convention.
    """
    check_convention(convention)
    positive, negative = as_scores(pos, "pos"), as_scores(neg, "neg")
    check_not_empty(positive, "positive trials (pos)")
    check_not_empty(negative, "negative trials (neg)")
    return eer_of_sorted(ascending(positive), Unordered(negative), convention)


def sasv_eers(
    scores: ArrayLike, labels: ArrayLike, *, convention: Convention = "asvspoof"
) -> SASVEERs:
    """SASV-EER, SV-EER and SPF-EER of one score per trial.

    The positives are the targets in all three. The negatives are nontargets and spoofs, pooled
    by their counts (SASV), nontargets (SV), or spoofs (SPF). The targets are sorted once.

    Args:
        scores: One score per trial; higher means "more like a target".
        labels: ``TrialClass`` codes or the words ``target``, ``nontarget``, ``spoof``.
        convention: See :func:`eer`.

    Returns:
        The three rates as fractions, and their thresholds.

    Raises:
        InputError: An empty class, a NaN, an unknown label, or lengths that differ.
    """
    check_convention(convention)
    array, codes = as_trials(scores, labels)
    target = ascending(select(array, codes, (TrialClass.TARGET,)))
    non, spf = TrialClass.NONTARGET, TrialClass.SPOOF
    tasks = ((non, spf), (non,), (spf,))
    found = [eer_of_sorted(target, Unordered(array, codes, task), convention) for task in tasks]
    return SASVEERs(*(one.value for one in found), *(one.threshold for one in found))


def check_convention(convention: str) -> None:
    """Raise a ``ValueError`` that lists the conventions unless this is one of them."""
    if convention not in get_args(Convention):
        names = ", ".join(get_args(Convention))
        raise ValueError(f"unknown convention {convention!r}; expected one of {names}")


def eer_of_sorted(
    positive: Floats, negative: Unordered, convention: Convention = "asvspoof"
) -> EER:
    """Equal error rate of ascending positives and unordered negatives, without checks.

    Args:
        positive: Positive scores in ascending order.
        negative: Negative scores in any order.
        convention: See :func:`eer`.

    Returns:
        The rate and the threshold.
    """
    crossing = find_crossing(positive, negative)
    if convention == "asvspoof":
        return _one_by_one(positive, negative, crossing)
    return _together(positive, negative, crossing, convention)


def _one_by_one(positive: Floats, negative: Unordered, crossing: Found) -> EER:
    P, N = positive.size, negative.size
    rank, rejected, by_negative = crossing
    before = (rank, rejected - 1) if by_negative else (rank, rejected)
    after = (rank, rejected) if by_negative else (rank + 1, rejected)
    gaps = [abs(i / P - (N - m) / N) for i, m in (before, after)]
    i, m = before if gaps[0] <= gaps[1] else after
    return EER((i / P + (N - m) / N) / 2, _last_rejected(positive, negative, i, m))


def _together(
    positive: Floats, negative: Unordered, crossing: Found, convention: Convention
) -> EER:
    """Equal scores rejected together: the two operating points around the crossing decide."""
    P, N = positive.size, negative.size
    rank, rejected, by_negative = crossing
    threshold = _last_rejected(positive, negative, rank + (not by_negative), rejected)
    if convention == "rocch":
        return EER(hull_eer(score_hull(positive, negative.all())), threshold)
    frr = [float(np.searchsorted(positive, threshold, side)) / P for side in ("left", "right")]
    far = [(N - negative.below(threshold)) / N, (N - negative.up_to(threshold)) / N]
    if convention == "max":
        worst = [max(pair) for pair in zip(frr, far, strict=True)]
        if worst[0] <= worst[1]:
            return EER(worst[0], _previous(positive, negative, threshold))
        return EER(worst[1], threshold)
    gap, overshoot = far[0] - frr[0], frr[1] - far[1]
    return EER(frr[0] + gap / (gap + overshoot) * (frr[1] - frr[0]), threshold)


def _last_rejected(positive: Floats, negative: Unordered, i: int, m: int) -> float:
    """Largest of the i smallest positives and the m smallest negatives.

    Args:
        positive: Positive scores in ascending order.
        negative: Negative scores, the window around the crossing.
        i: Rejected positives.
        m: Rejected negatives.
    """
    if i == 0 and m == 0:
        return _smallest(positive, negative) - 0.001
    floor = float(positive[i - 1]) if i > 0 else -math.inf
    if m == 0 or (i > 0 and m <= negative.below(floor)):
        return floor
    return negative.smallest(m)


def _smallest(positive: Floats, negative: Unordered) -> float:
    return float(min(positive[0], negative.all().min()))


def _previous(positive: Floats, negative: Unordered, value: float) -> float:
    """Largest score below a value; the smallest score minus 0.001 when there is none."""
    lower = [part[part < value] for part in (positive, negative.all())]
    found = [part.max() for part in lower if part.size]
    return float(max(found)) if found else float(value - 0.001)
