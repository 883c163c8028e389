"""Architecture-agnostic detection cost as a metric class."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.metrics.base import MissingClass, ScoreMetric, Thresholds
from lightning_sasv.metrics.functional.dcf import (
    a_dcf,
    a_dcf_weights,
    bayes_threshold,
    normaliser,
)
from lightning_sasv.metrics.functional.ladder import smallest_cost
from lightning_sasv.metrics.histogram import Histogram
from lightning_sasv.trials import TrialClass

Kind: TypeAlias = Literal["min", "actual"]

_ORDER = (TrialClass.TARGET, TrialClass.NONTARGET, TrialClass.SPOOF)


class ADCF(ScoreMetric):
    """Normalised a-DCF, minimum or actual.

    With ``thresholds`` the actual cost stays exact (its threshold joins the grid). The minimum is
    never below the exact one, and exceeds it by at most the largest over the bins of
    min(w_tar x, w_non y + w_spf z), normalised, where x, y, z are the classes' shares in the bin
    and w the products of cost and prior.

    Args:
        costs: Costs and priors, or the name of a preset.
        kind: ``min`` or ``actual``.
        thresholds: Ascending grid for the version of constant memory.
        missing_class: ``error`` or ``nan``.
        kwargs: Of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> metric = ADCF()
        >>> metric.update(torch.tensor([2.0, 1.0, 0.0]), torch.tensor([1, 2, 0]))
        >>> metric.compute()
        tensor(0., dtype=torch.float64)
    """

    plot_legend_name = "a-DCF"

    def __init__(
        self,
        costs: CostModel | str = "a-dcf1",
        kind: Kind = "min",
        thresholds: Thresholds | None = None,
        missing_class: MissingClass = "error",
        **kwargs: Any,
    ) -> None:
        if kind not in get_args(Kind):
            raise ValueError(f"unknown kind {kind!r}; expected one of {', '.join(get_args(Kind))}")
        self.costs = as_cost_model(costs)
        self.kind = kind
        super().__init__(thresholds, missing_class, **kwargs)

    def _extra_edges(self) -> tuple[float, ...]:
        return (bayes_threshold(a_dcf_weights(self.costs)),)

    def _of(self, *columns: Any) -> float:
        scores, codes = columns
        cost = a_dcf(scores, codes, self.costs)
        return cost.min if self.kind == "min" else cost.actual

    def _from_bins(self, *histograms: Histogram) -> float:
        weights = a_dcf_weights(self.costs)
        positives, *negatives = (histograms[0].rejected(member) for member in _ORDER)
        if self.kind == "min":
            cost, _ = smallest_cost(weights, positives, tuple(negatives))
            return cost / normaliser(weights)
        at = int(np.searchsorted(histograms[0].edges, bayes_threshold(weights))) + 1
        miss, *rejected = (counts[at] / counts[-1] for counts in (positives, *negatives))
        false = sum(w * (1 - rate) for w, rate in zip(weights[1:], rejected, strict=True))
        return float(weights[0] * miss + false) / normaliser(weights)

    def _bound(self, *histograms: Histogram) -> float:
        if self.kind == "actual":
            return 0.0
        weights = a_dcf_weights(self.costs)
        x, y, z = (histograms[0].shares(member) for member in _ORDER)
        worst = np.minimum(weights[0] * x, weights[1] * y + weights[2] * z)
        return float(worst.max()) / normaliser(weights)
