"""Features of trials for regressions with two LLRs, and the search for their weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Floats
from lightning_sasv.numerics import minimise

ORDERS = ("linear", "squares", "quadratic")
"""Features of a multinomial regression: the columns, their squares too, or all products too."""

_BLOCK, _SMALL = 1 << 12, 1 << 22
"""So many trials are looked at together, which fit into a cache; so many numbers are kept."""

PairLoss = Callable[[Floats, slice], tuple[float, Floats, Floats]]
"""Maps LLR pairs y (2, n) of trials and their places to the loss, its gradient (2, n) and its
Hessian in y: the entries (0, 0), (0, 1) and (1, 1), (3, n)."""


class Basis:
    """Features of trials, made block by block: never all of them at once.

    ``linear``: the columns z; ``squares``: also z_j²; ``quadratic``: also z_i z_j, i ≤ j, row by
    row. Measures of quality are linear in every order, and 1 is last.

    Args:
        columns: Standardised columns (d, trials), measures of quality last.
        order: One of :data:`ORDERS`.
        scores: How many of the columns are scores; all unless given.
    """

    def __init__(self, columns: Floats, order: str = "linear", scores: int | None = None) -> None:
        self.columns, self.order = columns, order
        self.scores = len(columns) if scores is None else scores
        self.pairs = products(order, self.scores)
        self.size, self.trials = len(columns) + len(self.pairs) + 1, columns.shape[1]
        self.places = [slice(k, k + _BLOCK) for k in range(0, self.trials, _BLOCK)]
        small = self.size * self.trials <= _SMALL
        self._made = {place.start: self._features(place) for place in self.places if small}

    def block(self, place: slice) -> Floats:
        """Features (size, n) of one of the places: scores, their products, qualities, 1."""
        return self._made[place.start] if self._made else self._features(place)

    def _features(self, place: slice) -> Floats:
        columns = self.columns[:, place]
        result = np.empty((self.size, columns.shape[1]))
        last = self.scores + len(self.pairs)
        result[: self.scores] = columns[: self.scores]
        for k, (i, j) in enumerate(self.pairs):
            np.multiply(columns[i], columns[j], out=result[self.scores + k])
        result[last:-1], result[-1] = columns[self.scores :], 1.0
        return result

    def pair_loss(self, theta: Floats, loss: PairLoss) -> tuple[float, Floats, Floats]:
        """Loss of ``theta @ features``, its gradient (2, p) and its Hessian (2, p, 2, p)."""
        value, gradient = 0.0, np.zeros_like(theta)
        sums = np.zeros((3, self.size, self.size))
        for place in self.places:
            features = self.block(place)
            part, slope, curvature = loss(theta @ features, place)
            value += part
            gradient += slope @ features.T
            for k in range(3):
                sums[k] += (features * curvature[k]) @ features.T
        return value, gradient, np.array([[sums[0], sums[1]], [sums[1], sums[2]]]).swapaxes(1, 2)


def products(order: str, scores: int) -> list[tuple[int, int]]:
    """Which products of columns an order has.

    Example:
        >>> products("quadratic", 2)
        [(0, 0), (0, 1), (1, 1)]
    """
    if order == "squares":
        return [(i, i) for i in range(scores)]
    upper = [(i, j) for i in range(scores) for j in range(i, scores)]
    return upper if order == "quadratic" else []


def minimise_pair_loss(
    basis: Basis,
    loss: PairLoss,
    penalty: float,
    start: Floats,
    free: NDArray[np.bool_] | None = None,
    decrement: float = 1e-18,
) -> Floats:
    """Minimiser θ (2, p) of ``loss(θ φ) + ½ penalty Σ θ²``, the last of each row without penalty.

    Args:
        basis: Features φ.
        loss: Loss of the LLR pairs.
        penalty: Ridge strength, in units of the features.
        start: Where to start, (2, p).
        free: Which parameters are searched, (2, p); the others are 0.
        decrement: Where to end, see :func:`minimise`.
    """
    free = np.full(start.shape, True) if free is None else free
    places = np.flatnonzero(free)
    ridge = penalty * np.tile(np.append(np.ones(basis.size - 1), 0.0), 2)[places]

    def spread_out(parameters: Floats) -> Floats:
        theta = np.zeros(start.size)
        theta[places] = parameters
        return theta.reshape(start.shape)

    def objective(parameters: Floats) -> tuple[float, Floats, Floats]:
        value, gradient, hessian = basis.pair_loss(spread_out(parameters), loss)
        hessian = hessian.reshape(start.size, start.size)[np.ix_(places, places)]
        value += float(0.5 * (ridge @ parameters**2))
        return value, gradient.ravel()[places] + ridge * parameters, hessian + np.diag(ridge)

    return spread_out(minimise(objective, start.ravel()[places], decrement=decrement))
