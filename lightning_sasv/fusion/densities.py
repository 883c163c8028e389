"""Class-conditional densities of the scores of a trial, and the LLRs they give.

Scores have the shape (d, trials): ASV columns first, then CM columns; d is 2 for the pair. What a
density learns is a state of float64 values whose first axis counts classes, ordered as
``TrialClass``. Fits are made of arrays; ``apply`` takes arrays or tensors, whatever scores and
state are.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from lightning_sasv.checks import Codes, Floats
from lightning_sasv.errors import InputError
from lightning_sasv.numerics import log_add, namespace
from lightning_sasv.trials import TrialClass

COVARIANCE_FLOOR = 1e-6
"""Added to the diagonal of every covariance, as in the paper's Gaussians."""

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
_MAX_ITERATIONS, _STUDENT_TOLERANCE, _MIXTURE_TOLERANCE, _ROUNDING = 500, 1e-12, 1e-7, 1e-15

State = dict[str, Any]
"""Fitted values by name."""

Config = Mapping[str, Any]
"""Settings of a system by name."""


Single = Callable[[Sequence[float]], Sequence[float]]
"""A stage on one trial, in plain floats."""


def of_place(place: str, state: State) -> State:
    """The values of one stage in the state of a system, by their own names.

    Example:
        >>> of_place("density", {"density.mean": 1.0, "rho": 0.5})
        {'mean': 1.0}
    """
    start = f"{place}."
    return {name[len(start) :]: value for name, value in state.items() if name.startswith(start)}


def at_place(place: str, values: State) -> State:
    """Values of a stage by their names in the state of a system."""
    return {f"{place}.{name}": np.asarray(value) for name, value in values.items()}


class Stage(NamedTuple):
    """A step on the way of the scores of a trial: a density, or a calibration.

    The settings are those of the system, and ``columns``, the :class:`Columns` that it is given: a
    density those of the scores, a calibration the same, or the pair of LLRs after a density, and
    measures of quality if it is ``multinomial``.

    Attributes:
        start: State before any fit, of the right shapes, from the settings.
        fit: State from scores (columns, trials), codes (trials,) and the settings.
        apply: LLR pairs (2, trials) from the state, scores and the settings.
        single: The same of one trial, made from the state and the settings; without it a trial is
            an array of length one.
    """

    start: Callable[[Config], State]
    fit: Callable[[Floats, Codes, Config], State]
    apply: Callable[[State, Any, Config], Any]
    single: Callable[[State, Config], Single] | None = None


def beside_quality(density: Stage, count: int) -> Stage:
    """A density of the first columns, which the others, measures of quality, pass by."""

    def apply(state: State, scores: Any, config: Config) -> Any:
        llrs = density.apply(state, scores[:count], config)
        return namespace(scores).concatenate([llrs, scores[count:]])

    def single(state: State, config: Config) -> Single:
        one = density.single(state, config)  # type: ignore[misc]
        return lambda scores: [*one(scores[:count]), *scores[count:]]

    return Stage(
        density.start,
        lambda scores, codes, config: density.fit(scores[:count], codes, config),
        apply,
        None if density.single is None else single,
    )


Kernel = Callable[[Any, Any, int, Config], Any]
"""Log density from squared distance, log determinant, number of columns and settings; of floats,
or of arrays or tensors that go together."""


def _density(
    names: tuple[str, ...],
    axes: Callable[[Config], tuple[int, ...]],
    fit_class: Callable[[Floats, TrialClass, Config], tuple[Floats, ...]],
    kernel: Kernel,
) -> Stage:
    """A density whose state is fitted class by class.

    Args:
        names: Names of the fitted values: weights where there are components, means, matrices.
        axes: Axes of a value before those of the columns.
        fit_class: Values of one class from its points (d, n).
        kernel: Log density of a class, or of a component.
    """
    *weights, location, scatter = names

    def start(config: Config) -> State:
        shape, columns = axes(config), config["columns"].scores
        zero, unit = np.zeros((*shape, columns)), np.tile(np.eye(columns), (*shape, 1, 1))
        values = (np.full(shape, 1 / shape[-1]), zero, unit)[-len(names) :]
        return dict(zip(names, values, strict=True))

    def fit(scores: Floats, codes: Codes, config: Config) -> State:
        fits = [fit_class(scores[:, codes == code], code, config) for code in TrialClass]
        return dict(zip(names, map(np.stack, zip(*fits, strict=True)), strict=True))

    def apply(state: State, scores: Any, config: Config) -> Any:
        parts = kernel(*mahalanobis(scores, state[location], state[scatter]), len(scores), config)
        for weight in weights:  # (3, c, trials)
            parts = parts + namespace(scores).log(state[weight])[..., None]
            parts = reduce(log_add, [parts[:, k] for k in range(parts.shape[1])])
        spoof, target, nontarget = parts
        return namespace(scores).stack([target - nontarget, target - spoof])

    def single(state: State, config: Config) -> Single:
        classes = in_floats(state[location], state[scatter])
        logs = [np.log(state[weight]).ravel().tolist() for weight in weights]
        components = len(classes) // len(TrialClass)

        def llrs(scores: Sequence[float]) -> Sequence[float]:
            columns = len(scores)
            parts = [
                kernel(squared_distance(scores, mean, rows), log_determinant, columns, config)
                for mean, rows, log_determinant in classes
            ]
            for own in logs:
                parts = [part + log for part, log in zip(parts, own, strict=True)]
                groups = range(0, len(parts), components)
                parts = [reduce(log_add, parts[k : k + components]) for k in groups]
            spoof, target, nontarget = parts
            return target - nontarget, target - spoof

        return llrs

    return Stage(start, fit, apply, single)


