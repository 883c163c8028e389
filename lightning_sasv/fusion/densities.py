"""Class-conditional densities of the score pair s = [asv, cm], and the LLRs they give.

A density holds one parameter set per stacked seed (first axis) and per class (second axis, ordered
as ``TrialClass``), in float64 buffers. Score pairs have the shape (copies, 2, trials).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lightning_sasv.errors import InputError
from lightning_sasv.fusion.stage import Stage, store
from lightning_sasv.trials import TrialClass

COVARIANCE_FLOOR = 1e-6
"""Added to the diagonal of every covariance, as in the paper's Gaussians."""


class Density(Stage):
    """Base of the densities: subclasses add buffers, ``fit`` and ``log_prob``."""

    def log_prob(self, scores: Tensor) -> Tensor:
        """Log density of each pair (copies, 2, trials) under each class: (copies, 3, trials)."""
        raise NotImplementedError

    def forward(self, scores: Tensor) -> Tensor:
        """LLRs target/nontarget and target/spoof of score pairs: (copies, 2, trials)."""
        spoof, target, nontarget = self.log_prob(scores).unbind(dim=1)
        return torch.stack([target - nontarget, target - spoof], dim=1)


class Gaussian(Density):
    """One bivariate Gaussian per class, by maximum likelihood (covariances divided by n).

    Args:
        copies: Number of stacked seeds.
        covariance: ``full``, ``diagonal``, or ``tied`` (one full covariance for all classes).
    """

    mean: Tensor
    covariance: Tensor

    def __init__(self, copies: int = 1, covariance: str = "full") -> None:
        super().__init__()
        self.covariance_type = covariance
        self.register_buffer("mean", torch.zeros(copies, 3, 2, dtype=torch.float64))
        self.register_buffer("covariance", unit_covariances(copies, 3))

    def fit(self, scores: Tensor, labels: Tensor) -> None:
        """Maximum-likelihood moments of every class; see :class:`Stage`."""
        means, covariances = [], []
        for pairs, codes in zip(scores, labels, strict=True):
            per_class = split_by_class(pairs, codes)
            mean, covariance = map(torch.stack, zip(*map(moments_of, per_class), strict=True))
            if self.covariance_type == "tied":
                share = pairs.new_tensor([points.shape[1] / pairs.shape[1] for points in per_class])
                covariance = torch.einsum("k,kij->ij", share, covariance).expand(3, 2, 2)
            elif self.covariance_type == "diagonal":
                covariance = torch.diag_embed(covariance.diagonal(dim1=-2, dim2=-1))
            means.append(mean)
            covariances.append(torch.stack(list(map(floored, covariance, TrialClass))))
        store(self, mean=torch.stack(means), covariance=torch.stack(covariances))

    def log_prob(self, scores: Tensor) -> Tensor:
        """Normal log density under each class; see :class:`Stage`."""
        return gaussian_log_prob(scores[:, None], self.mean, self.covariance)


def unit_covariances(*axes: int) -> Tensor:
    """Identity matrices of shape (*axes, 2, 2) to start a buffer with."""
    return torch.eye(2, dtype=torch.float64).repeat(*axes, 1, 1)


def split_by_class(pairs: Tensor, labels: Tensor) -> list[Tensor]:
    """Score pairs (2, n) of the spoof, the target and the nontarget trials among (2, trials)."""
    return [pairs[:, labels == int(code)] for code in TrialClass]


def moments_of(points: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Mean (2,) and maximum-likelihood covariance (2, 2) of points (2, n), optionally weighted."""
    if weights is None:
        mean = points.mean(dim=1)
        centred = points - mean[:, None]
        return mean, centred @ centred.T / points.shape[1]
    total = weights.sum()
    mean = points @ weights / total
    centred = points - mean[:, None]
    return mean, (weights * centred) @ centred.T / total


def floored(covariance: Tensor, trial_class: TrialClass) -> Tensor:
    """Covariances plus :data:`COVARIANCE_FLOOR` on the diagonal, positive definite for certain.

    Args:
        covariance: Covariances of one class, (..., 2, 2).
        trial_class: The class, for the message.

    Raises:
        InputError: A covariance is singular even so: the two scores of the class are collinear on
            a scale at which 1e-6 is lost to rounding.
    """
    floor = COVARIANCE_FLOOR * torch.eye(2, dtype=covariance.dtype, device=covariance.device)
    result = covariance + floor
    singular = torch.linalg.cholesky_ex(result).info != 0
    if bool(singular.any()):
        worst = covariance[singular].reshape(-1, 2, 2)[0].tolist()
        raise InputError(
            f"asv and cm are collinear in class {trial_class}: covariance {worst} is singular"
        )
    return result


def mahalanobis(points: Tensor, mean: Tensor, covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Squared Mahalanobis distances, and the log determinants of the covariances.

    Args:
        points: Points (..., 2, n).
        mean: Means (..., 2).
        covariance: Covariances (..., 2, 2).

    Returns:
        Distances (..., n) and log determinants (..., 1).
    """
    factor = torch.linalg.cholesky(covariance)[..., None]
    first = (points[..., 0, :] - mean[..., 0, None]) / factor[..., 0, 0, :]
    second = points[..., 1, :] - mean[..., 1, None]
    second = torch.addcmul(second, first, -factor[..., 1, 0, :]) / factor[..., 1, 1, :]
    log_determinant = 2 * (factor[..., 0, 0, :] * factor[..., 1, 1, :]).log()
    return torch.addcmul(first * first, second, second), log_determinant


def gaussian_log_prob(points: Tensor, mean: Tensor, covariance: Tensor) -> Tensor:
    """Bivariate normal log density; shapes as in :func:`mahalanobis`."""
    distance, log_determinant = mahalanobis(points, mean, covariance)
    return -0.5 * (distance + log_determinant) - math.log(2 * math.pi)
