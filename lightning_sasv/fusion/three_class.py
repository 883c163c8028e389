"""Calibrations that see both scores and all three classes: ``multinomial`` and ``joint``."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from lightning_sasv.decisions.costs import CostModel
from lightning_sasv.errors import InputError
from lightning_sasv.fusion.logistic import logit, weighted_logistic
from lightning_sasv.fusion.pair_newton import Affine, fit_affine_pair
from lightning_sasv.trials import TrialClass

SMALL_PENALTY = 1e-10
"""Default ridge: too weak to be seen in a score, enough to keep separable classes finite."""


def fit_multinomial(scores: Tensor, labels: Tensor, penalty: float = SMALL_PENALTY) -> Affine:
    """Class-balanced multinomial logistic regression on the score pair.

    With equal class weights 1/(3 N_k), the logit differences ``a = W₁x + b₁`` (target against
    nontarget) and ``c = W₂x + b₂`` (target against spoof) of the softmax
    ``[e^(−c), 1, e^(−a)]`` over (spoof, target, nontarget) are LLRs.

    Args:
        scores: Score pairs (2, n).
        labels: ``TrialClass`` codes (n,).
        penalty: Ridge on the standardised weights.
    """
    nontarget, spoof = labels == TrialClass.NONTARGET, labels == TrialClass.SPOOF
    truth = torch.stack([nontarget, spoof]).to(scores.dtype)  # (2, n)
    weight = _class_weights(labels, dict.fromkeys(TrialClass, 1 / 3), scores)

    def loss(llrs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits = torch.cat([-llrs, torch.zeros_like(llrs[:1])])
        log_sum = torch.logsumexp(logits, dim=0)
        posterior = torch.exp(-llrs - log_sum)
        value = weight @ (log_sum + (truth * llrs).sum(dim=0))
        curvature = torch.diag_embed(posterior.T).permute(1, 2, 0) - posterior[:, None] * posterior
        return value, weight * (truth - posterior), weight * curvature

    start = scores.new_zeros(2, 2), scores.new_zeros(2)
    return fit_affine_pair(scores, loss, penalty, start)


def fit_joint(
    scores: Tensor, labels: Tensor, costs: CostModel, penalty: float = SMALL_PENALTY
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
    prior = _effective_priors(costs)
    weight = _class_weights(labels, prior, scores)
    sign = torch.where(labels == TrialClass.TARGET, 1.0, -1.0).to(scores.dtype)
    negatives = scores.new_tensor([prior[TrialClass.NONTARGET], prior[TrialClass.SPOOF]])
    log_share = (negatives / negatives.sum()).log()[:, None]
    offset = logit(prior[TrialClass.TARGET])

    def loss(llrs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        parts = log_share - llrs
        log_sum = torch.logsumexp(parts, dim=0)
        share = torch.exp(parts - log_sum)  # ds/dy, (2, n)
        margin = sign * (offset - log_sum)
        error = torch.sigmoid(-margin)
        slope = -weight * sign * error  # dL/ds
        outer = share[:, None] * share
        bend = torch.diag_embed(share.T).permute(1, 2, 0) - outer  # −d²s/dy²
        curvature = weight * error * (1 - error) * outer - slope * bend
        return -(weight @ logsigmoid(margin)), slope * share, curvature

    return fit_affine_pair(scores, loss, penalty, _separate_start(scores, labels), diagonal=True)


def _effective_priors(costs: CostModel) -> dict[TrialClass, float]:
    """Cost-weighted priors π̃_k ∝ C_k π_k."""
    weights = {
        TrialClass.SPOOF: costs.weight_fa_spoof,
        TrialClass.TARGET: costs.weight_miss,
        TrialClass.NONTARGET: costs.weight_fa_nontarget,
    }
    for code, weight in weights.items():
        if weight <= 0:
            raise InputError(f"costs give the class {code} the weight {weight}; joint needs > 0")
    total = sum(weights.values())
    return {code: weight / total for code, weight in weights.items()}


def _class_weights(labels: Tensor, prior: dict[TrialClass, float], like: Tensor) -> Tensor:
    """Weight π_k/N_k of each trial, (n,)."""
    weight = torch.empty(len(labels), dtype=like.dtype, device=like.device)
    for code, share in prior.items():
        mask = labels == int(code)
        weight[mask] = share / int(mask.sum())
    return weight


def _separate_start(scores: Tensor, labels: Tensor) -> Affine:
    """Balanced logistic regressions of target against nontarget and of target against spoof."""
    maps = []
    sides = {"asv": TrialClass.NONTARGET, "cm": TrialClass.SPOOF}
    for row, (name, other) in zip(scores, sides.items(), strict=True):
        positives, negatives = row[labels == TrialClass.TARGET], row[labels == int(other)]
        weights = (0.5 / len(positives), 0.5 / len(negatives))
        penalty = 1e-4 * float(row.var(correction=0))
        maps.append(weighted_logistic(positives, negatives, weights, penalty, name))
    slopes, intercepts = zip(*maps, strict=True)
    return torch.diag(torch.stack(slopes)), torch.stack(intercepts)
