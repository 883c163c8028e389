"""Decisions that a better score would turn against a trial."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Floats

Flags = NDArray[np.bool_]


def inversions(accepted: Flags, scores: Floats) -> Flags:
    """Rejected trials that are at least as good in every score as some accepted one.

    Of a pair the least second score of all accepted trials up to a first score decides; of more
    columns only accepted trials that no other one is at or below in every score are looked at.

    Args:
        accepted: Decisions (trials,).
        scores: Scores (columns, trials), higher is better.

    Returns:
        Which trials these are, (trials,).

    Example:
        >>> inversions(np.array([True, False, False]), np.array([[1, 2, 0], [5, 5, 9]])).tolist()
        [False, True, False]
    """
    found = np.zeros(len(accepted), dtype=bool)
    rejected, good = scores[:, ~accepted], scores[:, accepted]
    found[~accepted] = (_as_good_pairs if len(scores) == 2 else _as_good)(rejected, good)
    return found


def _as_good_pairs(rejected: Floats, good: Floats) -> Flags:
    first, second = good[:, np.argsort(good[0])]
    least = np.append(np.inf, np.minimum.accumulate(second))
    return rejected[1] >= least[np.searchsorted(first, rejected[0], side="right")]


def _as_good(rejected: Floats, good: Floats) -> Flags:
    found = np.zeros(rejected.shape[1], dtype=bool)
    while good.shape[1]:
        least = good[:, good.sum(axis=0).argmin(), None]
        found |= (rejected >= least).all(axis=0)
        good = good[:, (good < least).any(axis=0)]
    return found
