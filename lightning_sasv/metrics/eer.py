"""Equal error rates as metric classes."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from lightning_sasv.checks import as_labels, as_scores, select
from lightning_sasv.metrics.base import MissingClass, ScoreMetric, Thresholds
from lightning_sasv.metrics.functional.eer import Convention, check_convention, eer, rate_of
from lightning_sasv.metrics.functional.points import Counts, Detection
from lightning_sasv.metrics.histogram import Histogram
from lightning_sasv.trials import TrialClass

Task: TypeAlias = Literal["sasv", "sv", "spf", "cm"]
"""Which classes are told apart; see :class:`SASVEER`."""

_TARGET, _NONTARGET, _SPOOF = TrialClass.TARGET, TrialClass.NONTARGET, TrialClass.SPOOF
_CLASSES: dict[str, tuple[tuple[TrialClass, ...], tuple[TrialClass, ...]]] = {
    "sasv": ((_TARGET,), (_NONTARGET, _SPOOF)),
    "sv": ((_TARGET,), (_NONTARGET,)),
    "spf": ((_TARGET,), (_SPOOF,)),
    "cm": ((_TARGET, _NONTARGET), (_SPOOF,)),
}


class SASVEER(ScoreMetric):
    """Equal error rate of spoofing-aware verification, or of one of its parts.

    Tasks: ``sasv``, targets against nontargets and spoofs; ``sv``, targets against nontargets;
    ``spf``, targets against spoofs; ``cm``, bona fide (targets, nontargets or both) against spoofs.

    With ``thresholds`` the error is at most the larger share of positives or negatives in the bin
    where the two error rates cross (for ``rocch``: in any bin).

    Args:
        task: Which classes are told apart.
        convention: See :func:`lightning_sasv.metrics.functional.eer`.
        thresholds: Ascending grid for the version of constant memory.
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
        thresholds: Thresholds | None = None,
        missing_class: MissingClass = "error",
        **kwargs: Any,
    ) -> None:
        super().__init__(thresholds, missing_class, **kwargs)
        if task not in get_args(Task):
            raise ValueError(f"unknown task {task!r}; expected one of {', '.join(get_args(Task))}")
        check_convention(convention)
        self.task, self.convention = task, convention

    def _of(self, *columns: Any) -> float:
        scores, codes = as_scores(columns[0], "scores"), as_labels(columns[1])
        counts = np.bincount(codes, minlength=len(TrialClass))
        parts = (select(scores, codes, classes) for classes in self._classes(counts))
        return eer(*parts, convention=self.convention).value

    def _from_bins(self, *histograms: Histogram) -> float:
        counts = histograms[0]
        parts = (counts.steps(*k) for k in self._classes(counts.counts.sum(axis=1)))
        return rate_of(Detection(*parts), self.convention)

    def _classes(self, counts: Counts) -> tuple[tuple[TrialClass, ...], tuple[TrialClass, ...]]:
        """Positive and negative classes; of bona fide speech either kind will do."""
        positive, negative = _CLASSES[self.task]
        present = tuple(member for member in positive if counts[member])
        return present or positive, negative


class CMEER(SASVEER):
    """Equal error rate of a countermeasure: bona fide against spoofed trials."""

    def __init__(
        self,
        convention: Convention = "asvspoof",
        thresholds: Thresholds | None = None,
        missing_class: MissingClass = "error",
        **kwargs: Any,
    ) -> None:
        super().__init__("cm", convention, thresholds, missing_class, **kwargs)
