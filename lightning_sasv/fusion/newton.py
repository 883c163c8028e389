"""Damped Newton minimisation of smooth functions of a handful of parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from lightning_sasv.errors import InputError

GRADIENT_TOLERANCE = 1e-12
"""A fit ends below this gradient norm (or where rounding lets it sink no further)."""

_NEARLY_FLAT = 1e-4
_NO_GAIN = 1e-8
_ROUNDING = 1e-13
_ARMIJO = 1e-4


class Point(NamedTuple):
    """A function's value, gradient and Hessian at one parameter vector."""

    parameters: Tensor
    value: float
    gradient: Tensor
    hessian: Tensor


Objective = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
"""Maps parameters (p,) to the value, its gradient (p,) and its Hessian (p, p)."""


def minimise(objective: Objective, start: Tensor, max_iterations: int = 200) -> Tensor:
    """Minimiser of a smooth function by Newton steps with backtracking.

    Where the Hessian is not positive definite its eigenvalues are replaced by their absolute
    values, so that every step goes downhill.

    Args:
        objective: The function with its two derivatives.
        start: Starting parameters, float64.
        max_iterations: Bound on the Newton steps.

    Raises:
        InputError: No minimum within ``max_iterations``, and not nearly one either.
    """
    point = _evaluate(objective, start)
    for _ in range(max_iterations):
        if float(point.gradient.norm()) < GRADIENT_TOLERANCE:
            return point.parameters
        following = _advance(objective, point)
        if following is None:
            break
        point = following
    # Separable classes have their minimum at infinity, or far out on a plain by a tiny penalty;
    # and where rounding ends the search, the gradient is as small as its units let it be.
    norm, scale = float(point.gradient.norm()), max(1.0, abs(point.value))
    if not (norm < _NEARLY_FLAT or _decrease(point, _newton_step(point)) < _NO_GAIN * scale):
        raise InputError(
            f"no minimum within {max_iterations} Newton steps (gradient norm {norm:.1e}); "
            "separable classes need a larger penalty"
        )
    return point.parameters


def _advance(objective: Objective, point: Point) -> Point | None:
    """The next point, or ``None`` where rounding leaves no better one."""
    step = _newton_step(point)
    decrease = _decrease(point, step)
    if decrease > _ROUNDING * max(1.0, abs(point.value)):
        return _backtrack(objective, point, step, decrease)
    # The value no longer resolves the progress, but the gradient does.
    following = _evaluate(objective, point.parameters + step)
    better = float(following.gradient.norm()) < float(point.gradient.norm())
    return following if better else None


def _evaluate(objective: Objective, parameters: Tensor) -> Point:
    value, gradient, hessian = objective(parameters)
    return Point(parameters, float(value), gradient, hessian)


def _newton_step(point: Point) -> Tensor:
    """−|H|⁻¹ g, with the eigenvalues of H in absolute value and bounded away from 0.

    The parameters are scaled first so that the diagonal of H is ±1: their units do not matter.
    """
    diagonal = point.hessian.diagonal().abs()
    unit = torch.where(diagonal > 0, diagonal, torch.ones_like(diagonal)).rsqrt()
    eigenvalues, vectors = torch.linalg.eigh(unit[:, None] * point.hessian * unit)
    curvature = eigenvalues.abs()
    curvature = curvature.clamp_min(max(float(curvature.max()) * 1e-14, 1e-300))
    return -unit * (vectors @ ((vectors.T @ (unit * point.gradient)) / curvature))


def _decrease(point: Point, step: Tensor) -> float:
    """What the gradient promises of a step, −g·s: it does not depend on units of the parameters."""
    return -float(point.gradient @ step)


def _backtrack(objective: Objective, point: Point, step: Tensor, decrease: float) -> Point | None:
    """Halve the step until the value sinks by Armijo's fraction of what the gradient promises.

    ``None`` if it never does: the value is as low as rounding lets it be.
    """
    length = 1.0
    while length > 1e-12:
        following = _evaluate(objective, point.parameters + length * step)
        if following.value <= point.value - _ARMIJO * length * decrease:
            return following
        length /= 2
    return None
