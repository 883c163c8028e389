"""Tandem detection cost as a metric class."""

from __future__ import annotations

from typing import Any

from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.metrics.base import MissingClass, PairMetric, Thresholds
from lightning_sasv.metrics.functional.dcf import (
    Version,
    check_version,
    t_dcf,
    t_dcf_of,
    verifier_rates,
)
from lightning_sasv.metrics.functional.points import Detection
from lightning_sasv.metrics.histogram import Histogram
from lightning_sasv.trials import TrialClass

_TARGET, _NONTARGET, _SPOOF = TrialClass.TARGET, TrialClass.NONTARGET, TrialClass.SPOOF


class TDCF(PairMetric):
    """Minimum normalised t-DCF, the ASV threshold being that of its EER.

    With ``thresholds`` the ASV threshold and the CM threshold are those of the grid.

    Args:
        costs: Costs and priors, or the name of a preset.
        version: ``2019`` or ``legacy``; see :func:`lightning_sasv.metrics.functional.t_dcf`.
        thresholds: A pair of ascending grids, ASV and CM, for the version of constant memory.
        missing_class: ``error`` or ``nan``.
        kwargs: Of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> metric = TDCF()
        >>> asv, cm = torch.tensor([2.0, 1.0, 2.0]), torch.tensor([1.0, 1.0, 0.0])
        >>> metric.update(asv, cm, torch.tensor([1, 2, 0]))
        >>> metric.compute()
        tensor(0.1597, dtype=torch.float64)
    """

    plot_legend_name = "t-DCF"

    def __init__(
        self,
        costs: CostModel | str = "asvspoof5",
        version: Version = "2019",
        thresholds: tuple[Thresholds, Thresholds] | None = None,
        missing_class: MissingClass = "error",
        **kwargs: Any,
    ) -> None:
        super().__init__(thresholds, missing_class, **kwargs)
        check_version(version)
        self.costs = as_cost_model(costs)
        self.version: Version = version

    def _of(self, *columns: Any) -> float:
        asv, cm, codes = columns
        return t_dcf(asv, cm, codes, self.costs, version=self.version).min

    def _from_bins(self, *histograms: Histogram) -> float:
        asv, cm = histograms
        asv_task = Detection(asv.steps(_TARGET), asv.steps(_NONTARGET))
        rates = verifier_rates(asv_task, asv.steps(_SPOOF))
        task = Detection(cm.steps(_TARGET, _NONTARGET), cm.steps(_SPOOF))
        return t_dcf_of(task, rates, self.costs, self.version).min
