"""Equal error rates of very many weighted trials: only those near the crossings are put in order.

Which trials cross the two error rates hardly depends on the weights. All trials below a window of
scores around the crossing count as one, and so do those above: their weights are summed in the
order of the trials, which is much faster than looking them up in the order of the scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.metrics.functional._checks import BLOCK, Floats
from lightning_sasv.metrics.functional.crossing import Negatives
from lightning_sasv.metrics.functional.eer import Convention, eer_of_sorted
from lightning_sasv.metrics.functional.resampling import Weights
from lightning_sasv.metrics.functional.sorting import ascending
from lightning_sasv.metrics.functional.weighted import DetectionFamily, Values, eer_kinds

MANY = 1 << 19
"""Trials from which on a window saves time."""

_FACTOR = 4.0  # by which the odds of an error at either end of the window differ from the EER's


class WindowedFamily:
    """The equal error rates of :class:`DetectionFamily`, the same values, for very many trials.

    A weighting that moves a crossing out of the window is evaluated with all trials.

    Args:
        scores: Score of each trial.
        positive: Which trials are positives.
        negatives: For each kind, which trials they are.
        names: Name of each rate wanted, by what it is: ``eer``, ``eer_0``, ``eer_1``.
        convention: Of the rates; any but ``rocch``, for which all trials matter.
    """

    def __init__(
        self,
        scores: Floats,
        positive: NDArray[np.bool_],
        negatives: tuple[NDArray[np.bool_], ...],
        names: Mapping[str, str],
        convention: Convention,
    ) -> None:
        self._scores, self._classes = scores, (positive, *negatives)
        self._names, self._convention = names, convention
        low, high = self._ends()
        beyond = ((scores < low).astype(np.int8), (scores > high).astype(np.int8))
        self._zones = np.zeros(scores.size, dtype=np.int8)  # 0: within, or of no class
        near = np.zeros(scores.size, dtype=bool)
        for place, mask in enumerate(self._classes):
            for side, outside in enumerate(beyond):
                self._zones += mask * outside * np.int8(1 + 2 * place + side)
            near |= mask
        self._trials = np.flatnonzero(near & (self._zones == 0))
        self._near = self._family(self._trials, [-np.inf, np.inf])

    def __call__(self, weights: Weights) -> Values:
        """Every rate wanted, by name."""
        sums = np.zeros(1 + 2 * len(self._classes))
        for start in range(0, weights.size, BLOCK):
            block = slice(start, start + BLOCK)
            sums += np.bincount(self._zones[block], weights[block], minlength=sums.size)
        outside = sums[1:].astype(np.int64)
        drawn = weights.take(self._trials)
        if not self._holds(outside.reshape(-1, 2), drawn):
            return self._all(weights)
        return self._near(np.concatenate([drawn, outside]))

    def _ends(self) -> tuple[float, float]:
        """Scores between which the crossings of all weightings are expected."""
        target = ascending(self._scores[self._classes[0]])
        ends = []
        for kind in eer_kinds(self._names, len(self._classes) - 1).values():
            mask = np.logical_or.reduce(self._classes[kind])
            rate = eer_of_sorted(target, Negatives(self._scores[mask])).value
            odds = (rate + 1 / target.size) / (1 - rate + 1 / target.size)
            shares = (x / (1 + x) for x in (odds / _FACTOR, odds * _FACTOR))
            ends.append([target[int(share * (target.size - 1))] for share in shares])
        return float(np.min(ends)), float(np.max(ends))

    def _family(self, trials: NDArray[np.intp], lumps: list[float]) -> DetectionFamily:
        """Rates of some trials, and of a lump of others of each class at each of some scores."""
        scores = np.concatenate([self._scores[trials], lumps * len(self._classes)])
        masks = []
        for place, mask in enumerate(self._classes):
            lump = np.arange(len(self._classes)) == place
            masks.append(np.concatenate([mask[trials], np.repeat(lump, len(lumps))]))
        plain = (1.0,) * len(masks)
        return DetectionFamily(
            scores, masks[0], tuple(masks[1:]), self._names, plain, self._convention
        )

    @cached_property
    def _all(self) -> DetectionFamily:
        return self._family(np.arange(self._scores.size), [])

    def _holds(self, outside: NDArray[np.int64], drawn: Weights) -> bool:
        """Whether every crossing lies within: FRR < FAR at its start and FRR >= FAR at its end."""
        inside = [int(drawn[mask].sum()) for mask in self._near_masks]
        under, over = outside[:, 0].tolist(), outside[:, 1].tolist()
        P = under[0] + inside[0] + over[0]
        for kind in eer_kinds(self._names, len(self._classes) - 1).values():
            below, beyond = sum(under[kind]), sum(over[kind])
            N = below + sum(inside[kind]) + beyond
            if under[0] * N >= (N - below) * P or (P - over[0]) * N < beyond * P:
                return False
        return True

    @cached_property
    def _near_masks(self) -> list[NDArray[np.bool_]]:
        return [mask[self._trials] for mask in self._classes]
