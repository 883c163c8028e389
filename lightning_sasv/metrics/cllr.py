"""Cost of log-likelihood ratios as a metric class."""

from __future__ import annotations

import math
import warnings
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from lightning_sasv.checks import by_class
from lightning_sasv.metrics.base import (
    Labels,
    MissingClass,
    ScoreMetric,
    Scores,
    Thresholds,
    as_codes,
    as_column,
)
from lightning_sasv.metrics.functional.cllr import (
    cllr,
    cllr_decomposition,
    cllr_min,
    hull_cllr,
    parts_of,
)
from lightning_sasv.metrics.functional.pav import hull
from lightning_sasv.metrics.functional.points import Detection
from lightning_sasv.metrics.histogram import Histogram
from lightning_sasv.trials import TrialClass

Part: TypeAlias = Literal["cllr", "min", "calib"]


class Cllr(ScoreMetric):
    """Cllr in bits, targets against nontargets and spoofs pooled, or one of its two parts.

    With ``thresholds`` the losses are summed exactly, and only ``min`` is approximate: it is never
    below the exact value, and exceeds it by at most ½ [X log2(1 + Y/X) + Y log2(1 + X/Y)], where X
    and Y are the largest shares of positives and of negatives in one bin. ``calib`` errs likewise.

    Args:
        part: ``cllr``, ``min`` (discrimination) or ``calib`` (calibration).
        thresholds: Ascending grid for the version of constant memory.
        missing_class: ``error`` or ``nan``.
        kwargs: Of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> metric = Cllr()
        >>> metric.update(torch.zeros(3), torch.tensor([1, 2, 0]))
        >>> metric.compute()
        tensor(1., dtype=torch.float64)
    """

    plot_legend_name = "bits"

    losses: Tensor

    def __init__(
        self,
        part: Part = "cllr",
        thresholds: Thresholds | None = None,
        missing_class: MissingClass = "error",
        **kwargs: Any,
    ) -> None:
        super().__init__(thresholds, missing_class, **kwargs)
        if part not in get_args(Part):
            raise ValueError(f"unknown part {part!r}; expected one of {', '.join(get_args(Part))}")
        self.part = part
        if self.binned:
            zeros = torch.zeros(2, dtype=torch.float64)  # negatives, positives
            self.add_state("losses", zeros, dist_reduce_fx="sum", persistent=True)

    def update(self, scores: Scores, labels: Labels) -> None:
        """Add a batch; see :meth:`ScoreMetric.update`."""
        codes, column = as_codes(labels), as_column(scores, "scores")
        super().update(column, codes)
        if not self.binned:
            return
        target = codes.to(column.device).flatten() == TrialClass.TARGET
        values = column.flatten()
        loss = torch.nn.functional.softplus(torch.where(target, -values, values), threshold=1e9)
        sums = torch.stack([loss[~target].sum(), loss[target].sum()])
        self.losses = self.losses + sums.to(self.losses.device)

    def _of(self, *columns: Any) -> float:
        target, nontarget, spoof = by_class(*columns)
        negative = np.concatenate([nontarget, spoof])
        if self.part == "min":
            return cllr_min(target, negative)
        if self.part == "cllr":
            return cllr(target, negative)
        return cllr_decomposition(target, negative).calib

    def _from_bins(self, *histograms: Histogram) -> float:
        positives = histograms[0].steps(TrialClass.TARGET)
        negatives = histograms[0].steps(TrialClass.NONTARGET, TrialClass.SPOOF)
        sums = self.losses.cpu().numpy()
        cost = float(sums[0] / negatives.total + sums[1] / positives.total) / 2 / math.log(2)
        if math.isinf(cost) and self.part != "min":
            warnings.warn("Cllr is infinite: a target is -inf or another trial +inf", stacklevel=2)
        parts = parts_of(cost, hull_cllr(hull(*Detection(positives, negatives).pooled)))
        return float({"cllr": parts.cllr, "min": parts.min, "calib": parts.calib}[self.part])
