"""The crossing of the two error rates of sorted positives and unsorted negatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lightning_sasv.metrics.functional._checks import BLOCK, Codes, Floats, is_any, select
from lightning_sasv.trials import TrialClass

_FEW = 16384  # negatives that are not worth a first guess


class Negatives:
    """Unordered negatives of which only a window of scores need still be looked at.

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

    def sample(self, size: int) -> Negatives:
        """Every so-many-th of them; none perhaps."""
        step = max(self._scores.size // size, 1)
        scores = self._scores[::step]
        if self._codes is not None:
            scores = scores[is_any(self._codes[::step], self._classes)]
        return Negatives(scores)

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
        count = 0
        for start in range(0, self._scores.size, BLOCK):
            mask = self._scores[start : start + BLOCK] <= threshold
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


class Found(NamedTuple):
    """Where FRR - FAR becomes non-negative when scores are rejected one by one.

    Attributes:
        rank: Positives rejected before; the positive at this rank is the first whose rejection
            leaves FRR >= FAR.
        rejected: Negatives rejected at the crossing.
        by_negative: Whether a negative, not the positive, makes the crossing.
    """

    rank: int
    rejected: int
    by_negative: bool


def find_crossing(positive: Floats, negative: Negatives) -> Found:
    """Find the crossing by bisection over the positives, counting the negatives.

    Args:
        positive: Positive scores in ascending order.
        negative: Negative scores; afterwards narrowed to a window around the crossing.

    Returns:
        The crossing, exact whatever the order of the negatives.
    """
    P, N = positive.size, negative.size
    low, high = (
        -1,
        P - 1,
    )  # the rejection of positive `high` leaves FRR >= FAR, of `low` it does not
    if N > _FEW:
        low, high = _bracket(positive, negative)
    low, below = _bisect(positive, negative, low, high)
    by_negative = low / P >= (N - below) / N
    rejected = -(-N * (P - low) // P) if by_negative else below
    return Found(low, rejected, by_negative)


def _bisect(positive: Floats, negative: Negatives, low: int, high: int) -> tuple[int, int]:
    """First rank in (low, high] with FRR >= FAR, and the negatives below its score."""
    P, N = positive.size, negative.size
    below = negative.below(positive[high])
    while high - low > 1:
        middle = (low + high) // 2
        count = negative.below(positive[middle])
        if (middle + 1) / P >= (N - count) / N:
            high, below = middle, count
        else:
            low = middle
    return high, below


def _bracket(positive: Floats, negative: Negatives) -> tuple[int, int]:
    """Ranks around the crossing, guessed from a sample of the negatives and then verified."""
    P, N = positive.size, negative.size
    sample = negative.sample(int(N ** (2 / 3)))  # then the window is of about that size, too
    if not sample.size:
        return -1, P - 1
    guess, _ = _bisect(positive, sample, -1, P - 1)
    margin = int(2 * P / math.sqrt(sample.size)) + 1
    low, high = max(guess - margin, 0), min(guess + margin, P - 1)
    negative.narrow(positive[low], positive[high])
    under, over = negative.below(positive[low]), negative.below(positive[high])
    if (low + 1) / P >= (N - under) / N or (high + 1) / P < (N - over) / N:
        negative.widen()  # the sample misled: look at all
        return -1, P - 1
    return low, high
