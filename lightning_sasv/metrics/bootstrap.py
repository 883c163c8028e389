"""Percentile bootstrap: by trials, by clusters of trials, and by two crossed sets of clusters.

A replicate is a whole weight per trial: how often the trial was drawn. The scores are sorted once,
and every metric is evaluated with the weights of each replicate. Replicate r of a seed is a
function of (seed, r) alone: it does not depend on how many replicates there are, in what order they
are computed, or what they are used for. So several systems are drawn alike, and their differences
are paired.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import (
    BLOCK,
    ArrayLike,
    Codes,
    Floats,
    as_labels,
    as_scores,
    check_same_length,
)
from lightning_sasv.errors import InputError, meant
from lightning_sasv.metrics.functional.points import Classes, Weighting
from lightning_sasv.metrics.registry import DEFAULTS, METRICS, Settings, resampled, values_of

Weights: TypeAlias = NDArray[np.integer]
Clusters: TypeAlias = ArrayLike | tuple[ArrayLike, ArrayLike] | None
Metric: TypeAlias = str | Callable[[Floats, Codes], float]
"""A metric by name, or any function of (scores, label codes)."""

Scores: TypeAlias = ArrayLike | Mapping[str, ArrayLike]

_NARROW = np.iinfo(np.int8).max
"""Weights up to this are kept in 8 bits: less memory to look them up in."""
_LARGE = 1 << 24

NOT_CLUSTERED = "-"
"""Cluster name of trials that no cluster holds: the attack of bona fide speech."""


class ConfidenceInterval(NamedTuple):
    """A value and its percentile interval.

    Attributes:
        value: The metric of the trials as they are.
        low: Lower end.
        high: Upper end.
        replicates: The metric of each replicate.
        undefined: How many replicates lack a class (their value is NaN and left out).

    Example:
        >>> ConfidenceInterval(0.25, 0.0, 0.5, np.array([0.0, 0.5]), 0).half_width
        0.25
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

    Example:
        >>> scores, labels = [2.0, 1.0, 0.0], ["target", "nontarget", "spoof"]
        >>> paired_bootstrap("sasv_eer", scores, scores, labels, n=9).p_value
        1.0
    """

    difference: float
    low: float
    high: float
    p_value: float
    replicates: Floats
    undefined: int


@dataclass(frozen=True)
class Resampled:
    """A metric and its replicates.

    Attributes:
        value: The metric of the trials as they are.
        replicates: Its value in each replicate; NaN where a class was not drawn.

    Example:
        >>> Resampled(1.0, np.array([0.0, 1.0, 2.0, np.nan])).interval(50)
        (0.5, 1.5)
    """

    value: float
    replicates: Floats

    def interval(self, alpha: float = 5) -> tuple[float, float]:
        """Percentile interval that leaves ``alpha`` per cent outside; NaN if nothing is defined."""
        return percentile_interval(self.replicates, alpha)

    def as_dict(self) -> dict[str, float]:
        """Value and interval as plain values."""
        low, high = self.interval()
        return {"value": self.value, "low": low, "high": high, "undefined": self.undefined}

    @property
    def undefined(self) -> int:
        """How many replicates have no value."""
        return int(np.isnan(self.replicates).sum())


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
        metric: Name of a metric (``COLUMNS`` lists them), several names, or any function of
            (scores, codes). Named metrics are evaluated by weights on scores sorted once; a
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
            raises.
        ValueError: ``n`` below 1 or ``alpha`` outside (0, 100).

    Example:
        >>> labels = ["target", "target", "nontarget", "spoof"]
        >>> bootstrap("sasv_eer", [2.0, 0.5, 1.0, 0.0], labels, n=20).value
        0.5
    """
    _check_numbers(n, alpha)
    names = [metric] if isinstance(metric, str) or callable(metric) else list(metric)
    (found,) = _resample([_evaluator(names, scores, labels, settings)], clusters, n, seed)
    intervals = {
        name if isinstance(name, str) else name.__name__: ConfidenceInterval(
            one.value, *one.interval(alpha), one.replicates, one.undefined
        )
        for name, one in zip(names, found, strict=True)
    }
    if isinstance(metric, str) or callable(metric):
        return next(iter(intervals.values()))
    return intervals


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

    Example:
        >>> scores, labels = [2.0, 0.5, 1.0, 0.0], ["target", "target", "nontarget", "spoof"]
        >>> paired_bootstrap("sasv_eer", scores, scores, labels, n=20).difference
        0.0
    """
    _check_numbers(n, alpha)
    both = [_evaluator([metric], scores, labels, settings) for scores in (scores_a, scores_b)]
    (first,), (second,) = _resample(both, clusters, n, seed)
    difference = Resampled(first.value - second.value, first.replicates - second.replicates)
    ends, p_value = difference.interval(alpha), two_sided_p(difference.replicates)
    undefined = difference.undefined
    return PairedInterval(difference.value, *ends, p_value, difference.replicates, undefined)


def resample(
    systems: Mapping[str, Mapping[str, ArrayLike]],
    labels: ArrayLike,
    names: Mapping[str, Sequence[str]],
    clusters: Clusters = None,
    n: int = 1000,
    *,
    seed: int = 0,
    settings: Settings = DEFAULTS,
    progress: Callable[[], object] | None = None,
) -> dict[str, dict[str, Resampled]]:
    """Replicates of the metrics of several systems on the same trials, drawn alike.

    Args:
        systems: Columns of scores (``sasv``, ``asv``, ``cm``) of each system.
        labels: ``TrialClass`` codes or words.
        names: Metrics of each system.
        clusters: As for :func:`bootstrap`.
        n: Replicates.
        seed: As for :func:`bootstrap`.
        settings: As for :func:`bootstrap`.
        progress: Called after each replicate.

    Returns:
        Replicates by system and metric. Metrics that the classes of these trials do not allow are
        left out.

    Example:
        >>> systems, labels = {"A": {"sasv": [2.0, 1.0, 0.0]}}, ["target", "nontarget", "spoof"]
        >>> resample(systems, labels, {"A": ["sasv_eer"]}, n=3)["A"]["sasv_eer"].value
        0.0
    """
    wanted = [(names[name], columns, labels, settings) for name, columns in systems.items()]
    found = _resample([_evaluator(*one) for one in wanted], clusters, n, seed, progress)
    return {
        name: {
            metric: one
            for metric, one in zip(names[name], metrics, strict=True)
            if not math.isnan(one.value)
        }
        for name, metrics in zip(systems, found, strict=True)
    }


class _Evaluator(NamedTuple):
    """The wanted metrics of one system as a function of the weights; ``None`` is one each."""

    values: Callable[[Weighting | None], list[float]]
    trials: int


def _resample(
    systems: Sequence[_Evaluator],
    clusters: Clusters,
    n: int,
    seed: int,
    progress: Callable[[], object] | None = None,
) -> list[list[Resampled]]:
    once = [system.values(None) for system in systems]
    rows = [np.empty((n, len(values))) for values in once]
    drawn = _replicates(systems[0].trials, clusters, n, seed)
    for replicate, weights in enumerate(drawn):
        for row, system in zip(rows, systems, strict=True):
            row[replicate] = system.values(weights)
        if progress is not None:
            progress()
    return [
        [Resampled(*pair) for pair in zip(values, row.T, strict=True)]
        for values, row in zip(once, rows, strict=True)
    ]


def _evaluator(
    metrics: Sequence[Metric], scores: Scores, labels: ArrayLike, settings: Settings
) -> _Evaluator:
    names = [metric for metric in metrics if isinstance(metric, str)]
    if len(names) < len(metrics):
        return _literal(metrics[0], scores, labels)  # type: ignore[arg-type]  # it is no str
    classes = Classes(*as_columns(scores, names, labels))

    def values(weights: Weighting | None) -> list[float]:
        drawn = classes if weights is None else classes.weighted(weights)
        return list(values_of(names, drawn, settings).values())

    return _Evaluator(values, classes.codes.size)


def _literal(
    metric: Callable[[Floats, Codes], float], scores: Scores, labels: ArrayLike
) -> _Evaluator:
    if isinstance(scores, Mapping):
        raise InputError("a metric given as a function takes one column of scores")
    column, codes = as_scores(scores, "scores"), as_labels(labels)
    check_same_length({"scores": column, "labels": codes})
    trials = np.arange(codes.size)

    def values(weights: Weighting | None) -> list[float]:
        drawn = trials if weights is None else np.repeat(trials, weights.take(trials))
        return [float(metric(column[drawn], codes[drawn]))]

    return _Evaluator(values, codes.size)


def as_columns(
    scores: Scores, names: Sequence[str], labels: ArrayLike
) -> tuple[dict[str, Floats], Codes]:
    """Checked columns of scores by name, and the labels.

    Args:
        scores: Columns by name (``sasv``, ``asv``, ``cm``); or one column, for metrics that need
            one; or a pair (asv, cm), for metrics that need both.
        names: Metrics wanted.
        labels: ``TrialClass`` codes or words.

    Returns:
        The columns and the codes, all of one length.

    Example:
        >>> as_columns([1.0, 0.0], ["asv_eer"], ["target", "nontarget"])[0]
        {'asv': array([1., 0.])}
    """
    for name in names:
        if name not in METRICS:
            known = f"expected one of {', '.join(resampled())}{meant(name, resampled())}"
            raise InputError(f"unknown metric {name!r}; {known}")
    if not isinstance(scores, Mapping):
        needed = list({column: None for name in names for column in METRICS[name].columns})
        if len(needed) > 1 and (set(needed) != {"asv", "cm"}):
            raise InputError(f"metrics {list(names)} need the columns {sorted(needed)} by name")
        if len(needed) > 1 and len(scores) != 2:
            raise InputError(f"metrics {list(names)} need a pair of columns (asv, cm)")
        scores = dict(zip(sorted(needed), scores if len(needed) > 1 else [scores], strict=True))
    for name in names:
        missing = [column for column in METRICS[name].columns if column not in scores]
        if missing:
            raise InputError(f"metric {name!r} needs the scores {missing}, got {sorted(scores)}")
    columns = {name: as_scores(values, name) for name, values in scores.items()}
    codes = as_labels(labels)
    check_same_length({**columns, "labels": codes})
    return columns, codes


def percentile_interval(replicates: Floats, alpha: float = 5) -> tuple[float, float]:
    """The ends that leave ``alpha / 2`` per cent of the defined replicates on either side.

    Args:
        replicates: A metric's value in each replicate; NaN is left out, infinity is ordered.
        alpha: Per cent outside the interval.

    Returns:
        Both ends; NaN if no replicate has a value.

    Example:
        >>> percentile_interval(np.arange(101.0))
        (2.5, 97.5)
    """
    defined = np.sort(replicates[~np.isnan(replicates)])
    shares = alpha / 200, 1 - alpha / 200
    return _percentile(defined, shares[0]), _percentile(defined, shares[1])


def two_sided_p(differences: Floats) -> float:
    """2 (1 + k) / (n + 1), at most 1, with k of the n defined replicates on the rarer side of 0.

    Example:
        >>> two_sided_p(np.ones(9))
        0.2
    """
    defined = differences[~np.isnan(differences)]
    rarer = min(int(np.count_nonzero(defined <= 0)), int(np.count_nonzero(defined >= 0)))
    return min(1.0, 2 * (1 + rarer) / (defined.size + 1))


def _percentile(ascending: Floats, share: float) -> float:
    """Linearly interpolated percentile; infinite values may be among them."""
    if not ascending.size:
        return math.nan
    place = share * (ascending.size - 1)
    below = int(place)
    a, b = float(ascending[below]), float(ascending[min(below + 1, ascending.size - 1)])
    return a if a == b or place == below else a + (place - below) * (b - a)


def _check_numbers(n: int, alpha: float) -> None:
    if n < 1:
        raise ValueError(f"n must be at least 1 replicate, got {n}")
    if not 0 < alpha < 100:
        raise ValueError(f"alpha must be a percentage between 0 and 100, got {alpha}")


def replicate_weights(
    size: int, clusters: Clusters = None, n: int = 1000, seed: int = 0
) -> Iterator[Weights]:
    """How often each trial counts in each replicate, one replicate at a time.

    Args:
        size: Number of trials.
        clusters: As for :func:`bootstrap`.
        n: Replicates.
        seed: Replicate r depends on ``(seed, r)`` only.

    Yields:
        The weights of one replicate.

    Example:
        >>> [int(weights.sum()) for weights in replicate_weights(5, n=2)]
        [5, 5]
    """
    trials = np.arange(size)
    return (drawn.take(trials) for drawn in _replicates(size, clusters, n, seed))


def _replicates(size: int, clusters: Clusters, n: int, seed: int) -> Iterator[Weighting]:
    ways = _ways(clusters, size)
    # The C library keeps freed memory of up to the size of the largest block that it gave back to
    # the system. Once this one was, each replicate reuses the memory of the last: twice as fast.
    np.empty(_LARGE, np.int8)
    for replicate in range(n):
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence((seed, replicate))))
        yield _DrawnClusters(rng, ways) if ways else _trial_weights(rng, size)


def _trial_weights(rng: np.random.Generator, size: int) -> Weights:
    """How often each trial is drawn: first how many draws fall into each block of trials.

    Within a block the draws are uniform, so the counts are those of drawing from all trials, but
    nothing is scattered over more memory than a block.
    """
    starts = np.arange(0, size, BLOCK)
    sizes = np.minimum(BLOCK, size - starts)
    draws = rng.multinomial(size, sizes / size)
    weights: Weights = np.empty(size, dtype=np.int8)
    for start, block, drawn in zip(starts, sizes, draws, strict=True):
        counts = np.bincount(rng.integers(0, block, drawn), minlength=block)
        if counts.max() > _NARROW:
            weights = weights.astype(np.int64)
        weights[start : start + block] = counts
    return weights


class _DrawnClusters:
    """The product over the columns of how often a trial's cluster is drawn."""

    def __init__(self, rng: np.random.Generator, ways: Sequence[_Way]) -> None:
        self._ways = ways
        counts = (np.append(way.draw(rng), 1) for way in ways)  # last: no cluster
        self._counts = [one.astype(np.int8) if one.max() <= _NARROW else one for one in counts]

    def take(self, trials: NDArray[np.intp], *, mode: Any = "clip") -> Weights:
        """The weights of some trials, looked up for these alone."""
        first, *others = (
            counts.take(way.clusters(trials), mode=mode)
            for way, counts in zip(self._ways, self._counts, strict=True)
        )
        return np.multiply(first, others[0], dtype=np.int64) if others else first


