"""Newton fit of an affine map of score pairs under a loss of the mapped pairs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from lightning_sasv.fusion.inputs import check_pairs_spread
from lightning_sasv.fusion.newton import minimise

Affine = tuple[Tensor, Tensor]
"""Weight (2, 2) and bias (2,) of the map ``y = W x + b`` from score pairs to LLR pairs."""

PairLoss = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
"""Maps LLR pairs y (2, n) to the loss, its gradient (2, n) and its Hessian (2, 2, n) in y."""


def fit_affine_pair(
    scores: Tensor, loss: PairLoss, penalty: float, start: Affine, *, diagonal: bool = False
) -> Affine:
    """Minimiser of ``loss(W x + b) + ½ penalty ‖W D‖²``, D the standard deviations of the scores.

    Args:
        scores: Score pairs x, (2, n).
        loss: Loss of the mapped pairs.
        penalty: Ridge strength, per standard deviation so that units of the scores do not matter.
        start: Map to start from.
        diagonal: Keep the off-diagonal weights at 0.
    """
    check_pairs_spread(scores)
    centre, scale = scores.mean(dim=1), scores.std(dim=1, correction=0)
    standard = (scores - centre[:, None]) / scale[:, None]
    features = torch.cat([standard, torch.ones_like(standard[:1])])  # (3, n)
    kept = [0, 2, 4, 5] if diagonal else [0, 1, 2, 3, 4, 5]
    free = torch.tensor(kept, device=scores.device)
    ridge = penalty * scores.new_tensor([1.0, 1.0, 0.0] * 2)[free]

    def objective(parameters: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        theta = scores.new_zeros(6).index_put((free,), parameters).view(2, 3)
        value, slope, curvature = loss(theta @ features)
        gradient = (slope @ features.T).flatten()[free]
        blocks = torch.einsum("ikn,jn,ln->ijkl", curvature, features, features)
        hessian = blocks.reshape(6, 6)[free][:, free]
        value = value + 0.5 * (ridge @ parameters.square())
        return value, gradient + ridge * parameters, hessian + torch.diag(ridge)

    weight, bias = start
    theta = torch.cat([weight * scale, (bias + weight @ centre)[:, None]], dim=1)
    found = minimise(objective, theta.flatten()[free])
    theta = scores.new_zeros(6).index_put((free,), found).view(2, 3)
    weight = theta[:, :2] / scale
    return weight, theta[:, 2] - weight @ centre
