"""Logistic regression of scores: of two classes, of all three, and of the nonlinear score itself.

Each fit standardises the scores inside, which changes nothing but the rounding, and minimises a
smooth function with the derivatives given here. Regressions with two LLRs are linear in features
of a trial (:class:`Basis`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Codes, Floats, as_finite, check_spread
from lightning_sasv.decisions.costs import CostModel
from lightning_sasv.errors import InputError
from lightning_sasv.fusion.columns import PAIR, Columns
from lightning_sasv.numerics import log_add, log_loss, minimise, weighted_log_loss
from lightning_sasv.trials import CLASS_ORDER, TrialClass

ORDERS = ("linear", "squares", "quadratic")
"""Features of a multinomial regression: the columns, their squares too, or all products too."""

SMALL_PENALTY = 1e-10
"""Default ridge: too weak to be seen in a score, enough to keep separable classes finite."""

_UPHILL = 1e-9
_BLOCK, _SMALL = 1 << 12, 1 << 22
"""So many trials are looked at together, which fit into a cache; so many numbers are kept."""

PairLoss = Callable[[Floats, slice], tuple[float, Floats, Floats]]
"""Maps LLR pairs y (2, n) of trials and their places to the loss, its gradient (2, n) and its
Hessian in y: the entries (0, 0), (0, 1) and (1, 1), (3, n)."""

Affine = tuple[Floats, Floats]
"""Weight (2, d) and bias (2,) of the map ``y = W x + b`` from scores to LLR pairs."""


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
    start: Floats | None = None,
    free: NDArray[np.bool_] | None = None,
    decrement: float = 1e-18,
) -> Floats:
    """Minimiser θ (2, p) of ``loss(θ φ) + ½ penalty Σ θ²``, the last of each row without penalty.

    Args:
        basis: Features φ.
        loss: Loss of the LLR pairs.
        penalty: Ridge strength, in units of the features.
        start: Where to start, (2, p); at 0 unless given.
        free: Which parameters are searched, (2, p); the others are 0.
        decrement: Where to end, see :func:`minimise`.
    """
    start = np.zeros((2, basis.size)) if start is None else start
    places = np.flatnonzero(np.ones_like(start) if free is None else free)
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


def weighted_logistic(
    positives: Floats,
    negatives: Floats,
    weights: tuple[float, float],
    penalty: float,
    name: str = "scores",
) -> tuple[float, float]:
    """Slope and intercept of the weighted logistic regression of a class on a score.

    Minimises ``w₊ Σ₊ log(1+e^(−ax−b)) + w₋ Σ₋ log(1+e^(ax+b)) + ½ penalty a²`` (the intercept is
    free).

    Args:
        positives: Scores of the positive class.
        negatives: Scores of the negative class.
        weights: Weight of every positive and of every negative trial.
        penalty: Strength of the ridge on the slope, 0 for none.
        name: What the scores are called in messages.

    Returns:
        The pair (a, b).

    Raises:
        InputError: No finite optimum, because the scores are constant, or because the classes
            are separable and unpenalised.

    Example:
        >>> weighted_logistic(np.array([1.0, -1.0]), np.array([1.0, -1.0]), (1.0, 1.0), 0.0)
        (0.0, 0.0)
    """
    slopes, intercept = logistic_of_side(
        positives[None], negatives[None], weights, penalty, (name,)
    )
    return float(slopes[0]), intercept


def logistic_of_side(
    positives: Floats,
    negatives: Floats,
    weights: tuple[float, float],
    penalty: float,
    names: Sequence[str],
) -> tuple[Floats, float]:
    """Slopes (k,) and intercept of the weighted logistic regression of a class on k columns.

    Args:
        positives: Scores (k, n) of the positive class.
        negatives: Scores (k, m) of the negative class.
        weights: Weight of every positive and of every negative trial.
        penalty: Strength of the ridge on each slope.
        names: What the columns are called in messages.

    Raises:
        InputError: As for :func:`weighted_logistic`.
    """
    scores = np.concatenate([positives, negatives], axis=1)
    for row, name in zip(scores, names, strict=True):
        check_spread(as_finite(row, name), name)
    if penalty == 0 and len(scores) == 1:
        _check_overlap(positives, negatives, names[0])
    sizes = [positives.shape[1], negatives.shape[1]]
    sign, weight = np.repeat([1.0, -1.0], sizes), np.repeat(weights, sizes)
    centre, scale = scores.mean(axis=1), scores.std(axis=1)
    standard = (scores - centre[:, None]) / scale[:, None]
    signed = sign * np.concatenate([standard, np.ones_like(scores[:1])])
    ridge = np.append(penalty / scale**2, 0.0)
    found = minimise(weighted_log_loss(signed, weight, ridge), np.zeros(len(ridge)))
    slopes = found[:-1] / scale
    return slopes, float(found[-1] - slopes @ centre)


def logit(probability: float) -> float:
    """``log p/(1−p)``."""
    return math.log(probability) - math.log1p(-probability)


def multinomial_loss(labels: Codes) -> PairLoss:
    """Class-balanced loss of the softmax ``[e^(−llr_ts), 1, e^(−llr_tn)]``.

    ``Σ w [log(1 + e^(−llr_tn) + e^(−llr_ts)) + 1{non} llr_tn + 1{spf} llr_ts]``, w = 1/(3 N_k).
    """
    truth = np.stack([labels == TrialClass.NONTARGET, labels == TrialClass.SPOOF]).astype(float)
    weight = class_weights(labels)

    def loss(llrs: Floats, place: slice) -> tuple[float, Floats, Floats]:
        top = np.maximum(-llrs.min(axis=0), 0.0)
        parts = np.exp(-llrs - top)
        total = parts.sum(axis=0) + np.exp(-top)
        own, right, posterior = weight[place], truth[:, place], parts / total
        value = float(own @ (top + np.log(total) + (right * llrs).sum(axis=0)))
        return value, own * (right - posterior), own * _covariance(posterior)

    return loss


def standardised(
    scores: Floats, columns: Columns, order: str = "linear"
) -> tuple[Basis, Floats, Floats]:
    """Features of standardised scores (d, n), and the means and standard deviations (d,) taken."""
    for name, row in zip(columns.shown, scores, strict=True):
        check_spread(as_finite(row, name), name)
    centre, scale = scores.mean(axis=1), scores.std(axis=1)
    return Basis((scores - centre[:, None]) / scale[:, None], order, columns.scores), centre, scale


def fit_multinomial(
    scores: Floats, labels: Codes, penalty: float = SMALL_PENALTY, columns: Columns = PAIR
) -> Affine:
    """Class-balanced multinomial logistic regression on all columns.

    With equal class weights 1/(3 N_k), the logit differences ``a = W₁x + b₁`` (target against
    nontarget) and ``c = W₂x + b₂`` (target against spoof) of the softmax
    ``[e^(−c), 1, e^(−a)]`` over (spoof, target, nontarget) are LLRs.

    Args:
        scores: Scores (d, n).
        labels: ``TrialClass`` codes (n,).
        penalty: Ridge on the standardised weights.
        columns: What the scores are.
    """
    basis, centre, scale = standardised(scores, columns)
    theta = minimise_pair_loss(basis, multinomial_loss(labels), penalty)
    return unscaled(theta, centre, scale)


def fit_joint(
    scores: Floats,
    labels: Codes,
    costs: CostModel,
    penalty: float = SMALL_PENALTY,
    columns: Columns = PAIR,
) -> Affine:
    """Logistic regression of the nonlinear score itself, at the operating point of a cost model.

    Both affine maps are learned together, from the log-loss of the posterior
    ``σ(s + logit π̃_tar)`` with ``s = −log[(1−ρ̃) e^(−w·a−b) + ρ̃ e^(−v·c−e)]``, a the ASV and c
    the CM scores, and weights π̃_k/N_k, where π̃_k ∝ C_k π_k are the cost-weighted priors and ρ̃
    their spoof share (the form of arXiv 2408.11152). The start is the logistic regression of each
    side alone. The loss is not convex: with several columns of a kind the search goes on from a map
    four times as steep, and the lower minimum is taken.

    Args:
        scores: Scores (d, n).
        labels: ``TrialClass`` codes (n,).
        costs: Costs and priors of the operating point.
        penalty: Ridge on the standardised weights.
        columns: What the scores are.

    Raises:
        InputError: A class has no weight at all in ``costs``.
    """
    for code, share in zip(CLASS_ORDER, costs.weights, strict=True):
        if share <= 0:
            raise InputError(f"costs give the class {code} the weight {share}; joint needs > 0")
    prior = np.array(costs.weights) / sum(costs.weights)
    weight = class_weights(labels, prior.tolist())
    sign = np.where(labels == TrialClass.TARGET, 1.0, -1.0)
    log_share = np.log(prior[1:] / prior[1:].sum())[:, None]
    offset = logit(prior[0])

    def loss(llrs: Floats, place: slice) -> tuple[float, Floats, Floats]:
        parts = log_share - llrs
        log_sum = log_add(*parts)
        share = np.exp(parts - log_sum)  # ds/dy, (2, n)
        own, side = weight[place], sign[place]
        losses, error = log_loss(side * (offset - log_sum))
        slope = -own * side * error  # dL/ds; d²s/dy² is −covariance of the shares
        outer = own * error * (1 - error) * share[[0, 0, 1]] * share[[0, 1, 1]]
        return float(own @ losses), slope * share, outer - slope * _covariance(share)

    basis, centre, scale = standardised(scores, columns)
    start, free = _separate_start(basis, labels, columns), _own_columns(columns, basis.size)
    theta = minimise_pair_loss(basis, loss, penalty, start, free)
    if not columns.one_each:
        steep = minimise_pair_loss(basis, loss, penalty, 4 * theta, free)
        values = [
            basis.pair_loss(one, loss)[0] + penalty * np.sum(one[:, :-1] ** 2) / 2
            for one in (theta, steep)
        ]
        theta = steep if values[1] < values[0] else theta
    return unscaled(theta, centre, scale)


def fit_monotone(
    scores: Floats, labels: Codes, penalty: float = SMALL_PENALTY, columns: Columns = PAIR
) -> Affine:
    """Class-balanced multinomial regression of each LLR on its own columns, no weight below 0.

    ``llr_tn = w·a + b`` with a the ASV scores and ``llr_ts = v·c + e`` with c the CM scores
    minimise the loss of ``fit_multinomial`` under w, v ≥ 0. Hence a trial that is at least as good
    as an accepted one in every score is accepted too, at any costs. A column whose weight would be
    negative has the weight 0.

    Args:
        scores: Scores (d, n).
        labels: ``TrialClass`` codes (n,).
        penalty: Ridge on the standardised weights.
        columns: What the scores are.
    """
    basis, centre, scale = standardised(scores, columns)
    allowed = _own_columns(columns, basis.size)
    return unscaled(
        _at_least_zero(basis, multinomial_loss(labels), penalty, allowed), centre, scale
    )


def _at_least_zero(
    basis: Basis, loss: PairLoss, penalty: float, allowed: NDArray[np.bool_]
) -> Floats:
    """Minimiser whose allowed weights are at least 0: an active set, for the loss is convex.

    The most negative weight is fixed at 0 until none is left; one that the loss would then raise
    again is set free, unless that was tried before.
    """
    free, tried = allowed.copy(), set[bytes]()
    while True:
        tried.add(free.tobytes())
        theta = minimise_pair_loss(basis, loss, penalty, free=free)
        weights = theta[:, :-1]
        place = np.unravel_index(int(np.argmin(weights)), weights.shape)
        if weights[place] < 0:
            free[place] = False
            continue
        slopes = np.where(allowed & ~free, basis.pair_loss(theta, loss)[1], 0.0)
        place = np.unravel_index(int(np.argmin(slopes)), slopes.shape)
        free[place] = True
        if slopes[place] > -_UPHILL or free.tobytes() in tried:
            return theta


def unscaled(theta: Floats, centre: Floats, scale: Floats) -> Affine:
    """The map of scores as they are from that of standardised ones."""
    weight = theta[:, :-1] / scale
    return weight, theta[:, -1] - weight @ centre


def _own_columns(columns: Columns, size: int) -> NDArray[np.bool_]:
    """Which of the parameters (2, p) are not 0 where each LLR sees the columns of its own side."""
    free = np.full((2, size), False)
    for row, side in zip(free, columns.sides(), strict=True):
        row[side] = row[-1] = True
    return free


def _separate_start(basis: Basis, labels: Codes, columns: Columns) -> Floats:
    """Balanced logistic regressions of target against nontarget and of target against spoof.

    Parameters (2, p) of the standardised columns.
    """
    start = np.zeros((2, basis.size))
    others = (TrialClass.NONTARGET, TrialClass.SPOOF)
    for k, (side, other) in enumerate(zip(columns.sides(), others, strict=True)):
        own = [labels == TrialClass.TARGET, labels == other]
        pos, neg = (basis.columns[side][:, mask] for mask in own)
        weights = 0.5 / pos.shape[1], 0.5 / neg.shape[1]
        found = logistic_of_side(pos, neg, weights, 1e-4, columns.shown[side])
        start[k, side], start[k, -1] = found
    return start


def class_weights(labels: Codes, prior: Sequence[float] = (1 / 3, 1 / 3, 1 / 3)) -> Floats:
    """Weight π_k/N_k of each trial, (n,); the priors are those of :data:`CLASS_ORDER`."""
    weight = np.empty(len(labels))
    for code, share in zip(CLASS_ORDER, prior, strict=True):
        weight[labels == code] = share / np.count_nonzero(labels == code)
    return weight


def _covariance(shares: Floats) -> Floats:
    """``diag(p) − p pᵀ`` of each column of shares (2, n): entries 00, 01 and 11, (3, n)."""
    first, second = shares
    return np.stack([first - first**2, -first * second, second - second**2])


def _check_overlap(positives: Floats, negatives: Floats, name: str) -> None:
    """Raise if a threshold separates the two classes, so that the slope has no finite optimum."""
    ranges = [(side.min(), side.max()) for side in (positives, negatives)]
    (low_pos, high_pos), (low_neg, high_neg) = ranges
    if high_neg <= low_pos or high_pos <= low_neg:
        raise InputError(
            f"{name} separates the two classes: positives in "
            f"[{low_pos:.6g}, {high_pos:.6g}], negatives in [{low_neg:.6g}, {high_neg:.6g}]; "
            "logistic regression needs penalty > 0 then"
        )
