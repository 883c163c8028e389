"""Gaussian mixtures per class, fitted by EM from a start that depends on the data alone."""

from __future__ import annotations

import torch
from torch import Tensor

from lightning_sasv.errors import InputError
from lightning_sasv.fusion.densities import (
    Density,
    floored,
    gaussian_log_prob,
    moments_of,
    split_by_class,
    unit_covariances,
)
from lightning_sasv.fusion.numbers import count
from lightning_sasv.fusion.stage import store
from lightning_sasv.trials import TrialClass

_TOLERANCE = 1e-7
_MAX_ITERATIONS = 500


class Mixture(Density):
    """A mixture of full-covariance Gaussians per class.

    Args:
        copies: Number of stacked seeds.
        components: Gaussians per class.
    """

    weight: Tensor
    mean: Tensor
    covariance: Tensor

    def __init__(self, copies: int = 1, components: int = 2) -> None:
        super().__init__()
        self.components = count("components", components)
        axes = (copies, 3, self.components)
        self.register_buffer("weight", torch.full(axes, 1 / self.components, dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(*axes, 2, dtype=torch.float64))
        self.register_buffer("covariance", unit_covariances(*axes))

    def fit(self, scores: Tensor, labels: Tensor) -> None:
        """EM in each class; see :class:`Stage`."""
        fits = [
            fit_mixture(points, self.components, code)
            for pairs, codes in zip(scores, labels, strict=True)
            for points, code in zip(split_by_class(pairs, codes), TrialClass, strict=True)
        ]
        weight, mean, covariance = (
            torch.stack(part).view(-1, 3, *part[0].shape) for part in zip(*fits, strict=True)
        )
        store(self, weight=weight, mean=mean, covariance=covariance)

    def log_prob(self, scores: Tensor) -> Tensor:
        """Mixture log density under each class; see :class:`Stage`."""
        parts = gaussian_log_prob(scores[:, None, None], self.mean, self.covariance)
        return torch.logsumexp(parts + self.weight.log()[..., None], dim=2)


def fit_mixture(
    points: Tensor, components: int, trial_class: TrialClass
) -> tuple[Tensor, Tensor, Tensor]:
    """Weights (c,), means (c, 2) and covariances (c, 2, 2) of the points (2, n) of one class.

    The start is the cut of the points, ordered along their principal axis, into ``components``
    groups of equal size. EM ends when the mean log-likelihood gains less than 1e-7.

    Args:
        points: Score pairs.
        components: Gaussians to fit.
        trial_class: Their class, for messages.

    Raises:
        InputError: Fewer trials than components.
    """
    if points.shape[1] < components:
        raise InputError(
            f"components is {components}, but class {trial_class} has {points.shape[1]} trials"
        )
    share = _ordered_groups(points, components)
    likelihood = -torch.inf
    for _ in range(_MAX_ITERATIONS):
        # A component that lost all its trials keeps a weight that is tiny, not 0.
        total = share.sum(dim=1).clamp_min(torch.finfo(share.dtype).tiny)
        mean = share @ points.T / total[:, None]
        centred = points - mean[..., None]
        covariance = (share[:, None] * centred) @ centred.mT / total[:, None, None]
        covariance = floored(covariance, trial_class)
        weight = total / total.sum()
        joint = gaussian_log_prob(points, mean, covariance) + weight.log()[:, None]
        log_prob = torch.logsumexp(joint, dim=0)
        share = torch.exp(joint - log_prob)
        previous, likelihood = likelihood, float(log_prob.mean())
        if likelihood - previous < _TOLERANCE:
            break
    return weight, mean, covariance


def _ordered_groups(points: Tensor, components: int) -> Tensor:
    """One-hot groups (components, n) of equal size along the principal axis of points (2, n)."""
    _, covariance = moments_of(points)
    axis = torch.linalg.eigh(covariance).eigenvectors[:, -1]
    rank = (axis @ points).argsort(stable=True).argsort(stable=True)
    group = rank * components // points.shape[1]
    return torch.nn.functional.one_hot(group, components).T.to(points.dtype)
