"""Normalised cross-entropy of three-class posteriors, as it is and after the best affine refit.

    nCE = - sum over k of π_k mean over class k of log P(k | s)  /  H(π)

with the entropy H(π) of the priors in the denominator: 1 is what the priors alone give. The
posterior follows from Bayes' rule with the log-likelihoods (spoof, target, nontarget) =
(-cm_llr, 0, -asv_llr), up to a common constant. The minimum refits s ↦ a s + b_k, one scale a for
all and an offset b_k for each class: convex in (a, b), without a penalty.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lightning_sasv.checks import (
    ArrayLike,
    Codes,
    Floats,
    as_labels,
    as_scores,
    blocks,
    check_has_class,
    check_not_empty,
    check_same_length,
)
from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.functional.points import Classes, weighted_sum
from lightning_sasv.numerics import minimise
from lightning_sasv.trials import TrialClass


class CrossEntropy(NamedTuple):
    """Normalised cross-entropy; 1 is what the priors alone give.

    Attributes:
        value: Of the log-likelihood ratios as they are.
        min: After the best scale common to both ratios and offset of each: the part that no such
            calibration mends.

    Example:
        >>> labels = ["target", "nontarget", "spoof"]
        >>> cross_entropy([4.0, -4.0, 4.0], [4.0, 4.0, -4.0], labels).value < 0.05
        True
    """

    value: float
    min: float


def cross_entropy(
    asv_llr: ArrayLike, cm_llr: ArrayLike, labels: ArrayLike, costs: CostModel | str = "equal"
) -> CrossEntropy:
    """Three-class cross-entropy of a pair of log-likelihood ratios, normalised.

    Args:
        asv_llr: log p(s|target) / p(s|nontarget) of each trial.
        cm_llr: log p(s|target) / p(s|spoof) of each trial.
        labels: ``TrialClass`` codes or words.
        costs: Cost model, or the name of a preset, whose priors weight the classes.

    Returns:
        The cross-entropy as it is and after the refit.

    Raises:
        InputError: An empty class, a NaN, an infinite ratio, or a class of prior 0.

    Example:
        >>> labels = ["target", "nontarget", "spoof"]
        >>> round(cross_entropy([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], labels).value, 9)
        1.0
    """
    columns = {"asv_llr": as_scores(asv_llr, "asv_llr"), "cm_llr": as_scores(cm_llr, "cm_llr")}
    codes = as_labels(labels)
    check_same_length({**columns, "labels": codes})
    _check_finite(columns)
    check_has_class(codes, *TrialClass)
    classes = Classes(dict(zip(("asv", "cm"), columns.values(), strict=True)), codes)
    model = as_cost_model(costs)
    return CrossEntropy(cross_entropy_of(classes, model), refitted(classes, model))


def cross_entropy_of(classes: Classes, costs: CostModel) -> float:
    """Normalised cross-entropy of the columns ``asv`` and ``cm``; losses are computed once."""
    prior = class_priors(costs)
    losses = classes.for_all_weights(("losses", costs), lambda: _losses(classes, prior))
    parts = [(losses.take(trials), weights) for trials, weights in _by_class(classes)]
    sums = [weighted_sum(loss, weights) / weights.sum() for loss, weights in parts]
    return float(prior @ sums) / entropy(prior)


def refitted(classes: Classes, costs: CostModel) -> float:
    """Smallest normalised cross-entropy of a * log-likelihoods + offsets.

    Convex, so that the search may start at ratios of size 1; the result is never above the
    cross-entropy of the ratios as they are. Separable classes have their infimum at an infinite
    scale: what is reached on the way there counts.
    """
    prior, shares = class_priors(costs), np.zeros(classes.codes.size)
    for (trials, weights), p in zip(_by_class(classes), prior, strict=True):
        shares[trials] = weights * (p / weights.sum())
    used = np.flatnonzero(shares)
    asv, cm = (classes.columns[name].take(used) for name in ("asv", "cm"))
    scale = classes.for_all_weights("size of the ratios", lambda: _size(asv, cm))
    problem = _Problem(asv, cm, classes.codes[used], shares[used], np.log(prior), scale)
    # Where the trials as they are have their minimum, a replicate's is near.
    found = classes.for_all_weights(
        ("refit", costs), lambda: minimise(problem.derivatives, np.array([1.0, 0.0, 0.0]))
    )
    if classes.weights is not None:
        found = minimise(problem.derivatives, found)
    return min(problem.derivatives(found)[0] / entropy(prior), cross_entropy_of(classes, costs))


def class_priors(costs: CostModel) -> Floats:
    """Priors in the order of the codes: spoof, target, nontarget."""
    prior = np.array([costs.p_spoof, costs.p_target, costs.p_nontarget])
    if prior.min() <= 0:
        raise InputError(f"cross-entropy needs positive priors, got {prior.tolist()}")
    return prior


def entropy(prior: Floats) -> float:
    """Entropy of the priors in nats."""
    return -math.fsum(float(p) * math.log(p) for p in prior)


def _size(*columns: Floats) -> float:
    return max(*(float(np.abs(column).mean()) for column in columns), 1e-300)


def _check_finite(columns: dict[str, Floats]) -> None:
    for name, llrs in columns.items():
        if np.isinf(llrs).any():
            raise InputError(f"{name} holds infinite values; posteriors need finite ratios")


def _by_class(classes: Classes) -> list[tuple[np.ndarray, np.ndarray]]:
    """Numbers and weights of the trials of each class, in the order of the codes."""
    found = []
    for member in sorted(TrialClass):
        trials, weights = classes.trials(member), classes.weights
        counts = np.ones(trials.size) if weights is None else weights.take(trials)
        check_not_empty(np.flatnonzero(counts), f"{member} trials")
        found.append((trials, counts))
    return found


def _losses(classes: Classes, prior: Floats) -> Floats:
    """-log P(class | s) of each trial's own class, in nats."""
    asv, cm, codes = classes.columns["asv"], classes.columns["cm"], classes.codes
    _check_finite({"asv": asv, "cm": cm})
    losses = np.empty(codes.size)
    for block in blocks(codes.size):
        logits = _log_likelihoods(asv[block], cm[block]) + np.log(prior)[:, None]
        own = np.take_along_axis(logits, codes[None, block].astype(np.intp), axis=0)[0]
        top = logits.max(axis=0)
        losses[block] = top + np.log(np.exp(logits - top).sum(axis=0)) - own
    return losses


