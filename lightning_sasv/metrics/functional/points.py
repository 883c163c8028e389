"""The one count behind every detection metric: trials rejected at operating points.

A trial is accepted iff its score is greater than the threshold. Each class of trials is sorted
once (:class:`Steps`); what a threshold rejects of it is then a summed weight, a whole number. The
weights are 1 for the trials as they are, how often each trial was drawn in a replicate of a
bootstrap, or how many trials a bin holds: ``Steps(edges + [inf], histogram)`` is a grid.

Between two positive scores a higher threshold only rejects more negatives, at no cost. Whatever
rewards rejected negatives and punishes rejected positives (an equal error rate, a detection cost,
the ROC hull) is therefore found on the *rungs*: just below each distinct positive score, and
"reject all" (:class:`Detection`). Curves take every distinct score (:func:`operating_points`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Hashable, Mapping
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import (
    ArrayLike,
    Codes,
    Floats,
    as_two_classes,
    blocks,
    check_not_empty,
    is_any,
)
from lightning_sasv.trials import CLASS_ORDER, TASKS, TrialClass

Index: TypeAlias = NDArray[np.intp]
Counts: TypeAlias = NDArray[np.int64] | Floats
"""Rejected trials at operating points, ascending to the total; whole unless weights are given."""

T = TypeVar("T")

_FEW = 4096  # scores that are ordered faster one by one


class Steps:
    """One class of trials: its scores in ascending order, each counting its weight.

    Args:
        values: Scores, ascending.
        weights: How often each counts; once when absent.
        memo: Functions of the scores that are known already; shared by all weightings.
        lump: Further trials that count with the lowest score, when there are no weights.

    Example:
        >>> steps = Steps(np.array([1.0, 2.0, 3.0]), np.array([1, 0, 5]))
        >>> steps.up_to(2.0), steps.total, steps.value(2)
        (np.int64(1), 6, 3.0)
    """

    def __init__(
        self,
        values: Floats,
        weights: NDArray[Any] | None = None,
        memo: dict[Hashable, Floats] | None = None,
        lump: int = 0,
    ) -> None:
        self.values, self.weights, self._lump = values, weights, lump
        self._memo = {} if memo is None else memo

    @cached_property
    def counts(self) -> Counts:
        """Weight of the first so many scores, from 0 to the total."""
        if self.weights is None:
            return np.asarray(self.first(np.arange(self.values.size + 1)))
        kind: Any = np.int64 if self.weights.dtype.kind in "biu" else np.float64
        counts: Counts = np.zeros(self.values.size + 1, kind)
        for block in blocks(self.values.size):  # in a processor's cache
            part = counts[block.start : block.stop + 1]
            part[1:] = self.weights[block]
            np.add.accumulate(part, out=part)
        return counts

    @cached_property
    def total(self) -> int:
        """Weight of the class."""
        if self.weights is None:
            return self.values.size + self._lump
        total: int = self.counts[-1].item()
        return total

    def first(self, ranks: Any) -> Any:
        """Weight of the first so many scores; without weights that is their number."""
        if self.weights is not None:
            return self.counts[ranks]
        return ranks + self._lump * (ranks > 0) if self._lump else ranks

    def weighted(self, weights: NDArray[Any]) -> Steps:
        """The same scores with other weights, in the order of the scores."""
        return Steps(self.values, weights, self._memo)

    def below(self, thresholds: Floats | float) -> Any:
        """Weight of the scores < threshold."""
        return self.first(self.values.searchsorted(thresholds))

    def up_to(self, thresholds: Floats | float) -> Any:
        """Weight of the scores <= threshold: what the threshold rejects."""
        return self.first(self.values.searchsorted(thresholds, "right"))

    def rejected(self, thresholds: Floats) -> Floats:
        """Share of the class that each threshold rejects."""
        share: Floats = self.up_to(thresholds) / self.total
        return share

    def accepted(self, thresholds: Floats) -> Floats:
        """Share of the class that each threshold accepts."""
        share: Floats = (self.total - self.up_to(thresholds)) / self.total
        return share

    def value(self, count: float) -> float:
        """Largest of the lowest scores that weigh so much, which must be more than 0.

        Of more than all of them, as fractions may add up to, it is the largest that counts.
        """
        if self.weights is None:
            return float(self.values[max(int(count) - self._lump, 1) - 1])
        return float(self.values[np.searchsorted(self.counts, min(count, self.total)) - 1])

    def sum(self, function: Callable[[Floats], Floats]) -> float:
        """Weighted sum of a function of the scores, which is computed once for all weightings."""
        if function not in self._memo:
            self._memo[function] = function(self.values)
        return weighted_sum(self._memo[function], self.weights)


def weighted_sum(terms: Floats, weights: NDArray[Any] | None) -> float:
    """Sum in which each term counts its weight, once without any; an infinity of weight 0 is 0."""
    if weights is None:
        return float(terms.sum())
    with np.errstate(invalid="ignore"):
        total = float((terms * weights).sum())  # a product of vectors would wait for threads
    if math.isnan(total):
        used = np.flatnonzero(weights)
        total = float((terms[used] * weights[used]).sum())
    return total


def order(scores: Floats, trials: Index) -> Index:
    """Some trials in ascending order of their scores; equal scores are in any order.

    The lowest bits of the whole numbers that are sorted give way to the number of the trial. Only
    scores that agree in the others, of which there are few, have to be compared again.
    """
    if trials.size < _FEW:
        return trials[np.argsort(scores.take(trials))]
    keys, low = scores.take(trials).view(np.int64), (1 << scores.size.bit_length()) - 1
    for block in blocks(keys.size):
        # The bits of negative floats are ordered downwards: all of them but the sign are turned.
        keys[block] ^= (keys[block] >> 63) & np.iinfo(np.int64).max
    keys &= ~low
    keys |= trials
    keys.sort()
    alike = np.zeros(keys.size, np.bool_)
    for block in blocks(keys.size - 1):
        after = slice(block.start + 1, block.stop + 1)
        same = (keys[block] ^ keys[after]) <= low
        alike[block] |= same
        alike[after] |= same
    keys &= low
    again = np.flatnonzero(alike)
    some = keys[again]
    keys[again] = some[np.argsort(scores.take(some), kind="stable")]
    return keys


def in_place(values: Floats) -> Steps:
    """A class of trials whose scores are nobody else's, and are sorted where they are."""
    values.sort()
    return Steps(values)


