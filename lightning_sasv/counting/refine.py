"""Exact values by a second look at the trials of few bins.

A metric depends on the order of trials only in the bins that can hold its answer: an equal error
rate in the bin where the rates cross, a smallest cost where the corner of a bin is cheaper than the
best edge, Cllr_min where a corner lies below the hull of the edges, metrics of the tandem where
their bounds allow. The trials of these bins are collected and sorted; all others stay at the edge
of their bin, and the same function as ever is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import starmap
from typing import TYPE_CHECKING, Any

import numpy as np

from lightning_sasv.checks import EmptyClassError, Floats, UndefinedMetricError
from lightning_sasv.counting.gathered import FEW, Gathered, Mask, gather, parted
from lightning_sasv.counting.views import view_of
from lightning_sasv.metrics.binned import (
    Binned,
    BinnedClasses,
    Bounded,
    View,
    multipliable,
)
from lightning_sasv.metrics.bounds import available, bounded, cheaper_tandems, crossing_bins
from lightning_sasv.metrics.functional.cllr import negative_loss, positive_loss
from lightning_sasv.metrics.functional.dcf import a_dcf_weights
from lightning_sasv.metrics.functional.pav import hull, may_dip
from lightning_sasv.metrics.functional.points import Steps
from lightning_sasv.metrics.functional.tandem import Tandem, curves_at, path_bounds
from lightning_sasv.metrics.registry import METRICS, Settings
from lightning_sasv.trials import TASKS, TrialClass

if TYPE_CHECKING:
    from lightning_sasv.counting.state import Counts

LARGE = 100_000_000
"""Above so many trials Cllr_min stays a bound unless it is asked for: too many bins may dip."""

MANY = 1_000_000
"""Above so many the t-EER's closest point is a bound where no concurrent point exists."""


def refined(
    counts: Counts,
    batches: Iterable[Mapping[str, Any]],
    settings: Settings,
    names: Sequence[str] | None = None,
    everything: bool = False,
) -> dict[str, Bounded]:
    """Metrics of a state whose trials are read again.

    Args:
        counts: The state.
        batches: The same trials in any order: ``labels`` and the columns of scores. What can be
            iterated several times is, where too many trials are needed at once.
        settings: Costs and conventions.
        names: These metrics alone.
        everything: Refine Cllr_min of more than :data:`LARGE` trials too.

    Returns:
        Exact values, and bounds where a metric was not refined.

    Raises:
        InputError: The batches are not the trials that were counted.
    """
    views = {name: view_of(column, counts.codes) for name, column in counts.columns.items()}
    wanted = list(names or available(views, settings))
    before = bounded(views, settings, wanted)
    size = sum(counts.trials.values())
    left = {"cllr_": size > LARGE and not everything, "t_eer_closest": size > MANY}
    refine = [name for name in before if not any(left[word] for word in left if word in name)]
    open_ = [name for name in refine if not before[name].exact]
    masks = _masks(views, settings, open_)
    while iter(batches) is not batches and _crowded(views, masks):  # they can be read again
        views = parted(counts, views, masks, batches)
        masks = _masks(views, settings, open_)
    trials = gather(counts, views, masks, batches)
    classes = RefinedClasses(views, masks, trials)
    found = {}
    for name, one in before.items():
        if one.exact or name not in refine:
            found[name] = one
            continue
        try:
            value = METRICS[name].function(classes, settings)
        except (EmptyClassError, UndefinedMetricError):
            continue
        found[name] = Bounded(value, value, value, True)
    if "t_eer_closest" in before and "t_eer" in found and found["t_eer"].exact:
        found["t_eer_closest"] = found["t_eer"]
    return found


class RefinedClasses(BinnedClasses):
    """Classes whose trials are known in some bins, and counted in the others."""

    def __init__(
        self,
        views: Mapping[str, View],
        masks: Mapping[str, Mask],
        trials: Mapping[str, Gathered],
    ) -> None:
        super().__init__(views, "ties")
        self._masks, self._trials = masks, trials

    def _steps(self, column: str, members: tuple[TrialClass, ...]) -> Steps:
        view, codes = self.views[column], [int(member) for member in members]
        own, times = self._trials[column].of(codes)
        counts = np.where(self._masks[column], 0, view.counts[codes].sum(axis=0))
        kept = np.flatnonzero(counts)
        values = np.concatenate([own, view.edges[kept]])
        weights = np.concatenate([times, counts[kept]])
        order = np.argsort(values, kind="stable")
        cuts = dict(zip(view.cuts, view.rejected[codes].sum(axis=0).tolist(), strict=True))
        loss = positive_loss if members[0] in TASKS[column].positive else negative_loss
        total = sum(view.losses[code] for code in codes)
        return Binned(values[order], weights[order], cuts, (loss, total))


