"""What the metric classes share: states that keep every trial, or histograms of constant size.

The states of a class are lists that are concatenated across processes, so a value does not depend
on the size of the batches or the number of processes. Scores and labels are kept as float64: a
process without any trial contributes empty tensors, and those must have the type of the others.
"""

from __future__ import annotations

import math
import warnings
import zlib
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.data import dim_zero_cat

from lightning_sasv.checks import (
    Codes,
    EmptyClassError,
    Floats,
    UndefinedMetricError,
    as_labels,
)
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.histogram import Histogram, check_edges, count_bins

MissingClass: TypeAlias = Literal["error", "nan"]
Thresholds: TypeAlias = Tensor | Sequence[float]
Scores: TypeAlias = Tensor | np.ndarray | Sequence[float]
Labels: TypeAlias = Tensor | np.ndarray | Sequence[str] | Sequence[int]


class TrialMetric(Metric):
    """A metric of scores and labels of trials; subclasses say what to do with all of them.

    Every metric of the same columns has the same states, so a ``MetricCollection`` keeps them once.

    Args:
        thresholds: For each column an ascending grid. Given, only histograms on that grid are kept
            (constant memory, summed across processes), and the value is that of scores rounded up
            to the grid, at whose edges the error rates are exact.
        missing_class: What a class without trials means: an ``error``, or ``nan`` with a warning,
            as in the first batches of a validation. The same holds for trials whose metric is
            undefined (a verifier too poor for a t-DCF).
        kwargs: Of ``torchmetrics.Metric``, such as ``compute_on_cpu``.
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False
    plot_lower_bound = 0.0

    columns: ClassVar[tuple[str, ...]]
    labels: list[Tensor] | Tensor

    def __init__(
        self,
        thresholds: Sequence[Thresholds] | None = None,
        missing_class: MissingClass = "error",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if missing_class not in get_args(MissingClass):
            raise ValueError(f"missing_class must be error or nan, got {missing_class!r}")
        self.missing_class = missing_class
        self.binned = thresholds is not None
        if thresholds is None:
            for name in (*self.columns, "labels"):
                self.add_state(name, default=[], dist_reduce_fx="cat", persistent=True)
            return
        # No buffers: `module.half()` would round them.
        self.edges: dict[str, Tensor] = {}
        self._counts: dict[str, str] = {}
        for name, grid in zip(self.columns, thresholds, strict=True):
            self.edges[name] = edges = check_edges(grid, self._extra_edges())
            self._counts[name] = state_name(f"{name}_counts", edges)
            counts = torch.zeros(3, edges.numel() + 1, dtype=torch.int64)
            self.add_state(self._counts[name], counts, dist_reduce_fx="sum", persistent=True)

    @property
    def dtype(self) -> torch.dtype:
        """Type of the states, and of what a process without trials contributes."""
        return torch.float64

    def compute(self) -> Tensor:
        """The metric of all trials so far, in float64."""
        try:
            value = self._from_bins(*self._histograms()) if self.binned else self._of(*self._all())
        except (EmptyClassError, UndefinedMetricError) as error:
            if self.missing_class == "error":
                raise
            warnings.warn(f"{type(self).__name__} is NaN: {error}", stacklevel=2)
            value = math.nan
        return torch.tensor(value, dtype=torch.float64, device=self.device)

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot one value or several on a matplotlib axis; see ``torchmetrics.Metric.plot``."""
        return self._plot(val, ax)

    @abstractmethod
    def _of(self, *columns: Any) -> float:
        """The metric of columns of scores and, last, the label codes."""

    @abstractmethod
    def _from_bins(self, *histograms: Histogram) -> float:
        """The metric of one histogram per column."""

    def _extra_edges(self) -> tuple[float, ...]:
        """Thresholds that the metric needs on the grid."""
        return ()

    def _keep(self, labels: Labels, **given: Scores) -> None:
        """Add a batch to the states."""
        labels = as_codes(labels)
        columns = {name: as_column(scores, name) for name, scores in given.items()}
        for name, scores in columns.items():
            if scores.shape != labels.shape:
                raise InputError(
                    f"{name} {tuple(scores.shape)} and labels {tuple(labels.shape)} differ in shape"
                )
        if self.binned:
            for name, scores in columns.items():
                counts = getattr(self, self._counts[name])
                codes = labels.to(scores.device)
                counts += count_bins(scores, codes, self.edges[name], name).to(counts.device)
            return
        for name, scores in columns.items():
            getattr(self, name).append(scores.flatten())
        device = next(iter(columns.values())).device
        self.labels.append(labels.detach().to(device, torch.float64).flatten())  # type: ignore[union-attr]

    def _all(self) -> tuple[Floats | Codes, ...]:
        """Every trial so far, column by column, labels last."""
        columns = (_as_array(getattr(self, name)) for name in (*self.columns, "labels"))
        return tuple(columns)

    def _histograms(self) -> list[Histogram]:
        return [
            Histogram(self.edges[name].numpy(), getattr(self, self._counts[name]).cpu().numpy())
            for name in self.columns
        ]


