"""Architecture-agnostic detection cost as a metric class."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.metrics.base import MissingClass, ScoreMetric, Thresholds
from lightning_sasv.metrics.functional.dcf import (
    a_dcf,
    a_dcf_weights,
    bayes_threshold,
    dcf_of,
)
from lightning_sasv.metrics.functional.points import Detection
from lightning_sasv.metrics.histogram import Histogram
from lightning_sasv.trials import CLASS_ORDER

Kind: TypeAlias = Literal["min", "actual"]


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
        task = Detection(*(histograms[0].steps(member) for member in CLASS_ORDER))
        cost = dcf_of(task, a_dcf_weights(self.costs))
        return cost.min if self.kind == "min" else cost.actual
