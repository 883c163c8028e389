"""Normalised three-class cross-entropy as a metric class."""

from __future__ import annotations

import math
import warnings
from typing import Any, get_args

import torch
from torch import Tensor
from torchmetrics import Metric

from lightning_sasv.checks import EmptyClassError, as_labels
from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.base import (
    Labels,
    MissingClass,
    Scores,
    as_codes,
    as_column,
    state_name,
)
from lightning_sasv.metrics.functional.cross_entropy import class_priors, entropy
from lightning_sasv.trials import TrialClass


class CrossEntropy(Metric):
    """Normalised cross-entropy of the three-class posteriors that two log-likelihood ratios give.

    It needs only sums, so its memory is constant; batches change it by rounding alone. See
    :func:`lightning_sasv.metrics.functional.cross_entropy`.

    Args:
        costs: Cost model, or the name of a preset, whose priors weight the classes.
        missing_class: ``error`` or ``nan``.
        kwargs: Of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> metric = CrossEntropy()
        >>> metric.update(torch.zeros(3), torch.zeros(3), torch.tensor([1, 2, 0]))
        >>> metric.compute()
        tensor(1., dtype=torch.float64)
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False
    plot_lower_bound = 0.0
    plot_legend_name = "nCE"

    trials: Tensor

    def __init__(
        self,
        costs: CostModel | str = "equal",
        missing_class: MissingClass = "error",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if missing_class not in get_args(MissingClass):
            raise ValueError(f"missing_class must be error or nan, got {missing_class!r}")
        self.missing_class = missing_class
        self.prior = class_priors(as_cost_model(costs))
        self._losses = state_name("losses", self.prior)
        for name in (self._losses, "trials"):  # by class, in code order
            zeros = torch.zeros(3, dtype=torch.float64)
            self.add_state(name, zeros, dist_reduce_fx="sum", persistent=True)

    def update(self, asv: Scores, cm: Scores, labels: Labels) -> None:
        """Add a batch.

        Args:
            asv: log p(s|target) / p(s|nontarget) of each trial.
            cm: log p(s|target) / p(s|spoof) of each trial.
            labels: ``TrialClass`` codes of the same shape, or the words.
        """
        given, tn, ts = as_codes(labels), as_column(asv, "asv"), as_column(cm, "cm")
        if not tn.shape == ts.shape == given.shape:
            shapes = [tuple(x.shape) for x in (tn, ts, given)]
            raise InputError(f"the shapes of asv, cm and labels differ: {shapes}")
        codes = torch.as_tensor(as_labels(given.flatten()), device=tn.device).long()
        if not bool(torch.isfinite(tn).all() and torch.isfinite(ts).all()):
            raise InputError("asv and cm must be finite log-likelihood ratios")
        tn, ts = tn.flatten(), ts.flatten()
        logits = torch.stack([-ts, torch.zeros_like(tn), -tn], dim=1)  # (trials, 3)
        logits = logits + torch.as_tensor(self.prior, device=tn.device).log()
        loss = torch.nn.functional.cross_entropy(logits, codes, reduction="none")
        sums = torch.bincount(codes, weights=loss, minlength=3)
        setattr(self, self._losses, getattr(self, self._losses) + sums.to(self.device))
        self.trials = self.trials + torch.bincount(codes, minlength=3).to(self.device)

    def compute(self) -> Tensor:
        """The cross-entropy of all trials so far, in float64."""
        empty = [str(TrialClass(k)) for k in range(3) if not self.trials[k]]
        if empty:
            message = f"no {' and no '.join(empty)} trials: the cross-entropy is undefined"
            if self.missing_class == "error":
                raise EmptyClassError(message)
            warnings.warn(message, stacklevel=2)
            return torch.tensor(math.nan, dtype=torch.float64, device=self.device)
        losses = getattr(self, self._losses)
        prior = torch.as_tensor(self.prior, device=losses.device)
        return (prior * losses / self.trials).sum() / entropy(self.prior)

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot one value or several on a matplotlib axis; see ``torchmetrics.Metric.plot``."""
        return self._plot(val, ax)