def moments_of(points: Floats, weights: Floats | None = None) -> tuple[Floats, Floats]:
    """Mean (d,) and maximum-likelihood covariance (d, d) of points (d, n), optionally weighted."""
    share = np.full(points.shape[1], 1.0) if weights is None else weights
    mean = points @ share / share.sum()
    centred = points - mean[:, None]
    return mean, (share * centred) @ centred.T / share.sum()


def floored(covariance: Floats, code: TrialClass, config: Config) -> Floats:
    """Covariances (..., d, d) plus :data:`COVARIANCE_FLOOR` on the diagonal, positive definite.

    Raises:
        InputError: A covariance is singular even so: columns of the class are collinear on a scale
            at which the floor is lost to rounding.
    """
    size = covariance.shape[-1]
    result = covariance + COVARIANCE_FLOOR * np.eye(size)
    with np.errstate(invalid="ignore"):
        pivots = np.stack([row[-1] ** 2 for row in _factor(result)], axis=-1)
        singular = ~(pivots > _ROUNDING * np.diagonal(result, axis1=-2, axis2=-1))
    singular[..., 0] = False
    if singular.any():
        worst = covariance[singular.any(axis=-1)].reshape(-1, size, size)[0].tolist()
        names = config["columns"].shown if "columns" in config else ("asv", "cm")
        last = int(np.argmax(singular.reshape(-1, size).any(axis=0)))
        raise InputError(
            f"{', '.join(names[:last])} and {names[last]} are collinear in class {code}: "
            f"covariance {worst} is singular"
        )
    return result


def _factor(covariance: Any) -> list[list[Any]]:
    """Cholesky factor of covariances (..., d, d): the rows of its lower triangle, entries (...)."""
    xp, rows = namespace(covariance), list[list[Any]]()
    for i in range(covariance.shape[-1]):
        row: list[Any] = []
        for j, above in enumerate(rows):
            rest = covariance[..., i, j]
            for k in range(j):
                rest = rest - row[k] * above[k]
            row.append(rest / above[j])
        rest = covariance[..., i, i]
        for entry in row:
            rest = rest - entry * entry
        rows.append([*row, xp.sqrt(rest)])
    return rows


def mahalanobis(points: Any, mean: Any, covariance: Any) -> tuple[Any, Any]:
    """Squared Mahalanobis distances, and the log determinants of the covariances.

    Args:
        points: Points (d, n).
        mean: Means (..., d).
        covariance: Covariances (..., d, d).

    Returns:
        Distances (..., n) and log determinants (..., 1).
    """
    rows = [[entry[..., None] for entry in row] for row in _factor(covariance)]
    means = [mean[..., i, None] for i in range(len(rows))]
    widths, log = [row[-1] for row in rows], namespace(points).log
    first = widths[0] * widths[1] if len(widths) > 1 else widths[0]  # the pair's in one product
    log_determinant = 2 * sum((log(width) for width in widths[2:]), start=log(first))
    return squared_distance(points, means, rows), log_determinant


def squared_distance(point: Any, mean: Sequence[Any], rows: Sequence[Sequence[Any]]) -> Any:
    """``|L⁻¹ (x − m)|²`` by forward substitution; of floats, or of what goes together.

    Args:
        point: The coordinates of x.
        mean: Those of m.
        rows: The rows of the lower triangle L.
    """
    if len(rows) == 2:  # the pair in one line: a single trial has no time for loops
        (x, y), ((width,), (slope, height)) = point, rows
        first = (x - mean[0]) / width
        second = (y - mean[1] - first * slope) / height
        return first * first + second * second
    whitened: list[Any] = []
    for value, centre, row in zip(point, mean, rows, strict=True):
        rest = value - centre
        for done, entry in zip(whitened, row, strict=False):
            rest = rest - done * entry
        whitened.append(rest / row[-1])
    return reduce(operator.add, [one * one for one in whitened])


def in_floats(
    mean: Floats, covariance: Floats
) -> list[tuple[list[float], list[list[float]], float]]:
    """Mean, rows of the Cholesky factor and log determinant of each class (and component)."""
    size, found = mean.shape[-1], []
    for one, own in zip(mean.reshape(-1, size), covariance.reshape(-1, size, size), strict=True):
        rows = [[float(entry) for entry in row] for row in _factor(own)]
        found.append((one.tolist(), rows, mahalanobis(own, one, own)[1].item()))
    return found


