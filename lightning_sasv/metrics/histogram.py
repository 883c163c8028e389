"""Class-wise histograms of scores, for metrics of constant memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lightning_sasv.checks import Floats, check_not_empty
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.functional.points import Steps
from lightning_sasv.trials import TrialClass


class Histogram(NamedTuple):
    """Trials of each class in each bin; a bin holds the scores in (edge before, its own edge].

    Every edge is a threshold, so the error rates at the edges are exact.

    Attributes:
        edges: Ascending thresholds; the bin after the last has no upper edge.
        counts: Trials, (classes in code order, edges + 1).
    """

    edges: Floats
    counts: NDArray[np.int64]

    def values(self) -> Floats:
        """Upper edge of each bin."""
        return np.append(self.edges, np.inf)

    def of(self, *classes: TrialClass) -> NDArray[np.int64]:
        """Trials of some classes in each bin; an error unless each class has any."""
        for member in classes:
            check_not_empty(np.flatnonzero(self.counts[member]), f"{member} trials")
        return self.counts[list(classes)].sum(axis=0)

    def steps(self, *classes: TrialClass) -> Steps:
        """Some classes together, each bin at its upper edge."""
        return Steps(self.values(), self.of(*classes))


def check_edges(thresholds: Tensor | Sequence[float], extra: Sequence[float] = ()) -> Tensor:
    """Ascending thresholds as float64, with those that the metric itself needs.

    Args:
        thresholds: Finite and strictly ascending.
        extra: Further thresholds to merge in.

    Returns:
        The grid.
    """
    edges = torch.as_tensor(thresholds, dtype=torch.float64).flatten()
    if (
        not edges.numel()
        or not bool(torch.isfinite(edges).all())
        or bool((edges.diff() <= 0).any())
    ):
        raise InputError(
            f"thresholds must be finite and strictly ascending, got {edges.numel()} of them"
        )
    return torch.unique(torch.cat([edges, torch.tensor(extra, dtype=torch.float64)]), sorted=True)


def count_bins(scores: Tensor, labels: Tensor, edges: Tensor, name: str) -> Tensor:
    """Trials of each class in each bin, (3, edges + 1).

    Args:
        scores: Scores of any shape.
        labels: ``TrialClass`` codes.
        edges: Grid, on any device.
        name: Name of the scores, for the error message.

    Returns:
        Counts of type int64.
    """
    values, codes = scores.flatten().to(torch.float64), labels.flatten().to(torch.int64)
    if bool(torch.isnan(values).any()):
        raise InputError(f"{name} holds NaN")
    if bool(((codes < 0) | (codes > 2) | (codes != labels.flatten())).any()):
        raise InputError("labels must be 0 (spoof), 1 (target) or 2 (nontarget)")
    bins = edges.numel() + 1
    place = torch.bucketize(values, edges.to(values.device)) + bins * codes
    return torch.bincount(place, minlength=3 * bins).view(3, bins)
