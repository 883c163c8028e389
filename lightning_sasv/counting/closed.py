"""Bounds of many replicates at once, in closed form.

With the rates at the edges of the bins, FRR and FAR, and a crossing in the bin (k − 1, k],

    max(FRR[k−1], FAR[k]) <= EER <= min(FRR[k], FAR[k−1]),

wider by 1 / (4 min(P, N)) for ``asvspoof``, whose lattice point is as near to the crossing. A cost
w · (miss, false acceptance) is at least that of the corner (miss[k−1], fa[k]) within the bin, and
every edge is a threshold. Cllr_min lies between that of the hull of the corners and of the edges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Floats
from lightning_sasv.metrics.binned import View
from lightning_sasv.metrics.functional.cllr import cllr_of_shares
from lightning_sasv.metrics.functional.dcf import (
    a_dcf_weights,
    bayes_threshold,
    normaliser,
)
from lightning_sasv.metrics.functional.eer import Convention
from lightning_sasv.metrics.functional.pav import FEW, pooled
from lightning_sasv.metrics.registry import Settings
from lightning_sasv.trials import TASKS, TrialClass

_MANY = 30
Ends: TypeAlias = tuple[Floats, Floats, Floats]
"""Value on the grid, least and greatest value of each replicate."""


class Block:
    """One column in some replicates.

    Args:
        bins: Smallest and largest score of each bin.
        cuts: Thresholds at which the counts are exact.
        counts: Trials of each class (in code order) in each bin, (3, replicates, bins).
        rejected: Trials of each class that each cut rejects, (3, replicates, cuts).
        losses: Sum of the losses of each class in bits, (3, replicates).
    """

    def __init__(
        self,
        bins: tuple[Floats, Floats],
        cuts: tuple[float, ...],
        counts: Floats,
        rejected: NDArray[np.int64],
        losses: Floats,
    ) -> None:
        below = np.zeros((*counts.shape[:2], counts.shape[2] + 1))
        np.cumsum(counts, axis=2, out=below[:, :, 1:])
        self._bins, self._cuts = bins, cuts
        self._below, self._rejected, self._losses = below, rejected, losses

    def view(self, replicate: int) -> View:
        """What is known in one replicate."""
        counts = np.diff(self._below[:, replicate], axis=1).astype(np.int64)
        known = self._rejected[:, replicate], self._losses[:, replicate].tolist()
        return View(*self._bins, counts, self._cuts, *known)

    def parts(self, task: str, pooled: bool = True) -> list[Floats]:
        """Rejected trials at the edges: positives, then negatives (of each kind)."""
        _, positive, negative = TASKS[task]
        groups = [positive, negative] if pooled else [positive, *((kind,) for kind in negative)]
        return [self._sum(self._below, group) for group in groups]

    def exact(self, task: str, cut: float) -> list[Floats] | None:
        """Share of each class (of the negatives: each kind) that a cut rejects, if it is known."""
        if cut not in self._cuts:
            return None
        _, positive, negative = TASKS[task]
        at = self._rejected[:, :, self._cuts.index(cut)]
        groups = positive, *((kind,) for kind in negative)
        totals = (self._sum(self._below, group)[:, -1] for group in groups)
        return [self._sum(at, group) / n for group, n in zip(groups, totals, strict=True)]

    def mean_loss(self, task: str) -> Floats:
        """Cllr in bits."""
        _, *groups = TASKS[task]
        totals = (self._sum(self._below, group)[:, -1] for group in groups)
        means = [
            self._sum(self._losses, group) / n for group, n in zip(groups, totals, strict=True)
        ]
        return (means[0] + means[1]) / 2

    @staticmethod
    def _sum(values: NDArray[Any], group: Sequence[TrialClass]) -> Floats:
        found: Floats = values[int(group[0])]
        for member in group[1:]:
            found = found + values[int(member)]
        return found


def eers(positive: Floats, negative: Floats, convention: Convention) -> Ends:
    """Equal error rates from rejected trials at the edges, (replicates, edges)."""
    P, N = positive[:, -1:], negative[:, -1:]
    rejected = positive * N
    rejected += negative * P
    after = np.argmax(rejected >= P * N, axis=1)[:, None]
    around = after - 1, after
    frr = [np.take_along_axis(positive, at, 1)[:, 0] / P[:, 0] for at in around]
    far = [(N - np.take_along_axis(negative, at, 1))[:, 0] / N[:, 0] for at in around]
    low, high = np.maximum(frr[0], far[1]), np.minimum(frr[1], far[0])
    gap = (far[0] - frr[0]) + (frr[1] - far[1])
    value = frr[0] + (far[0] - frr[0]) / gap * (frr[1] - frr[0])
    if convention == "max":
        value = high
    if convention == "asvspoof":
        slack = 1 / (4 * np.minimum(P, N)[:, 0])
        low, high = np.maximum(low - slack, 0.0), np.minimum(high + slack, 1.0)
    return np.clip(value, low, high), low, high


def smallest_costs(parts: Sequence[Floats], weights: Sequence[float]) -> Ends:
    """Smallest normalised costs from rejected trials at the edges."""
    miss = parts[0] * (weights[0] / parts[0][:, -1:])
    accepted = np.zeros_like(miss)
    for weight, part in zip(weights[1:], parts[1:], strict=True):
        accepted += (part[:, -1:] - part) * (weight / part[:, -1:])
    high = (miss + accepted).min(axis=1)
    low = np.minimum((miss[:, :-1] + accepted[:, 1:]).min(axis=1), high)
    scale = normaliser(tuple(weights))
    return high / scale, low / scale, high / scale


def cllr_mins(positive: Floats, negative: Floats) -> Ends:
    """Cllr after the best increasing map, from rejected trials at the edges."""
    low, high = np.zeros(len(positive)), np.zeros(len(positive))
    p, n = (np.diff(part, axis=1) / part[:, -1:] for part in (positive, negative))
    none = np.zeros((len(p), 1))
    corners = np.hstack([none, p]), np.hstack([n, none])
    few = FEW if len(p) < _MANY else 0  # many replicates are worth the import
    for found, (x, y) in ((high, (p, n)), (low, corners)):
        for k in np.flatnonzero(positive[:, -1] * negative[:, -1]):
            found[k] = _pooled_cllr(x[k], y[k], few)
    return high, low, high


def _pooled_cllr(x: Floats, y: Floats, few: int) -> float:
    """Cllr of pools, from the shares of both classes in bins."""
    some = np.flatnonzero(x + y)
    x, y = x[some], y[some]
    begin = pooled(x, y, few)[:-1]
    x, y = np.add.reduceat(x, begin), np.add.reduceat(y, begin)
    mixed = np.flatnonzero(x * y)
    return cllr_of_shares(x[mixed], y[mixed])


def _eer(task: str) -> Callable[[Block, Settings], Ends | None]:
    def find(block: Block, settings: Settings) -> Ends | None:
        if settings.convention == "rocch":
            return None
        positive, negative = block.parts(task)
        return eers(positive, negative, settings.convention)

    return find


def _cllr(task: str, part: str) -> Callable[[Block, Settings], Ends | None]:
    def find(block: Block, _: Settings) -> Ends:
        cost = block.mean_loss(task)
        if part == "cllr":
            return cost, cost, cost
        positive, negative = block.parts(task)
        value, low, high = cllr_mins(positive, negative)
        if part == "min":
            return value, low, high
        value, low, high = (np.maximum(cost - end, 0.0) for end in (value, high, low))
        return value, low, high

    return find


def _dcf(task: str, part: str) -> Callable[[Block, Settings], Ends | None]:
    def find(block: Block, settings: Settings) -> Ends | None:
        points: dict[str, list[tuple[float, ...]]] = {
            "sasv": [a_dcf_weights(settings.costs)],
            "cm": [settings.cm_weights],
            "asv": [(miss * p, fa * (1 - p)) for p, miss, fa in settings.asv_points],
        }
        parts, found = block.parts(task, pooled=False), []
        for weights in points[task]:
            smallest = part == "min"
            one = smallest_costs(parts, weights) if smallest else _actual(block, task, weights)
            if one is None:
                return None
            found.append(one)
        value, low, high = (np.mean(ends, axis=0) for ends in zip(*found, strict=True))
        return value, low, high

    return find


def _actual(block: Block, task: str, weights: tuple[float, ...]) -> Ends | None:
    rejected = block.exact(task, bayes_threshold(weights))
    if rejected is None:
        return None
    cost = weights[0] * rejected[0]
    for weight, share in zip(weights[1:], rejected[1:], strict=True):
        cost = cost + weight * (1 - share)
    cost = cost / normaliser(weights)
    return cost, cost, cost


CLOSED: dict[str, tuple[str, Callable[[Block, Settings], Ends | None]]] = {
    **{f"{task}_eer": (task, _eer(task)) for task in TASKS},
    "cllr": ("sasv", _cllr("sasv", "cllr")),
    "cllr_min": ("sasv", _cllr("sasv", "min")),
    "cllr_calib": ("sasv", _cllr("sasv", "calib")),
    **{
        f"{task}_cllr{part}": (task, _cllr(task, part.removeprefix("_") or "cllr"))
        for task in ("asv", "cm")
        for part in ("", "_min", "_calib")
    },
    "min_a_dcf": ("sasv", _dcf("sasv", "min")),
    "act_a_dcf": ("sasv", _dcf("sasv", "actual")),
    **{
        f"{task}_{part}_dcf": (task, _dcf(task, kind))
        for task in ("asv", "cm")
        for part, kind in (("min", "min"), ("act", "actual"))
    },
}
"""Metrics with a closed form: their task, and how to find them in a block; ``None`` where the
settings have none."""


def closed_form(name: str, blocks: Mapping[str, Block], settings: Settings) -> Floats | None:
    """Value, least and greatest value of a metric in some replicates, (3, replicates).

    Args:
        name: The metric.
        blocks: The columns in these replicates.
        settings: Costs and conventions.

    Returns:
        NaN where a class was not drawn; ``None`` where there is no closed form.
    """
    task, find = CLOSED.get(name, ("", None))
    if find is None:
        return None
    block = blocks[TASKS[task].column]
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = find(block, settings)
    if ends is None:
        return None
    drawn = np.all([part[:, -1] > 0 for part in block.parts(task, pooled=False)], axis=0)
    return np.where(drawn, np.stack(ends), np.nan)
