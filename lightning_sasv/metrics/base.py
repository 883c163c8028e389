"""What the metric classes share: one state, which is every trial or the counts on a grid.

Lists are concatenated across processes and counts are summed, so a value does not depend on the
size of the batches or the number of processes. Scores and labels are kept as float64: a process
without trials contributes empty tensors, which must have the type of the others. Either state
becomes sorted classes with weights (``points.Classes``), and the value is the same function of
these: on a grid every score counts as the edge above it.
"""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.data import dim_zero_cat

from lightning_sasv.checks import (
    EmptyClassError,
    Floats,
    UndefinedMetricError,
    as_labels,
    as_scores,
    check_known,
)
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.binned import BinnedClasses, Grid, View
from lightning_sasv.metrics.bounds import bounded
from lightning_sasv.metrics.functional.points import Classes
from lightning_sasv.metrics.registry import DEFAULTS, METRICS, Settings
from lightning_sasv.trials import TrialClass

MOST_BITS = 14
MissingClass: TypeAlias = Literal["error", "nan"]
Thresholds: TypeAlias = Tensor | Sequence[float]
Bits: TypeAlias = Literal["bits"] | int
"""A grid by its number of leading bits; ``bits`` is seven."""
Scores: TypeAlias = Tensor | np.ndarray | Sequence[float]
Labels: TypeAlias = Tensor | np.ndarray | Sequence[str] | Sequence[int]


class TrialMetric(Metric):
    """A metric of scores and labels of trials; subclasses say which one of the registry it is.

    Every metric of the same columns has the same states, so a ``MetricCollection`` keeps them once.

    Args:
        thresholds: An ascending grid, one for each column; or ``bits`` for a grid of the leading
            seven bits of the scores, which needs no look at them, or another number of bits. Given,
            only histograms on that grid are kept (constant memory, summed across processes), and
            the value is that of scores rounded up to the grid, at whose edges the error rates are
            exact; :meth:`bounds` says between which values that of the scores lies.
        missing_class: What a class without trials means: an ``error``, or ``nan`` with a warning,
            as in the first batches of a validation; also for a verifier too poor for a t-DCF.
        kwargs: Of ``torchmetrics.Metric``, such as ``compute_on_cpu``.
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False
    plot_lower_bound = 0.0

    columns: ClassVar[Mapping[str, tuple[str, ...]]]
    """The columns of scores, and what the functions of the classes call them."""
    registered: str
    """Its name in the registry, whose function of the classes is its value."""
    settings: Settings = DEFAULTS
    """What that function needs beside trials."""
    extra_edges: Sequence[float] = ()
    """Thresholds that the metric itself needs on a grid."""
    labels: list[Tensor] | Tensor

    def __init__(
        self,
        thresholds: Thresholds | Sequence[Thresholds] | Bits | None = None,
        missing_class: MissingClass = "error",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_known("missing_class", missing_class, MissingClass)
        self.missing_class = missing_class
        self.binned = thresholds is not None
        self.edges: dict[str, Tensor] = {}  # no buffers: `module.half()` would round them
        if thresholds is None:
            self._add_states()
            return
        grids: Any = [thresholds] if len(self.columns) == 1 else thresholds
        if isinstance(thresholds, str | int):
            grids = [_edges_of_bits(thresholds)] * len(self.columns)
        for name, grid in zip(self.columns, grids, strict=True):
            self.edges[name] = edges = _as_edges(grid, self.extra_edges)
            zeros = torch.zeros(len(TrialClass), edges.numel() + 1, dtype=torch.int64)
            self.add_state(self._counts(name), zeros, dist_reduce_fx="sum", persistent=True)

    def _add_states(self) -> None:
        for name in (*self.columns, "labels"):
            self.add_state(name, default=[], dist_reduce_fx="cat", persistent=True)

    def _counts(self, name: str) -> str:
        """Name of the state that counts a column."""
        return state_name(f"{name}_counts", self.edges[name])

    @property
    def dtype(self) -> torch.dtype:
        """Type of the states, and of what a process without trials contributes."""
        return torch.float64

    def compute(self) -> Tensor:
        """The metric of all trials so far, in float64."""
        try:
            value = self._value()
        except (EmptyClassError, UndefinedMetricError) as error:
            if self.missing_class == "error":
                raise
            warnings.warn(f"{type(self).__name__} is NaN: {error}", stacklevel=2)
            value = math.nan
        return torch.tensor(value, dtype=torch.float64, device=self.device)

    def bounds(self) -> tuple[float, float]:
        """Between which values the metric of the scores lies, whatever they are within the bins.

        Raises:
            InputError: There is no grid: the metric is exact.
        """
        if not self.binned:
            raise InputError("bounds are of metrics with thresholds; without, they are exact")
        found = bounded(self._views(), self.settings, [self.registered]).get(self.registered)
        if found is None:
            raise UndefinedMetricError(f"{type(self).__name__} is undefined on these trials")
        return found.low, found.high

    def _class_losses(self) -> list[float]:
        """Sums of the losses of Cllr in bits, of spoofs, targets and nontargets."""
        return [0.0, 0.0, 0.0]

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot one value or several on a matplotlib axis, zoomed to them.

        Args:
            val: Values; by default that of now. See ``torchmetrics.Metric.plot``.
            ax: Axis to draw on.
        """
        val = self.compute() if val is None else val
        figure, axis = self._plot(val, ax)
        shown: Any = axis
        values = np.ravel([float(one) for one in (val if isinstance(val, Sequence) else [val])])
        if np.isfinite(values).all():
            low, high = float(values.min()), float(values.max())
            room = 0.1 * (high - low) or 0.1 * abs(high) or 0.1
            shown.set_ylim(low - room, high + room)
        return figure, axis

    def _value(self) -> float:
        """The metric of the states."""
        return METRICS[self.registered].function(self._classes(), self.settings)

    def _classes(self) -> Classes:
        """The states as sorted classes: of every trial, or of bins."""
        if self.binned:
            return BinnedClasses(self._views(), "ties")
        columns: dict[str, Floats] = {}
        for name, roles in self.columns.items():
            columns |= dict.fromkeys(roles, as_scores(self._array(name), name))
        return Classes(columns, as_labels(self._array("labels")))

    def _views(self) -> dict[str, View]:
        """What the bins say of each column; edges are exact, so that no cuts are needed."""
        views: dict[str, View] = {}
        for name, roles in self.columns.items():
            edges = np.append(self.edges[name].numpy(), np.inf)
            starts = np.nextafter(np.append(-np.inf, edges[:-1]), np.inf)
            counts = getattr(self, self._counts(name)).cpu().numpy()
            none = np.zeros((len(TrialClass), 0), np.int64)
            view = View(starts, edges, counts, (), none, self._class_losses())
            views |= dict.fromkeys(roles, view)
        return views

    def _array(self, name: str) -> Floats:
        state = getattr(self, name)
        return dim_zero_cat(state).cpu().numpy() if len(state) else np.empty(0)

    def _keep(self, labels: Labels, **given: Scores) -> None:
        """Add a batch to the states."""
        codes = as_codes(labels)
        columns = {name: as_column(scores, name) for name, scores in given.items()}
        for name, scores in columns.items():
            if scores.shape != codes.shape:
                raise InputError(
                    f"{name} {tuple(scores.shape)} and labels {tuple(codes.shape)} differ in shape"
                )
        for name, scores in columns.items():
            if self.binned:
                counts = getattr(self, self._counts(name))
                found = _count_bins(scores.flatten(), codes.flatten(), self.edges[name], name)
                counts += found.to(counts.device)
            else:
                getattr(self, name).append(scores.flatten())
        if not self.binned:
            kept = codes.detach().to(scores.device, torch.float64).flatten()
            self.labels.append(kept)  # type: ignore[union-attr]


