"""Metric classes of one score per trial."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from lightning_sasv.checks import check_known
from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.metrics.base import (
    Bits,
    Labels,
    MissingClass,
    ScoreMetric,
    Scores,
    Thresholds,
    as_codes,
    as_column,
)
from lightning_sasv.metrics.functional.dcf import a_dcf_weights, bayes_threshold
from lightning_sasv.metrics.functional.eer import Convention
from lightning_sasv.metrics.registry import Settings
from lightning_sasv.trials import TrialClass

Task: TypeAlias = Literal["sasv", "sv", "spf", "cm"]
Part: TypeAlias = Literal["cllr", "min", "calib"]
Kind: TypeAlias = Literal["min", "actual"]


class SASVEER(ScoreMetric):
    """Equal error rate of spoofing-aware verification, or of one of its parts.

    Tasks: ``sasv``, targets against nontargets and spoofs; ``sv``, targets against nontargets;
    ``spf``, targets against spoofs; ``cm``, bona fide (targets, nontargets or both) against spoofs.

    With ``thresholds`` the error is at most the larger share of positives or negatives in the bin
    where the two error rates cross (for ``rocch``: in any bin).

    Args:
        task: Which classes are told apart.
        convention: See :func:`lightning_sasv.metrics.functional.eer`.
        thresholds: Ascending grid, or ``bits``, for the version of constant memory.
        missing_class: ``error`` or ``nan``.
        kwargs: Of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> metric = SASVEER()
        >>> metric.update(torch.tensor([2.0, 1.0, 0.0]), torch.tensor([1, 2, 0]))
        >>> metric.compute()
        tensor(0., dtype=torch.float64)
    """

    plot_upper_bound = 1.0
    plot_legend_name = "EER"

    def __init__(
        self,
        task: Task = "sasv",
        convention: Convention = "asvspoof",
        thresholds: Thresholds | Bits | None = None,
        missing_class: MissingClass = "error",
        **kwargs: Any,
    ) -> None:
        super().__init__(thresholds, missing_class, **kwargs)
        check_known("task", task, Task)
        check_known("convention", convention, Convention)
        self.task, self.convention = task, convention
        self.registered, self.settings = f"{task}_eer", Settings(convention=convention)


class CMEER(SASVEER):
    """Equal error rate of a countermeasure: bona fide against spoofed trials.

    Example:
        >>> import torch
        >>> metric = CMEER()
        >>> metric.update(torch.tensor([2.0, 1.0, 0.0]), ["target", "nontarget", "spoof"])
        >>> metric.compute()
        tensor(0., dtype=torch.float64)
    """

    def __init__(
        self,
        convention: Convention = "asvspoof",
        thresholds: Thresholds | Bits | None = None,
        missing_class: MissingClass = "error",
        **kwargs: Any,
    ) -> None:
        super().__init__("cm", convention, thresholds, missing_class, **kwargs)


class Cllr(ScoreMetric):
    """Cllr in bits, targets against nontargets and spoofs pooled, or one of its two parts.

    With ``thresholds`` the losses are summed without rounding, and only ``min`` is approximate: it
    is never below the exact value, and exceeds it by at most ½ [X log2(1 + Y/X) + Y log2(1 + X/Y)],
    where X and Y are the largest shares of positives and of negatives in one bin. ``calib`` errs
    likewise.

    Args:
        part: ``cllr``, ``min`` (discrimination) or ``calib`` (calibration).
        thresholds: Ascending grid, or ``bits``, for the version of constant memory.
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
        thresholds: Thresholds | Bits | None = None,
        missing_class: MissingClass = "error",
        **kwargs: Any,
    ) -> None:
        super().__init__(thresholds, missing_class, **kwargs)
        check_known("part", part, Part)
        self.part, self.registered = part, "cllr" if part == "cllr" else f"cllr_{part}"
        if self.binned:
            zeros = torch.zeros(2, *ExactSums.SHAPE, dtype=torch.int64)  # negatives, positives
            self.add_state("losses", zeros, dist_reduce_fx="sum", persistent=True)

    def update(self, scores: Scores, labels: Labels) -> None:
        """Add a batch; see :meth:`ScoreMetric.update`."""
        codes, column = as_codes(labels), as_column(scores, "scores")
        super().update(column, codes)
        if not self.binned:
            return
        target = codes.to(column.device).flatten() == TrialClass.TARGET
        values = column.flatten()
        losses = _softplus(torch.where(target, -values, values))
        sums = torch.stack([ExactSums.of(losses[own]) for own in (~target, target)])
        self.losses = self.losses + sums.to(self.losses.device)

    def _value(self) -> float:
        value = super()._value()
        if math.isinf(value):
            warnings.warn("Cllr is infinite: a target is -inf or another trial +inf", stacklevel=3)
        return value

    def _class_losses(self) -> list[float]:
        """Sums of the losses; those of nontargets are among those of spoofs."""
        false, missed = (ExactSums.total(sums) / math.log(2) for sums in self.losses)
        return [false, missed, 0.0]


