"""Replicates that draw trials, from counts: multinomial in the cells of a class and a bin.

Drawing N trials with replacement gives each cell a share of N as the multinomial distribution of
the cells' shares does: the same distribution as drawing the trials themselves, not the same draws.
Only what is a function of one column's bins can be drawn so; sums of losses and the tandem cannot.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Floats
from lightning_sasv.counting.closed import CLOSED, Block
from lightning_sasv.counting.column import Column
from lightning_sasv.counting.views import view_of
from lightning_sasv.metrics.bootstrap import generator


def is_drawn(name: str) -> bool:
    """Whether a metric is one of the bins of a column."""
    return name in CLOSED and not name.endswith(("cllr", "cllr_calib"))


def numbers(n: int, at_once: int) -> Iterator[NDArray[np.int64]]:
    """Numbers of the replicates, in blocks; -1 stands for the trials as they are."""
    return iter(np.array_split(np.arange(n), range(at_once, n, at_once)))


class Cells:
    """The cells of a column: bins by class, each cut an edge between two of them.

    Args:
        column: The column.
        codes: Class of each row.
        seed: Replicate r is a function of (seed, r).
    """

    def __init__(self, column: Column, codes: NDArray[np.int8], seed: int) -> None:
        view = view_of(column, codes, fine=False)
        edges = np.concatenate([view.edges, view.cuts])
        below = np.concatenate([np.cumsum(view.counts, axis=1), view.rejected], axis=1)
        order = np.argsort(edges, kind="stable")
        edges, self._cuts, self._seed = edges[order], view.cuts, seed
        self._bins = np.nextafter(np.append(-np.inf, edges[:-1]), np.inf), edges
        self._counts = np.diff(below[:, order], axis=1, prepend=0)
        self._at = np.argsort(order)[view.edges.size :]

    def block(self, replicates: NDArray[np.int64]) -> Block:
        """The column in some replicates."""
        counts = np.stack([self._drawn(int(number)) for number in replicates], axis=1)
        rejected = np.cumsum(counts, axis=2)[:, :, self._at]
        unknown = np.full(counts.shape[:2], np.nan)
        return Block(self._bins, self._cuts, counts.astype(np.float64), rejected, unknown)

    def _drawn(self, number: int) -> NDArray[np.int64]:
        if number < 0:
            return self._counts
        total = int(self._counts.sum())
        shares: Floats = self._counts.ravel() / total
        drawn = generator(self._seed, number).multinomial(total, shares)
        return drawn.reshape(self._counts.shape)
