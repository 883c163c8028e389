"""Decision boundaries as lines in the plane of the pair that a system fuses."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.decisions import CostModel
from lightning_sasv.fusion import FusionSystem

Floats = NDArray[np.float64]
Window = tuple[tuple[float, float], tuple[float, float]]
"""Ends of the two axes of a plane."""

Line = tuple[Floats, Floats]
"""x and y of the points of a line; NaN where it leaves the plane."""

POINTS = 241


def _log(values: Floats) -> Floats:
    """Natural logarithm; NaN where there is none."""
    return np.log(np.where(values > 0, values, np.nan))


def _logit(values: Floats) -> Floats:
    inside = (values > 0) & (values < 1)
    safe = np.where(inside, values, 0.5)
    return np.where(inside, np.log(safe) - np.log1p(-safe), np.nan)


def _sigmoid(values: Floats) -> Floats:
    return np.exp(-np.logaddexp(0.0, -values))


def nonlinear_boundary(x: Floats, nontarget: float, spoof: float, level: float) -> Floats:
    """The c with ``−log[w_non e^(−a) + w_spf e^(−c)] = level`` for each a, or NaN.

    c = log w_spf − log(e^(−level) − w_non e^(−a)), computed with the larger term taken out. A
    weight of 0 on spoofs leaves no such c: that boundary is the vertical line of
    :func:`asymptotes`.
    """
    if spoof <= 0:
        return np.full_like(x, np.nan)
    if nontarget <= 0:
        return np.full_like(x, math.log(spoof) + level)
    gap = x + (-level - math.log(nontarget))  # of the logs of the two terms
    return math.log(spoof) + level - _log(-np.expm1(-np.where(gap > 0, gap, np.nan)))


def asymptotes(nontarget: float, spoof: float, level: float) -> tuple[float, float]:
    """Smallest a and smallest c that are accepted at all at a level; −inf for a weight of 0."""
    return tuple(  # type: ignore[return-value]
        math.log(weight) + level if weight > 0 else -math.inf for weight in (nontarget, spoof)
    )


def _nonlinear_line(window: Window, nontarget: float, spoof: float, level: float) -> Line:
    """The curve, with points dense near its vertical asymptote, which it is drawn up to."""
    (x_low, x_high), (y_low, y_high) = window
    left, _ = asymptotes(nontarget, spoof, level)
    if spoof <= 0:
        return np.array([left, left]), np.array([y_low, y_high])
    start = min(max(x_low, left), x_high)
    x = start + (x_high - start) * np.linspace(0, 1, POINTS) ** 3
    y = nonlinear_boundary(x, nontarget, spoof, level)
    if x_low < left < x_high:
        y[0] = 2 * y_high - y_low
    return x, y


def _corner(left: float, bottom: float, x_high: float, y_high: float) -> Line:
    """Two straight lines that meet at (left, bottom) and run up and to the right."""
    end, top = max(x_high, left), max(y_high, bottom)
    return np.array([left, left, end]), np.array([top, bottom, bottom])


Solver = Callable[[Floats, float], Floats]

_SOLVERS: dict[str, Solver] = {
    "sum": lambda a, level: level - a,
    "linear": lambda a, level: math.sqrt(6) * level - a,
    "sigmoid_sum": lambda a, level: _logit(level - a),
    "sigmoid_product": lambda a, level: _logit(level / _sigmoid(a)),
}
"""The cm that gives a rule's score at each asv."""


def rule_boundary(system: FusionSystem, level: float, window: Window) -> Line:
    """Where the score of a system equals a level, in the plane of the pair that it fuses."""
    (x_low, x_high), (y_low, y_high) = window
    if system.rho is not None:
        rho = float(system.rho[0])
        return _nonlinear_line(window, 1 - rho, rho, level)
    if system.rule == "cascade":
        return _corner(level, level, x_high, y_high)
    x = np.linspace(x_low, x_high, POINTS)
    y = _SOLVERS[system.rule](x, level)
    if system.rule.startswith("sigmoid"):  # steep where the sigmoid saturates: by cm as well
        x, y = _with_steep_ends(system.rule, x, y, level, (y_low, y_high))
    return x, y


def _with_steep_ends(
    rule: str, x: Floats, y: Floats, level: float, window: tuple[float, float]
) -> Line:
    """Add the asv that gives the level at each cm, and order the points by asv."""
    c = np.linspace(*window, POINTS)
    a = level - _sigmoid(c) if rule == "sigmoid_sum" else _logit(level / _sigmoid(c))
    keep_x, keep_a = np.isfinite(y), np.isfinite(a)
    x, y = np.concatenate([x[keep_x], a[keep_a]]), np.concatenate([y[keep_x], c[keep_a]])
    order = np.lexsort((-y, x))
    return x[order], y[order]


def policy_boundaries(costs: CostModel, window: Window) -> dict[str, Line]:
    """Boundaries of the Bayes, linear and utility policies in the plane of the two LLRs.

    Bayes: w_non e^(−a) + w_spf e^(−c) = w_tar (Ineq. app_policy_gen); linear: a + c =
    log(w_non w_spf / w_tar²) (Ineq. action_fused_lr); utility: the corner P_tar = P_non,
    P_tar = P_spf (Ineq. app_policy_utility). Weights are the cost-weighted priors, all positive.
    """
    (x_low, x_high), (_, y_high) = window
    target, nontarget, spoof = costs.weight_miss, costs.weight_fa_nontarget, costs.weight_fa_spoof
    level = -math.log(target)
    left, bottom = asymptotes(nontarget, spoof, level)
    x = np.array([x_low, x_high])
    return {
        "bayes": _nonlinear_line(window, nontarget, spoof, level),
        "linear": (x, left + bottom - x),
        "utility": _corner(left, bottom, x_high, y_high),
    }
