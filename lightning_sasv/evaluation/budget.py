"""Label budget: what labels of a target corpus repair of a system that was fitted on another one.

n trials, or all trials of n claimed speakers, are labelled; from them is found anew

- ``threshold``: the threshold, that of the EER and that of the smallest a-DCF;
- ``shift``: b of the log-likelihood ratio s + b, by the smallest Cllr;
- ``scale``: a and b of a s + b, the same, with the ridge (a - 1)² / 2n;
- ``fusion``: the whole system, with the settings that it has.

Everything is measured on the trials that are not labelled, on all trials of other speakers where
speakers are. Log-likelihood ratios decide at 0 (HTER) and at the threshold of the costs (a-DCF).
A draw in which something cannot be found, as without targets, is undefined, and counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lightning_sasv.checks import Codes, Floats
from lightning_sasv.console import Begin
from lightning_sasv.decisions import CostModel
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.functional.cllr import negative_loss
from lightning_sasv.metrics.functional.dcf import (
    a_dcf_weights,
    bayes_threshold,
    cheapest_threshold,
    normaliser,
    smallest_cost,
)
from lightning_sasv.metrics.functional.eer import threshold_of
from lightning_sasv.metrics.functional.points import Detection, Steps
from lightning_sasv.numerics import minimise, weighted_log_loss
from lightning_sasv.trials import CLASS_ORDER, TrialClass

METHODS = ("threshold", "shift", "scale", "fusion")
CARRIED = "carried"
MEASURES = ("hter", "a_dcf", "cllr")
AS_IT_IS = (1.0, 0.0)
"""a and b of a score that is a log-likelihood ratio already."""
TRIALS, SPEAKERS = (20, 100, 500, 2000), (1, 4, 16)
SHARES = (0.05, 0.5, 0.95)

Refit = Callable[[np.ndarray], Floats]
"""Scores of all trials of the system that is fitted to some of them."""


class Found(NamedTuple):
    """What labelled trials give: scores s that decide at two thresholds, of HTER and of a-DCF.

    Attributes:
        thresholds: Of HTER and of a-DCF, on the score as it is.
        affine: a and b of the log-likelihood ratio a s + b; none where there is none.
        score: Scores in place of those of the carried system.
    """

    thresholds: tuple[float, float]
    affine: tuple[float, float] | None = None
    score: Floats | None = None


class Rest(NamedTuple):
    """The trials on which a draw is measured.

    Attributes:
        rows: Those that are labelled, and are none of them.
        kept: Which of all trials they are.
        codes: Class of each.
        sizes: Trials of each class.
    """

    rows: np.ndarray
    kept: np.ndarray
    codes: Codes
    sizes: np.ndarray


class Row(NamedTuple):
    """A point of the learning curve.

    Attributes:
        unit: ``trials`` or ``speakers``.
        n: How many are labelled.
        method: What is found from them.
        measure: ``hter``, ``a_dcf`` or ``cllr``.
        low: 5 % of the defined draws lie below it.
        median: Half of them do.
        high: 95 % do.
        carried: Median of what the system has on the same trials as it was carried over.
        undefined: Draws without a value.
        draws: All draws.
    """

    unit: str
    n: int
    method: str
    measure: str
    low: float
    median: float
    high: float
    carried: float
    undefined: int
    draws: int


@dataclass(frozen=True)
class Target:
    """Scores of a target corpus by a system that was fitted elsewhere.

    Attributes:
        score: Its score of each trial.
        labels: ``TrialClass`` codes.
        costs: Costs and priors of the a-DCF.
        thresholds: Carried thresholds, of the EER and of the smallest a-DCF.
        speakers: Claimed speaker of each trial, where they are known.
        llrs: Whether the score claims to be a log-likelihood ratio.
        refit: Fits the system anew; without it that is left out.
        wanted: What is to be found anew.
    """

    score: Floats
    labels: Codes
    costs: CostModel
    thresholds: tuple[float, float]
    speakers: np.ndarray | None = None
    llrs: bool = True
    refit: Refit | None = None
    wanted: tuple[str, ...] = METHODS

    @cached_property
    def steps(self) -> list[Steps]:
        """Scores of each class in ascending order."""
        return [Steps(np.sort(self.score[self.labels == code])) for code in CLASS_ORDER]

    @property
    def methods(self) -> tuple[str, ...]:
        """What is wanted and can be found anew."""
        able = {"shift": self.llrs, "fusion": self.refit is not None}
        return tuple(name for name in self.wanted if able.get(name, True))

    def find(self, method: str, rows: np.ndarray) -> Found:
        """What the labelled trials give.

        Raises:
            InputError: They do not suffice.
        """
        score, codes = self.score[rows], self.labels[rows]
        if not ((codes == TrialClass.TARGET).any() and (codes != TrialClass.TARGET).any()):
            raise InputError("no targets, or nothing but targets, among the labelled trials")
        weights = a_dcf_weights(self.costs)
        if method == "threshold":
            return Found(_thresholds(score, codes, weights))
        if method == "fusion":
            if self.refit is None:
                raise InputError("the system cannot be fitted anew")
            return Found((0.0, bayes_threshold(weights)), AS_IT_IS, self.refit(rows))
        slope, bias = affine(score, codes, scale=method == "scale")
        if slope <= 0:
            raise InputError("the labelled trials turn the score around")
        at = (-bias / slope, (bayes_threshold(weights) - bias) / slope)
        return Found(at, (slope, bias))

    def rest(self, rows: np.ndarray) -> Rest:
        """The trials that are not labelled."""
        kept = np.ones(self.labels.size, np.bool_)
        kept[rows] = False
        return Rest(rows, kept, self.labels[kept], self._sizes - _sizes(self.labels[rows]))

    @cached_property
    def _sizes(self) -> np.ndarray:
        return _sizes(self.labels)

    @cached_property
    def _losses(self) -> Floats:
        """Loss of each trial by the score as it is."""
        return _losses(self.score, self.labels)

    def measured(self, found: Found, rest: Rest) -> list[float]:
        """HTER, a-DCF and Cllr of the trials that are not labelled; NaN where undefined."""
        sizes, affine = rest.sizes, found.affine
        if not sizes.all():
            return [math.nan] * len(MEASURES)
        if found.score is None:
            rejected = [self._rejected(at, rest.rows) for at in found.thresholds]
        else:
            rejected = [_sizes(rest.codes[found.score[rest.kept] <= at]) for at in found.thresholds]
        pairs = zip(MEASURES, rejected, strict=False)
        values = [float(cost_of(measure, bad, sizes, self.costs)) for measure, bad in pairs]
        if affine is None:
            return [*values, math.nan]
        if found.score is None and affine == AS_IT_IS:
            return [*values, _cllr(self._losses[rest.kept], rest.codes)]
        score = (self.score if found.score is None else found.score)[rest.kept]
        return [*values, _cllr(_losses(affine[0] * score + affine[1], rest.codes), rest.codes)]

    def _rejected(self, at: float, rows: np.ndarray) -> np.ndarray:
        """Trials of each class that are rejected and not labelled, from counts of all trials."""
        whole = np.array([steps.up_to(at) for steps in self.steps])
        labelled = self.labels[rows][self.score[rows] <= at]
        return whole - _sizes(labelled)


def _thresholds(
    score: Floats, codes: Codes, weights: tuple[float, float, float]
) -> tuple[float, float]:
    """Thresholds of the EER and of the smallest a-DCF, of the classes that are there."""
    pairs = zip(CLASS_ORDER, weights, strict=True)
    there = [(code, weight) for code, weight in pairs if (codes == code).any()]
    task = Detection(*(Steps(np.sort(score[codes == code])) for code, _ in there))
    rung = smallest_cost(task, tuple(weight for _, weight in there))[1]
    return threshold_of(task), cheapest_threshold(task, rung)


def affine(score: Floats, codes: Codes, *, scale: bool) -> tuple[float, float]:
    """Slope a and shift b of the smallest ln 2 · Cllr(a s + b) + (a - 1)² / 2n; else a = 1.

    Example:
        >>> scores, codes = np.array([1.0, 3.0, 1.0, 3.0]), np.array([1, 1, 2, 0])
        >>> slope, bias = affine(scores, codes, scale=False)
        >>> slope, round(bias, 6)
        (1.0, -2.0)
    """
    sign = np.where(codes == TrialClass.TARGET, 1.0, -1.0)
    weight = np.where(sign > 0, 0.5 / (sign > 0).sum(), 0.5 / (sign < 0).sum())
    signed = np.stack([sign * score, sign]) if scale else sign[None]
    ridge = np.array([1 / codes.size, 0.0]) if scale else np.zeros(1)
    loss = weighted_log_loss(signed, weight, ridge, offset=sign * score)
    found = minimise(loss, np.zeros(len(ridge)))
    return (1.0 + float(found[0]), float(found[1])) if scale else (1.0, float(found[0]))


def cost_of(measure: str, rejected: Floats, every: Floats, costs: CostModel) -> Floats:
    """HTER or a-DCF of rejected and all trials of each class, (3, …); NaN without a class."""
    with np.errstate(invalid="ignore", divide="ignore"):
        miss, accepted = rejected[0] / every[0], every[1:] - rejected[1:]
        if measure == "hter":
            return np.asarray(miss + accepted.sum(0) / every[1:].sum(0)) / 2
        weights = a_dcf_weights(costs)
        cost = weights[0] * miss + np.array(weights[1:]) @ (accepted / every[1:])
    return np.asarray(cost / normaliser(weights))


def _sizes(codes: Codes) -> np.ndarray:
    """Trials of each class."""
    return np.bincount(codes, minlength=len(TrialClass))[list(CLASS_ORDER)]


def _losses(llrs: Floats, codes: Codes) -> Floats:
    """Loss of each trial in bits."""
    return negative_loss(np.where(codes == TrialClass.TARGET, -llrs, llrs))


def _cllr(losses: Floats, codes: Codes) -> float:
    positive = codes == TrialClass.TARGET
    return float(losses[positive].mean() + losses[~positive].mean()) / 2


def label_budget(
    target: Target,
    trials: Sequence[int] = TRIALS,
    speakers: Sequence[int] = SPEAKERS,
    draws: int = 200,
    seed: int = 0,
    begin: Begin | None = None,
) -> list[Row]:
    """The learning curve over labelled trials and over labelled speakers.

    Args:
        target: The scores.
        trials: Numbers of labelled trials; those that leave none are passed over.
        speakers: Numbers of labelled speakers, the same.
        draws: How often they are drawn.
        seed: Of the draws.
        begin: Told of long work, for a progress bar; each draw is a step.
    """
    found, every = [], list(_drawn(target, trials, speakers, draws, seed))
    step = begin("label budget", draws * len(every)) if begin else None
    for unit, n, drawn in every:
        values = _of_draws(target, drawn, step)
        for method in target.methods:
            for place, measure in enumerate(MEASURES):
                if (method, measure) == ("threshold", "cllr"):
                    continue  # it is no calibration
                column = values[method][:, place]
                ends, known = _shares(column), _shares(values[CARRIED][:, place])
                lost = int(np.isnan(column).sum())
                found.append(Row(unit, n, method, measure, *ends, known[1], lost, draws))
    return found


def _of_draws(
    target: Target, drawn: Iterator[np.ndarray], step: Callable[[], object] | None
) -> dict[str, Floats]:
    """Measures of each draw, (draws, measures), by method, and as the system was carried over."""
    carried = Found(target.thresholds, AS_IT_IS if target.llrs else None)
    values: dict[str, list[list[float]]] = {name: [] for name in (CARRIED, *target.methods)}
    for rows in drawn:
        rest = target.rest(rows)
        values[CARRIED].append(target.measured(carried, rest))
        for method in target.methods:
            try:
                values[method].append(target.measured(target.find(method, rows), rest))
            except InputError:
                values[method].append([math.nan] * len(MEASURES))
        if step:
            step()
    return {name: np.array(table) for name, table in values.items()}


def _shares(column: Floats) -> tuple[float, float, float]:
    """5 %, 50 % and 95 % of what is defined."""
    defined = column[~np.isnan(column)]
    low, middle, high = np.quantile(defined, SHARES) if defined.size else [math.nan] * 3
    return float(low), float(middle), float(high)


def _drawn(
    target: Target, trials: Sequence[int], speakers: Sequence[int], draws: int, seed: int
) -> Iterator[tuple[str, int, Iterator[np.ndarray]]]:
    """Unit, number, and rows of the labelled trials of each draw."""
    size = target.labels.size

    def some(n: int) -> Iterator[np.ndarray]:
        rng = np.random.default_rng([seed, 0, n])
        return (rng.choice(size, n, replace=False) for _ in range(draws))

    yield from (("trials", n, some(n)) for n in trials if n < size)
    if target.speakers is None:
        return
    names, speaker = np.unique(target.speakers, return_inverse=True)
    by_speaker = np.split(np.argsort(speaker, kind="stable"), np.cumsum(np.bincount(speaker))[:-1])

    def whole(n: int) -> Iterator[np.ndarray]:
        rng = np.random.default_rng([seed, 1, n])
        for _ in range(draws):
            chosen = rng.choice(len(names), n, replace=False)
            yield np.concatenate([by_speaker[place] for place in chosen])

    yield from (("speakers", n, whole(n)) for n in speakers if n < len(names))
