"""Class-conditional densities of the score pair s = [asv, cm], and the LLRs they give.

Score pairs have the shape (2, trials). What a density learns is a state of float64 values whose
first axis counts classes, ordered as ``TrialClass``. Fits are made of arrays; ``apply`` takes
arrays or tensors, whatever pairs and state are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from lightning_sasv.checks import Codes, Floats
from lightning_sasv.errors import InputError
from lightning_sasv.numerics import log_add, namespace
from lightning_sasv.trials import TrialClass

COVARIANCE_FLOOR = 1e-6
"""Added to the diagonal of every covariance, as in the paper's Gaussians."""

_MAX_ITERATIONS, _STUDENT_TOLERANCE, _MIXTURE_TOLERANCE, _ROUNDING = 500, 1e-12, 1e-7, 1e-15

State = dict[str, Any]
"""Fitted values by name."""

Config = Mapping[str, Any]
"""Settings of a system by name."""


class Stage(NamedTuple):
    """A step on the way of a score pair: a density, or a calibration.

    Attributes:
        start: State before any fit, of the right shapes, from the settings.
        fit: State from score pairs (2, trials), codes (trials,) and the settings.
        apply: Pairs (2, trials) from the state, pairs and the settings.
    """

    start: Callable[[Config], State]
    fit: Callable[[Floats, Codes, Config], State]
    apply: Callable[[State, Any, Config], Any]


def _density(
    names: tuple[str, ...],
    axes: Callable[[Config], tuple[int, ...]],
    fit_class: Callable[[Floats, TrialClass, Config], tuple[Floats, ...]],
    log_prob: Callable[[State, Any, Config], Any],
) -> Stage:
    """A density whose state is fitted class by class.

    Args:
        names: Names of the fitted values: weights where there are components, means, matrices.
        axes: Axes of a value before those of the pair.
        fit_class: Values of one class from its points (2, n).
        log_prob: Log densities (3, trials).
    """

    def start(config: Config) -> State:
        shape = axes(config)
        zero, unit = np.zeros((*shape, 2)), np.tile(np.eye(2), (*shape, 1, 1))
        values = (np.full(shape, 1 / shape[-1]), zero, unit)[-len(names) :]
        return dict(zip(names, values, strict=True))

    def fit(pairs: Floats, codes: Codes, config: Config) -> State:
        fits = [fit_class(pairs[:, codes == code], code, config) for code in TrialClass]
        return dict(zip(names, map(np.stack, zip(*fits, strict=True)), strict=True))

    def apply(state: State, pairs: Any, config: Config) -> Any:
        spoof, target, nontarget = log_prob(state, pairs, config)
        return namespace(pairs).stack([target - nontarget, target - spoof])

    return Stage(start, fit, apply)


def moments_of(points: Floats, weights: Floats | None = None) -> tuple[Floats, Floats]:
    """Mean (2,) and maximum-likelihood covariance (2, 2) of points (2, n), optionally weighted."""
    share = np.full(points.shape[1], 1.0) if weights is None else weights
    mean = points @ share / share.sum()
    centred = points - mean[:, None]
    return mean, (share * centred) @ centred.T / share.sum()


def floored(covariance: Floats, code: TrialClass) -> Floats:
    """Covariances (..., 2, 2) plus :data:`COVARIANCE_FLOOR` on the diagonal, positive definite.

    Raises:
        InputError: A covariance is singular even so: the two scores of the class are collinear on
            a scale at which the floor is lost to rounding.
    """
    result = covariance + COVARIANCE_FLOOR * np.eye(2)
    with np.errstate(invalid="ignore"):
        singular = ~(_factor(result)[2] ** 2 > _ROUNDING * result[..., 1, 1])
    if singular.any():
        worst = covariance[singular].reshape(-1, 2, 2)[0].tolist()
        raise InputError(
            f"asv and cm are collinear in class {code}: covariance {worst} is singular"
        )
    return result


def _factor(covariance: Any) -> tuple[Any, Any, Any]:
    """Cholesky factor of covariances (..., 2, 2): its entries (0, 0), (1, 0) and (1, 1), (...)."""
    xp = namespace(covariance)
    first = xp.sqrt(covariance[..., 0, 0])
    below = covariance[..., 1, 0] / first
    return first, below, xp.sqrt(covariance[..., 1, 1] - below * below)


def mahalanobis(points: Any, mean: Any, covariance: Any) -> tuple[Any, Any]:
    """Squared Mahalanobis distances, and the log determinants of the covariances.

    Args:
        points: Points (2, n).
        mean: Means (..., 2).
        covariance: Covariances (..., 2, 2).

    Returns:
        Distances (..., n) and log determinants (..., 1).
    """
    width, slope, height = (part[..., None] for part in _factor(covariance))
    first = (points[0] - mean[..., 0, None]) / width
    second = (points[1] - mean[..., 1, None] - first * slope) / height
    return first * first + second * second, 2 * namespace(points).log(width * height)


def gaussian_log_prob(points: Any, mean: Any, covariance: Any) -> Any:
    """Bivariate normal log density; shapes as in :func:`mahalanobis`."""
    distance, log_determinant = mahalanobis(points, mean, covariance)
    return -0.5 * (distance + log_determinant) - math.log(2 * math.pi)


def _per_class(_: Config) -> tuple[int, ...]:
    return (len(TrialClass),)


def _fit_gaussian(points: Floats, code: TrialClass, _: Config) -> tuple[Floats, Floats]:
    """Maximum-likelihood moments, covariances divided by n."""
    mean, covariance = moments_of(points)
    return mean, floored(covariance, code)


