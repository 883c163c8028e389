"""Logistic regression of scores: on one score, on pairs, and of the nonlinear score itself.

Each fit standardises the scores inside, which changes nothing but the rounding, and minimises a
smooth function with the derivatives given here.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from lightning_sasv.checks import Codes, Floats, as_finite, check_spread
from lightning_sasv.decisions.costs import CostModel
from lightning_sasv.errors import InputError
from lightning_sasv.numerics import log_add, minimise
from lightning_sasv.trials import CLASS_ORDER, TrialClass

SMALL_PENALTY = 1e-10
"""Default ridge: too weak to be seen in a score, enough to keep separable classes finite."""

Affine = tuple[Floats, Floats]
"""Weight (2, 2) and bias (2,) of the map ``y = W x + b`` from score pairs to LLR pairs."""

PairLoss = Callable[[Floats], tuple[float, Floats, Floats]]
"""Maps LLR pairs y (2, n) to the loss, its gradient (2, n) and its Hessian (2, 2, n) in y."""


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
    scores = np.concatenate([positives, negatives])
    check_spread(as_finite(scores, name), name)
    if penalty == 0:
        _check_overlap(positives, negatives, name)
    sizes = [len(positives), len(negatives)]
    sign, weight = np.repeat([1.0, -1.0], sizes), np.repeat(weights, sizes)
    centre, scale = scores.mean(), scores.std()
    signed = sign * np.stack([(scores - centre) / scale, np.ones_like(scores)])
    ridge = np.array([penalty, 0.0]) / scale**2

    def objective(parameters: Floats) -> tuple[float, Floats, Floats]:
        losses, error = _log_loss(parameters @ signed)
        weighted = weight * error
        value = 0.5 * (ridge @ parameters**2) + weight @ losses
        gradient = ridge * parameters - signed @ weighted
        hessian = (signed * (weighted - weighted * error)) @ signed.T + np.diag(ridge)
        return float(value), gradient, hessian

    slope, intercept = minimise(objective, np.zeros(2)).tolist()
    return float(slope / scale), float(intercept - slope * centre / scale)


def logit(probability: float) -> float:
    """``log p/(1−p)``."""
    return math.log(probability) - math.log1p(-probability)


def fit_multinomial(scores: Floats, labels: Codes, penalty: float = SMALL_PENALTY) -> Affine:
    """Class-balanced multinomial logistic regression on the score pair.

    With equal class weights 1/(3 N_k), the logit differences ``a = W₁x + b₁`` (target against
    nontarget) and ``c = W₂x + b₂`` (target against spoof) of the softmax
    ``[e^(−c), 1, e^(−a)]`` over (spoof, target, nontarget) are LLRs.

    Args:
        scores: Score pairs (2, n).
        labels: ``TrialClass`` codes (n,).
        penalty: Ridge on the standardised weights.
    """
    truth = np.stack([labels == TrialClass.NONTARGET, labels == TrialClass.SPOOF]).astype(float)
    weight = _class_weights(labels, (1 / 3, 1 / 3, 1 / 3))

    def loss(llrs: Floats) -> tuple[float, Floats, Floats]:
        log_sum = log_add(np.zeros_like(weight), log_add(-llrs[0], -llrs[1]))
        posterior = np.exp(-llrs - log_sum)
        value = float(weight @ (log_sum + (truth * llrs).sum(axis=0)))
        return value, weight * (truth - posterior), weight * _covariance(posterior)

    return fit_affine_pair(scores, loss, penalty, (np.zeros((2, 2)), np.zeros(2)))


def fit_joint(
    scores: Floats, labels: Codes, costs: CostModel, penalty: float = SMALL_PENALTY
) -> Affine:
    """Logistic regression of the nonlinear score itself, at the operating point of a cost model.

    Both affine maps are learned together, from the log-loss of the posterior
    ``σ(s + logit π̃_tar)`` with ``s = −log[(1−ρ̃) e^(−a₁x₁−b₁) + ρ̃ e^(−a₂x₂−b₂)]`` and
    weights π̃_k/N_k, where π̃_k ∝ C_k π_k are the cost-weighted priors and ρ̃ their spoof share
    (the form of arXiv 2408.11152). The start is the logistic regression of each side alone.

    Args:
        scores: Score pairs (2, n).
        labels: ``TrialClass`` codes (n,).
        costs: Costs and priors of the operating point.
        penalty: Ridge on the standardised weights.

    Raises:
        InputError: A class has no weight at all in ``costs``.
    """
    for code, share in zip(CLASS_ORDER, costs.weights, strict=True):
        if share <= 0:
            raise InputError(f"costs give the class {code} the weight {share}; joint needs > 0")
    prior = np.array(costs.weights) / sum(costs.weights)
    weight = _class_weights(labels, prior.tolist())
    sign = np.where(labels == TrialClass.TARGET, 1.0, -1.0)
    log_share = np.log(prior[1:] / prior[1:].sum())[:, None]
    offset = logit(prior[0])

    def loss(llrs: Floats) -> tuple[float, Floats, Floats]:
        parts = log_share - llrs
        log_sum = log_add(*parts)
        share = np.exp(parts - log_sum)  # ds/dy, (2, n)
        losses, error = _log_loss(sign * (offset - log_sum))
        slope = -weight * sign * error  # dL/ds; d²s/dy² is −covariance of the shares
        outer = weight * error * (1 - error) * (share[:, None] * share)
        return float(weight @ losses), slope * share, outer - slope * _covariance(share)

    return fit_affine_pair(scores, loss, penalty, _separate_start(scores, labels), diagonal=True)


def fit_affine_pair(
    scores: Floats, loss: PairLoss, penalty: float, start: Affine, *, diagonal: bool = False
) -> Affine:
    """Minimiser of ``loss(W x + b) + ½ penalty ‖W D‖²``, D the standard deviations of the scores.

    Args:
        scores: Score pairs x, (2, n).
        loss: Loss of the mapped pairs.
        penalty: Ridge strength, per standard deviation so that units of the scores do not matter.
        start: Map to start from.
        diagonal: Keep the off-diagonal weights at 0.
    """
    _check_pairs(scores)
    centre, scale = scores.mean(axis=1), scores.std(axis=1)
    standard = (scores - centre[:, None]) / scale[:, None]
    features = np.concatenate([standard, np.ones_like(standard[:1])])  # (3, n)
    free = [0, 2, 4, 5] if diagonal else [0, 1, 2, 3, 4, 5]
    ridge = penalty * np.array([1.0, 1.0, 0.0] * 2)[free]

    def spread_out(parameters: Floats) -> Floats:
        theta = np.zeros(6)
        theta[free] = parameters
        return theta.reshape(2, 3)

    def objective(parameters: Floats) -> tuple[float, Floats, Floats]:
        value, slope, curvature = loss(spread_out(parameters) @ features)
        gradient = (slope @ features.T).ravel()[free]
        blocks = (curvature[:, :, None] * features) @ features.T  # (2, 2, 3, 3)
        hessian = blocks.transpose(0, 2, 1, 3).reshape(6, 6)[np.ix_(free, free)]
        value += float(0.5 * (ridge @ parameters**2))
        return value, gradient + ridge * parameters, hessian + np.diag(ridge)

    weight, bias = start
    theta = np.column_stack([weight * scale, bias + weight @ centre])
    theta = spread_out(minimise(objective, theta.ravel()[free]))
    weight = theta[:, :2] / scale
    return weight, theta[:, 2] - weight @ centre


def _separate_start(scores: Floats, labels: Codes) -> Affine:
    """Balanced logistic regressions of target against nontarget and of target against spoof."""
    _check_pairs(scores)
    maps = []
    sides = {"asv": TrialClass.NONTARGET, "cm": TrialClass.SPOOF}
    for row, (name, other) in zip(scores, sides.items(), strict=True):
        positives, negatives = row[labels == TrialClass.TARGET], row[labels == other]
        weights = (0.5 / len(positives), 0.5 / len(negatives))
        maps.append(weighted_logistic(positives, negatives, weights, 1e-4 * row.var(), name))
    slopes, intercepts = np.array(maps).T
    return np.diag(slopes), intercepts


def _class_weights(labels: Codes, prior: tuple[float, ...] | list[float]) -> Floats:
    """Weight π_k/N_k of each trial, (n,); the priors are those of :data:`CLASS_ORDER`."""
    weight = np.empty(len(labels))
    for code, share in zip(CLASS_ORDER, prior, strict=True):
        weight[labels == code] = share / np.count_nonzero(labels == code)
    return weight


def _covariance(shares: Floats) -> Floats:
    """``diag(p) − p pᵀ`` of each column of shares (2, n): (2, 2, n)."""
    cross = -shares[0] * shares[1]
    first, second = shares - shares**2
    return np.array([[first, cross], [cross, second]])


def _log_loss(margin: Floats) -> tuple[Floats, Floats]:
    """``−log σ(m)`` and ``σ(−m)``, of which the latter is minus the slope of the former."""
    small = np.exp(-np.abs(margin))
    loss = np.maximum(-margin, 0.0) + np.log1p(small)
    return loss, np.where(margin >= 0, small, 1.0) / (1 + small)


def _check_pairs(scores: Floats) -> None:
    """Raise if one side of score pairs cannot be standardised."""
    for name, side in zip(("asv", "cm"), scores, strict=True):
        check_spread(as_finite(side, name), name)


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
