"""Scores in ascending order."""

from __future__ import annotations

import numpy as np

from lightning_sasv.checks import Floats

_FEW = 4096  # scores that are not worth a library


def ascending(scores: Floats) -> Floats:
    """Scores sorted, not to be written to; they must not hold NaN.

    Polars sorts twice as fast as numpy where numpy has no vector instructions to sort with, and its
    time grows with the number of scores almost in proportion. It does so in the calling thread.

    Args:
        scores: Scores in any order; they stay as they are.

    Returns:
        The scores in ascending order.
    """
    if scores.size < _FEW:
        return np.sort(scores)
    import polars  # a tenth of a second, for large columns only

    return polars.Series(scores).sort(multithreaded=False).to_numpy()


def merged(*parts: Floats) -> Floats:
    """Distinct scores of ascending parts, ascending: the parts are merged, not sorted again."""
    scores = np.sort(np.concatenate(parts), kind="stable")  # timsort finds and merges the runs
    new = np.empty(scores.size, dtype=bool)
    new[:1] = True
    np.not_equal(scores[1:], scores[:-1], out=new[1:])
    return scores if new.all() else scores[new]