def lumped(negative: Floats, floor: float, *, own: bool = False) -> Steps:
    """Negatives against positives of which the lowest is ``floor``: those below it are one step.

    No rung lies among them, so their order does not matter, and only the others are sorted: where
    they are, if the negatives are nobody else's (``own``).
    """
    count = sum(np.count_nonzero(negative[block] < floor) for block in blocks(negative.size))
    if count < 0.4 * negative.size:  # few: it is hardly slower to sort them with the others
        return in_place(negative if own else negative.copy())
    values = np.full(negative.size - count + 1, -math.inf)
    rest = values[1:]
    for place in blocks(negative.size):
        block = negative[place].copy()
        above = np.flatnonzero(block >= floor)
        block.take(above, out=rest[: above.size], mode="clip")
        rest, block[above] = rest[above.size :], -math.inf
        values[0] = max(values[0], block.max())
    values.sort()
    return Steps(values, lump=int(count) - 1)


class Detection:
    """Positives against one or several kinds of negatives, counted at the rungs.

    Args:
        parts: The positives, then each kind of negatives; each must weigh something.
        rungs: Where the rungs lie, if that is known already.

    Attributes:
        parts: The classes, positives first.

    Example:
        >>> task = Detection(Steps(np.array([1.0, 3.0])), Steps(np.array([0.0, 2.0])))
        >>> task.counts
        [array([0, 1, 2]), array([1, 2, 2])]
    """

    def __init__(self, *parts: Steps, rungs: _Rungs | None = None) -> None:
        self.parts = parts
        self._rungs = rungs or _Rungs(*(part.values for part in parts))

    @cached_property
    def counts(self) -> list[Counts]:
        """Rejected trials of each class at each rung; the last rung rejects all."""
        pairs = zip(self.parts, self._rungs.ranks, strict=True)
        return [part.first(ranks) for part, ranks in pairs]

    @cached_property
    def pooled(self) -> tuple[Counts, Counts]:
        """Rejected positives, and rejected negatives of all kinds, at each rung."""
        return self.counts[0], sum(self.counts[2:], self.counts[1])

    def rejected(self, place: int) -> tuple[int, int]:
        """Rejected positives and negatives just below the positive at a place, or at the end."""
        ranks = self._rungs.below(place)
        found = [int(part.first(rank)) for part, rank in zip(self.parts, ranks, strict=True)]
        return found[0], sum(found[1:])

    def weighted(self, *parts: Steps) -> Detection:
        """The same scores with other weights."""
        return Detection(*parts, rungs=self._rungs)

    def against(self, kind: int) -> Detection:
        """The same positives against one kind of negatives; the first has the number 1."""
        return Detection(self.parts[0], self.parts[kind])

    def last_rejected(self, positives: float, negatives: float) -> float:
        """Largest of the lowest positives and negatives of so much weight, -inf without any."""
        found = [self.parts[0].value(positives)] if positives else []
        if negatives:
            found.append(self._negative(negatives))
        return max(found, default=-math.inf)

    def _negative(self, count: float) -> float:
        """First score up to which all kinds of negatives together weigh so much."""
        kinds, found = self.parts[1:], []
        if len(kinds) == 1:
            return kinds[0].value(count)
        count = min(count, sum(kind.total for kind in kinds))  # of fractions it may be more
        for values in (kind.values for kind in kinds):
            first = bisect_left(values, count, key=lambda score: sum(k.up_to(score) for k in kinds))
            found += values[first : first + 1].tolist()
        return min(found)


