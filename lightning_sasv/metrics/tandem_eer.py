"""Concurrent tandem equal error rate as a metric class."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lightning_sasv.checks import Floats
from lightning_sasv.metrics.base import MissingClass, PairMetric, Thresholds
from lightning_sasv.metrics.functional.concurrent import find_meeting
from lightning_sasv.metrics.functional.points import Index
from lightning_sasv.metrics.functional.tandem import (
    Tandem,
    TandemCurves,
    closest_pair,
    curves_at,
    path_bounds,
    path_points,
)
from lightning_sasv.metrics.functional.teer import Rule, check_rule, t_eer
from lightning_sasv.metrics.histogram import Histogram
from lightning_sasv.trials import CLASS_ORDER, TASKS

_ROUNDING = 1e-12  # of sums of products of rates


class TandemEER(PairMetric):
    """Concurrent t-EER; NaN where no concurrent point exists.

    Args:
        rule: See :func:`lightning_sasv.metrics.functional.t_eer`; with ``thresholds`` always
            ``interpolated``.
        closest: Where no concurrent point exists give the ρ = 0.5 t-EER at the pair of thresholds
            closest to one (of the smallest residual), instead of NaN.
        thresholds: A pair of ascending grids, ASV and CM, for the version of constant memory.
        missing_class: ``error`` or ``nan``.
        kwargs: Of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> metric = TandemEER()
        >>> asv, cm = torch.tensor([2.0, 1.0, 2.0]), torch.tensor([1.0, 1.0, 0.0])
        >>> metric.update(asv, cm, torch.tensor([1, 2, 0]))
        >>> metric.compute()
        tensor(0., dtype=torch.float64)
    """

    plot_upper_bound = 1.0
    plot_legend_name = "t-EER"

    def __init__(
        self,
        rule: Rule = "interpolated",
        closest: bool = False,
        thresholds: tuple[Thresholds, Thresholds] | None = None,
        missing_class: MissingClass = "error",
        **kwargs: Any,
    ) -> None:
        super().__init__(thresholds, missing_class, **kwargs)
        check_rule(rule)
        if self.binned and rule != "interpolated":
            raise ValueError(f"with thresholds the rule must be interpolated, got {rule!r}")
        self.rule, self.closest = rule, closest

    def _of(self, *columns: Any) -> float:
        result = t_eer(*columns, rule=self.rule)
        return result.closest if self.closest and not result.exists else result.value

    def _from_bins(self, *histograms: Histogram) -> float:
        tandem = _tandem(*histograms)
        meeting = find_meeting(tandem)
        if meeting is not None:
            return meeting.value
        return closest_pair(curves_at(tandem, tandem.points())).mean if self.closest else math.nan


def _tandem(asv: Histogram, cm: Histogram) -> Tandem:
    bins = [asv.steps(member) for member in CLASS_ORDER]
    return Tandem(*bins, *(cm.steps(*members) for members in TASKS["cm"][1:]))


def bracket(curves: TandemCurves) -> tuple[float, float, bool]:
    """Smallest and largest value a concurrent point can have, and whether one must exist.

    Only bins where the gap of the path miss = fa_non can vanish remain. Where it certainly changes
    its sign, it does vanish.
    """
    bounds = path_bounds(curves)
    lowest, highest = (gap[:-1] for gap in bounds.gap_at)  # at thresholds on the path
    certain = bool((lowest > _ROUNDING).any() and (highest < -_ROUNDING).any())
    possible = bounds.possible()
    if not possible.size:
        return math.inf, -math.inf, False
    low, high = bounds.rate
    return float(low[possible].min()), float(high[possible].max()), certain


def closest_bracket(curves: TandemCurves) -> tuple[float, float]:
    """Smallest and largest t-EER that the pair closest to concurrency can have.

    Between two ASV thresholds of the grid the balancing CM threshold lies between those of the
    two, and with it every rate. Pairs whose residual must exceed what some threshold of the grid
    reaches for certain are not the closest.
    """
    upper = path_points(curves, 0.5).upper
    at = np.arange(upper.size)
    low, high = _rate_spans(curves, (at, at), (upper - 1, upper))
    best = (high.max(axis=0) - low.min(axis=0)).min()
    low, high = _rate_spans(curves, (at, at + 1), (np.append(upper[1:], 1) - 1, upper))
    possible = low.max(axis=0) - high.min(axis=0) <= best + _ROUNDING
    ends = [(rates[0] + (rates[1] + rates[2]) / 2) / 2 for rates in (low, high)]
    return float(ends[0][possible].min()), float(ends[1][possible].max())


def _rate_spans(
    curves: TandemCurves, asv: tuple[Index, Index], cm: tuple[Index, Index]
) -> tuple[Floats, Floats]:
    """Smallest and largest miss, fa_non and fa_spf between two ASV and two CM thresholds."""
    lax, strict = (curves.rates(a, c) for a, c in zip(asv, cm, strict=True))
    return np.stack([lax[0], *strict[1:]]), np.stack([strict[0], *lax[1:]])
