"""Percentile bootstrap: by trials, by clusters of trials, and by two crossed sets of clusters.

A replicate is a whole weight per trial: how often the trial was drawn. The scores are sorted once,
and every metric is evaluated with the weights of each replicate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, overload

import numpy as np

from lightning_sasv.checks import (
    ArrayLike,
    Codes,
    Floats,
    as_labels,
    as_scores,
    check_same_length,
)
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.functional.families import (
    DEFAULTS,
    Settings,
    as_columns,
    build_families,
)
from lightning_sasv.metrics.functional.resampling import Clusters, Weights, replicate_weights
from lightning_sasv.metrics.functional.sorted_trials import Drawn
from lightning_sasv.metrics.functional.weighted import Values

Metric: TypeAlias = str | Callable[[Floats, Codes], float]
"""A metric by name, or any function of (scores, label codes)."""


class ConfidenceInterval(NamedTuple):
    """A value and its percentile interval.

    Attributes:
        value: The metric of the trials as they are.
        low: Lower end.
        high: Upper end.
        replicates: The metric of each replicate.
        undefined: How many replicates lack a class (their value is NaN and left out).
    """

    value: float
    low: float
    high: float
    replicates: Floats
    undefined: int

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.high - self.low) / 2


class PairedInterval(NamedTuple):
    """The difference of two systems on the same trials, first minus second.

    Attributes:
        difference: Of the trials as they are.
        low: Lower end of the percentile interval.
        high: Upper end.
        p_value: Two-sided, 2 (1 + k) / (n + 1) with k the replicates on the rarer side of 0.
        replicates: The difference in each replicate.
        undefined: How many replicates lack a class.
    """

    difference: float
    low: float
    high: float
    p_value: float
    replicates: Floats
    undefined: int


Scores: TypeAlias = ArrayLike | Mapping[str, ArrayLike]


@overload
def bootstrap(  # type: ignore[overload-overlap]  # a str is a sequence of str as well
    metric: Metric,
    scores: Scores,
    labels: ArrayLike,
    clusters: Clusters = ...,
    n: int = ...,
    alpha: float = ...,
    *,
    seed: int = ...,
    settings: Settings = ...,
) -> ConfidenceInterval: ...
@overload
def bootstrap(
    metric: Sequence[str],
    scores: Scores,
    labels: ArrayLike,
    clusters: Clusters = ...,
    n: int = ...,
    alpha: float = ...,
    *,
    seed: int = ...,
    settings: Settings = ...,
) -> dict[str, ConfidenceInterval]: ...
def bootstrap(
    metric: Metric | Sequence[str],
    scores: Scores,
    labels: ArrayLike,
    clusters: Clusters = None,
    n: int = 1000,
    alpha: float = 5,
    *,
    seed: int = 0,
    settings: Settings = DEFAULTS,
) -> ConfidenceInterval | dict[str, ConfidenceInterval]:
    """Percentile confidence interval of one metric or of several on the same replicates.

    Args:
        metric: Name of a metric (``families.COLUMNS`` lists them), several names, or any function
            of (scores, codes). Named metrics are evaluated by weights on scores sorted once; a
            function is called with each literally resampled set of trials.
        scores: One column; a pair (asv, cm) for the tandem metrics; or a mapping with the columns
            ``sasv``, ``asv``, ``cm`` that the metrics need.
        labels: ``TrialClass`` codes or words.
        clusters: What is drawn with replacement. ``None``: trials. A column, such as the enrolled
            speaker of each trial: its clusters, each with all its trials (which are not drawn
            again within it). A tuple of two columns,
            such as (speaker, attack): both are drawn, and a trial counts the product of how often
            its two clusters were. The name ``-`` is no cluster: such trials count once in that
            column (bona fide speech has no attack).
        n: Replicates.
        alpha: Per cent outside the interval, half of it on either side.
        seed: Replicate r depends on ``(seed, r)`` only.
        settings: Costs, priors and conventions of the named metrics.

    Returns:
        The interval; for several names a dictionary of them.

    Raises:
        InputError: Columns that differ in length, an unknown metric, or what the metric itself
            raises; ``n`` below 1 or ``alpha`` outside (0, 100).
    """
    _check_numbers(n, alpha)
    names = [metric] if isinstance(metric, str) or callable(metric) else list(metric)
    evaluate, size = _evaluator(names, scores, labels, settings)
    values = evaluate(np.ones(size, dtype=np.int16))
    rows = np.array([evaluate(weights) for weights in replicate_weights(size, clusters, n, seed)])
    found = {
        name if isinstance(name, str) else name.__name__: _interval(value, column, alpha)
        for name, value, column in zip(names, values, rows.T, strict=True)
    }
    if isinstance(metric, str) or callable(metric):
        return next(iter(found.values()))
    return found


def paired_bootstrap(
    metric: Metric,
    scores_a: Scores,
    scores_b: Scores,
    labels: ArrayLike,
    clusters: Clusters = None,
    n: int = 1000,
    alpha: float = 5,
    *,
    seed: int = 0,
    settings: Settings = DEFAULTS,
) -> PairedInterval:
    """Interval of the difference of two systems, both evaluated on each resampled set of trials.

    Args:
        metric: As for :func:`bootstrap`, one.
        scores_a: Scores of the first system.
        scores_b: Scores of the second system, of the same trials in the same order.
        labels: ``TrialClass`` codes or words.
        clusters: As for :func:`bootstrap`.
        n: Replicates.
        alpha: Per cent outside the interval.
        seed: As for :func:`bootstrap`; the same seed draws the same replicates.
        settings: As for :func:`bootstrap`.

    Returns:
        The difference, first minus second, its interval and a two-sided p-value.

    Raises:
        InputError: As for :func:`bootstrap`, or systems of different numbers of trials.
    """
    _check_numbers(n, alpha)
    first, size = _evaluator([metric], scores_a, labels, settings)
    second, _ = _evaluator([metric], scores_b, labels, settings)
    once = np.ones(size, dtype=np.int16)
    difference = first(once)[0] - second(once)[0]
    replicates = np.array(
        [
            first(weights)[0] - second(weights)[0]
            for weights in replicate_weights(size, clusters, n, seed)
        ]
    )
    interval = _interval(difference, replicates, alpha)
    p_value = two_sided_p(replicates)
    return PairedInterval(difference, interval.low, interval.high, p_value, *interval[3:])


def _evaluator(
    names: Sequence[Metric], scores: Scores, labels: ArrayLike, settings: Settings
) -> tuple[Callable[[Weights], list[float]], int]:
    if callable(names[0]):
        return _literal(names[0], scores, labels)
    known = [name for name in names if isinstance(name, str)]
    columns, codes = as_columns(scores, known, labels)
    families = build_families(known, columns, codes, settings)

    def evaluate(weights: Weights) -> list[float]:
        values: Values = {}
        drawn = Drawn(weights)
        for family in families:
            values |= family(drawn)
        return [values[name] for name in known]

    return evaluate, codes.size


def _literal(
    metric: Callable[[Floats, Codes], float], scores: Scores, labels: ArrayLike
) -> tuple[Callable[[Weights], list[float]], int]:
    if isinstance(scores, Mapping):
        raise InputError("a metric given as a function takes one column of scores")
    column, codes = as_scores(scores, "scores"), as_labels(labels)
    check_same_length({"scores": column, "labels": codes})

    def evaluate(weights: Weights) -> list[float]:
        drawn = np.repeat(np.arange(codes.size), weights)
        return [float(metric(column[drawn], codes[drawn]))]

    return evaluate, codes.size


def percentile_interval(replicates: Floats, alpha: float = 5) -> tuple[float, float]:
    """The ends that leave ``alpha / 2`` per cent of the defined replicates on either side.

    Args:
        replicates: A metric's value in each replicate; NaN is left out, infinity is ordered.
        alpha: Per cent outside the interval.

    Returns:
        Both ends; NaN if no replicate has a value.
    """
    defined = np.sort(replicates[~np.isnan(replicates)])
    shares = alpha / 200, 1 - alpha / 200
    return _percentile(defined, shares[0]), _percentile(defined, shares[1])


def two_sided_p(differences: Floats) -> float:
    """2 (1 + k) / (n + 1), at most 1, with k of the n defined replicates on the rarer side of 0."""
    defined = differences[~np.isnan(differences)]
    rarer = min(np.count_nonzero(defined <= 0), np.count_nonzero(defined >= 0))
    return min(1.0, 2 * (1 + rarer) / (defined.size + 1))


def _interval(value: float, replicates: Floats, alpha: float) -> ConfidenceInterval:
    undefined = int(np.count_nonzero(np.isnan(replicates)))
    return ConfidenceInterval(value, *percentile_interval(replicates, alpha), replicates, undefined)


def _percentile(ascending: Floats, share: float) -> float:
    """Linearly interpolated percentile; infinite values may be among them."""
    if not ascending.size:
        return float("nan")
    place = share * (ascending.size - 1)
    below = int(place)
    a, b = float(ascending[below]), float(ascending[min(below + 1, ascending.size - 1)])
    return a if a == b or place == below else a + (place - below) * (b - a)


def _check_numbers(n: int, alpha: float) -> None:
    if n < 1:
        raise ValueError(f"n must be at least 1 replicate, got {n}")
    if not 0 < alpha < 100:
        raise ValueError(f"alpha must be a percentage between 0 and 100, got {alpha}")