class ScoreMetric(TrialMetric):
    """A metric of one score per trial."""

    columns: ClassVar = {"scores": ("sasv", "cm")}
    scores: list[Tensor] | Tensor

    def update(self, scores: Scores, labels: Labels) -> None:
        """Add a batch.

        Args:
            scores: A tensor, an array or a list of any real type, shape and device.
            labels: ``TrialClass`` codes of the same shape, or the words.
        """
        self._keep(labels, scores=scores)


class PairMetric(TrialMetric):
    """A metric of an ASV and a CM score per trial."""

    columns: ClassVar = {"asv": ("asv",), "cm": ("cm",)}
    asv: list[Tensor] | Tensor
    cm: list[Tensor] | Tensor

    def update(self, asv: Scores, cm: Scores, labels: Labels) -> None:
        """Add a batch of ASV scores, CM scores and labels, as :meth:`ScoreMetric.update` does."""
        self._keep(labels, asv=asv, cm=cm)


def state_name(name: str, parameters: Tensor | np.ndarray) -> str:
    """Name of a state that means something only together with fixed parameters, such as a grid.

    A ``MetricCollection`` merges metrics whose states have equal names and, after the first batch,
    equal values, which sums over different grids may have by chance. And a checkpoint does not load
    into a metric with other parameters.
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
    return torch.tensor(as_labels(array.ravel())).view(array.shape)


def _edges_of_bits(bits: Bits) -> Tensor:
    """Finite edges of the grid of leading bits, magnitudes from 1e-6 to 65536."""
    number = 7 if bits == "bits" else bits
    if isinstance(number, str) or not 0 <= number <= MOST_BITS:
        raise InputError(
            f"thresholds must be ascending numbers, 'bits' or a number of bits up to "
            f"{MOST_BITS}, got {bits!r}"
        )
    return torch.from_numpy(Grid(number, -20, 16).edges[:-1])


def _as_edges(thresholds: Any, extra: Sequence[float]) -> Tensor:
    """Ascending thresholds as float64, with those that the metric itself needs."""
    edges = torch.as_tensor(thresholds, dtype=torch.float64).flatten()
    finite, size = bool(torch.isfinite(edges).all()), edges.numel()
    if not size or not finite or bool((edges.diff() <= 0).any()):
        raise InputError(f"thresholds must be finite and strictly ascending, got {size} of them")
    every = torch.cat([edges, torch.tensor(extra, dtype=torch.float64)])
    return torch.as_tensor(torch.unique(every, sorted=True))


def _count_bins(scores: Tensor, labels: Tensor, edges: Tensor, name: str) -> Tensor:
    """Trials of each class in each bin, (3, edges + 1); a bin ends with its upper edge."""
    if bool(torch.isnan(scores).any()):
        raise InputError(f"{name} holds NaN")
    codes = labels.to(scores.device, torch.int64)
    if bool(((codes < 0) | (codes > 2) | (codes != labels.to(scores.device))).any()):
        raise InputError("labels must be 0 (spoof), 1 (target) or 2 (nontarget)")
    bins = edges.numel() + 1
    place = torch.bucketize(scores, edges.to(scores.device)) + bins * codes
    return torch.bincount(place, minlength=3 * bins).view(3, bins)