class ScoreMetric(TrialMetric):
    """A metric of one score per trial."""

    columns = ("scores",)

    scores: list[Tensor] | Tensor

    def __init__(
        self,
        thresholds: Thresholds | None = None,
        missing_class: MissingClass = "error",
        **kwargs: Any,
    ) -> None:
        super().__init__(None if thresholds is None else (thresholds,), missing_class, **kwargs)

    def update(self, scores: Scores, labels: Labels) -> None:
        """Add a batch.

        Args:
            scores: Scores of any real type, shape and device (a tensor, an array or a list); kept
                as float64.
            labels: ``TrialClass`` codes of the same shape, or the words ``target``, ``nontarget``,
                ``spoof``.
        """
        self._keep(labels, scores=scores)


class PairMetric(TrialMetric):
    """A metric of an ASV and a CM score per trial."""

    columns = ("asv", "cm")

    asv: list[Tensor] | Tensor
    cm: list[Tensor] | Tensor

    def update(self, asv: Scores, cm: Scores, labels: Labels) -> None:
        """Add a batch.

        Args:
            asv: ASV scores of any real type, shape and device (a tensor, an array or a list); kept
                as float64.
            cm: CM scores, likewise.
            labels: ``TrialClass`` codes of the same shape, or the words ``target``, ``nontarget``,
                ``spoof``.
        """
        self._keep(labels, asv=asv, cm=cm)


def state_name(name: str, parameters: Tensor | np.ndarray) -> str:
    """Name of a state that means something only together with fixed parameters, such as a grid.

    A ``MetricCollection`` merges metrics whose states have equal names and, after the first batch,
    equal values. Sums over different grids may be equal by chance, so the name tells them apart;
    and a checkpoint does not load into a metric with other parameters.
    """
    return f"{name}_{zlib.crc32(np.ascontiguousarray(parameters).tobytes()):08x}"


def as_column(scores: Scores, name: str) -> Tensor:
    """Scores as a detached float64 tensor of their shape, on their device."""
    try:
        given = scores if isinstance(scores, Tensor) else torch.as_tensor(np.asarray(scores))
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must hold real numbers: {error}") from None
    if given.is_complex():
        raise InputError(f"{name} must hold real numbers, got dtype {given.dtype}")
    return given.detach().to(torch.float64)


def as_codes(labels: Labels) -> Tensor:
    """Labels as a tensor; words become ``TrialClass`` codes."""
    if isinstance(labels, Tensor):
        if labels.dtype == torch.bool:
            as_labels(labels.flatten())  # raises: true or false is no class of trials
        return labels
    array = np.asarray(labels)
    return torch.as_tensor(as_labels(array.ravel())).view(array.shape)


def _as_array(state: list[Tensor] | Tensor) -> Floats:
    if isinstance(state, list) and not state:
        return np.empty(0)
    return dim_zero_cat(state).cpu().numpy()
