"""The curves of the report, thinned to what the eye can see; nothing here knows HTML or matplotlib.

Every number that is printed as a number is exact; only lines and histograms are thinned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from lightning_sasv.checks import Codes, Floats, split
from lightning_sasv.decisions import PRESETS, CostModel
from lightning_sasv.metrics.comparisons import PRIMARY
from lightning_sasv.metrics.functional import (
    DCF,
    TandemEER,
    a_dcf,
    det_curve,
    eer,
    t_eer,
    t_eer_path,
)
from lightning_sasv.metrics.functional.points import Steps
from lightning_sasv.metrics.registry import NO_LLR
from lightning_sasv.metrics_file import blocks
from lightning_sasv.record import settings_of
from lightning_sasv.report.planes import Base, Pair, find_pairs, robust_range
from lightning_sasv.report.sure import OVER_SEEDS, Sure, draw_seeds, judge, sureness
from lightning_sasv.results import Results
from lightning_sasv.trials import CLASS_ORDER, TASKS, TrialClass

BINS = 96
"""Bins of a histogram at most."""

DET_LIMITS = (2e-4, 0.6)
"""Rates at the ends of the axes of a DET plot."""

DET_CELLS = 600
"""A DET curve keeps one point per cell of a grid of so many cells per axis."""

OWN = "of these results"
"""Name of a cost model that is no preset."""

PATH_RHOS = (0.1, 0.5, 0.9)
DET_TASKS = ("sasv", "sv", "spf")


def histogram(
    parts: list[Floats], limits: tuple[float, float], most: int = BINS
) -> NDArray[np.int64]:
    """Counts of groups of scores in the same equal bins, (groups, bins); none beyond the limits.

    There are four times the cube root of the smallest group as bins, within [24, ``most``].
    """
    smallest = min(part.size for part in parts)
    bins = min(most, max(24, round(4 * smallest ** (1 / 3))))
    return np.array([np.histogram(part, bins=bins, range=limits)[0] for part in parts])


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
    return thin_det_of(*split(scores, labels, *TASKS[task][1:]))


def thin_det_of(pos: Floats, neg: Floats) -> DET:
    """The same of positives and negatives."""
    _, miss, false_acceptance = det_curve(pos, neg)
    false_acceptance, miss = thinned(np.stack([false_acceptance, miss]))
    return DET(false_acceptance, miss, *eer(pos, neg))


def thinned(rates: Floats) -> Floats:
    """Rates of false acceptance and of misses, (2, points), with one point per cell of the grid."""
    low, high = ndtri(DET_LIMITS)
    place = (ndtri(np.clip(rates, DET_LIMITS[0] / 4, 1 - 1e-9)) - low) / (high - low)
    inside = (place < 1.25).all(axis=0)
    inside[0] |= not inside.any()  # scores of no use: a curve of one point, beyond the axes
    rates, cells = rates[:, inside], np.floor(place[:, inside] * DET_CELLS)
    keep = np.concatenate([[True], (np.diff(cells, axis=1) != 0).any(axis=0)])
    keep[-1] = True
    return rates[:, keep]


class Costs(NamedTuple):
    """Error rates over thresholds, and the a-DCF of each cost model.

    Attributes:
        thresholds: Ascending.
        rates: Rejected share of the targets, accepted shares of the nontargets and of the spoofs.
        presets: a-DCF of each cost model.
    """

    thresholds: Floats
    rates: Floats
    presets: dict[str, DCF]


def costs_over_thresholds(
    scores: Floats, labels: Codes, models: Mapping[str, CostModel] = PRESETS, points: int = 241
) -> Costs:
    """Error rates at thresholds over the range of the scores, those of the minima among them."""
    presets = {name: a_dcf(scores, labels, model) for name, model in models.items()}
    limits = robust_range(scores, labels)
    marks = [found.threshold for found in presets.values()]
    targets = scores[labels == TrialClass.TARGET]
    grid = np.concatenate([np.linspace(*limits, points), np.quantile(targets, [0.01, 0.05]), marks])
    thresholds = np.unique(grid[np.isfinite(grid)])
    target, *others = (Steps(np.sort(scores[labels == code])) for code in CLASS_ORDER)
    rates = [target.rejected(thresholds), *(part.accepted(thresholds) for part in others)]
    return Costs(thresholds, np.array(rates), presets)


def tandem_paths(pair: Floats, labels: Codes, points: int = 160) -> tuple[TandemEER, list[Floats]]:
    """The t-EER of a pair of scores, and the paths of three ρ, thinned, their minima among them.

    Returns:
        The concurrent point, or the one that is closest to it; for each of ``PATH_RHOS`` the ASV
        and CM thresholds and the t-EER there, (3, points).
    """
    paths = []
    for rho in PATH_RHOS:
        value, asv, cm = t_eer_path(pair[0], pair[1], labels, rho)
        path = np.stack([asv, cm, value])[:, np.isfinite(asv) & np.isfinite(cm)]
        keep = np.linspace(0, max(path.shape[1] - 1, 0), points).round().astype(int)
        least = [np.argmin(path[2])] if path.size else []
        paths.append(path[:, np.unique([*keep[: path.size], *least]).astype(int)])
    return t_eer(pair[0], pair[1], labels), paths


@dataclass(frozen=True)
class Material:
    """What figures are made of: results, the pairs that systems fuse, and DET curves.

    ``replicates`` are those of the intervals, 0 for none; ``paper`` is whether the paper's numbers
    are wanted beside those of a table.
    """

    results: Results
    pairs: list[Pair]
    bases: list[Base]
    replicates: int = 1000
    paper: bool = True

    @classmethod
    def of(cls, results: Results, replicates: int = 1000, paper: bool = True) -> Material:
        """The material of a folder of results."""
        return cls(results, *find_pairs(results.scores, results.systems), replicates, paper)

    @cached_property
    def sure(self) -> Sure:
        """How sure the values of the shown set are; nothing is said of a part."""
        results = self.results
        n = 0 if results.parts else self.replicates
        if results.whole and n:
            names = [name for name in results.fused if name in results.whole]
            draws = draw_seeds(results.of_seeds, names, n)
            return judge(draws, OVER_SEEDS, results.whole, results.split)
        return sureness(results.fused, results.scores, results.metrics, results.split, n)

    @property
    def chosen(self) -> str:
        """The system that is shown first: the best on dev, or here where dev is not known."""
        best = self.sure.reference.get(PRIMARY, "")
        lowest = min(self.det, key=lambda name: self.det[name]["sasv"].eer)
        return best if best in self.det and self.sure.on_dev else lowest

    def is_llr(self, name: str) -> bool:
        """Whether the score of a system is not known to be no log-likelihood ratio."""
        system = self.results.systems.get(name)
        entry = self.results.metrics.get(name, {}).get("sets", {}).get(self.results.split, {})
        noted = entry.get("undefined", {}).get("act_a_dcf") == NO_LLR
        return not noted and (system is None or system.gives_llrs)

    @cached_property
    def own_costs(self) -> tuple[str, CostModel]:
        """The cost model of the results and what it is called; a-dcf1 where it is not recorded."""
        of = next((of for _, _, of in blocks(self.results.shown, self.results.split)), None)
        how = None if of is None else settings_of(of)
        model = PRESETS["a-dcf1"] if how is None else how.costs
        return next((name for name, one in PRESETS.items() if one == model), OWN), model

    @cached_property
    def cost_models(self) -> dict[str, CostModel]:
        """Cost models by name: the presets, and that of the results if it is none of them."""
        return PRESETS | dict([self.own_costs])

    @cached_property
    def det(self) -> dict[str, dict[str, DET]]:
        """DET curve of each system, by task."""
        labels, fused = self.results.scores.label, self.results.fused
        return {n: {t: thin_det(x, labels, t) for t in DET_TASKS} for n, x in fused.items()}

    @cached_property
    def attacks(self) -> dict[str, np.ndarray]:
        """Which trials are of each attack; none without that column."""
        column, spoof = self.results.scores.attack, self.results.scores.label == TrialClass.SPOOF
        if column is None:
            return {}
        return {str(name): spoof & (column == name) for name in np.unique(column[spoof])}

    def pair_of(self, name: str) -> int:
        """Number of the pair that a system fuses; the raw scores where it is not known."""
        return next((k for k, pair in enumerate(self.pairs) if name in pair.systems), 0)

    def shown_pairs(self) -> list[int]:
        """Numbers of the pairs that the systems fuse."""
        return sorted({self.pair_of(name) for name in self.results.fused})

    def by_class(self, column: Floats) -> list[Floats]:
        """A column, by class."""
        return [column[self.results.scores.label == code] for code in CLASS_ORDER]

    def positives(self, column: Floats) -> tuple[Floats, Floats]:
        """Scores of the targets and of all others."""
        target = self.results.scores.label == TrialClass.TARGET
        return column[target], column[~target]
