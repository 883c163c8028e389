"""Normalised three-class cross-entropy as a metric class."""

from __future__ import annotations

import math
import warnings
from typing import Any, get_args

import torch
from torch import Tensor
from torchmetrics import Metric

from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.base import Labels, MissingClass, as_codes
from lightning_sasv.metrics.functional._checks import EmptyClassError, as_labels
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

    losses: Tensor
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
        for name in ("losses", "trials"):  # by class, in code order
            zeros = torch.zeros(3, dtype=torch.float64)
            self.add_state(name, zeros, dist_reduce_fx="sum", persistent=True)

    def update(self, asv: Tensor, cm: Tensor, labels: Labels) -> None:
        """Add a batch.

        Args:
            asv: log p(s|target) / p(s|nontarget) of each trial.
            cm: log p(s|target) / p(s|spoof) of each trial.
            labels: ``TrialClass`` codes of the same shape, or the words.
        """
        given = as_codes(labels)
        if not asv.shape == cm.shape == given.shape:
            shapes = [tuple(x.shape) for x in (asv, cm, given)]
            raise InputError(f"the shapes of asv, cm and labels differ: {shapes}")
        codes = torch.as_tensor(as_labels(given.flatten()), device=asv.device).long()
        asv, cm = (x.detach().flatten().to(torch.float64) for x in (asv, cm))
        if not bool(torch.isfinite(asv).all() and torch.isfinite(cm).all()):
            raise InputError("asv and cm must be finite log-likelihood ratios")
        logits = torch.stack([-cm, torch.zeros_like(asv), -asv], dim=1)  # (trials, 3)
        logits = logits + torch.as_tensor(self.prior, device=asv.device).log()
        loss = torch.nn.functional.cross_entropy(logits, codes, reduction="none")
        self.losses = self.losses + torch.bincount(codes, weights=loss, minlength=3)
        self.trials = self.trials + torch.bincount(codes, minlength=3)

    def compute(self) -> Tensor:
        """The cross-entropy of all trials so far, in float64."""
        empty = [str(TrialClass(k)) for k in range(3) if not self.trials[k]]
        if empty:
            message = f"no {' and no '.join(empty)} trials: the cross-entropy is undefined"
            if self.missing_class == "error":
                raise EmptyClassError(message)
            warnings.warn(message, stacklevel=2)
            return torch.tensor(math.nan, dtype=torch.float64, device=self.device)
        prior = torch.as_tensor(self.prior, device=self.losses.device)
        return (prior * self.losses / self.trials).sum() / entropy(self.prior)

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot one value or several on a matplotlib axis; see ``torchmetrics.Metric.plot``."""
        return self._plot(val, ax)
