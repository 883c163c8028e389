"""Formulas that take arrays, tensors and plain floats alike, the one minimiser, and tails.

Tensors are recognised without importing torch; what is made of them keeps device and gradient. A
float stays one: for a single trial `math` is twenty times as fast as arrays of length one.
The normal and Student's t distributions are of single numbers: ``scipy.special`` has them too, but
takes longer to import than all else that intervals of a small score file need.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from lightning_sasv.checks import Floats, is_tensor
from lightning_sasv.errors import InputError

Objective = Callable[[Floats], tuple[float, Floats, Floats]]
"""Maps parameters (p,) to the value, its gradient (p,) and its Hessian (p, p)."""

_FLAT, _NEARLY_FLAT, _NO_GAIN = 1e-12, 1e-4, 1e-8
_DECREMENT, _ROUNDING = 1e-18, 1e-16


class PlainFloats:
    """What formulas ask of numpy, for plain floats."""

    log, log1p, exp, sqrt = math.log, math.log1p, math.exp, math.sqrt
    minimum, maximum, searchsorted = min, max, bisect_left

    @staticmethod
    def clip(value: Any, low: Any, high: Any) -> Any:
        """The value, or the bound it lies beyond."""
        return low if value < low else high if value > high else value

    @staticmethod
    def where(condition: bool, first: Any, second: Any) -> Any:
        """One of the two."""
        return first if condition else second


def namespace(values: Any) -> Any:
    """What has the functions for these values: torch for a tensor, numpy for all but a float.

    Example:
        >>> namespace([0.5]).__name__
        'numpy'
    """
    if type(values) is float:
        return PlainFloats
    return sys.modules["torch"] if is_tensor(values) else np


def double(values: Any) -> Any:
    """A tensor, or anything that numpy takes, in float64."""
    return values.double() if is_tensor(values) else np.asarray(values, dtype=np.float64)


def log_add(first: Any, second: Any) -> Any:
    """``log(e^x + e^y)``, finite wherever x or y is; −inf where both are.

    Example:
        >>> log_add(np.array([0.0, 1000.0]), np.array([0.0, -1000.0]))
        array([6.93147181e-01, 1.00000000e+03])
    """
    if type(first) is float:
        top, low = (first, second) if first > second else (second, first)
        return top + math.log1p(math.exp(low - top)) if low > -math.inf else top
    if is_tensor(first):
        return first.logaddexp(second)
    top = np.maximum(first, second)  # four times as fast as numpy's logaddexp
    with np.errstate(invalid="ignore"):
        gap = np.abs(first - second)
    return top + np.log1p(np.exp(-np.where(np.isnan(gap), 0.0, gap)))


def sigmoid(values: Any) -> Any:
    """``1 / (1 + e^(−x))`` without overflow."""
    if is_tensor(values):
        return values.sigmoid()
    xp = namespace(values)
    small = xp.exp(-abs(values))
    return xp.where(values >= 0, 1.0, small) / (1 + small)


def softmax(logits: Sequence[Any]) -> Any:
    """``e^(x_k) / Σ e^(x_j)`` of columns x_k, stacked along a new last axis.

    Example:
        >>> softmax([np.array([0.0]), np.array([np.log(3)])])
        array([[0.25, 0.75]])
    """
    xp, top = namespace(logits[0]), logits[0]
    for logit in logits[1:]:
        top = xp.maximum(top, logit)
    parts = [xp.exp(logit - top) for logit in logits]
    return xp.stack([part / sum(parts) for part in parts], -1)


def interpolate(values: Any, knots: Any, heights: Any) -> Any:
    """Piecewise linear map through (knot, height), constant beyond the ends; knots may repeat.

    Example:
        >>> interpolate(np.array([-1.0, 0.5, 9.0]), np.array([0.0, 1.0]), np.array([2.0, 4.0]))
        array([2., 3., 4.])
    """
    xp = namespace(values)
    inside = xp.clip(values, knots[0], knots[-1])
    upper = xp.clip(xp.searchsorted(knots, inside), 1, len(knots) - 1)
    width = knots[upper] - knots[upper - 1]
    share = (inside - knots[upper - 1]) / xp.where(width > 0, width, 1.0)
    share = xp.where(width > 0, share, 0.0)
    return heights[upper - 1] + share * (heights[upper] - heights[upper - 1])


def log_loss(margin: Floats) -> tuple[Floats, Floats]:
    """``−log σ(m)`` and ``σ(−m)``, of which the latter is minus the slope of the former."""
    small = np.exp(-np.abs(margin))
    loss = np.maximum(-margin, 0.0) + np.log1p(small)
    return loss, np.where(margin >= 0, small, 1.0) / (1 + small)


def weighted_log_loss(
    features: Floats, weight: Floats, ridge: Floats, offset: Floats | float = 0.0
) -> Objective:
    """``Σ_i w_i log(1 + e^(−m_i)) + ½ Σ_j r_j θ_j²`` with the margins ``m = offset + θ·features``.

    Args:
        features: Features (p, n) of trials, negated for the negatives.
        weight: Weight w of each trial, (n,).
        ridge: Strength r of the ridge on each parameter, (p,).
        offset: Margins at θ = 0.
    """

    def objective(parameters: Floats) -> tuple[float, Floats, Floats]:
        losses, error = log_loss(offset + parameters @ features)
        weighted = weight * error
        value = 0.5 * (ridge @ parameters**2) + weight @ losses
        gradient = ridge * parameters - features @ weighted
        hessian = (features * (weighted - weighted * error)) @ features.T + np.diag(ridge)
        return float(value), gradient, hessian

    return objective


def minimise(
    objective: Objective, start: Floats, max_iterations: int = 300, decrement: float = _DECREMENT
) -> Floats:
    """Minimiser by Newton's method with step halving.

    Each step ``H⁻¹ g`` is halved until it lowers the value; the search ends where ``gᵀ H⁻¹ g`` is
    below ``decrement`` or no step lowers the value any more. Where the Hessian is not positive
    definite a trust region (scipy's ``trust-exact``) goes on from there. At most three last steps
    are taken while they lower the gradient: where the value no longer resolves the progress, the
    gradient does.

    Args:
        objective: The function with its two derivatives.
        start: Starting parameters.
        max_iterations: Bound on the steps.
        decrement: Where to end; with one above the default the last steps are left out.

    Raises:
        InputError: No minimum, and not nearly one either; or numbers beyond the range of floats.

    Example:
        >>> minimise(lambda x: (x @ x - x[0], 2 * x - [1.0, 0.0], 2 * np.eye(2)), np.ones(2))
        array([0.5, 0. ])
    """
    known: dict[bytes, tuple[float, Floats, Floats]] = {}

    def at(x: Floats) -> tuple[float, Floats, Floats]:
        key = x.tobytes()
        if key not in known:
            known.clear()
            known[key] = objective(x)
        return known[key]

    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            found, ended = _newton(at, start, max_iterations, decrement)
            if ended and decrement > _DECREMENT:
                return found
            if not ended:
                found = _trust_region(at, found, max_iterations)
            return _polished(at, found, max_iterations)
    except InputError:
        raise
    except (FloatingPointError, ValueError) as error:
        raise InputError(f"no minimum within the range of floats: {error}") from None


def _newton(at: Objective, x: Floats, iterations: int, decrement: float) -> tuple[Floats, bool]:
    """Where Newton steps with halving lead, and whether they ended there."""
    value, gradient, hessian = at(x)
    for _ in range(iterations):
        try:
            factor = np.linalg.cholesky(hessian)
            step = np.linalg.solve(factor.T, np.linalg.solve(factor, gradient))
        except np.linalg.LinAlgError:
            return x, False
        gain, following = float(gradient @ step), None
        if gain < decrement:
            return x, True
        while gain > _ROUNDING * abs(value):  # less is lost in the value
            following = _value_at(at, x - step)
            if following is not None and following[0] < value:
                break
            step, gain, following = step / 2, gain / 2, None
        if following is None:
            return x, True
        x, (value, gradient, hessian) = x - step, following
    return x, False


def _value_at(at: Objective, x: Floats) -> tuple[float, Floats, Floats] | None:
    """The function somewhere; nothing where it is beyond the range of floats."""
    try:
        return at(x)
    except FloatingPointError:
        return None


def _trust_region(at: Objective, start: Floats, max_iterations: int) -> Floats:
    """Minimiser by scipy's ``trust-exact``, for what Newton's method cannot do."""
    from scipy.optimize import minimize

    parts = {"fun": lambda x: at(x)[0], "jac": lambda x: at(x)[1], "hess": lambda x: at(x)[2]}
    options = {"gtol": _FLAT, "maxiter": max_iterations, "max_trust_radius": 1e6}
    options["subproblem_maxiter"] = 100  # without a bound it may never end
    found = minimize(x0=start, method="trust-exact", options=options, **parts)
    return np.asarray(found.x)


def _polished(at: Objective, x: Floats, iterations: int) -> Floats:
    """The minimiser after its last Newton steps, or an error where it is none."""
    value, gradient, hessian = at(x)
    step = _newton_step(gradient, hessian)
    for _ in range(3):
        following = at(x - step)
        if not np.linalg.norm(following[1]) < np.linalg.norm(gradient):
            break
        x, (value, gradient, hessian) = x - step, following
        step = _newton_step(gradient, hessian)
    # Separable classes have their minimum at infinity, or far out on a plain by a tiny penalty;
    # and where rounding ends the search, the gradient is as small as its units let it be.
    norm = float(np.linalg.norm(gradient))
    if not (norm < _NEARLY_FLAT or gradient @ step < _NO_GAIN * max(1.0, abs(value))):
        raise InputError(
            f"no minimum within {iterations} steps (gradient norm {norm:.1e}); "
            "separable classes need a larger penalty"
        )
    return x


def _newton_step(gradient: Floats, hessian: Floats) -> Floats:
    """|H|⁻¹ g in units in which the diagonal of H is 1, eigenvalues bounded away from 0."""
    diagonal = np.abs(np.diagonal(hessian))
    unit = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    curvature, vectors = np.linalg.eigh(hessian / np.outer(unit, unit))
    curvature = np.maximum(np.abs(curvature), 1e-14)
    return np.asarray(vectors @ ((vectors.T @ (gradient / unit)) / curvature) / unit)


def normal_below(z: float) -> float:
    """Φ(z), the normal distribution.

    Example:
        >>> normal_below(0.0), round(normal_below(-1.96), 6)
        (0.5, 0.024998)
    """
    return math.erfc(-z / math.sqrt(2)) / 2


def normal_quantile(share: float) -> float:
    """Φ⁻¹, infinite at 0 and 1.

    Example:
        >>> normal_quantile(0.5), round(normal_quantile(0.975), 6), normal_quantile(0.0)
        (0.0, 1.959964, -inf)
    """
    if 0 < share < 1:
        return NormalDist().inv_cdf(share)
    return {0.0: -math.inf, 1.0: math.inf}.get(share, math.nan)


def student_below(t: float, degrees: int) -> float:
    """Student's t distribution of a whole number of degrees of freedom.

    With θ = atan(t/√ν) it is ½ + ½ A, and A a finite series in cos²θ (Abramowitz and Stegun, 26.7.3
    and 26.7.4).

    Example:
        >>> student_below(1.0, 1), round(student_below(2.0, 2), 6)
        (0.75, 0.908248)
    """
    angle = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    j = np.arange(1, (degrees - odd) // 2, dtype=np.float64)
    ratios = (2 * j - 1 + odd) / (2 * j + odd) * cosine**2
    series = sine * (1 + float(np.cumprod(ratios).sum()))
    if odd:
        series = 2 / math.pi * (angle + (series * cosine if degrees > 1 else 0.0))
    return 0.5 + series / 2


def student_quantile(share: float, degrees: int) -> float:
    """Where Student's t distribution reaches a share, by Newton's steps.

    Example:
        >>> [round(student_quantile(0.975, degrees), 4) for degrees in (1, 9, 47)]
        [12.7062, 2.2622, 2.0117]
    """
    if share < 0.5:
        return -student_quantile(1 - share, degrees)
    half = degrees / 2
    peak = math.lgamma(half + 0.5) - math.lgamma(half) - math.log(math.pi * degrees) / 2
    t, step = 0.0, math.inf  # the distribution is concave above 0: steps never pass the quantile
    while abs(step) > 1e-9 * t:  # the step after a small one is its square
        density = math.exp(peak - (half + 0.5) * math.log1p(t * t / degrees))
        step = (share - student_below(t, degrees)) / density
        t += step
    return t
