"""Bounds of metrics from counts: two calls of the same function.

The order of the trials within a bin is unknown, all else is known. The *optimistic* order puts each
bin's negatives before its positives, the *pessimistic* one the reverse; the operating points of all
possible orders lie between these two paths. Hence

    f(optimistic) <= f(exact) <= f(pessimistic)

for every minimal cost, for Cllr_min (a mean of such costs over priors) and for an equal error rate.
``asvspoof`` takes the lattice point next to the crossing, which is within 1 / (4 min(P, N)) of it:
its bounds are wider by twice that. Losses and costs at cuts are exact.

t-DCF: the verifier's threshold lies in the bin where its error rates cross or the last occupied one
before it, so that C0 and C2 lie in a box; the cost is linear-fractional in them on either side of
C0 + C2 = C_miss π_tar, so its ends are at the corners and where that line meets the box. t-EER:
rates at the edges bound the path on which it lies (``tandem.bracket``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import EmptyClassError, Floats, UndefinedMetricError
from lightning_sasv.decisions.costs import CostModel
from lightning_sasv.metrics.binned import BinnedClasses, Bounded, Order, View, between
from lightning_sasv.metrics.functional.dcf import (
    ASVRates,
    Version,
    smallest_cost,
    t_dcf_coefficients,
)
from lightning_sasv.metrics.functional.eer import rate_of
from lightning_sasv.metrics.functional.points import Detection, operating_points
from lightning_sasv.metrics.functional.tandem import Tandem, bracket, closest_bracket, curves_at
from lightning_sasv.metrics.functional.teer import tandem_eer_of
from lightning_sasv.metrics.registry import FULL, METRICS, Metric, Settings
from lightning_sasv.trials import TASKS, TrialClass

_OF_COLUMN = ("cllr", "cllr_min", "cllr_calib")
GIVEN = {
    *(f"{task}_eer" for task in TASKS),
    *_OF_COLUMN,
    *("min_a_dcf", "act_a_dcf", "t_eer", "t_eer_closest", "min_t_dcf", "min_t_dcf_legacy"),
    *(
        f"{column}_{name}"
        for column in ("asv", "cm")
        for name in (*_OF_COLUMN, "min_dcf", "act_dcf")
    ),
}
"""Metrics that are functions of the counts and of which bounds are proven."""


def available(views: Mapping[str, object], settings: Settings) -> list[str]:
    """Metrics that counts of some columns give; of t-EERs those that are interpolated."""
    given = GIVEN if settings.t_eer_rule == "interpolated" else GIVEN - {"t_eer"}
    return [
        metric.name
        for metric in METRICS.values()
        if metric.name in given and metric.needs(settings) <= views.keys()
    ]


def bounded(
    views: Mapping[str, View], settings: Settings, names: Sequence[str]
) -> dict[str, Bounded]:
    """Metrics of what is known of each column; NaN bounds where only the value is undefined."""
    orders: tuple[Order, ...] = ("ties", "optimistic", "pessimistic")
    ties, *ends = (BinnedClasses(views, order) for order in orders)
    found = {}
    for name in names:
        try:
            found[name] = _bounded(METRICS[name], ties, ends, settings)
        except (EmptyClassError, UndefinedMetricError):
            continue
    return found


def _bounded(
    metric: Metric, ties: BinnedClasses, ends: Sequence[BinnedClasses], settings: Settings
) -> Bounded:
    if metric.name in ("t_eer", "t_eer_closest"):
        return bounded_t_eer(metric.name, ties)
    if metric.name.startswith("min_t_dcf") and settings.asv_rates is None:
        version: Version = "legacy" if metric.name.endswith("legacy") else "2019"
        try:
            low, high = bounded_t_dcf(ties, ends[0], settings.tandem_costs, version)
            return between(metric.function(ties, settings), low, high)
        except UndefinedMetricError:  # of some verifiers in the box; of the others it is a share
            return Bounded(math.nan, 0.0, 1.0, False)
    value = metric.function(ties, settings)
    low, high = sorted(metric.function(end, settings) for end in ends)
    if metric.unit == "rate" and settings.convention == "asvspoof":
        slack = _slack(metric.name.removesuffix("_eer"), ends)
        low, high = max(low - slack, 0.0), min(high + slack, 1.0)
    return between(value, low, high)


def _slack(task: str, ends: Sequence[BinnedClasses]) -> float:
    """How far the lattice points of ``asvspoof`` may lie beyond both ends.

    Where both paths meet FRR = FAR in one point all orders share the lattice points around it.
    """
    first, second = (end.task(task) for end in ends)
    if rate_of(first, "interpolated") == rate_of(second, "interpolated"):
        return 0.0
    return 1 / (2 * min(first.parts[0].total, sum(part.total for part in first.parts[1:])))


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


def crossing_bins(positives: NDArray[np.int64], negatives: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The bin in which FRR reaches FAR."""
    found = np.zeros(positives.size, np.bool_)
    P, N = float(positives.sum()), float(negatives.sum())
    found[np.argmax(np.cumsum(positives) * N + np.cumsum(negatives) * P >= P * N)] = True
    return found


def range_text(name: str, low: float, high: float, value: float | None = None) -> str:
    """Bounds as people read them: one number where they do not differ in print.

    Example:
        >>> range_text("sasv_eer", 0.01, 0.02), range_text("sasv_eer", 0.01, 0.01)
        ('1.0000…2.0000', '1.0000')
    """
    metric = METRICS[name]
    texts = metric.text(low, FULL), metric.text(high, FULL)
    if texts[0] != texts[1]:
        return "…".join(texts)
    return texts[0] if value is None else metric.text(value, FULL)


Ends: TypeAlias = tuple[tuple[float, float], tuple[float, float]]
"""Between which values the lower and the upper end of an interval lie."""


def ends_text(name: str, ends: Ends) -> str:
    """Both ends of an interval, each with its bounds where these differ in print.

    Example:
        >>> ends_text("sasv_eer", ((0.011, 0.011), (0.014, 0.0141)))
        '1.1000, 1.4000…1.4100'
    """
    return ", ".join(range_text(name, *end) for end in ends)


def bounded_text(name: str, one: Bounded, ends: Ends | None = None) -> str:
    """A metric as people read it: a value, or bounds where they differ in print; its interval.

    Example:
        >>> one = Bounded(0.0125, 0.01249, 0.0126, False)
        >>> bounded_text("sasv_eer", one, ((0.011, 0.011), (0.014, 0.014)))
        '1.2490…1.2600 [1.1000, 1.4000]'
    """
    text = range_text(name, one.low, one.high, one.value)
    if ends is None or math.isnan(ends[0][0]):
        return text
    return f"{text} [{ends_text(name, ends)}]"
