"""Bootstrap: by trials, by clusters of trials, and by crossed sets of clusters.

A replicate is a whole weight per trial: how often the trial was drawn. The scores are sorted once,
and every metric is evaluated with the weights of each replicate. Replicate r of a seed is a
function of (seed, r) alone: it does not depend on how many replicates there are, in what order they
are computed, or what they are used for. So several systems are drawn alike, and their differences
are paired. What becomes of the replicates is in :mod:`.intervals`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    as_unpaired,
    check_same_length,
)
from lightning_sasv.errors import InputError, meant
from lightning_sasv.metrics.functional.points import Classes, Unpaired, Weighting
from lightning_sasv.metrics.intervals import Method, Resampled, check_replicates
from lightning_sasv.metrics.registry import (
    DEFAULTS,
    METRICS,
    Balance,
    Settings,
    resampled,
    values_of,
)
from lightning_sasv.trials import TrialClass, claimed_speakers

Weights: TypeAlias = NDArray[np.integer]
Clusters: TypeAlias = ArrayLike | tuple[ArrayLike, ...] | None
Metric: TypeAlias = str | Callable[[Floats, Codes], float]
"""A metric by name, or any function of (scores, label codes)."""

Scores: TypeAlias = ArrayLike | Mapping[str, ArrayLike]

_NARROW = np.iinfo(np.int8).max
"""Weights up to this are kept in 8 bits: less memory to look them up in."""
_LARGE = 1 << 24
GROUPS = 200
"""More clusters than this are left out in as many groups: enough for the skewness of BCa."""

NOT_CLUSTERED = "-"
"""Cluster name of trials that no cluster holds: the attack of bona fide speech."""


class ConfidenceInterval(NamedTuple):
    """A value and its interval.

    Attributes:
        value: The metric of the trials as they are.
        low: Lower end; NaN where there is no interval.
        high: Upper end.
        replicates: The metric of each replicate.
        undefined: How many replicates lack a class (their value is NaN and left out).
        method: How the ends were found.
        note: What must be said about it; mostly nothing.

    Example:
        >>> ConfidenceInterval(0.25, 0.0, 0.5, np.array([0.0, 0.5]), 0).half_width
        0.25
    """

    value: float
    low: float
    high: float
    replicates: Floats
    undefined: int
    method: Method = "percentile"
    note: str = ""

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
        >>> paired_bootstrap("sasv_eer", scores, scores, labels, n=39).p_value
        1.0
    """

    difference: float
    low: float
    high: float
    p_value: float
    replicates: Floats
    undefined: int


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
    method: Method | None = ...,
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
    method: Method | None = ...,
) -> dict[str, ConfidenceInterval]: ...
def bootstrap(
    metric: Metric | Sequence[str],
    scores: Scores,
    labels: ArrayLike,
    clusters: Clusters = None,
    n: int = 1000,
    alpha: float = 0.05,
    *,
    seed: int = 0,
    settings: Settings = DEFAULTS,
    method: Method | None = None,
) -> ConfidenceInterval | dict[str, ConfidenceInterval]:
    """Confidence interval of one metric or of several on the same replicates.

    Args:
        metric: Name of a metric (``COLUMNS`` lists them), several names, or any function of
            (scores, codes). Named metrics are evaluated by weights on scores sorted once; a
            function is called with each literally resampled set of trials.
        scores: One column; a pair (asv, cm) for the tandem metrics; or a mapping with the columns
            ``sasv``, ``asv``, ``cm`` that the metrics need.
        labels: ``TrialClass`` codes or words.
        clusters: What is drawn with replacement. ``None``: trials. A column, such as the enrolled
            speaker of each trial: its clusters, each with all its trials (which are not drawn
            again within it). A tuple of columns, such as (speaker, impostor, attack): all are
            drawn, and a trial counts the product of how often its clusters were; the first are
            those that BCa leaves out one by one. The name ``-`` is no cluster: such trials count
            once in that column (bona fide speech has no attack).
        n: Replicates, at least 2/α − 1.
        alpha: Share outside the interval, half of it on either side: 0.05 for 95 %.
        seed: Replicate r depends on ``(seed, r)`` only.
        settings: Costs, priors and conventions of the named metrics.
        method: ``bca`` (the default over clusters), ``percentile`` (the default over trials), or
            ``interpolated``, the percentile of numpy and other packages: without clusters it is
            the interval that papers print.

    Returns:
        The interval; for several names a dictionary of them.

    Raises:
        InputError: Columns that differ in length, an unknown metric, or what the metric itself
            raises.
        InputError: ``n`` below 2/α − 1, or ``alpha`` that is no fraction.

    Example:
        >>> labels = ["target", "target", "nontarget", "spoof"]
        >>> bootstrap("sasv_eer", [2.0, 0.5, 1.0, 0.0], labels, n=40).value
        0.5
    """
    check_replicates(n, alpha)
    names = [metric] if isinstance(metric, str) or callable(metric) else list(metric)
    (found,) = _resample([_evaluator(names, scores, labels, settings)], clusters, n, seed)
    intervals = {
        name if isinstance(name, str) else name.__name__: _interval(one, alpha, method)
        for name, one in zip(names, found, strict=True)
    }
    if isinstance(metric, str) or callable(metric):
        return next(iter(intervals.values()))
    return intervals


