"""Equal error rate: the error rate at the threshold where both kinds of error are equally frequent.

With i of P positives and m of N negatives rejected by a threshold (accept iff score > threshold),

    FRR = i / P,    FAR = (N - m) / N,    EER = FRR = FAR.

A finite number of trials rarely has a threshold where the two are equal. The conventions differ in
what they take instead:

- ``asvspoof``: the rule of the ASVspoof evaluation tools, which gives the published numbers. All
  scores are rejected one by one in ascending order, positives before negatives of the same score;
  at the first minimum of abs(FRR - FAR) the value is (FRR + FAR) / 2. Ties are thus counted
  against the system: if all scores are equal the value is 1.
- ``interpolated``: equal scores are rejected together; the value is where the straight line between
  the two operating points on either side of FRR = FAR meets it.
- ``max``: equal scores are rejected together; the smallest max(FRR, FAR) of all thresholds.
- ``rocch``: where FRR = FAR meets the convex hull of the operating points, which is the smallest
  EER that interpolation between thresholds can reach.

FRR - FAR grows with every rejected trial, so the crossing is found by bisection over the rungs of
:mod:`.points`, in whole numbers: i N + m P >= P N.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from lightning_sasv.checks import ArrayLike, as_threshold, as_two_classes, by_class, check_known
from lightning_sasv.metrics.functional.pav import hull
from lightning_sasv.metrics.functional.points import (
    Counts,
    Detection,
    Steps,
    in_place,
    lumped,
)

_FEW = 2048  # positives whose rungs are counted faster together than one by one

Convention: TypeAlias = Literal["asvspoof", "interpolated", "max", "rocch"]
"""How the equal error rate is read off the finite set of operating points; see :func:`eer`."""


class EER(NamedTuple):
    """Equal error rate and its threshold.

    Attributes:
        value: The rate, a fraction.
        threshold: Score of the operating point; accept iff score > threshold.

    Example:
        >>> eer([2.0], [1.0]).threshold
        1.0
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

    Example:
        >>> sasv_eers([2.0, 3.0, 0.0], ["target", "nontarget", "spoof"]).sv
        1.0
    """

    sasv: float
    sv: float
    spf: float
    sasv_threshold: float
    sv_threshold: float
    spf_threshold: float


def eer(pos: ArrayLike, neg: ArrayLike, *, convention: Convention = "asvspoof") -> EER:
    """Equal error rate of a detection task, exact.

    Infinite scores are ordered like any other.

    Args:
        pos: Scores that should be accepted.
        neg: Scores that should be rejected.
        convention: ``asvspoof``, ``interpolated``, ``max`` or ``rocch``; see the top of this
            module.

    Returns:
        The rate as a fraction, and the threshold. With ``asvspoof`` the threshold of "nothing
        rejected" is the smallest score minus 0.001; with ``interpolated`` and ``rocch`` it is the
        operating point on the side of the larger FRR.

    Raises:
        InputError: An empty class, a NaN, or labels for ``neg``.
        ValueError: An unknown convention.

    Example:
        >>> eer([3.0, 2.0, 1.0, 4.0], [0.0, 1.5, -1.0, -2.0])
        EER(value=0.25, threshold=1.0)
    """
    check_known("convention", convention, Convention)
    positive, negative = as_two_classes(pos, neg, "eer", "sasv_eers")
    target = Steps(np.sort(positive))
    return eer_of(Detection(target, lumped(negative, target.values[0])), convention)


def sasv_eers(
    scores: ArrayLike, labels: ArrayLike, *, convention: Convention = "asvspoof"
) -> SASVEERs:
    """SASV-EER, SV-EER and SPF-EER of one score per trial.

    The positives are the targets in all three. The negatives are nontargets and spoofs, pooled
    by their counts (SASV), nontargets (SV), or spoofs (SPF). Each class is sorted once.

    Args:
        scores: One score per trial; higher means "more like a target".
        labels: ``TrialClass`` codes or the words ``target``, ``nontarget``, ``spoof``.
        convention: See :func:`eer`.

    Returns:
        The three rates as fractions, and their thresholds.

    Raises:
        InputError: An empty class, a NaN, an unknown label, or lengths that differ.

    Example:
        >>> sasv_eers([2.0, 1.0, 0.0], ["target", "nontarget", "spoof"]).sasv
        0.0
    """
    check_known("convention", convention, Convention)
    targets, *negatives = by_class(scores, labels)
    target = in_place(targets)
    task = Detection(target, *(lumped(kind, target.values[0], own=True) for kind in negatives))
    found = [eer_of(one, convention) for one in (task, task.against(1), task.against(2))]
    return SASVEERs(*(one.value for one in found), *(one.threshold for one in found))


class HTER(NamedTuple):
    """Half total error rates of one spoofing-aware score at a threshold.

    Attributes:
        pooled: ½ [P_miss + P_fa], nontargets and spoofs pooled by their counts in P_fa.
        macro: The same with P_fa = ½ [P_fa,non + P_fa,spf].

    Example:
        >>> HTER(pooled=0.1, macro=0.2).macro
        0.2
    """

    pooled: float
    macro: float


def hter(scores: ArrayLike, labels: ArrayLike, threshold: float) -> HTER:
    """HTER(τ) = ½ [P_miss(τ) + P_fa(τ)] at a threshold that is given, as from another corpus.

    At the EER threshold of the trials themselves the pooled one is their EER, so that HTER − EER is
    the price of a threshold that was carried over.

    Args:
        scores: One score per trial; accept iff score > threshold.
        labels: ``TrialClass`` codes or the words ``target``, ``nontarget``, ``spoof``.
        threshold: The threshold.

    Raises:
        InputError: An empty class, a NaN, an unknown label, or lengths that differ.

    Example:
        >>> hter([2.0, 1.0, 0.0, 3.0], ["target", "nontarget", "spoof", "spoof"], 0.5)
        HTER(pooled=0.3333333333333333, macro=0.375)
    """
    parts = map(in_place, by_class(scores, labels))
    return hter_of(Detection(*parts), as_threshold(threshold))


def hter_of(task: Detection, threshold: float) -> HTER:
    """Half total error rates of classes that are counted already."""
    target, *kinds = task.parts
    miss = float(target.up_to(threshold) / target.total)
    accepted = [float(kind.total - kind.up_to(threshold)) for kind in kinds]
    shares = [count / kind.total for count, kind in zip(accepted, kinds, strict=True)]
    pooled = sum(accepted) / sum(kind.total for kind in kinds)
    return HTER((miss + pooled) / 2, (miss + sum(shares) / len(shares)) / 2)


def eer_of(task: Detection, convention: Convention = "asvspoof") -> EER:
    """Equal error rate and threshold of classes that are counted already."""
    return EER(rate_of(task, convention), threshold_of(task, convention))


def rate_of(task: Detection, convention: Convention = "asvspoof") -> float:
    """Equal error rate of classes that are counted already."""
    P, N = _totals(task)
    if convention == "asvspoof":
        i, m = _nearest(task)
        return (i / P + (N - m) / N) / 2
    if convention == "rocch":
        return _hull_rate(*hull(*task.pooled))
    (x, y), (v, w) = _rates_around(task)
    return min(y, v) if convention == "max" else _meet(x, y, v, w)


def threshold_of(task: Detection, convention: Convention = "asvspoof") -> float:
    """Threshold of the equal error rate of classes that are counted already."""
    counts = _nearest(task) if convention == "asvspoof" else _around(task)[1]
    if convention == "max":
        (_, y), (v, _) = _rates_around(task)
        if y <= v:  # of the two operating points the lower is the better
            score = task.last_rejected(*counts)
            counts = task.parts[0].below(score), sum(k.below(score) for k in task.parts[1:])
    if not any(counts):
        return min(float(part.values[0]) for part in task.parts) - 0.001
    return task.last_rejected(*counts)


def _totals(task: Detection) -> tuple[int, int]:
    return task.parts[0].total, sum(part.total for part in task.parts[1:])


def _around(task: Detection) -> tuple[tuple[int, int], tuple[int, int]]:
    """Rejected positives and negatives before and after FRR >= FAR, rejecting one by one.

    From one rung to the next the equal positives go first, then the negatives; within either run
    the first point with FRR >= FAR follows from the counts. Python's integers do not overflow.
    """
    P, N = _totals(task)
    i, m = _before_crossing(task, P, N)
    if i * N + m * P < P * N:  # the positives alone do not suffice: a negative makes the crossing
        m = -(-N * (P - i) // P)
        return (i, m - 1), (i, m)
    i = -(-P * (N - m) // N)
    return (i - 1, m), (i, m)


def _before_crossing(task: Detection, P: int, N: int) -> tuple[int, int]:
    """Positives rejected at the first rung with FRR >= FAR, negatives at the rung before it."""
    number = task.parts[0].values.size
    if number < _FEW:  # all rungs at once
        positives, negatives = task.pooled
        place = int((positives * N + negatives * P).searchsorted(P * N))
        return positives[place].item(), negatives[place - 1].item() if place else 0

    def crossed(place: int) -> bool:
        i, m = task.rejected(place)
        return i * N + m * P >= P * N

    place = bisect_left(range(number), True, key=crossed)
    return task.rejected(place)[0], task.rejected(place - 1)[1] if place else 0


def _nearest(task: Detection) -> tuple[int, int]:
    """The first minimum of abs(FRR - FAR): one of the two points around the crossing."""
    P, N = _totals(task)
    before, after = _around(task)
    gaps = [abs(i / P - (N - m) / N) for i, m in (before, after)]
    return before if gaps[0] <= gaps[1] else after


def _rates_around(task: Detection) -> tuple[tuple[float, float], tuple[float, float]]:
    """(FRR, FAR) before and after the score of the crossing, equal scores rejected together."""
    P, N = _totals(task)
    score = task.last_rejected(*_around(task)[1])
    below = [part.below(score) for part in task.parts]
    up_to = [part.up_to(score) for part in task.parts]
    before, after = ((float(x[0] / P), float((N - sum(x[1:])) / N)) for x in (below, up_to))
    return before, after


def _meet(x: float, y: float, v: float, w: float) -> float:
    """Where the straight line from (FRR, FAR) = (x, y) to (v, w) meets FRR = FAR."""
    return x + (y - x) / ((y - x) + (v - w)) * (v - x)


def _hull_rate(positives: Counts, negatives: Counts) -> float:
    """Where the hull meets FRR = FAR."""
    frr = positives / positives[-1]
    far = (negatives[-1] - negatives) / negatives[-1]
    after = int((frr >= far).argmax())
    return _meet(float(frr[after - 1]), float(far[after - 1]), float(frr[after]), float(far[after]))
