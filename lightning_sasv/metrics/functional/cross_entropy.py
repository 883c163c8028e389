"""Normalised cross-entropy of three-class posteriors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import (
    BLOCK,
    ArrayLike,
    Codes,
    Floats,
    as_labels,
    as_scores,
    check_has_class,
    check_same_length,
)
from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.errors import InputError
from lightning_sasv.trials import TrialClass

Index: TypeAlias = NDArray[np.intp]


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
        check_finite(column, name)
    for member in TrialClass:
        check_has_class(codes, member)
    prior = class_priors(as_cost_model(costs))
    weights = (prior / np.bincount(codes, minlength=prior.size))[codes]
    value = float(weights @ trial_losses(asv, cm, codes, prior)) / entropy(prior)
    return CrossEntropy(value, refitted(asv, cm, codes, weights, prior))


def trial_losses(asv_llr: Floats, cm_llr: Floats, codes: Codes, prior: Floats) -> Floats:
    """-log P(class | s) of each trial's own class, in nats."""
    losses = np.empty(codes.size)
    for block in _blocks(codes.size):
        logits = _log_likelihoods(asv_llr[block], cm_llr[block]) + np.log(prior)[:, None]
        own = np.take_along_axis(logits, codes[None, block].astype(np.intp), axis=0)[0]
        top = logits.max(axis=0)
        losses[block] = top + np.log(np.exp(logits - top).sum(axis=0)) - own
    return losses


def check_finite(llrs: Floats, name: str) -> None:
    """Raise an error that names the column unless all its ratios are finite."""
    if np.isinf(llrs).any():
        raise InputError(f"{name} holds infinite values; posteriors need finite ratios")


def class_priors(costs: CostModel) -> Floats:
    """Priors in the order of the codes: spoof, target, nontarget."""
    prior = np.array([costs.p_spoof, costs.p_target, costs.p_nontarget])
    if prior.min() <= 0:
        raise InputError(f"cross-entropy needs positive priors, got {prior.tolist()}")
    return prior


def entropy(prior: Floats) -> float:
    """Entropy of the priors in nats."""
    return -math.fsum(float(p) * math.log(p) for p in prior)


def refitted(
    asv_llr: Floats, cm_llr: Floats, codes: Codes, weights: Floats, prior: Floats
) -> float:
    """Smallest cross-entropy of a * log-likelihoods + offsets, by damped Newton steps.

    The problem is convex; the start is the log-likelihoods as they are, so the result is never
    above their own cross-entropy. Separable classes have their infimum at an infinite scale; the
    steps end when the loss gains less than 1e-13.

    Args:
        asv_llr: log p(s|target) / p(s|nontarget) of each trial.
        cm_llr: log p(s|target) / p(s|spoof) of each trial.
        codes: ``TrialClass`` codes.
        weights: Weight of each trial's loss.
        prior: Priors in the order of the codes.

    Returns:
        The minimum, normalised.
    """
    scale = max(float(max(abs(x.min()), abs(x.max()))) for x in (asv_llr, cm_llr))
    scale = max(scale, 1e-300)
    problem = _Problem(asv_llr, cm_llr, codes, weights, np.log(prior), scale)
    theta = np.array([scale, 0.0, 0.0])
    loss = problem.loss(theta)
    for _ in range(100):
        step = problem.newton(theta)
        for _ in range(30):
            candidate = problem.loss(theta - step)
            if candidate <= loss:
                break
            step = step / 2
        theta, gain, loss = theta - step, loss - candidate, min(candidate, loss)
        if gain < 1e-13:
            break
    return loss / entropy(prior)


class _Problem(NamedTuple):
    """Loss and Newton step of theta = (scale, offset of spoof, offset of target).

    Trials are looked at block by block, so that little beside the scores is in memory.
    """

    asv_llr: Floats
    cm_llr: Floats
    codes: Codes
    weights: Floats
    log_prior: Floats
    scale: float

    def loss(self, theta: Floats) -> float:
        total = 0.0
        for block in _blocks(self.codes.size):
            _, logits, own = self._look(theta, block)
            losses = np.log(np.exp(logits).sum(axis=0)) - logits[own]
            total += float(self.weights[block] @ losses)
        return total

    def newton(self, theta: Floats) -> Floats:
        slope, curvature = np.zeros(3), 1e-14 * np.eye(3)
        for block in _blocks(self.codes.size):
            features, posterior, own = self._look(theta, block)
            np.exp(posterior, out=posterior)
            posterior /= posterior.sum(axis=0)
            mean = np.einsum("kn,kn->n", posterior, features)
            # Derivatives of the three logits less their posterior mean, one row per parameter.
            rows = (features - mean, *(np.eye(3)[k][:, None] - posterior[k] for k in (0, 1)))
            weights = self.weights[block]
            weighted = posterior * weights
            slope -= [weights @ row[own] for row in rows]
            curvature += [[np.einsum("kn,kn,kn->", weighted, a, b) for b in rows] for a in rows]
        return np.asarray(np.linalg.solve(curvature, slope), np.float64)

    def _look(self, theta: Floats, block: slice) -> tuple[Floats, Floats, tuple[Index, Index]]:
        """Features and logits of a block, (3, trials), and the places of the own classes."""
        features = _log_likelihoods(self.asv_llr[block], self.cm_llr[block])
        features /= self.scale
        logits = theta[0] * features + (np.append(theta[1:], 0.0) + self.log_prior)[:, None]
        logits -= logits.max(axis=0)
        codes = self.codes[block].astype(np.intp)
        return features, logits, (codes, np.arange(codes.size))


def _log_likelihoods(asv_llr: Floats, cm_llr: Floats) -> Floats:
    """Those of spoof, target and nontarget up to a common constant, (3, trials)."""
    return np.stack([-cm_llr, np.zeros_like(asv_llr), -asv_llr])


def _blocks(size: int) -> Iterator[slice]:
    return (slice(start, start + BLOCK) for start in range(0, size, BLOCK))
