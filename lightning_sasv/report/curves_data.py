"""The curves of the report, thinned to what the eye can see; nothing here knows HTML or matplotlib.

Every number that is printed as a number is exact; only lines and histograms are thinned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.stats import norm

from lightning_sasv.decisions import PRESETS, CostModel
from lightning_sasv.metrics.functional import a_dcf, det_curve, eer, t_eer, t_eer_path
from lightning_sasv.trials import TrialClass

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

BINS = 96
"""Bins of a histogram at most."""

DET_LIMITS = (2e-4, 0.6)
"""Rates at the ends of the axes of a DET plot."""

DET_CELLS = 600
"""A DET curve keeps one point per cell of a grid of so many cells per axis."""

TASKS = {
    "sasv": (TrialClass.NONTARGET, TrialClass.SPOOF),
    "sv": (TrialClass.NONTARGET,),
    "spf": (TrialClass.SPOOF,),
}
"""Negatives of each detection task; the positives are the targets."""

PATH_RHOS = (0.1, 0.5, 0.9)


class Histogram(NamedTuple):
    """Counts of groups of trials in equal bins.

    Attributes:
        low: Lower end of the first bin.
        high: Upper end of the last bin.
        counts: (groups, bins); trials beyond the ends are in none.
        sizes: Trials of each group, those beyond the ends included.
        medians: Median of each group.
    """

    low: float
    high: float
    counts: NDArray[np.int64]
    sizes: list[int]
    medians: list[float]


def robust_range(column: Floats, labels: Codes) -> tuple[float, float]:
    """From the lowest 0.2 % to the highest 99.8 % quantile of the classes, with a small margin."""
    parts = [column[labels == code] for code in TrialClass]
    low = min(float(np.quantile(part, 0.002)) for part in parts)
    high = max(float(np.quantile(part, 0.998)) for part in parts)
    if high <= low:
        low, high = low - 0.5, high + 0.5
    margin = 0.02 * (high - low)
    return low - margin, high + margin


def histogram(
    column: Floats, groups: list[NDArray[np.bool_]], limits: tuple[float, float], most: int = BINS
) -> Histogram:
    """Histogram of some groups of trials over the same bins.

    There are four times the cube root of the smallest group as bins, within [24, ``most``].
    """
    parts = [column[group] for group in groups]
    smallest = min(part.size for part in parts)
    bins = min(most, max(24, round(4 * smallest ** (1 / 3))))
    counts = [np.histogram(part, bins=bins, range=limits)[0] for part in parts]
    medians = [float(np.median(part)) if part.size else math.nan for part in parts]
    return Histogram(*limits, np.array(counts), [part.size for part in parts], medians)


class DET(NamedTuple):
    """A DET curve for the eye.

    Attributes:
        false_acceptance: False-acceptance rates, descending.
        miss: Miss rates, ascending.
        eer: Equal error rate (asvspoof convention).
        threshold: Its threshold.
    """

    false_acceptance: Floats
    miss: Floats
    eer: float
    threshold: float


def thin_det(scores: Floats, labels: Codes, task: str) -> DET:
    """DET curve of a task, one point per cell of a grid finer than the screen's.

    Rates of 0 are drawn at the end of the axis.
    """
    negative = np.isin(labels, TASKS[task])
    pos, neg = scores[labels == TrialClass.TARGET], scores[negative]
    _, miss, false_acceptance = det_curve(pos, neg)
    low, high = (float(norm.ppf(limit)) for limit in DET_LIMITS)
    rates = np.stack([false_acceptance, miss])
    place = (norm.ppf(np.clip(rates, DET_LIMITS[0] / 4, 1 - 1e-9)) - low) / (high - low)
    inside = (place < 1.25).all(axis=0)
    rates, cells = rates[:, inside], np.floor(place[:, inside] * DET_CELLS)
    keep = np.concatenate([[True], (np.diff(cells, axis=1) != 0).any(axis=0)])
    keep[-1] = True
    return DET(rates[0, keep], rates[1, keep], *eer(pos, neg))


class PAV(NamedTuple):
    """Calibration by pooling adjacent violators: a step function from score to LLR.

    Attributes:
        start: Lowest score of each pool, ascending.
        end: Highest score of each pool.
        llr: Natural log-likelihood ratio of each pool; ±inf for pure pools.
        positives: Positives of each pool.
        negatives: Negatives of each pool.
    """

    start: Floats
    end: Floats
    llr: Floats
    positives: Floats
    negatives: Floats


def pav_calibration(pos: Floats, neg: Floats) -> PAV:
    """The best increasing map of scores to LLRs on these trials; equal scores are pooled.

    Isotonic regression of the labels on the scores gives the share p of positives of each pool;
    its LLR is logit p − log(N₊ / N₋), free of the prior.
    """
    values, place = np.unique(np.concatenate([pos, neg]), return_inverse=True)
    positives = np.bincount(place[: pos.size], minlength=values.size).astype(np.float64)
    negatives = np.bincount(place[pos.size :], minlength=values.size).astype(np.float64)
    weights = positives + negatives
    blocks = isotonic_regression(positives / weights, weights=weights).blocks
    x = np.add.reduceat(positives, blocks[:-1])
    y = np.add.reduceat(negatives, blocks[:-1])
    with np.errstate(divide="ignore"):
        llr = np.log(x / pos.size) - np.log(y / neg.size)
    return PAV(values[blocks[:-1]], values[blocks[1:] - 1], llr, x, y)


@dataclass(frozen=True)
class Costs:
    """a-DCF over thresholds.

    Attributes:
        thresholds: Ascending.
        miss: Rejected share of the targets at each.
        nontarget: Accepted share of the nontargets.
        spoof: Accepted share of the spoofs.
        presets: For each cost model, minimum, its threshold, actual cost and Bayes threshold.
    """

    thresholds: Floats
    miss: Floats
    nontarget: Floats
    spoof: Floats
    presets: dict[str, dict[str, float]]


def costs_over_thresholds(scores: Floats, labels: Codes, points: int = 241) -> Costs:
    """Error rates at thresholds over the range of the scores, those of the minima among them."""
    presets = {name: _preset(scores, labels, model) for name, model in PRESETS.items()}
    low, high = robust_range(scores, labels)
    marks = [preset["min_threshold"] for preset in presets.values()]
    targets = scores[labels == TrialClass.TARGET]
    grid = np.concatenate(
        [np.linspace(low, high, points), np.quantile(targets, [0.01, 0.05]), marks]
    )
    thresholds = np.unique(grid[np.isfinite(grid)])
    rejected = []
    for code in TrialClass:
        part = np.sort(scores[labels == code])
        rejected.append(np.searchsorted(part, thresholds, side="right") / part.size)
    spoof, target, nontarget = rejected
    return Costs(thresholds, target, 1 - nontarget, 1 - spoof, presets)


def _preset(scores: Floats, labels: Codes, model: CostModel) -> dict[str, float]:
    found = a_dcf(scores, labels, model)
    return {
        "min": found.min,
        "min_threshold": found.threshold,
        "actual": found.actual,
        "bayes_threshold": -model.log_beta,
        "rho": model.spoof_share,
    }


def tandem_paths(pair: Floats, labels: Codes, points: int = 160) -> dict[str, Any]:
    """t-EER of a pair of scores: the paths of three ρ, and the concurrent point if it exists."""
    point = t_eer(pair[0], pair[1], labels)
    paths = []
    for rho in PATH_RHOS:
        value, asv, cm = t_eer_path(pair[0], pair[1], labels, rho)
        finite = np.isfinite(asv) & np.isfinite(cm)
        value, asv, cm = value[finite], asv[finite], cm[finite]
        keep = np.unique(np.linspace(0, max(value.size - 1, 0), points).round().astype(int))
        keep = np.unique(np.append(keep, np.argmin(value))) if value.size else keep[:0]
        paths.append({"rho": rho, "asv": asv[keep], "cm": cm[keep], "value": value[keep]})
    return {"paths": paths, **point._asdict()}
