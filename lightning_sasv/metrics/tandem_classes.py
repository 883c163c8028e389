"""Metric classes of an ASV and a CM score per trial."""

from __future__ import annotations

import math
from typing import Any

import torch

from lightning_sasv.checks import as_labels, check_known, check_not_empty
from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.base import (
    Bits,
    Labels,
    MissingClass,
    PairMetric,
    Scores,
    Thresholds,
    as_codes,
    as_column,
    state_name,
)
from lightning_sasv.metrics.functional.cross_entropy import class_priors, entropy
from lightning_sasv.metrics.functional.dcf import Version
from lightning_sasv.metrics.functional.teer import Rule, tandem_eer_of
from lightning_sasv.metrics.registry import Settings
from lightning_sasv.trials import TrialClass


class TandemEER(PairMetric):
    """Concurrent t-EER; NaN where no concurrent point exists.

    Args:
        rule: See :func:`lightning_sasv.metrics.functional.t_eer`; with ``thresholds`` always
            ``interpolated``.
        closest: Where no concurrent point exists give the ρ = 0.5 t-EER at the pair of thresholds
            closest to one (of the smallest residual), instead of NaN.
        thresholds: A pair of ascending grids, ASV and CM, or ``bits``, for the version of constant
            memory.
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
        thresholds: tuple[Thresholds, Thresholds] | Bits | None = None,
        missing_class: MissingClass = "error",
        **kwargs: Any,
    ) -> None:
        super().__init__(thresholds, missing_class, **kwargs)
        check_known("rule", rule, Rule)
        if self.binned and rule != "interpolated":
            raise ValueError(f"with thresholds the rule must be interpolated, got {rule!r}")
        self.rule: Rule = rule
        self.closest, self.registered = closest, "t_eer_closest" if closest else "t_eer"

    def _value(self) -> float:
        found = tandem_eer_of(self._classes(), self.rule)
        return found.closest if self.closest and not found.exists else found.value


class TDCF(PairMetric):
    """Minimum normalised t-DCF, the ASV threshold being that of its EER.

    With ``thresholds`` the ASV threshold and the CM threshold are those of the grid.

    Args:
        costs: Costs and priors, or the name of a preset.
        version: ``2019`` or ``legacy``; see :func:`lightning_sasv.metrics.functional.t_dcf`.
        thresholds: A pair of ascending grids, ASV and CM, or ``bits``, for the version of constant
            memory.
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
        thresholds: tuple[Thresholds, Thresholds] | Bits | None = None,
        missing_class: MissingClass = "error",
        **kwargs: Any,
    ) -> None:
        super().__init__(thresholds, missing_class, **kwargs)
        check_known("version", version, Version)
        self.costs, self.version = as_cost_model(costs), version
        self.registered = "min_t_dcf" if version == "2019" else "min_t_dcf_legacy"
        self.settings = Settings(tandem_costs=self.costs)


class CrossEntropy(PairMetric):
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

    plot_legend_name = "nCE"

    trials: torch.Tensor

    def __init__(
        self,
        costs: CostModel | str = "equal",
        missing_class: MissingClass = "error",
        **kwargs: Any,
    ) -> None:
        self.prior = class_priors(as_cost_model(costs))
        super().__init__(None, missing_class, **kwargs)

    def _add_states(self) -> None:
        self._losses = state_name("losses", self.prior)
        for name in (self._losses, "trials"):  # by class, in code order
            zeros = torch.zeros(len(TrialClass), dtype=torch.float64)
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
        # a weighted bincount has no fixed order on a GPU, and is refused there if one is asked for
        sums = torch.stack([loss[codes == code].sum() for code in range(3)])
        setattr(self, self._losses, getattr(self, self._losses) + sums.to(self.device))
        self.trials = self.trials + torch.bincount(codes, minlength=3).to(self.device)

    def _value(self) -> float:
        for code in TrialClass:
            check_not_empty(torch.nonzero(self.trials[code]).cpu().numpy(), f"{code} trials")
        means = (getattr(self, self._losses) / self.trials).tolist()
        total = math.fsum(p * loss for p, loss in zip(self.prior, means, strict=True))
        return total / entropy(self.prior)
