"""Tandem detection cost as a metric class."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np

from lightning_sasv.checks import UndefinedMetricError
from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.metrics.base import MissingClass, PairMetric, Thresholds
from lightning_sasv.metrics.functional.ladder import ladder, smallest_cost
from lightning_sasv.metrics.functional.tdcf import (
    ASVRates,
    Version,
    t_dcf,
    tdcf_coefficients,
    verifier_rates,
)
from lightning_sasv.metrics.histogram import Histogram
from lightning_sasv.trials import TrialClass

_TARGET, _NONTARGET, _SPOOF = TrialClass.TARGET, TrialClass.NONTARGET, TrialClass.SPOOF


class TDCF(PairMetric):
    """Minimum normalised t-DCF, the ASV threshold being that of its EER.

    With ``thresholds`` the ASV threshold and the CM threshold are those of the grid.
    :meth:`error_bound` follows from the error rates at both ends of the bins that can hold the
    exact thresholds; it is infinite when one of these would make the t-DCF undefined.

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
        if version not in get_args(Version):
            names = ", ".join(get_args(Version))
            raise ValueError(f"unknown version {version!r}; expected one of {names}")
        self.costs = as_cost_model(costs)
        self.version: Version = version

    def _of(self, *columns: Any) -> float:
        asv, cm, codes = columns
        return t_dcf(asv, cm, codes, self.costs, version=self.version).min

    def _from_bins(self, *histograms: Histogram) -> float:
        asv, cm = histograms
        values = asv.values()
        totals = [asv.rejected(member) for member in (_TARGET, _NONTARGET, _SPOOF)]
        rates = verifier_rates((values,) * 3, totals, ladder(values, values))
        c0, c1, c2 = tdcf_coefficients(rates, self.costs, self.version)
        counts = cm.rejected(_TARGET, _NONTARGET), cm.rejected(_SPOOF)
        cost, _ = smallest_cost((c1, c2), counts[0], counts[1:])
        return (c0 + cost) / (c0 + min(c1, c2))

    def _bound(self, *histograms: Histogram) -> float:
        asv, cm = histograms
        value = self._from_bins(asv, cm)
        miss, nontarget, spoof = (asv.rejected(k) for k in (_TARGET, _NONTARGET, _SPOOF))
        frr, far, far_spoof = miss / miss[-1], 1 - nontarget / nontarget[-1], 1 - spoof / spoof[-1]
        after = int(np.argmax(frr >= far))
        filled = np.flatnonzero(np.diff(miss + nontarget)[: after - 1])  # may hold the threshold
        before = int(filled[-1]) if filled.size else 0
        low = ASVRates(frr[before], far[after], far_spoof[after])
        high = ASVRates(frr[after], far[before], far_spoof[before])
        try:
            a0, b1, a2 = tdcf_coefficients(low, self.costs, self.version)  # C1 falls as C0 grows
            b0, a1, b2 = tdcf_coefficients(high, self.costs, self.version)
        except UndefinedMetricError:
            return math.inf
        bona_fide, cm_spoof = cm.rejected(_TARGET, _NONTARGET), cm.rejected(_SPOOF)
        miss_cm, fa_cm = bona_fide / bona_fide[-1], 1 - cm_spoof / cm_spoof[-1]
        least = a0 + float(np.min(a1 * miss_cm[:-1] + a2 * fa_cm[1:]))
        most = b0 + float(np.min(b1 * miss_cm + b2 * fa_cm))
        return max(most / (a0 + min(a1, a2)) - value, value - least / (b0 + min(b1, b2)))