class _Way:
    """A column of clusters: their number, and the cluster of each trial."""

    def __init__(self, number: int, of_trial: NDArray[np.intp]) -> None:
        self._number, self._of_trial = number, of_trial
        self._known: dict[int, tuple[NDArray[np.intp], NDArray[np.intp]]] = {}

    def draw(self, rng: np.random.Generator) -> NDArray[np.intp]:
        """How often each cluster is drawn."""
        return np.bincount(rng.integers(0, self._number, self._number), minlength=self._number)

    def clusters(self, trials: NDArray[np.intp]) -> NDArray[np.intp]:
        """Clusters of some trials, looked up once for all replicates."""
        if id(trials) not in self._known:
            self._known[id(trials)] = trials, self._of_trial.take(trials)
        return self._known[id(trials)][1]


def _ways(clusters: Clusters, size: int) -> list[_Way]:
    if clusters is None:
        return []
    columns = clusters if isinstance(clusters, tuple) else (clusters,)
    ways = []
    for place, column in enumerate(columns):
        array = np.asarray(column)
        if array.shape != (size,):
            raise InputError(f"clusters[{place}] has shape {array.shape}; expected ({size},)")
        names, of_trial = np.unique(array.astype(str), return_inverse=True)
        inside = names != NOT_CLUSTERED
        if not inside.any():
            raise InputError(f"clusters[{place}] names no cluster: all are {NOT_CLUSTERED!r}")
        number = np.where(inside, np.cumsum(inside) - 1, inside.sum())
        ways.append(_Way(int(inside.sum()), number[of_trial]))
    return ways
