"""Ternary classification: costs and utilities of naming one of the three classes.

Tables app_cost_ter to app_utility_ter_2 of the paper. Rows of a matrix are true classes, columns
are actions, both in the order of the appendix: 1 target, 2 nontarget, 3 spoof.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lightning_sasv.decisions.costs import CostModel
from lightning_sasv.errors import InputError


def sasv_cost_matrix(costs: CostModel) -> Tensor:
    """Ternary costs under which naming class 1 is the SASV decision "accept" (app_cost_ter2).

    ``C₁₂ = C₁₃ = C_miss``, ``C₂₁ = C_fa,non``, ``C₃₁ = C_fa,spf``, and confusing nontarget with
    spoof is free: ``C₂₃ = C₃₂ = 0``.
    """
    return torch.tensor(
        [
            [0.0, costs.c_miss, costs.c_miss],
            [costs.c_fa_nontarget, 0.0, 0.0],
            [costs.c_fa_spoof, 0.0, 0.0],
        ],
        dtype=torch.float64,
    )


def ternary_risks(posteriors: Any, cost_matrix: Any) -> Tensor:
    """Conditional risk ``R(j|x) = Σ_i C_ij P(H_i|x)`` of each action, (..., 3).

    Args:
        posteriors: P(H₁|x), P(H₂|x), P(H₃|x), (..., 3).
        cost_matrix: C, (3, 3); costs of at least 0.

    Raises:
        InputError: Wrong shapes, a negative cost, or posteriors that are no probabilities.
    """
    probabilities = _probabilities(posteriors)
    return probabilities @ _matrix("cost_matrix", cost_matrix).to(probabilities.device)


def ternary_decision(posteriors: Any, cost_matrix: Any) -> Tensor:
    """Column (0, 1, 2) of least risk for each trial; among equals the last.

    Naming class 1 thus asks for a strictly smaller risk, as the appendix does.
    """
    risks = ternary_risks(posteriors, cost_matrix)
    return 2 - risks.flip(-1).argmin(dim=-1)


def ternary_accept(posteriors: Any, cost_matrix: Any) -> Tensor:
    """Whether class 1 has strictly less risk than class 2 and than class 3."""
    first, second, third = ternary_risks(posteriors, cost_matrix).unbind(dim=-1)
    return (first < second) & (first < third)


def ternary_utility_accept(posteriors: Any, utility_matrix: Any) -> Tensor:
    """Whether class 1 has strictly more expected utility ``Σ_i U_ij P(H_i|x)`` than the others.

    With a diagonal matrix of equal entries this is P₁ > P₂ and P₁ > P₃ (Ineq. app_policy_utility).

    Args:
        posteriors: P(H₁|x), P(H₂|x), P(H₃|x), (..., 3).
        utility_matrix: U, (3, 3), with ``U_ii > U_ij ≥ 0``.

    Raises:
        InputError: As for :func:`ternary_risks`, or a wrong action that is worth as much as the
            right one.
    """
    matrix = _matrix("utility_matrix", utility_matrix)
    best = matrix.diagonal()[:, None] > matrix
    if not bool((best | torch.eye(3, dtype=torch.bool)).all()):
        raise InputError(
            f"utility_matrix must have its row maxima on the diagonal, got {matrix.tolist()}"
        )
    probabilities = _probabilities(posteriors)
    first, second, third = (probabilities @ matrix.to(probabilities.device)).unbind(dim=-1)
    return (first > second) & (first > third)


def _probabilities(posteriors: Any) -> Tensor:
    tensor = torch.as_tensor(posteriors, dtype=torch.float64)
    if tensor.ndim == 0 or tensor.shape[-1] != 3:
        raise InputError(f"posteriors must have the shape (..., 3), got {tuple(tensor.shape)}")
    sums = tensor.sum(dim=-1)
    good = (tensor >= 0).all(dim=-1) & ((sums - 1).abs() <= 1e-6)
    if not bool(good.all()):
        worst = tensor[~good].reshape(-1, 3)[0].tolist()
        raise InputError(f"posteriors must be at least 0 and sum to one, got {worst}")
    return tensor


def _matrix(name: str, values: Any) -> Tensor:
    matrix = torch.as_tensor(values, dtype=torch.float64, device="cpu")
    if matrix.shape != (3, 3):
        raise InputError(f"{name} must have the shape (3, 3), got {tuple(matrix.shape)}")
    bad = ~(torch.isfinite(matrix) & (matrix >= 0))
    if bool(bad.any()):
        raise InputError(f"{name} must be finite and at least 0, got {matrix[bad][0].item()}")
    return matrix
