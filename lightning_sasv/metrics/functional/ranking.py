"""Trials ranked by score, equal scores together: every operating point of a detector."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.metrics.functional._checks import Floats


class Ranking:
    """Ascending order of the scores, sorted once; counts of any weighting follow by a running sum.

    Attributes:
        order: Trial at each rank.
        ends: Rank of the last trial of each distinct score; ``None`` when all are distinct.
        thresholds: -inf ("accept all"), then every distinct score, ascending.
    """

    def __init__(self, scores: Floats) -> None:
        self.order = np.argsort(scores)
        ranked = scores.take(self.order)
        new = np.flatnonzero(ranked[1:] != ranked[:-1])
        self.ends: NDArray[np.intp] | None = None
        if new.size + 1 < ranked.size:
            self.ends = np.append(new, ranked.size - 1)
            ranked = ranked.take(self.ends)
        self.thresholds = np.concatenate([[-math.inf], ranked])

    def rejected(self, weights: NDArray[Any]) -> NDArray[Any]:
        """Summed weight of the trials that each threshold rejects (score <= threshold).

        Args:
            weights: Weight of each trial in the order of the trials; a boolean mask counts.

        Returns:
            One sum per threshold, from 0 to the total.
        """
        dtype = np.float64 if weights.dtype.kind == "f" else np.int64
        total = np.empty(self.order.size + 1, dtype=dtype)
        total[0] = 0
        np.cumsum(weights.take(self.order), out=total[1:])
        if self.ends is None:
            return total
        return np.concatenate([total[:1], total[1:].take(self.ends)])