class _Problem(NamedTuple):
    """Cross-entropy and its derivatives in theta = (scale, offset of spoof, offset of target).

    Trials are looked at block by block, so that little beside the scores is in memory.
    """

    asv_llr: Floats
    cm_llr: Floats
    codes: Codes
    weights: Floats
    log_prior: Floats
    scale: float

    def derivatives(self, theta: Floats) -> tuple[float, Floats, Floats]:
        """Value, gradient and Hessian."""
        loss, slope, curvature = 0.0, np.zeros(3), np.zeros((3, 3))
        for block in blocks(self.codes.size):
            features = _log_likelihoods(self.asv_llr[block], self.cm_llr[block]) / self.scale
            logits = theta[0] * features + (np.append(theta[1:], 0.0) + self.log_prior)[:, None]
            logits -= logits.max(axis=0)
            weights, codes = self.weights[block], self.codes[block].astype(np.intp)
            own = codes, np.arange(codes.size)
            posterior = np.exp(logits)
            total = posterior.sum(axis=0)
            loss += float(weights @ (np.log(total) - logits[own]))
            posterior /= total
            mean = np.einsum("kn,kn->n", posterior, features)
            # Derivatives of the three logits less their posterior mean, one row per parameter.
            rows = np.stack(
                [features - mean, *(np.eye(3)[k][:, None] - posterior[k] for k in (0, 1))]
            )
            slope -= rows[:, own[0], own[1]] @ weights
            weighted = (rows * (posterior * weights)).reshape(3, -1)
            curvature += weighted @ rows.reshape(3, -1).T
        return loss, slope, curvature


def _log_likelihoods(asv_llr: Floats, cm_llr: Floats) -> Floats:
    """Those of spoof, target and nontarget up to a common constant, (3, trials)."""
    return np.stack([-cm_llr, np.zeros_like(asv_llr), -asv_llr])