def _interval(one: Resampled, alpha: float, method: Method | None) -> ConfidenceInterval:
    ends = one.interval(alpha, method)
    facts = one.replicates, one.undefined, ends.method, ends.note
    return ConfidenceInterval(one.value, ends.low, ends.high, *facts)


def paired_bootstrap(
    metric: Metric,
    scores_a: Scores,
    scores_b: Scores,
    labels: ArrayLike,
    clusters: Clusters = None,
    n: int = 1000,
    alpha: float = 0.05,
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
        alpha: Share outside the interval.
        seed: As for :func:`bootstrap`; the same seed draws the same replicates.
        settings: As for :func:`bootstrap`.

    Returns:
        The difference, first minus second, its percentile interval and a two-sided p-value: the
        interval excludes 0 exactly where p <= alpha.

    Raises:
        InputError: As for :func:`bootstrap`, or systems of different numbers of trials.

    Example:
        >>> scores, labels = [2.0, 0.5, 1.0, 0.0], ["target", "target", "nontarget", "spoof"]
        >>> paired_bootstrap("sasv_eer", scores, scores, labels, n=40).difference
        0.0
    """
    check_replicates(n, alpha)
    both = [_evaluator([metric], scores, labels, settings) for scores in (scores_a, scores_b)]
    (first,), (second,) = _resample(both, clusters, n, seed)
    one = first - second
    low, high = one.interval(alpha, "percentile")[:2]
    return PairedInterval(one.value, low, high, one.p_value, one.replicates, one.undefined)


def resample(
    systems: Mapping[str, Mapping[str, ArrayLike]],
    labels: ArrayLike,
    names: Mapping[str, Sequence[str]],
    clusters: Clusters = None,
    n: int = 1000,
    *,
    seed: int = 0,
    settings: Settings | Mapping[str, Settings] = DEFAULTS,
    progress: Callable[[], object] | None = None,
    unpaired: bool = False,
    balance: Balance | None = None,
) -> dict[str, dict[str, Resampled]]:
    """Replicates of the metrics of several systems on the same trials, drawn alike.

    Args:
        systems: Columns of scores (``sasv``, ``asv``, ``cm``) of each system.
        labels: ``TrialClass`` codes or words.
        names: Metrics of each system.
        clusters: As for :func:`bootstrap`.
        n: Replicates.
        seed: As for :func:`bootstrap`.
        settings: As for :func:`bootstrap`; those of each system where they differ.
        progress: Called after each replicate.
        unpaired: Whether verifier and countermeasure scored different trials, with NaN for the
            other's score.
        balance: Groups that count the same in each class of every replicate.

    Returns:
        Replicates by system and metric. Metrics that the classes of these trials do not allow are
        left out.

    Example:
        >>> systems, labels = {"A": {"sasv": [2.0, 1.0, 0.0]}}, ["target", "nontarget", "spoof"]
        >>> resample(systems, labels, {"A": ["sasv_eer"]}, n=3)["A"]["sasv_eer"].value
        0.0
    """
    own = settings if isinstance(settings, Mapping) else dict.fromkeys(systems, settings)
    wanted = [(names[name], columns, labels, own[name]) for name, columns in systems.items()]
    systems_of = [_evaluator(*one, unpaired, balance) for one in wanted]
    found = _resample(systems_of, clusters, n, seed, progress)
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
    if not systems[0].trials:
        raise InputError("no trials to draw from")
    once = [system.values(None) for system in systems]
    rows = [np.empty((n, len(values))) for values in once]
    cells = None if clusters is None else _Cells(clusters, systems[0].trials)
    for replicate, weights in enumerate(_replicates(systems[0].trials, cells, n, seed)):
        for row, system in zip(rows, systems, strict=True):
            row[replicate] = system.values(weights)
        if progress is not None:
            progress()
    left_out: list[Any] = [[None] * len(values) for values in once]
    if cells is not None:
        drawn = [cells.without(group) for group in range(min(cells.numbers[0], GROUPS))]
        left_out = [np.array([system.values(one) for one in drawn]).T for system in systems]
    speakers = None if cells is None else cells.numbers[0]
    return [
        [Resampled(*metric, speakers) for metric in zip(values, row.T, without, strict=True)]
        for values, row, without in zip(once, rows, left_out, strict=True)
    ]


def _evaluator(
    metrics: Sequence[Metric],
    scores: Scores,
    labels: ArrayLike,
    settings: Settings,
    unpaired: bool = False,
    balance: Balance | None = None,
) -> _Evaluator:
    names = [metric for metric in metrics if isinstance(metric, str)]
    if len(names) < len(metrics):
        return _literal(metrics[0], scores, labels)  # type: ignore[arg-type]  # it is no str
    kind = Unpaired if unpaired else Classes
    classes = kind(*as_columns(scores, names, labels, unpaired))
    trials = np.arange(classes.codes.size)

    def values(weights: Weighting | None) -> list[float]:
        if balance is not None:
            weights = balance.weights(None if weights is None else weights.take(trials))
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
    scores: Scores, names: Sequence[str], labels: ArrayLike, unpaired: bool = False
) -> tuple[dict[str, Floats], Codes]:
    """Checked columns of scores by name, and the labels.

    Args:
        scores: Columns by name (``sasv``, ``asv``, ``cm``); or one column, for metrics that need
            one; or a pair (asv, cm), for metrics that need both.
        names: Metrics wanted.
        labels: ``TrialClass`` codes or words.
        unpaired: Whether a trial may lack a score, which then is NaN.

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
    check = as_unpaired if unpaired else as_scores
    columns = {name: check(values, name) for name, values in scores.items()}
    codes = as_labels(labels)
    check_same_length({**columns, "labels": codes})
    return columns, codes


def impostors(labels: ArrayLike, test_speakers: ArrayLike) -> NDArray[np.str_]:
    """Clusters of nontargets by who speaks in them; other trials have none.

    Args:
        labels: ``TrialClass`` codes or words.
        test_speakers: Speaker of each test utterance.

    Example:
        >>> impostors(["target", "nontarget", "spoof"], ["a", "b", "a"]).tolist()
        ['-', 'b', '-']
    """
    codes, names = as_labels(labels), np.asarray(test_speakers).astype(str)
    check_same_length({"labels": codes, "test speakers": names})
    return np.where(codes == TrialClass.NONTARGET, names, NOT_CLUSTERED)


FACTORS = {"speaker": "enrolled speakers", "impostor": "impostors", "attack": "attacks"}
"""What can be drawn beside trials and training seeds, and what it is called."""


def factors(
    labels: ArrayLike,
    speaker: ArrayLike | None,
    test_speaker: ArrayLike | None,
    attack: ArrayLike | None,
) -> dict[str, NDArray[np.str_]]:
    """Columns of clusters by their names in :data:`FACTORS`, as far as they are known.

    Args:
        labels: ``TrialClass`` codes or words.
        speaker: Enrolled speaker of each trial; models of one speaker are one.
        test_speaker: Speaker of each test utterance.
        attack: Attack of each trial, ``-`` for bona fide speech.

    Example:
        >>> list(factors(["target", "spoof"], ["a", "b"], ["a", "a"], ["-", "A1"]))
        ['speaker', 'attack']
    """
    impostor = None if test_speaker is None else impostors(labels, test_speaker)
    enrolled = (
        None if speaker is None else claimed_speakers(np.asarray(speaker).astype(str).tolist())
    )
    given = zip(FACTORS, (enrolled, impostor, attack), strict=True)
    columns = {name: np.asarray(column).astype(str) for name, column in given if column is not None}
    return {name: own for name, own in columns.items() if (own != NOT_CLUSTERED).any()}


def drawn_words(drawn: Sequence[Any]) -> str:
    """What was drawn, in words.

    Example:
        >>> drawn_words(["seed", "speaker"])
        'seeds × enrolled speakers'
    """
    return " × ".join(FACTORS.get(str(name), f"{name}s") for name in drawn)


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
    cells = None if clusters is None else _Cells(clusters, size)
    return (drawn.take(trials) for drawn in _replicates(size, cells, n, seed))


def _replicates(size: int, cells: _Cells | None, n: int, seed: int) -> Iterator[Weighting]:
    # The C library keeps freed memory of up to the size of the largest block that it gave back to
    # the system. Once this one was, each replicate reuses the memory of the last: twice as fast.
    np.empty(_LARGE, np.int8)
    for replicate in range(n):
        rng = generator(seed, replicate)
        yield cells.drawn(rng) if cells is not None else _trial_weights(rng, size)


def generator(seed: int, replicate: int) -> np.random.Generator:
    """What draws one replicate."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence((seed, replicate))))


def draw(rng: np.random.Generator, number: int, places: int = 0) -> NDArray[np.intp]:
    """How often each of so many clusters is drawn; of at least so many places."""
    return np.bincount(rng.integers(0, number, number), minlength=max(number, places))


class ClusterDraws:
    """Clusters drawn as in :func:`bootstrap`, for what is a sum over their trials.

    Args:
        clusters: The cluster of each trial.
        n: Replicates.
        seed: As for :func:`bootstrap`.

    Attributes:
        names: The clusters in ascending order.
        of_trial: Number of the cluster of each trial.
        weights: How often each cluster is drawn in each replicate, (n, clusters).

    Example:
        >>> ClusterDraws(["a", "b", "b"], 4).sums(np.array([[1.0, 0.0, 0.0]])).shape
        (1, 4)
    """

    def __init__(self, clusters: ArrayLike, n: int, seed: int = 0) -> None:
        self.names, self.of_trial = np.unique(np.asarray(clusters), return_inverse=True)
        drawn = (draw(generator(seed, one), self.names.size) for one in range(n))
        self.weights: Floats = np.array([*drawn], np.float64).reshape(n, self.names.size)

    def sums(self, values: NDArray[Any]) -> Floats:
        """Sum of each row of values (rows, trials) in each replicate, (rows, n)."""
        number = self.names.size
        own = [np.bincount(self.of_trial, row, number) for row in values]
        return np.asarray(np.stack(own) @ self.weights.T)


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


class _Cells:
    """Crossed columns of clusters: trials that share all of their clusters share a cell.

    There are few cells, so a product of several columns costs hardly more than one column.

    Attributes:
        numbers: Clusters of each column.
    """

    def __init__(self, clusters: Clusters, size: int) -> None:
        columns = clusters if isinstance(clusters, tuple) else (clusters,)
        found = [_clusters(column, place, size) for place, column in enumerate(columns)]
        self.numbers = [number for number, _ in found]
        cells = np.zeros(size, np.intp)
        for number, of_trial in found:
            cells = np.unique(cells * (number + 1) + of_trial, return_inverse=True)[1]
        first = np.unique(cells, return_index=True)[1]
        self._clusters = [of_trial[first] for _, of_trial in found]
        self._of_trial = cells
        self._known: dict[int, tuple[NDArray[np.intp], NDArray[np.intp]]] = {}

    def drawn(self, rng: np.random.Generator) -> _CellWeights:
        """Each cell weighs the product of how often its clusters are drawn."""
        weights: Any = 1
        for number, clusters in zip(self.numbers, self._clusters, strict=True):
            often = draw(rng, number, number + 1)
            often[number] = 1  # no cluster
            weights = weights * often[clusters]
        return _CellWeights(self, weights)

    def without(self, group: int) -> _CellWeights:
        """Each trial counts once but for those of a cluster, or group of them, of the first column.

        Each cluster is a group of its own unless there are very many.
        """
        return _CellWeights(self, (self._clusters[0] % GROUPS != group).astype(np.int64))

    def of(self, trials: NDArray[np.intp]) -> NDArray[np.intp]:
        """Cells of some trials, looked up once for all replicates."""
        if id(trials) not in self._known:
            self._known[id(trials)] = trials, self._of_trial.take(trials)
        return self._known[id(trials)][1]


class _CellWeights:
    """A weight for each cell, looked up for the trials that are asked for."""

    def __init__(self, cells: _Cells, weights: Weights) -> None:
        self._cells = cells
        self._weights = weights.astype(np.int8) if weights.max() <= _NARROW else weights

    def take(self, trials: NDArray[np.intp], *, mode: Any = "clip") -> Weights:
        """The weights of some trials."""
        return self._weights.take(self._cells.of(trials), mode=mode)


def _clusters(column: ArrayLike | None, place: int, size: int) -> tuple[int, NDArray[np.intp]]:
    """How many clusters a column names, and that of each trial; the last number is none."""
    array = np.asarray(column)
    if array.shape != (size,):
        raise InputError(f"clusters[{place}] has shape {array.shape}; expected ({size},)")
    names, of_trial = np.unique(array.astype(str), return_inverse=True)
    inside = names != NOT_CLUSTERED
    if not inside.any():
        raise InputError(f"clusters[{place}] names no cluster: all are {NOT_CLUSTERED!r}")
    number = np.where(inside, np.cumsum(inside) - 1, inside.sum())
    return int(inside.sum()), number[of_trial]