def gaussian_log_prob(points: Any, mean: Any, covariance: Any) -> Any:
    """Normal log density; shapes as in :func:`mahalanobis`."""
    return _gaussian_kernel(*mahalanobis(points, mean, covariance), len(points), {})


def _gaussian_kernel(distance: Any, log_determinant: Any, columns: int, _: Config) -> Any:
    return -0.5 * (distance + log_determinant) - columns * _HALF_LOG_TWO_PI


def _student_kernel(distance: Any, log_determinant: Any, columns: int, config: Config) -> Any:
    dof = config["dof"]
    tail = -0.5 * (dof + columns) * namespace(distance).log1p(distance / dof)
    return tail - 0.5 * log_determinant - columns * _HALF_LOG_TWO_PI


def _per_class(_: Config) -> tuple[int, ...]:
    return (len(TrialClass),)


def _fit_gaussian(points: Floats, code: TrialClass, config: Config) -> tuple[Floats, Floats]:
    """Maximum-likelihood moments, covariances divided by n."""
    mean, covariance = moments_of(points)
    return mean, floored(covariance, code, config)


def _fit_diagonal(points: Floats, code: TrialClass, config: Config) -> tuple[Floats, Floats]:
    mean, covariance = moments_of(points)
    return mean, floored(np.diag(np.diagonal(covariance)), code, config)


_MOMENTS = ("mean", "covariance")
_GAUSSIAN = _density(_MOMENTS, _per_class, _fit_gaussian, _gaussian_kernel)


def _fit_tied(scores: Floats, codes: Codes, config: Config) -> State:
    """One covariance for all classes: the mean of theirs, each weighted by its share of trials."""
    means, covariances = zip(*(moments_of(scores[:, codes == k]) for k in TrialClass), strict=True)
    shares = [np.mean(codes == code) for code in TrialClass]
    tied = sum(share * one for share, one in zip(shares, covariances, strict=True))
    covariance = [floored(np.asarray(tied), code, config) for code in TrialClass]
    return {"mean": np.stack(means), "covariance": np.stack(covariance)}


def fit_student_t(points: Floats, code: TrialClass, config: Config) -> tuple[Floats, Floats]:
    """Location (d,) and scatter (d, d) of a Student-t with ν degrees of freedom, by EM.

    ``p(s) ∝ |Σ|^(−½) (1 + δ/ν)^(−(ν+d)/2)`` with δ the squared Mahalanobis distance. Each EM step
    weighs a trial by u = (ν+d)/(ν+δ), so that trials far out count little (Lange, Little and
    Taylor 1989); the scatter is divided by Σu, which has the same fixed point as n and reaches it
    sooner (Kent, Tyler and Vardi 1994).
    """
    dof, columns = config["dof"], len(points)
    mean, scatter = _fit_gaussian(points, code, config)
    for _ in range(_MAX_ITERATIONS):
        distance, _ = mahalanobis(points, mean, scatter)
        previous = np.append(mean, scatter)
        mean, scatter = moments_of(points, (dof + columns) / (dof + distance))
        scatter = floored(scatter, code, config)
        current = np.append(mean, scatter)
        if math.hypot(*(current - previous)) <= _STUDENT_TOLERANCE * math.hypot(*current):
            break
    return mean, scatter


def fit_mixture(points: Floats, code: TrialClass, config: Config) -> tuple[Floats, Floats, Floats]:
    """Weights (c,), means (c, d) and covariances (c, d, d) of c Gaussians, by EM.

    The start depends on the data alone: the points (d, n), ordered along their principal axis, cut
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
        covariance, weight = floored(covariance, code, config), total / total.sum()
        parts = gaussian_log_prob(points, mean, covariance) + np.log(weight)[:, None]
        log_prob = reduce(log_add, parts)
        share = np.exp(parts - log_prob)
        previous, likelihood = likelihood, float(log_prob.mean())
        if likelihood - previous < _MIXTURE_TOLERANCE:
            break
    return weight, mean, covariance


def _ordered_groups(points: Floats, components: int) -> Floats:
    """One-hot groups (components, n) of equal size along the principal axis of points (d, n)."""
    axis = np.linalg.eigh(moments_of(points)[1]).eigenvectors[:, -1]
    rank = np.argsort(np.argsort(axis @ points, kind="stable"), kind="stable")
    return np.asarray(np.eye(components)[:, rank * components // points.shape[1]])


DENSITIES: dict[str, Stage] = {
    "gaussian": _GAUSSIAN,
    "tied": _GAUSSIAN._replace(fit=_fit_tied),
    "diagonal": _density(_MOMENTS, _per_class, _fit_diagonal, _gaussian_kernel),
    "student_t": _density(("mean", "scatter"), _per_class, fit_student_t, _student_kernel),
    "mixture": _density(
        ("weight", *_MOMENTS),
        lambda config: (len(TrialClass), config["components"]),
        fit_mixture,
        _gaussian_kernel,
    ),
}
"""Densities by name; a new one is a fit and a log density."""