def _fit_diagonal(points: Floats, code: TrialClass, _: Config) -> tuple[Floats, Floats]:
    mean, covariance = moments_of(points)
    return mean, floored(np.diag(np.diagonal(covariance)), code)


def _gaussian_log_probs(state: State, pairs: Any, _: Config) -> Any:
    return gaussian_log_prob(pairs, state["mean"], state["covariance"])


_MOMENTS = ("mean", "covariance")
_GAUSSIAN = _density(_MOMENTS, _per_class, _fit_gaussian, _gaussian_log_probs)


def _fit_tied(pairs: Floats, codes: Codes, config: Config) -> State:
    """One covariance for all classes: the mean of theirs, each weighted by its share of trials."""
    means, covariances = zip(*(moments_of(pairs[:, codes == k]) for k in TrialClass), strict=True)
    shares = [np.mean(codes == code) for code in TrialClass]
    tied = sum(share * one for share, one in zip(shares, covariances, strict=True))
    covariance = [floored(np.asarray(tied), code) for code in TrialClass]
    return {"mean": np.stack(means), "covariance": np.stack(covariance)}


def fit_student_t(points: Floats, code: TrialClass, config: Config) -> tuple[Floats, Floats]:
    """Location (2,) and scatter (2, 2) of a bivariate Student-t with ν degrees of freedom, by EM.

    ``p(s) = |Σ|^(−½) (1 + δ/ν)^(−(ν+2)/2) / 2π`` with δ the squared Mahalanobis distance. Each EM
    step weighs a trial by u = (ν+2)/(ν+δ), so that trials far out count little (Lange, Little and
    Taylor 1989); the scatter is divided by Σu, which has the same fixed point as n and reaches it
    sooner (Kent, Tyler and Vardi 1994).
    """
    dof = config["dof"]
    mean, scatter = _fit_gaussian(points, code, config)
    for _ in range(_MAX_ITERATIONS):
        distance, _ = mahalanobis(points, mean, scatter)
        previous = np.append(mean, scatter)
        mean, scatter = moments_of(points, (dof + 2) / (dof + distance))
        scatter = floored(scatter, code)
        current = np.append(mean, scatter)
        if math.hypot(*(current - previous)) <= _STUDENT_TOLERANCE * math.hypot(*current):
            break
    return mean, scatter


def _student_log_probs(state: State, pairs: Any, config: Config) -> Any:
    distance, log_determinant = mahalanobis(pairs, state["mean"], state["scatter"])
    tail = -0.5 * (config["dof"] + 2) * namespace(pairs).log1p(distance / config["dof"])
    return tail - 0.5 * log_determinant - math.log(2 * math.pi)


def fit_mixture(points: Floats, code: TrialClass, config: Config) -> tuple[Floats, Floats, Floats]:
    """Weights (c,), means (c, 2) and covariances (c, 2, 2) of c Gaussians, by EM.

    The start depends on the data alone: the points (2, n), ordered along their principal axis, cut
    into groups of equal size. EM ends when the mean log-likelihood gains less than 1e-7.

    Raises:
        InputError: Fewer trials than components.
    """
    components, trials = config["components"], points.shape[1]
    if trials < components:
        raise InputError(f"components is {components}, but class {code} has {trials} trials")
    share, likelihood = _ordered_groups(points, components), -math.inf
    for _ in range(_MAX_ITERATIONS):
        # A component that lost all its trials keeps a weight that is tiny, not 0.
        total = np.maximum(share.sum(axis=1), np.finfo(np.float64).tiny)
        mean = share @ points.T / total[:, None]
        centred = points - mean[..., None]
        covariance = (share[:, None] * centred) @ np.swapaxes(centred, 1, 2) / total[:, None, None]
        covariance, weight = floored(covariance, code), total / total.sum()
        parts = gaussian_log_prob(points, mean, covariance) + np.log(weight)[:, None]
        log_prob = reduce(log_add, parts)
        share = np.exp(parts - log_prob)
        previous, likelihood = likelihood, float(log_prob.mean())
        if likelihood - previous < _MIXTURE_TOLERANCE:
            break
    return weight, mean, covariance


def _ordered_groups(points: Floats, components: int) -> Floats:
    """One-hot groups (components, n) of equal size along the principal axis of points (2, n)."""
    axis = np.linalg.eigh(moments_of(points)[1]).eigenvectors[:, -1]
    rank = np.argsort(np.argsort(axis @ points, kind="stable"), kind="stable")
    return np.asarray(np.eye(components)[:, rank * components // points.shape[1]])


def _mixture_log_probs(state: State, pairs: Any, config: Config) -> Any:
    parts = gaussian_log_prob(pairs, state["mean"], state["covariance"])  # (3, c, trials)
    parts = parts + namespace(pairs).log(state["weight"])[..., None]
    return reduce(log_add, [parts[:, k] for k in range(parts.shape[1])])


DENSITIES: dict[str, Stage] = {
    "gaussian": _GAUSSIAN,
    "tied": _GAUSSIAN._replace(fit=_fit_tied),
    "diagonal": _density(_MOMENTS, _per_class, _fit_diagonal, _gaussian_log_probs),
    "student_t": _density(("mean", "scatter"), _per_class, fit_student_t, _student_log_probs),
    "mixture": _density(
        ("weight", *_MOMENTS),
        lambda config: (len(TrialClass), config["components"]),
        fit_mixture,
        _mixture_log_probs,
    ),
}
"""Densities by name; a new one is a fit and a log density."""
