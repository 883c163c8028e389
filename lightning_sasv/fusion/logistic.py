"""Weighted logistic regression on one score: an affine map from scores to LLRs."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from lightning_sasv.errors import InputError
from lightning_sasv.fusion.inputs import check_spread
from lightning_sasv.fusion.newton import minimise


def weighted_logistic(
    positives: Tensor,
    negatives: Tensor,
    weights: tuple[float, float],
    penalty: float,
    name: str = "scores",
) -> tuple[Tensor, Tensor]:
    """Slope and intercept of the weighted logistic regression of a class on a score.

    Minimises ``w₊ Σ₊ log(1+e^(−ax−b)) + w₋ Σ₋ log(1+e^(ax+b)) + ½ penalty a²`` (the intercept is
    free). The scores are standardised inside, which changes nothing but the rounding.

    Args:
        positives: Scores of the positive class.
        negatives: Scores of the negative class.
        weights: Weight of every positive and of every negative trial.
        penalty: Strength of the ridge on the slope, 0 for none.
        name: What the scores are called in messages.

    Returns:
        The pair (a, b) as float64 scalars.

    Raises:
        InputError: No finite optimum, because the scores are constant, or because the classes
            are separable and unpenalised.
    """
    scores = torch.cat([positives, negatives])
    check_spread(name, scores[None])
    if penalty == 0:
        _check_overlap(positives, negatives, name)
    sign = torch.cat([torch.ones_like(positives), -torch.ones_like(negatives)])
    weight = torch.cat(
        [torch.full_like(x, w) for x, w in zip((positives, negatives), weights, strict=True)]
    )
    centre, scale = scores.mean(), scores.std(correction=0)
    signed = sign * torch.stack([(scores - centre) / scale, torch.ones_like(scores)])
    ridge = signed.new_tensor([penalty, 0.0]) / scale.square()

    def objective(parameters: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        margin = parameters @ signed
        error = torch.sigmoid(-margin)
        weighted = weight * error
        value = 0.5 * (ridge @ parameters.square()) - weight @ logsigmoid(margin)
        gradient = ridge * parameters - signed @ weighted
        hessian = (signed * (weighted - weighted * error)) @ signed.T + torch.diag(ridge)
        return value, gradient, hessian

    slope, intercept = minimise(objective, signed.new_zeros(2))
    return slope / scale, intercept - slope * centre / scale


def logit(probability: float) -> float:
    """``log p/(1−p)``."""
    return math.log(probability) - math.log1p(-probability)


def _check_overlap(positives: Tensor, negatives: Tensor, name: str) -> None:
    """Raise if a threshold separates the two classes, so that the slope has no finite optimum."""
    (low_pos, high_pos), (low_neg, high_neg) = positives.aminmax(), negatives.aminmax()
    if bool(high_neg <= low_pos) or bool(high_pos <= low_neg):
        raise InputError(
            f"{name} separates the two classes: positives in "
            f"[{low_pos:.6g}, {high_pos:.6g}], negatives in [{low_neg:.6g}, {high_neg:.6g}]; "
            "logistic regression needs penalty > 0 then"
        )