def _softplus(values: Tensor) -> Tensor:
    """log(1 + e^s), the same for a score wherever in a batch it stands.

    On a CPU torch computes the last scores of a batch by another function than those before.
    """
    if values.device.type == "cpu":
        return torch.from_numpy(np.logaddexp(0.0, values.numpy()))
    return torch.nn.functional.softplus(values, threshold=1e9)


class ExactSums:
    """Sums of floats >= 0 without rounding, as whole numbers, which may be added in any order.

    A float is m 2^e with m < 2^53; the m of each e are summed in two halves, which hold 2^36
    terms. The last place counts infinite terms.
    """

    LOWEST = -1074 - 52
    SHAPE = 2, 2048 + 55

    @classmethod
    def of(cls, values: Tensor) -> Tensor:
        """The sums of some terms."""
        infinite = torch.isinf(values)
        mantissa, exponent = torch.frexp(torch.where(infinite, 0.0, values))
        whole = torch.ldexp(mantissa, torch.tensor(53, device=values.device)).to(torch.int64)
        place = exponent.to(torch.int64) - 53 - cls.LOWEST
        place = torch.where(infinite, cls.SHAPE[1] - 1, place)
        whole = torch.where(infinite, 1, whole)
        halves = whole >> 26, whole & ((1 << 26) - 1)
        zeros = torch.zeros(cls.SHAPE[1], dtype=torch.int64, device=values.device)
        return torch.stack([zeros.index_add(0, place, half) for half in halves])

    @classmethod
    def total(cls, sums: Tensor) -> float:
        """Their total, rounded once."""
        high, low = sums.tolist()
        if low[-1]:
            return math.inf
        whole = sum(((a << 26) + b) << k for k, (a, b) in enumerate(zip(high, low, strict=True)))
        try:
            return float(Fraction(whole, 1 << -cls.LOWEST))
        except OverflowError:
            return math.inf


class ADCF(ScoreMetric):
    """Normalised a-DCF, minimum or actual.

    With ``thresholds`` the actual cost stays exact (its threshold joins the grid; not for the
    minimum on ``bits``, which shares its counts with other metrics so). The minimum is
    never below the exact one, and exceeds it by at most the largest over the bins of
    min(w_tar x, w_non y + w_spf z), normalised, where x, y, z are the classes' shares in the bin
    and w the products of cost and prior.

    Args:
        costs: Costs and priors, or the name of a preset.
        kind: ``min`` or ``actual``.
        thresholds: Ascending grid, or ``bits``, for the version of constant memory.
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
        thresholds: Thresholds | Bits | None = None,
        missing_class: MissingClass = "error",
        **kwargs: Any,
    ) -> None:
        check_known("kind", kind, Kind)
        self.kind, self.costs = kind, as_cost_model(costs)
        self.registered = "min_a_dcf" if kind == "min" else "act_a_dcf"
        self.settings = Settings(self.costs)
        if kind == "actual" or not isinstance(thresholds, str | int):
            self.extra_edges = (bayes_threshold(a_dcf_weights(self.costs)),)
        super().__init__(thresholds, missing_class, **kwargs)
