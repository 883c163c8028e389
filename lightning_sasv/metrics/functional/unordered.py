"""Scores of a class that are counted and narrowed to a window, but not sorted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lightning_sasv.checks import BLOCK, Codes, Floats, is_any, select
from lightning_sasv.trials import TrialClass


class Unordered:
    """Scores of one class in any order, of which only a window need still be looked at.

    Args:
        scores: Their scores, or those of all trials.
        codes: Class of each trial, if only some of the trials are meant.
        classes: The classes that are meant.

    Attributes:
        size: Their number.
    """

    def __init__(
        self, scores: Floats, codes: Codes | None = None, classes: Sequence[TrialClass] = ()
    ) -> None:
        self._scores, self._codes, self._classes = scores, codes, classes
        self.size = scores.size
        if codes is not None:
            self.size = sum(int(np.count_nonzero(codes == member.value)) for member in classes)
        self._window: Floats | None = None
        self._under = 0

    def all(self) -> Floats:
        """All of them, gathered."""
        if self._codes is None:
            return self._scores
        return select(self._scores, self._codes, self._classes)

    def sample(self, size: int) -> Unordered:
        """About so many of them, at equal distances in the order of the trials; none perhaps."""
        step = max(self.size // size, 1)
        scores = self._scores[::step]
        if self._codes is not None:
            scores = scores[is_any(self._codes[::step], self._classes)]
        return Unordered(scores)

    def below(self, value: float) -> int:
        """How many are smaller than a value of the window."""
        return self._under + int(np.count_nonzero(self._looked_at() < value))

    def up_to(self, value: float) -> int:
        """How many are at most a value of the window."""
        return self._under + int(np.count_nonzero(self._looked_at() <= value))

    def between(self, low: float, high: float) -> tuple[Floats, int]:
        """Those with low <= score <= high, and how many are smaller; each score is read once."""
        windows, under = [], 0
        for start in range(0, self._scores.size, BLOCK):
            block = self._scores[start : start + BLOCK]
            below, kept = block < low, block <= high
            kept &= ~below
            if self._codes is not None:
                meant = is_any(self._codes[start : start + BLOCK], self._classes)
                below &= meant
                kept &= meant
            under += int(np.count_nonzero(below))
            windows.append(block.take(np.flatnonzero(kept)))
        return np.concatenate(windows), under

    def narrow(self, low: float, high: float) -> None:
        """Look only at low <= score <= high from now on."""
        self._window, self._under = self.between(low, high)

    def rejected(self, threshold: float) -> int:
        """How many of all are at most a threshold."""
        return self._count(np.less_equal, threshold)

    def short_of(self, threshold: float) -> int:
        """How many of all are smaller than a threshold."""
        return self._count(np.less, threshold)

    def _count(self, compare: np.ufunc, threshold: float) -> int:
        count = 0
        for start in range(0, self._scores.size, BLOCK):
            mask = compare(self._scores[start : start + BLOCK], threshold)
            if self._codes is not None:
                mask &= is_any(self._codes[start : start + BLOCK], self._classes)
            count += int(np.count_nonzero(mask))
        return count

    def widen(self) -> None:
        """Look at all of them again."""
        self._window, self._under = None, 0

    def smallest(self, rank: int) -> float:
        """The score of a rank (the smallest has rank 1) that lies in the window."""
        place = rank - self._under - 1
        return float(np.partition(self._looked_at(), place)[place])

    def _looked_at(self) -> Floats:
        if self._window is None:
            self._window = self.all()
        return self._window
