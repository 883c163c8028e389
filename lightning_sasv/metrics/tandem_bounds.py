"""Bounds of the tandem's metrics from counts of a verifier's and a countermeasure's scores.

t-DCF: the verifier's threshold lies in the bin where its error rates cross or the last occupied one
before it, so that C0 and C2 lie in a box; the cost is linear-fractional in them on either side of
C0 + C2 = C_miss π_tar, so its ends are at the corners and where that line meets the box. t-EER:
rates at the edges bound the path on which it lies (``tandem.bracket``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Floats, UndefinedMetricError
from lightning_sasv.decisions.costs import CostModel
from lightning_sasv.metrics.binned import BinnedClasses, Bounded, between
from lightning_sasv.metrics.functional.dcf import (
    ASVRates,
    Version,
    smallest_cost,
    t_dcf_coefficients,
)
from lightning_sasv.metrics.functional.points import Detection, operating_points
from lightning_sasv.metrics.functional.tandem import Tandem, bracket, closest_bracket, curves_at
from lightning_sasv.metrics.functional.teer import tandem_eer_of
from lightning_sasv.metrics.registry import Settings
from lightning_sasv.trials import TrialClass


def bounded_t_eer(name: str, ties: BinnedClasses) -> Bounded:
    """Bounds of the concurrent point, where one can exist."""
    tandem = Tandem(*ties.tandem())
    curves = curves_at(tandem, ties.once("points", tandem.points))
    low, high, certain = bracket(curves)
    found = ties.once("t-EER", lambda: tandem_eer_of(ties))
    if name == "t_eer_closest":
        if not certain:
            spans = [closest_bracket(curves), *([(low, high)] if low <= high else [])]
            low, high = min(span[0] for span in spans), max(span[1] for span in spans)
        return between(found.closest, low, high)
    if low > high:
        raise UndefinedMetricError("no concurrent point")
    if math.isnan(found.value) or not certain:  # it may exist in some orders within bins alone
        return Bounded(found.value, low, high, False)
    return between(found.value, low, high)


def bounded_t_dcf(
    ties: BinnedClasses, best: BinnedClasses, costs: CostModel, version: Version
) -> tuple[float, float]:
    """Smallest and largest t-DCF that verifiers in the box of their error rates give."""
    boxes = [t_dcf_coefficients(rates, costs, version) for rates in _corners(ties, costs)]
    low = min(
        (c0 + smallest_cost(best.task("cm"), (c1, c2))[0]) / (c0 + min(c1, c2))
        for c0, c1, c2 in boxes
    )
    positives, negatives = ties.task("cm").pooled
    miss = positives / positives[-1]
    accepted = (negatives[-1] - negatives) / negatives[-1]
    return low, float(_costs(boxes, miss, accepted).max(axis=0).min())


def _costs(boxes: Sequence[tuple[float, float, float]], miss: Floats, accepted: Floats) -> Floats:
    """t-DCF of each verifier at each operating point of the countermeasure."""
    return np.array([(c0 + c1 * miss + c2 * accepted) / (c0 + min(c1, c2)) for c0, c1, c2 in boxes])


def cheaper_tandems(
    ties: BinnedClasses, settings: Settings, legacy: bool
) -> dict[str, NDArray[np.bool_]]:
    """Bins on whose trials a t-DCF depends: where its threshold and its minimum can lie."""
    costs, asv, cm = settings.tandem_costs, ties.views["asv"], ties.views["cm"]
    lower, upper = _crossing(ties, ties.task("asv"))
    verifier = (asv.edges >= lower) & (asv.edges <= upper)
    bona_fide, spoof = cm.counts[1] + cm.counts[2], cm.counts[0]
    miss, rejected = (
        np.concatenate([[0], np.cumsum(part)]) / part.sum() for part in (bona_fide, spoof)
    )
    version: Version = "legacy" if legacy else "2019"
    try:
        boxes = [t_dcf_coefficients(rates, costs, version) for rates in _corners(ties, costs)]
    except UndefinedMetricError:
        return {"asv": verifier, "cm": np.ones(cm.edges.size, np.bool_)}
    best = float(_costs(boxes, miss, 1 - rejected).max(axis=0).min())
    corners = _costs(boxes, miss[:-1], 1 - rejected[1:]).min(axis=0)
    return {"asv": verifier, "cm": corners <= best * (1 + 1e-12)}


def _corners(ties: BinnedClasses, costs: CostModel) -> list[ASVRates]:
    """Verifiers at the corners of the box, and where C0 + C2 = C_miss π_tar meets its sides."""
    task, spoof = ties.task("asv"), ties.steps("asv", TrialClass.SPOOF)
    lower, upper = _crossing(ties, task)
    parts = *task.parts, spoof
    few = [float(part.below(lower) / part.total) for part in parts]
    many = [float(part.up_to(upper) / part.total) for part in parts]
    miss, nontarget = (few[0], many[0]), (1 - many[1], 1 - few[1])
    fa_spoof = 1 - many[2], 1 - few[2]
    found = [ASVRates(*corner) for corner in product(miss, nontarget, fa_spoof)]
    wm, wn, ws = costs.weight_miss, costs.weight_fa_nontarget, costs.weight_fa_spoof
    for m, n in product(miss, nontarget):  # C2 such that C1 = C2
        if ws and fa_spoof[0] <= (x := (wm - wm * m - wn * n) / ws) <= fa_spoof[1]:
            found.append(ASVRates(m, n, x))
    for s, m in product(fa_spoof, miss):
        if wn and nontarget[0] <= (x := (wm - wm * m - ws * s) / wn) <= nontarget[1]:
            found.append(ASVRates(m, x, s))
    for s, n in product(fa_spoof, nontarget):
        if wm and miss[0] <= (x := (wm - wn * n - ws * s) / wm) <= miss[1]:
            found.append(ASVRates(x, n, s))
    return found


def _crossing(ties: BinnedClasses, task: Detection) -> tuple[float, float]:
    """Start of the last bin before the one where FRR reaches FAR, and the end of that one."""
    points = operating_points(*task.parts)
    missed, rejected = points.rejected(*task.parts)
    P, N = (part.total for part in task.parts)
    crossed = missed.astype(np.float64) * N + rejected.astype(np.float64) * P >= float(P) * N
    at = int(np.argmax(crossed))
    upper = float(points.thresholds[at])
    if at < 2:
        return -math.inf, upper
    view = ties.views["asv"]
    lower = float(view.starts[np.searchsorted(view.edges, points.thresholds[at - 1])])
    return lower, upper
