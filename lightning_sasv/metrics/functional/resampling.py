"""How often each trial counts in each replicate of a bootstrap.

Replicate r of a seed is a function of (seed, r) alone: it does not depend on how many replicates
there are, in what order or portions they are computed, or what they are used for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import BLOCK, ArrayLike
from lightning_sasv.errors import InputError

Weights: TypeAlias = NDArray[np.integer]
Clusters: TypeAlias = ArrayLike | tuple[ArrayLike, ArrayLike] | None

NOT_CLUSTERED = "-"
"""Cluster name of trials that no cluster holds: the attack of bona fide speech."""


def replicate_weights(
    size: int, clusters: Clusters = None, n: int = 1000, seed: int = 0
) -> Iterator[Weights]:
    """How often each trial counts in each replicate, one replicate at a time.

    Args:
        size: Number of trials.
        clusters: As for :func:`bootstrap`.
        n: Replicates.
        seed: Replicate r depends on ``(seed, r)`` only.

    Yields:
        The weights of one replicate.
    """
    ways = _ways(clusters, size)
    for replicate in range(n):
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence((seed, replicate))))
        yield _cluster_weights(rng, size, ways) if ways else _trial_weights(rng, size)


def _trial_weights(rng: np.random.Generator, size: int) -> Weights:
    """How often each trial is drawn: first how many draws fall into each block of trials.

    Within a block the draws are uniform, so the counts are those of drawing from all trials, but
    nothing is scattered over more memory than a block.
    """
    starts = np.arange(0, size, BLOCK)
    sizes = np.minimum(BLOCK, size - starts)
    draws = rng.multinomial(size, sizes / size)
    weights: Weights = np.empty(size, dtype=np.int16)
    for start, block, drawn in zip(starts, sizes, draws, strict=True):
        counts = np.bincount(rng.integers(0, block, drawn), minlength=block)
        if counts.max() > np.iinfo(weights.dtype).max:
            weights = weights.astype(np.int64)
        weights[start : start + block] = counts
    return weights


def _cluster_weights(
    rng: np.random.Generator, size: int, ways: list[tuple[int, NDArray[np.intp]]]
) -> Weights:
    """The product over the columns of how often a trial's cluster is drawn."""
    weights: Weights | None = None
    for count, of_trial in ways:
        drawn = np.bincount(rng.integers(0, count, count), minlength=count)
        factor = _narrow(np.append(drawn, 1)).take(of_trial)  # the last: trials of no cluster
        weights = factor if weights is None else weights * factor.astype(np.int64)
    return np.ones(size, dtype=np.int64) if weights is None else weights


def _narrow(counts: NDArray[np.intp]) -> Weights:
    """Counts in 16 bits, where they fit: less memory to look them up in."""
    return counts.astype(np.int16) if counts.max() <= np.iinfo(np.int16).max else counts


def _ways(clusters: Clusters, size: int) -> list[tuple[int, NDArray[np.intp]]]:
    """For each column of clusters, their number and the cluster of each trial."""
    if clusters is None:
        return []
    columns = clusters if isinstance(clusters, tuple) else (clusters,)
    ways = []
    for place, column in enumerate(columns):
        array = np.asarray(column)
        if array.shape != (size,):
            raise InputError(f"clusters[{place}] has shape {array.shape}; expected ({size},)")
        names, of_trial = np.unique(array.astype(str), return_inverse=True)
        inside = names != NOT_CLUSTERED
        if not inside.any():
            raise InputError(f"clusters[{place}] names no cluster: all are {NOT_CLUSTERED!r}")
        number = np.where(inside, np.cumsum(inside) - 1, inside.sum())
        ways.append((int(inside.sum()), number[of_trial]))
    return ways
