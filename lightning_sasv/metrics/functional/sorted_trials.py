"""Classes of trials in the order of their scores, sorted once for all metrics and weightings."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Codes, Floats, is_any
from lightning_sasv.metrics.functional.resampling import Weights
from lightning_sasv.trials import TrialClass

Mask = NDArray[np.bool_]


class SortedClass:
    """The trials of one class in ascending order of their scores.

    Attributes:
        trials: Their numbers.
        values: Their scores.
    """

    def __init__(self, scores: Floats, mask: Mask) -> None:
        trials = np.flatnonzero(mask)
        self.trials = trials[np.argsort(scores[trials])]
        self.values = scores[self.trials]


class SortedTrials:
    """The classes of the columns of a set of trials; each is sorted when it is first asked for.

    Args:
        columns: Scores by column name.
        codes: ``TrialClass`` codes.
    """

    def __init__(self, columns: Mapping[str, Floats], codes: Codes) -> None:
        self.columns, self.codes = columns, codes
        self._sorted: dict[tuple[str, tuple[TrialClass, ...]], SortedClass] = {}

    def mask(self, *classes: TrialClass) -> Mask:
        """Which trials are of some classes."""
        return is_any(self.codes, classes)

    def of(self, column: str, *classes: TrialClass) -> SortedClass:
        """The trials of some classes, together, by the scores of a column."""
        key = (column, classes)
        if key not in self._sorted:
            self._sorted[key] = SortedClass(self.columns[column], self.mask(*classes))
        return self._sorted[key]


class Drawn:
    """How often each trial counts, put in the order of a class once for all metrics.

    Attributes:
        weights: In the order of the trials.
    """

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self._of: dict[SortedClass, Weights] = {}
        self._cumulative: dict[SortedClass, NDArray[np.int64]] = {}

    def of(self, part: SortedClass) -> Weights:
        """The weights of a class in the order of its scores."""
        if part not in self._of:
            self._of[part] = self.weights.take(part.trials)
        return self._of[part]

    def cumulative(self, part: SortedClass) -> NDArray[np.int64]:
        """Summed weight of the first so many trials of a class, from 0 to the total."""
        if part not in self._cumulative:
            total = np.zeros(part.trials.size + 1, dtype=np.int64)
            np.cumsum(self.of(part), out=total[1:])
            self._cumulative[part] = total
        return self._cumulative[part]
