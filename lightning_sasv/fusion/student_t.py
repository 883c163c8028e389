"""Bivariate Student-t densities: Gaussians with heavy tails, for LLRs that stay calibrated."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lightning_sasv.fusion.densities import (
    Density,
    floored,
    mahalanobis,
    moments_of,
    split_by_class,
    unit_covariances,
)
from lightning_sasv.fusion.numbers import positive
from lightning_sasv.fusion.stage import store
from lightning_sasv.trials import TrialClass

_TOLERANCE = 1e-12
_MAX_ITERATIONS = 500


class StudentT(Density):
    """One bivariate Student-t with ν degrees of freedom per class, located and scaled by EM.

    ``p(s) = |Σ|^(−½) (1 + δ/ν)^(−(ν+2)/2) / 2π`` with δ the squared Mahalanobis distance. Each EM
    step weighs a trial by u = (ν+2)/(ν+δ), so that trials far out count little (Lange, Little and
    Taylor 1989); the scatter is divided by Σu, which has the same fixed point as n and reaches it
    sooner (Kent, Tyler and Vardi 1994).

    Args:
        copies: Number of stacked seeds.
        dof: Degrees of freedom ν, the same for all classes.
    """

    mean: Tensor
    scatter: Tensor

    def __init__(self, copies: int = 1, dof: float = 4.0) -> None:
        super().__init__()
        self.dof = positive("dof", dof)
        self.register_buffer("mean", torch.zeros(copies, 3, 2, dtype=torch.float64))
        self.register_buffer("scatter", unit_covariances(copies, 3))

    def fit(self, scores: Tensor, labels: Tensor) -> None:
        """EM in each class from the Gaussian moments on; see :class:`Stage`."""
        means, scatters = [], []
        for pairs, codes in zip(scores, labels, strict=True):
            fits = [
                fit_student_t(points, self.dof, code)
                for points, code in zip(split_by_class(pairs, codes), TrialClass, strict=True)
            ]
            mean, scatter = map(torch.stack, zip(*fits, strict=True))
            means.append(mean)
            scatters.append(scatter)
        store(self, mean=torch.stack(means), scatter=torch.stack(scatters))

    def log_prob(self, scores: Tensor) -> Tensor:
        """Student-t log density under each class; see :class:`Stage`."""
        distance, log_determinant = mahalanobis(scores[:, None], self.mean, self.scatter)
        tail = -0.5 * (self.dof + 2) * torch.log1p(distance / self.dof)
        return tail - 0.5 * log_determinant - math.log(2 * math.pi)


def fit_student_t(points: Tensor, dof: float, trial_class: TrialClass) -> tuple[Tensor, Tensor]:
    """Location (2,) and scatter (2, 2) of the points (2, n) of one class.

    Args:
        points: Score pairs.
        dof: Degrees of freedom ν.
        trial_class: Their class, for messages.
    """
    mean, scatter = moments_of(points)
    scatter = floored(scatter, trial_class)
    for _ in range(_MAX_ITERATIONS):
        distance, _ = mahalanobis(points, mean, scatter)
        previous = torch.cat([mean, scatter.flatten()])
        mean, scatter = moments_of(points, (dof + 2) / (dof + distance))
        scatter = floored(scatter, trial_class)
        current = torch.cat([mean, scatter.flatten()])
        if bool((current - previous).norm() <= _TOLERANCE * current.norm()):
            break
    return mean, scatter
