"""Normalised cross-entropy of three-class posteriors."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.functional._checks import (
    ArrayLike,
    Codes,
    Floats,
    as_labels,
    as_scores,
    check_has_class,
    check_same_length,
)
from lightning_sasv.trials import TrialClass


class CrossEntropy(NamedTuple):
    """Normalised cross-entropy; 1 is what the priors alone give.

    Attributes:
        value: Of the log-likelihood ratios as they are.
        min: After the best scale common to both ratios and offset of each: the part that no such
            calibration mends.
    """

    value: float
    min: float


def cross_entropy(
    asv_llr: ArrayLike, cm_llr: ArrayLike, labels: ArrayLike, costs: CostModel | str = "equal"
) -> CrossEntropy:
    """Three-class cross-entropy of a pair of log-likelihood ratios, normalised.

    nCE = -Σ_k π_k mean over class k of log P(k | s) / H(π), where the posterior follows from Bayes'
    rule with the log-likelihoods (spoof, target, nontarget) = (-cm_llr, 0, -asv_llr), up to a
    common constant. The minimum refits s ↦ a s + b_k, convex in (a, b), without a penalty.

    Args:
        asv_llr: log p(s|target) / p(s|nontarget) of each trial.
        cm_llr: log p(s|target) / p(s|spoof) of each trial.
        labels: ``TrialClass`` codes or words.
        costs: Cost model, or the name of a preset, whose priors weight the classes.

    Returns:
        The cross-entropy as it is and after the refit.

    Raises:
        InputError: An empty class, a NaN, an infinite ratio, or a class of prior 0.
    """
    asv, cm, codes = as_scores(asv_llr, "asv_llr"), as_scores(cm_llr, "cm_llr"), as_labels(labels)
    check_same_length({"asv_llr": asv, "cm_llr": cm, "labels": codes})
    for name, column in (("asv_llr", asv), ("cm_llr", cm)):
        if np.isinf(column).any():
            raise InputError(f"{name} holds infinite values; posteriors need finite ratios")
    for member in TrialClass:
        check_has_class(codes, member)
    log_likelihood, prior = stack_llrs(asv, cm), class_priors(as_cost_model(costs))
    weights = (prior / np.bincount(codes, minlength=prior.size))[codes]
    value = float(weights @ trial_losses(log_likelihood, codes, prior)) / entropy(prior)
    return CrossEntropy(value, _refit(log_likelihood, codes, weights, prior))


def stack_llrs(asv_llr: Floats, cm_llr: Floats) -> Floats:
    """Log-likelihoods of (spoof, target, nontarget) up to a common constant, (trials, 3)."""
    return np.stack([-cm_llr, np.zeros_like(asv_llr), -asv_llr], axis=1)


def trial_losses(log_likelihood: Floats, codes: Codes, prior: Floats) -> Floats:
    """-log P(class | s) of each trial's own class, in nats."""
    logits = log_likelihood + np.log(prior)
    top = logits.max(axis=1)
    normaliser = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
    return normaliser - np.take_along_axis(logits, codes[:, None].astype(np.intp), axis=1)[:, 0]


def class_priors(costs: CostModel) -> Floats:
    """Priors in the order of the codes: spoof, target, nontarget."""
    prior = np.array([costs.p_spoof, costs.p_target, costs.p_nontarget])
    if prior.min() <= 0:
        raise InputError(f"cross-entropy needs positive priors, got {prior.tolist()}")
    return prior


def entropy(prior: Floats) -> float:
    """Entropy of the priors in nats."""
    return -math.fsum(float(p) * math.log(p) for p in prior)


def _refit(log_likelihood: Floats, codes: Codes, weights: Floats, prior: Floats) -> float:
    """Smallest cross-entropy of a * log-likelihoods + offsets, by damped Newton steps.

    The problem is convex; the start is the log-likelihoods as they are, so the result is never
    above their own cross-entropy. Separable classes have their infimum at an infinite scale; the
    steps end when the loss gains less than 1e-13.
    """
    scale = max(float(np.abs(log_likelihood).max()), 1e-300)
    design = _Design(log_likelihood / scale, codes, weights, np.log(prior))
    theta = np.array([scale, 0.0, 0.0])
    loss = design.loss(theta)
    for _ in range(100):
        step = design.newton(theta)
        for _ in range(30):
            candidate = design.loss(theta - step)
            if candidate <= loss:
                break
            step = step / 2
        theta, gain, loss = theta - step, loss - candidate, min(candidate, loss)
        if gain < 1e-13:
            break
    return loss / entropy(prior)


class _Design:
    """Loss and Newton step of theta = (scale, offset of spoof, offset of target)."""

    def __init__(self, features: Floats, codes: Codes, weights: Floats, log_prior: Floats) -> None:
        self.features, self.weights, self.log_prior = features.T.copy(), weights, log_prior
        self.own = (codes[None, :] == np.arange(3)[:, None]).astype(np.float64)  # (3, trials)

    def _logits(self, theta: Floats) -> Floats:
        offset = np.append(theta[1:], 0.0) + self.log_prior
        logits = theta[0] * self.features + offset[:, None]
        logits -= logits.max(axis=0)
        return logits

    def loss(self, theta: Floats) -> float:
        logits = self._logits(theta)
        own = np.einsum("kn,kn->n", logits, self.own)
        return float(self.weights @ (np.log(np.exp(logits).sum(axis=0)) - own))

    def newton(self, theta: Floats) -> Floats:
        posterior = np.exp(self._logits(theta))
        posterior /= posterior.sum(axis=0)
        mean = np.einsum("kn,kn->n", posterior, self.features)
        # Derivatives of the three logits less their posterior mean, one row per parameter.
        rows = (self.features - mean, *(np.eye(3)[k][:, None] - posterior[k] for k in (0, 1)))
        weighted = posterior * self.weights
        slope = np.array([-np.einsum("kn,kn,n->", self.own, row, self.weights) for row in rows])
        curvature = np.array(
            [[np.einsum("kn,kn,kn->", weighted, a, b) for b in rows] for a in rows]
        )
        return np.linalg.solve(curvature + 1e-14 * np.eye(3), slope)