class _Rungs:
    """Scores of each class below the rungs, positives first, looked up when asked for."""

    def __init__(self, *classes: Floats) -> None:
        self._classes = classes
        self._below: dict[int, list[int]] = {}

    @cached_property
    def ranks(self) -> list[Index]:
        """Scores below each distinct positive score, and all of them, class by class."""
        positive, *negatives = self._classes
        first = np.flatnonzero(_new(positive))
        values = positive if first.size == positive.size else positive[first]
        below = (np.append(np.searchsorted(part, values), part.size) for part in negatives)
        return [np.append(first, positive.size), *below]

    def below(self, place: int) -> list[int]:
        """Scores below the positive at one place; all of them at the place after the last."""
        if place not in self._below:
            if place < self._classes[0].size:
                score = self._classes[0][place]
                self._below[place] = [part.searchsorted(score) for part in self._classes]
            else:
                self._below[place] = [part.size for part in self._classes]
        return self._below[place]


def _new(values: Floats) -> NDArray[np.bool_]:
    """Which of ascending values differ from the one before."""
    return np.concatenate([[True], values[1:] != values[:-1]])


class Points(NamedTuple):
    """Every operating point of some classes; it does not depend on their weights.

    Attributes:
        thresholds: -inf, which accepts all, then every distinct score, ascending.
        ranks: For each class the number of scores that each threshold rejects.
    """

    thresholds: Floats
    ranks: tuple[Index, ...]

    def rejected(self, *parts: Steps) -> list[Counts]:
        """Weight of each class that each threshold rejects."""
        return [part.first(rank) for part, rank in zip(parts, self.ranks, strict=True)]


def operating_points(*parts: Steps) -> Points:
    """Every distinct score of some classes as a threshold, after "accept all"."""
    scores = np.concatenate([part.values for part in parts])
    merged = np.argsort(scores, kind="stable")  # merges runs
    scores = scores[merged]
    last = np.flatnonzero(np.append(scores[1:] != scores[:-1], True))
    thresholds, ranks, start = np.concatenate([[-math.inf], scores[last]]), [], 0
    for part in parts:
        own = (merged >= start) & (merged < start + part.values.size)
        ranks.append(np.append(0, np.cumsum(own)[last]))
        start += part.values.size
    return Points(thresholds, tuple(ranks))


class Weighting(Protocol):
    """How often each trial counts: an array, or whatever can be asked for some of the trials."""

    def take(self, trials: Index, *, mode: Any = ...) -> NDArray[Any]:
        """The weights of some trials."""
        ...


class Classes:
    """The classes of a set of trials by each of their scores; sorted once for all metrics.

    Args:
        columns: Scores by column name.
        codes: ``TrialClass`` codes.

    Example:
        >>> classes = Classes({"asv": np.array([2.0, 1.0])}, np.array([1, 2], np.int8))
        >>> classes.task("asv").parts[0].values
        array([2.])
    """

    def __init__(self, columns: Mapping[str, Floats], codes: Codes) -> None:
        self.columns, self.codes = columns, codes
        self.weights: Weighting | None = None
        self._origin: Classes | None = None
        self._memo: dict[Hashable, Any] = {}

    def weighted(self, weights: Weighting) -> Classes:
        """The same trials, each counting its weight."""
        other = type(self)(self.columns, self.codes)
        other.weights, other._origin = weights, self
        return other

    def once(self, key: Hashable, function: Callable[[], T]) -> T:
        """What a function gives, called the first time that the key is asked for."""
        if key not in self._memo:
            self._memo[key] = function()
        found: T = self._memo[key]
        return found

    def for_all_weights(self, key: Hashable, function: Callable[[], T]) -> T:
        """The same, remembered for all weightings of the trials."""
        return (self._origin or self).once(key, function)

    def steps(self, column: str, *members: TrialClass) -> Steps:
        """Trials of some classes together, by the scores of a column.

        Raises:
            EmptyClassError: They have no trials, or no weight.
        """
        steps = self.once((column, members), lambda: self._steps(column, members))
        if not steps.total:
            kind = str(members[0]) if len(members) == 1 else "bona fide (target or nontarget)"
            check_not_empty([], f"{kind} trials")
        return steps

    def task(self, name: str) -> Detection:
        """A detection task of :data:`lightning_sasv.trials.TASKS`."""
        return self.once(name, lambda: self._task(name))

    def tandem(self) -> tuple[Steps, ...]:
        """ASV scores of targets, nontargets, spoofs; CM scores of bona fide trials, spoofs."""
        asv = (self.steps("asv", member) for member in CLASS_ORDER)
        return *asv, *self.task("cm").parts

    def trials(self, *members: TrialClass) -> Index:
        """Numbers of the trials of some classes."""
        key = "trials", members
        return self.for_all_weights(key, lambda: np.flatnonzero(is_any(self.codes, members)))

    def _task(self, name: str) -> Detection:
        column, positive, negative = TASKS[name]
        parts = self.steps(column, *positive), *(self.steps(column, kind) for kind in negative)
        if self._origin is None:
            return Detection(*parts)
        return self._origin.task(name).weighted(*parts)

    def _steps(self, column: str, members: tuple[TrialClass, ...]) -> Steps:
        scores, trials = self.columns[column], self._scored(column, members)
        if self.weights is None or self._origin is None:
            return in_place(scores.take(trials))
        key = "order", column, members
        ordered = self.for_all_weights(key, lambda: order(scores, trials))
        weights = self.weights.take(ordered, mode="clip")  # no index is outside: saves the look
        return self._origin.steps(column, *members).weighted(weights)

    def _scored(self, column: str, members: tuple[TrialClass, ...]) -> Index:
        """Numbers of the trials of some classes that have a score: all of them."""
        return self.trials(*members)


