"""Scores that lie far from those of their class, or decide alone how these spread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Codes, Floats
from lightning_sasv.trials import TrialClass

FEW = 4
"""So many trials should not decide how wide the scores of a class are."""
SMALL, APART = 100, 5.0
"""Four of fewer trials than this weigh much in any case; only those farther out mislead."""
FAR = 10.0
"""What ``trim`` could be, in interquartile ranges beyond the quartiles."""


def far_scores(pairs: Floats, codes: Codes, trim: float | None) -> NDArray[np.bool_]:
    """Which scores (2, trials) lie far beyond the quartiles of their class.

    Args:
        pairs: Score pairs (2, trials).
        codes: ``TrialClass`` codes (trials,).
        trim: More interquartile ranges than this are far; ``None`` if nothing is. Where the range
            of a class is 0 nothing is either: it does not say how far scores usually lie.
    """
    far = np.zeros(pairs.shape, bool)
    if trim is not None:
        for code in TrialClass:
            own = codes == code
            low, high = np.quantile(pairs[:, own], [0.25, 0.75], axis=1)[..., None]
            reach = trim * (high - low)
            beyond = (pairs[:, own] < low - reach) | (pairs[:, own] > high + reach)
            far[:, own] = beyond & (reach > 0)
    return far


def deciding_trials(values: Floats) -> NDArray[np.intp]:
    """The trials, up to four, that decide the variance of a class; as a rule there are none.

    Four trials do if without them the variance changes by more than half of itself. Of all subsets
    of a size, a window of the ranked values has the least variance, and all but a window the most;
    the most can be half as large again only where there are fewer than twelve values.

    Args:
        values: Scores of one class.

    Returns:
        Their places in ``values``, ascending.

    Example:
        >>> deciding_trials(np.append(np.arange(50.0), 1e12))
        array([50])
    """
    size, variance = values.size, values.var()
    if size <= FEW:
        return np.arange(size)
    if np.ptp(values) <= 8 * np.spacing(np.abs(values).max()):  # equal but for rounding
        return np.arange(0)
    ends = [*range(FEW), *range(size - FEW, size)]
    ranked = np.partition(values, ends)
    rest = _narrowest(ranked, FEW)[0]
    for removed in range(1, FEW + 1) if rest < variance / 2 else ():
        least, start = _narrowest(ranked, removed)
        if least < variance / 2 and least <= 2 * rest:  # the others make no such difference
            order = np.argpartition(values, ends)
            return np.sort(np.delete(order, slice(start, start + size - removed)))
    if size < 3 * FEW:
        blocks = np.argsort(values)[np.arange(size - FEW + 1)[:, None] + np.arange(FEW)]
        without = [np.delete(values, block).var() for block in blocks]
        if max(without) > 1.5 * variance:
            return np.sort(blocks[np.argmax(without)])
    return np.arange(0)


def _narrowest(ranked: Floats, removed: int) -> tuple[float, int]:
    """Least variance of a window of all but some values, and where it starts."""
    kept = ranked.size - removed
    return min((float(ranked[n : n + kept].var()), n) for n in range(removed + 1))


def misleading_trials(values: Floats) -> NDArray[np.intp]:
    """The trials, up to four, that decide the variance of a class although they should not.

    Without its four most extreme trials a small healthy class loses half of its variance as a rule
    (always of 10 trials, in 1 to 68 of 100 classes of 50, the more skewed the more often; from 100
    on it is rare). So in a class of fewer than 100 they must also lie more than 5 interquartile
    ranges beyond the quartiles, as in 2 to 8 of 100 skewed classes of 50.
    """
    found = deciding_trials(values)
    if FEW < values.size < SMALL and found.size:
        low, high = np.quantile(values, [0.25, 0.75])
        beyond = np.maximum(low - values[found], values[found] - high)
        return found[beyond > APART * (high - low)]
    return found
