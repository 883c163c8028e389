"""Equal error rates of weighted trials, from those trials alone that can cross the error rates.

Which scores the crossing lies between hardly depends on the weights. Positives well above it and
negatives well below it, nearly all trials, are on the right side in any case: only their summed
weight matters, and that follows from the weight of the whole class.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Floats
from lightning_sasv.metrics.functional.eer import Convention, eer_of_sorted
from lightning_sasv.metrics.functional.resampling import Weights
from lightning_sasv.metrics.functional.sorted_trials import Drawn, Mask, SortedClass
from lightning_sasv.metrics.functional.sorting import ascending
from lightning_sasv.metrics.functional.unordered import Unordered
from lightning_sasv.metrics.functional.weighted import DetectionFamily, Values, eer_kinds

MANY = 1 << 14
"""Trials from which on a window saves time."""

MOST = 0.2
"""Largest share of the trials with which a window saves time."""

_FACTOR = 2.0  # by which the odds of an error at either end of the window differ from the EER's


class WindowedFamily:
    """The equal error rates of :class:`DetectionFamily`, the same values; quicker if they are low.

    The trials that count one by one are the positives up to the window's end and the negatives
    from its start. A weighting that moves a crossing out of the window is evaluated with all
    trials.

    Args:
        scores: Score of each trial.
        positive: Which trials are positives; at least one.
        negatives: For each kind, which trials they are; at least one.
        names: Name of each rate wanted, by what it is: ``eer``, ``eer_0``, ``eer_1``.
        convention: Of the rates; any but ``rocch``, for which all trials matter.
    """

    def __init__(
        self,
        scores: Floats,
        positive: Mask,
        negatives: tuple[Mask, ...],
        names: Mapping[str, str],
        convention: Convention,
    ) -> None:
        self._needed = [np.flatnonzero(mask) for mask in negatives]
        if list(names) == ["eer"]:  # the kinds need not be told apart
            negatives = (np.logical_or.reduce(negatives),)
        self._scores, self._masks = scores, (positive, *negatives)
        self._names, self._convention = names, convention
        self._kinds = list(eer_kinds(names, len(negatives)).values())
        self._totals = _Totals(self._masks)
        low, high = self._ends()
        inside = scores <= high, *(scores >= low for _ in negatives)
        pairs = zip(self._masks, inside, strict=True)
        self._classes = [SortedClass(scores, mask & near) for mask, near in pairs]
        self._wrong = [int(np.searchsorted(self._classes[0].values, low))]  # surely errors
        for part in self._classes[1:]:
            self._wrong.append(int(np.searchsorted(part.values, high, side="right")))

    @property
    def share(self) -> float:
        """Share of the trials that count one by one."""
        return sum(part.values.size for part in self._classes) / self._scores.size

    def __call__(self, drawn: Drawn) -> Values:
        """Every rate wanted, by name; NaN where a class has no weight."""
        weights = drawn.weights
        if not all(_any(weights, trials) for trials in self._needed):
            return dict.fromkeys(self._names.values(), math.nan)
        near, totals = [drawn.of(part) for part in self._classes], self._totals(weights)
        if not self._holds(near, totals):
            return self._all(drawn)
        rest = [total - int(part.sum()) for total, part in zip(totals, near, strict=True)]
        return self._near(Drawn(np.concatenate([*near, np.array(rest, dtype=np.int64)])))

    def _ends(self) -> tuple[float, float]:
        """Scores between which the crossings of all weightings are expected."""
        positive = ascending(self._scores[self._masks[0]])
        size, ends = positive.size, []
        for kind in self._kinds:
            mask = np.logical_or.reduce(self._masks[kind])
            rate = eer_of_sorted(positive, Unordered(self._scores[mask])).value
            odds = (rate + 1 / size) / (1 - rate + 1 / size)
            shares = (x / (1 + x) for x in (odds / _FACTOR, odds * _FACTOR))
            ends.append([positive[int(share * (size - 1))] for share in shares])
        return float(np.min(ends)), float(np.max(ends))

    @cached_property
    def _near(self) -> DetectionFamily:
        """The trials that count one by one, class by class, and the others of each as one."""
        number = len(self._classes)
        far = [math.inf, *[-math.inf] * (number - 1)]
        scores = np.concatenate([*(part.values for part in self._classes), far])
        owner = np.repeat(np.arange(number), [part.values.size for part in self._classes])
        owner = np.append(owner, np.arange(number))
        return self._family(scores, [owner == place for place in range(number)])

    @cached_property
    def _all(self) -> DetectionFamily:
        return self._family(self._scores, self._masks)

    def _family(self, scores: Floats, masks: Sequence[Mask]) -> DetectionFamily:
        positive, *negatives = (SortedClass(scores, mask) for mask in masks)
        plain = (1.0,) * len(masks)
        return DetectionFamily(positive, negatives, self._names, plain, self._convention)

    def _holds(self, near: list[Weights], totals: list[int]) -> bool:
        """Whether every crossing lies within: FRR < FAR at its start and FRR >= FAR at its end."""
        missed, P = int(near[0][: self._wrong[0]].sum()), totals[0]
        rejected = int(near[0].sum())
        sums = [int(part.sum()) for part in near]
        over = [int(part[n:].sum()) for part, n in zip(near, self._wrong, strict=True)]
        for kind in self._kinds:
            N, accepted, beyond = sum(totals[kind]), sum(sums[kind]), sum(over[kind])
            if missed * N >= accepted * P or rejected * N < beyond * P:
                return False
        return True


def _any(weights: Weights, trials: NDArray[np.intp]) -> bool:
    """Whether some trials have any weight; as a rule the first of them tell."""
    return bool(weights.take(trials[:32]).any() or weights.take(trials).any())


class _Totals:
    """Summed weight of each class; that of the largest is what the others leave."""

    def __init__(self, masks: Sequence[Mask]) -> None:
        self._largest = int(np.argmax([np.count_nonzero(mask) for mask in masks]))
        self._trials = [np.flatnonzero(mask) for mask in masks]
        self._trials[self._largest] = np.flatnonzero(~np.logical_or.reduce(masks))

    def __call__(self, weights: Weights) -> list[int]:
        totals = [int(weights.take(trials).sum()) for trials in self._trials]
        totals[self._largest] = int(weights.sum()) - sum(totals)
        return totals