class Unpaired(Classes):
    """The classes of a verifier and of a countermeasure that scored different trials.

    A trial has a score in one of the columns; in the other it is NaN.

    Example:
        >>> columns = {"asv": np.array([2.0, math.nan]), "cm": np.array([math.nan, 3.0])}
        >>> Unpaired(columns, np.array([1, 1], np.int8)).steps("asv", TrialClass.TARGET).values
        array([2.])
    """

    def _scored(self, column: str, members: tuple[TrialClass, ...]) -> Index:
        def scored() -> Index:
            trials = self.trials(*members)
            return trials[~np.isnan(self.columns[column].take(trials))]

        return self.for_all_weights(("scored", column, members), scored)


class DETCurve(NamedTuple):
    """Error rates at every distinct threshold.

    Attributes:
        thresholds: -inf ("accept all"), then every distinct score; accept iff score > threshold.
        miss: Share of the positives rejected, from 0 to 1.
        false_acceptance: Share of the negatives accepted, from 1 to 0.

    Example:
        >>> det_curve([1.0], [0.0]).thresholds
        array([-inf,   0.,   1.])
    """

    thresholds: Floats
    miss: Floats
    false_acceptance: Floats


class ROCCurve(NamedTuple):
    """Receiver operating characteristic at every distinct threshold.

    Attributes:
        false_positive: Share of the negatives accepted, from 0 to 1.
        true_positive: Share of the positives accepted, from 0 to 1.
        thresholds: Descending; the last, -inf, accepts all.

    Example:
        >>> roc_curve([1.0], [0.0]).false_positive
        array([0., 0., 1.])
    """

    false_positive: Floats
    true_positive: Floats
    thresholds: Floats


def det_curve(pos: ArrayLike, neg: ArrayLike) -> DETCurve:
    """Detection error trade-off; equal scores are rejected together.

    Args:
        pos: Scores that should be accepted.
        neg: Scores that should be rejected.

    Returns:
        One point per distinct score, and "accept all".

    Raises:
        InputError: An empty class, a NaN, or labels for ``neg``.

    Example:
        >>> det_curve([2.0, 1.0], [1.0, 0.0]).miss
        array([0. , 0. , 0.5, 1. ])
    """
    return _det_curve(*as_two_classes(pos, neg, "det_curve", "checks.by_class"))


def roc_curve(pos: ArrayLike, neg: ArrayLike) -> ROCCurve:
    """Receiver operating characteristic: the curve of :func:`det_curve` from the other end.

    Example:
        >>> roc_curve([2.0, 1.0], [1.0, 0.0]).true_positive
        array([0. , 0.5, 1. , 1. ])
    """
    classes = as_two_classes(pos, neg, "roc_curve", "checks.by_class")
    thresholds, miss, false_acceptance = _det_curve(*classes)
    return ROCCurve(false_acceptance[::-1], (1 - miss)[::-1], thresholds[::-1])


def _det_curve(positive: Floats, negative: Floats) -> DETCurve:
    parts = Steps(np.sort(positive)), Steps(np.sort(negative))
    points = operating_points(*parts)
    missed, rejected = points.rejected(*parts)
    size = negative.size
    return DETCurve(points.thresholds, missed / positive.size, (size - rejected) / size)
