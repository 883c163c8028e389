"""Bounds of metrics from counts: two calls of the same function.

The order of the trials within a bin is unknown, all else is known. The *optimistic* order puts each
bin's negatives before its positives, the *pessimistic* one the reverse; the operating points of all
possible orders lie between these two paths. Hence

    f(optimistic) <= f(exact) <= f(pessimistic)

for every minimal cost, for Cllr_min (a mean of such costs over priors) and for an equal error rate.
``asvspoof`` takes the lattice point next to the crossing, which is within 1 / (4 min(P, N)) of it:
its bounds are wider by twice that. Losses and costs at cuts are exact. The tandem's metrics:
:mod:`.tandem_bounds`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import EmptyClassError, UndefinedMetricError
from lightning_sasv.metrics.binned import BinnedClasses, Bounded, Order, View, between
from lightning_sasv.metrics.functional.dcf import Version
from lightning_sasv.metrics.functional.eer import rate_of
from lightning_sasv.metrics.registry import FULL, METRICS, Metric, Settings
from lightning_sasv.metrics.tandem_bounds import bounded_t_dcf, bounded_t_eer
from lightning_sasv.trials import TASKS

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
