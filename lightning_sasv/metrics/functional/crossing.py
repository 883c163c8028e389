"""The crossing of the two error rates of sorted positives and unsorted negatives."""

from __future__ import annotations

import math
from typing import NamedTuple

from lightning_sasv.checks import Floats
from lightning_sasv.metrics.functional.unordered import Unordered

_FEW = 16384  # negatives that are not worth a first guess


class Found(NamedTuple):
    """Where FRR - FAR becomes non-negative when scores are rejected one by one.

    Attributes:
        rank: Positives rejected before; the positive at this rank is the first whose rejection
            leaves FRR >= FAR.
        rejected: Unordered rejected at the crossing.
        by_negative: Whether a negative, not the positive, makes the crossing.
    """

    rank: int
    rejected: int
    by_negative: bool


def find_crossing(positive: Floats, negative: Unordered) -> Found:
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


def _bisect(positive: Floats, negative: Unordered, low: int, high: int) -> tuple[int, int]:
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


def _bracket(positive: Floats, negative: Unordered) -> tuple[int, int]:
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
