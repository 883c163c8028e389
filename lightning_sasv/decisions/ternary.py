"""Ternary classification: costs and utilities of naming one of the three classes.

Tables app_cost_ter to app_utility_ter_2 of the paper. Rows of a matrix are true classes, columns
are actions, both in the order of the appendix: 1 target, 2 nontarget, 3 spoof. Posteriors may be
arrays (or lists) or tensors; so is what comes out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lightning_sasv.checks import Floats, is_tensor
from lightning_sasv.decisions.costs import CostModel
from lightning_sasv.errors import InputError
from lightning_sasv.numerics import double, namespace


def sasv_cost_matrix(costs: CostModel) -> Floats:
    """Ternary costs under which naming class 1 is the SASV decision "accept" (app_cost_ter2).

    ``C₁₂ = C₁₃ = C_miss``, ``C₂₁ = C_fa,non``, ``C₃₁ = C_fa,spf``, and confusing nontarget with
    spoof is free: ``C₂₃ = C₃₂ = 0``.

    Example:
        >>> sasv_cost_matrix(CostModel(c_fa_spoof=20.0)).tolist()
        [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [20.0, 0.0, 0.0]]
    """
    matrix = np.zeros((3, 3))
    matrix[0, 1:] = costs.c_miss
    matrix[1:, 0] = costs.c_fa_nontarget, costs.c_fa_spoof
    return matrix


def ternary_risks(posteriors: Any, cost_matrix: Any) -> Any:
    """Conditional risk ``R(j|x) = Σ_i C_ij P(H_i|x)`` of each action, (..., 3).

    Args:
        posteriors: P(H₁|x), P(H₂|x), P(H₃|x), (..., 3).
        cost_matrix: C, (3, 3); costs of at least 0.

    Raises:
        InputError: Wrong shapes, a negative cost, or posteriors that are no probabilities.

    Example:
        >>> ternary_risks([0.5, 0.25, 0.25], sasv_cost_matrix(CostModel()))
        array([0.5, 0.5, 0.5])
    """
    return _weighted(posteriors, _matrix("cost_matrix", cost_matrix))


def ternary_decision(posteriors: Any, cost_matrix: Any) -> Any:
    """Column (0, 1, 2) of least risk for each trial; among equals the last.

    Naming class 1 thus asks for a strictly smaller risk, as the appendix does.

    Example:
        >>> int(ternary_decision([0.6, 0.2, 0.2], sasv_cost_matrix(CostModel())))
        0
    """
    risks = ternary_risks(posteriors, cost_matrix)
    return 2 - namespace(risks).flip(risks, (-1,)).argmin(-1)


def ternary_accept(posteriors: Any, cost_matrix: Any) -> Any:
    """Whether class 1 has strictly less risk than class 2 and than class 3.

    Example:
        >>> bool(ternary_accept([0.5, 0.25, 0.25], sasv_cost_matrix(CostModel())))
        False
    """
    risks = ternary_risks(posteriors, cost_matrix)
    return (risks[..., :1] < risks[..., 1:]).all(-1)


def ternary_utility_accept(posteriors: Any, utility_matrix: Any) -> Any:
    """Whether class 1 has strictly more expected utility ``Σ_i U_ij P(H_i|x)`` than the others.

    With a diagonal matrix of equal entries this is P₁ > P₂ and P₁ > P₃ (Ineq. app_policy_utility).

    Args:
        posteriors: P(H₁|x), P(H₂|x), P(H₃|x), (..., 3).
        utility_matrix: U, (3, 3), with ``U_ii > U_ij ≥ 0``.

    Raises:
        InputError: As for :func:`ternary_risks`, or a wrong action that is worth as much as the
            right one.

    Example:
        >>> bool(ternary_utility_accept([0.4, 0.3, 0.3], np.eye(3)))
        True
    """
    matrix = _matrix("utility_matrix", utility_matrix)
    if not ((np.diagonal(matrix)[:, None] > matrix) | np.eye(3, dtype=bool)).all():
        raise InputError(
            f"utility_matrix must have its row maxima on the diagonal, got {matrix.tolist()}"
        )
    utilities = _weighted(posteriors, matrix)
    return (utilities[..., :1] > utilities[..., 1:]).all(-1)


def _weighted(posteriors: Any, matrix: Floats) -> Any:
    """Posteriors, checked, times a matrix."""
    parts = double(posteriors)
    if parts.ndim == 0 or parts.shape[-1] != 3:
        raise InputError(f"posteriors must have the shape (..., 3), got {tuple(parts.shape)}")
    good = (parts >= 0).all(-1) & (abs(parts.sum(-1) - 1) <= 1e-6)
    if not good.all():
        worst = parts[~good].reshape(-1, 3)[0].tolist()
        raise InputError(f"posteriors must be at least 0 and sum to one, got {worst}")
    return parts @ (parts.new_tensor(matrix) if is_tensor(parts) else matrix)


def _matrix(name: str, values: Any) -> Floats:
    matrix = np.asarray(values.tolist() if is_tensor(values) else values, dtype=np.float64)
    if matrix.shape != (3, 3):
        raise InputError(f"{name} must have the shape (3, 3), got {matrix.shape}")
    bad = ~(np.isfinite(matrix) & (matrix >= 0))
    if bad.any():
        raise InputError(f"{name} must be finite and at least 0, got {matrix[bad][0]}")
    return matrix
