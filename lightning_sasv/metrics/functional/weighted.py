"""Metrics of weighted trials: sorted once, evaluated for any number of weightings.

A weight is how often a trial counts. With whole weights every value equals the metric of the
trials literally repeated so often, which is what resampling needs: no sorting per replicate.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Floats
from lightning_sasv.metrics.functional.cllr import negative_loss, parts_of, positive_loss
from lightning_sasv.metrics.functional.dcf import bayes_threshold, normaliser
from lightning_sasv.metrics.functional.eer import Convention
from lightning_sasv.metrics.functional.ladder import (
    Counts,
    crossing,
    ladder,
    points_eer,
    smallest_cost,
)
from lightning_sasv.metrics.functional.pav import hull, hull_eer
from lightning_sasv.metrics.functional.resampling import Weights
from lightning_sasv.metrics.functional.sorted_trials import Drawn, SortedClass
from lightning_sasv.metrics.functional.sorting import merged

Values = dict[str, float]


class Family(Protocol):
    """Metrics that are computed together; called with the weight of each trial."""

    def __call__(self, drawn: Drawn) -> Values:
        """Every metric of the family, by name; NaN where a class has no weight."""
        ...


class DetectionFamily:
    """Everything that one score and one or two kinds of negatives give.

    Args:
        positive: The positives.
        negatives: The negatives of each kind.
        names: Name of each metric wanted, by what it is: ``eer``, ``eer_0``, ``eer_1`` (against
            one kind of negatives), ``cllr``, ``cllr_min``, ``cllr_calib``, ``min_dcf``,
            ``act_dcf``.
        weights: Weight of the miss rate and of each kind's false acceptances, for the DCF.
        convention: Of the EERs.
    """

    def __init__(
        self,
        positive: SortedClass,
        negatives: Sequence[SortedClass],
        names: Mapping[str, str],
        weights: tuple[float, ...],
        convention: Convention = "asvspoof",
    ) -> None:
        self.names, self.weights, self.convention = names, weights, convention
        self.classes = classes = (positive, *negatives)
        self.rungs = ladder(*(part.values for part in classes))
        if "cllr" in names or "cllr_calib" in names:
            kinds = (positive_loss, *(negative_loss for _ in negatives))
            pairs = zip(kinds, classes, strict=True)
            self.losses = [loss(part.values) for loss, part in pairs]
        if "act_dcf" in names:
            cut = bayes_threshold(weights)
            self.cuts = [np.searchsorted(part.values, cut, side="right") for part in classes]
        if convention in ("interpolated", "max"):  # at "accept all" and at every distinct score
            scores = merged(*(part.values for part in classes))
            places = (np.searchsorted(part.values, scores, side="right") for part in classes)
            self.ranks = [np.append(0, place) for place in places]

    def __call__(self, drawn: Drawn) -> Values:
        """Every metric wanted, by name."""
        cumulative = [drawn.cumulative(part) for part in self.classes]
        if not all(total[-1] for total in cumulative):
            return dict.fromkeys(self.names.values(), math.nan)
        ranks = (self.rungs.first, *self.rungs.below)
        counts = [total.take(rank) for total, rank in zip(cumulative, ranks, strict=True)]
        values: Values = {}
        self._eers(drawn, counts, values)
        self._cllrs(drawn, counts, values)
        self._dcfs(cumulative, counts, values)
        return {name: values[what] for what, name in self.names.items()}

    def _eers(self, drawn: Drawn, counts: list[NDArray[np.int64]], values: Values) -> None:
        kinds = eer_kinds(self.names, len(self.classes) - 1)
        if kinds and self.convention in ("interpolated", "max"):
            pairs = zip(self.classes, self.ranks, strict=True)
            counts = [drawn.cumulative(part).take(ranks) for part, ranks in pairs]
        for what, kind in kinds.items():
            values[what] = _eer(counts[0], sum(counts[kind][1:], counts[kind][0]), self.convention)

    def _cllrs(self, drawn: Drawn, counts: list[NDArray[np.int64]], values: Values) -> None:
        wanted = {"cllr", "cllr_min", "cllr_calib"} & set(self.names)
        if not wanted:
            return
        cost = math.nan
        if wanted != {"cllr_min"}:
            sums = [
                weighted_sum(loss, drawn.of(part))
                for loss, part in zip(self.losses, self.classes, strict=True)
            ]
            negatives = sum(int(count[-1]) for count in counts[1:])
            cost = (sums[0] / int(counts[0][-1]) + sum(sums[1:]) / negatives) / 2
        values["cllr"] = cost
        if wanted != {"cllr"}:
            parts = parts_of(cost, hull(counts[0], sum(counts[2:], counts[1])))
            values["cllr_min"], values["cllr_calib"] = parts.min, parts.calib

    def _dcfs(
        self,
        cumulative: list[NDArray[np.int64]],
        counts: list[NDArray[np.int64]],
        values: Values,
    ) -> None:
        if "min_dcf" in self.names:
            cost, _ = smallest_cost(self.weights, counts[0], tuple(counts[1:]))
            values["min_dcf"] = cost / normaliser(self.weights)
        if "act_dcf" in self.names:
            rejected = [
                float(total[cut] / total[-1])
                for total, cut in zip(cumulative, self.cuts, strict=True)
            ]
            cost = self.weights[0] * rejected[0]
            cost += sum(w * (1 - r) for w, r in zip(self.weights[1:], rejected[1:], strict=True))
            values["act_dcf"] = cost / normaliser(self.weights)


def eer_kinds(names: Container[str], number: int) -> dict[str, slice]:
    """Which of the classes, positives first, are the negatives of each equal error rate wanted.

    Args:
        names: ``eer`` (all negatives), ``eer_0``, ``eer_1`` (one kind), and others.
        number: How many kinds of negatives there are.
    """
    kinds = {"eer": slice(1, None)} | {f"eer_{k}": slice(k + 1, k + 2) for k in range(number)}
    return {what: kind for what, kind in kinds.items() if what in names}


def _eer(positives: Counts, negatives: Counts, convention: Convention) -> float:
    if convention == "asvspoof":
        return crossing(positives, negatives).value
    if convention == "rocch":
        return hull_eer(hull(positives, negatives))
    return points_eer(positives, negatives, worst=convention == "max")


def weighted_sum(loss: Floats, weights: Weights) -> float:
    """Weighted sum in which an infinite loss of weight 0 counts nothing."""
    counts = weights.astype(np.float64)
    with np.errstate(invalid="ignore"):
        total = float(loss @ counts)
    if math.isnan(total):
        used = np.flatnonzero(counts)
        total = float(loss[used] @ counts[used])
    return total
