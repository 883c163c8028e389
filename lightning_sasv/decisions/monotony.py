"""Decisions that a better score would turn against a trial."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Floats

Flags = NDArray[np.bool_]


def inversions(accepted: Flags, scores: Floats) -> Flags:
    """Rejected trials that are at least as good in every score as some accepted one.

    Only the accepted trials that no other one is at or below in every score need be looked at.

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
    worse = found[~accepted]
    while good.shape[1]:
        least = good[:, good.sum(axis=0).argmin(), None]
        worse |= (rejected >= least).all(axis=0)
        good = good[:, (good < least).any(axis=0)]
    found[~accepted] = worse
    return found