def _masks(views: Mapping[str, View], settings: Settings, names: Sequence[str]) -> dict[str, Mask]:
    """Bins of each column whose trials must be known."""
    masks = {name: np.zeros(view.edges.size, np.bool_) for name, view in views.items()}
    ties = BinnedClasses(views, "ties")
    for name in names:
        if name.startswith(("t_eer", "min_t_dcf")):
            for column, mask in _tandem(name, ties, settings).items():
                masks[column] |= mask
            continue
        task = _task(name)
        column = TASKS[task].column
        masks[column] |= _bins_of(name, task, views[column], settings)
    return {name: mask & (views[name].starts < views[name].edges) for name, mask in masks.items()}


def _crowded(views: Mapping[str, View], masks: Mapping[str, Mask]) -> bool:
    """Whether more trials must be known than are kept as they come."""
    return any(views[name].counts[:, mask].sum() > FEW for name, mask in masks.items())


def _task(name: str) -> str:
    if name.endswith("_eer"):
        return name.removesuffix("_eer")
    first = name.partition("_")[0]
    return first if first in ("asv", "cm") else "sasv"


def _bins_of(name: str, task: str, view: View, settings: Settings) -> Mask:
    """Bins of the column of one task."""
    _, positive, negative = TASKS[task]
    p = multipliable(view.counts[[int(code) for code in positive]].sum(axis=0))
    kinds = [multipliable(view.counts[int(code)]) for code in negative]
    n = np.sum(kinds, axis=0)
    if name.endswith("_eer") and settings.convention != "rocch":
        return crossing_bins(p, n)
    if "cllr" in name or name.endswith("_eer"):
        found = hull(np.cumsum(p), np.cumsum(n))
        return may_dip(found, np.cumsum(p) - p, np.cumsum(n)) & (p > 0) & (n > 0)
    points: dict[str, list[tuple[float, ...]]] = {
        "sasv": [a_dcf_weights(settings.costs)],
        "cm": [settings.cm_weights],
        "asv": [(miss * c, fa * (1 - c)) for c, miss, fa in settings.asv_points],
    }
    masks = starmap(_cheaper, ((p, kinds, weights) for weights in points[task]))
    return np.logical_or.reduce(list(masks))


def _cheaper(p: Any, kinds: Sequence[Any], weights: tuple[float, ...]) -> Mask:
    """Bins whose corner costs less than the best edge."""
    miss = weights[0] * np.concatenate([[0], np.cumsum(p)]) / p.sum()
    accepted = np.zeros(miss.size)
    for weight, kind in zip(weights[1:], kinds, strict=True):
        accepted += weight * (1 - np.concatenate([[0], np.cumsum(kind)]) / kind.sum())
    best = float((miss + accepted).min())
    corner: Mask = miss[:-1] + accepted[1:] <= best * (1 + 1e-12)
    return corner


def _tandem(name: str, ties: BinnedClasses, settings: Settings) -> dict[str, Mask]:
    """Bins of the verifier and of the countermeasure that a tandem's metric depends on."""
    if name.startswith("min_t_dcf"):
        return cheaper_tandems(ties, settings, name.endswith("legacy"))
    edges = {column: ties.views[column].edges for column in ("asv", "cm")}
    if name == "t_eer_closest":
        return {column: np.ones(own.size, np.bool_) for column, own in edges.items()}
    tandem = Tandem(*ties.tandem())
    points = tandem.points()
    bounds = path_bounds(curves_at(tandem, points))
    asv, cm = points[0].thresholds, points[1].thresholds
    bins, (above, below) = bounds.possible(), bounds.cm
    first = np.minimum(above[bins], above[bins + 1])
    last = np.maximum(below[bins], below[bins + 1])
    return {
        "asv": _inside(edges["asv"], asv[bins], asv[bins + 1]),
        "cm": _inside(edges["cm"], cm[np.maximum(first - 1, 0)], cm[last]),
    }


def _inside(edges: Floats, above: Floats, upto: Floats) -> Mask:
    """Which bins lie in one of the ranges, each above a threshold and up to another."""
    change = np.zeros(edges.size + 1, np.intp)
    np.add.at(change, np.searchsorted(edges, above, side="right"), 1)
    np.add.at(change, np.searchsorted(edges, upto, side="right"), -1)
    return np.cumsum(change)[:-1] > 0
