"""Bands by speaker around curves: errors of each speaker at thresholds, and speakers drawn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from lightning_sasv.checks import Codes, Floats
from lightning_sasv.metrics.bootstrap import ClusterDraws
from lightning_sasv.metrics.intervals import percentile_ends
from lightning_sasv.report.curves import DET_LIMITS, DET_TASKS
from lightning_sasv.trials import CLASS_ORDER, TASKS, TrialClass

GRID = ndtr(np.linspace(ndtri(DET_LIMITS[0]), ndtri(DET_LIMITS[1]), 40))
"""False-acceptance rates at which the band of a DET curve is found."""
_FINE = ndtr(np.linspace(ndtri(DET_LIMITS[0] / 20), 1.0, 200))


class Band(NamedTuple):
    """Errors of each speaker at thresholds, and how often each is drawn in a replicate.

    Attributes:
        errors: Targets rejected, nontargets and spoofs accepted, (3, speakers, thresholds).
        trials: Trials of each class, (3, speakers).
        weights: (replicates, speakers).
    """

    errors: Floats
    trials: Floats
    weights: Floats

    @classmethod
    def of(cls, scores: Floats, labels: Codes, speakers: np.ndarray, taus: Floats, n: int) -> Band:
        """Count the errors at thresholds, and draw speakers."""
        drawn = ClusterDraws(speakers, n)
        above = np.searchsorted(taus, scores)  # so many thresholds lie below a score
        size = (drawn.names.size, taus.size + 1)
        errors, trials = [], []
        for code in CLASS_ORDER:
            own = labels == code
            cells = drawn.of_trial[own] * size[1] + above[own]
            counts = np.bincount(cells, minlength=size[0] * size[1]).reshape(size)
            total, rejected = counts.sum(1), counts.cumsum(1)[:, :-1]
            errors.append(rejected if code == CLASS_ORDER[0] else total[:, None] - rejected)
            trials.append(total)
        return cls(np.array(errors, float), np.array(trials, float), drawn.weights)

    def rates(self) -> Floats:
        """Error rates of each replicate, (3, replicates, thresholds); NaN where none was drawn."""
        with np.errstate(invalid="ignore"):
            found: Floats = (self.weights @ self.errors) / (self.weights @ self.trials.T).T[
                :, :, None
            ]
        return found


def det_band(
    scores: Floats, labels: Codes, speakers: np.ndarray, n: int
) -> dict[str, tuple[Floats, Floats]]:
    """Ends of the 95 % interval of the miss rate at each rate of ``GRID``, by task; pointwise.

    Args:
        scores: Fused scores.
        labels: ``TrialClass`` codes.
        speakers: Enrolled speaker of each trial; they are drawn.
        n: Replicates.
    """
    target = labels == TrialClass.TARGET
    others = np.quantile(scores[~target], 1 - _FINE)
    thresholds = np.unique([*others, *np.quantile(scores[target], _FINE)])
    band = Band.of(scores, labels, speakers, thresholds, n)
    errors = band.weights @ band.errors
    trials = (band.weights @ band.trials.T).T[:, :, None]
    found = {}
    for task in DET_TASKS:
        negative = [CLASS_ORDER.index(code) for code in TASKS[task].negative]
        with np.errstate(invalid="ignore"):
            miss, accepted = (
                errors[0] / trials[0],
                errors[negative].sum(0) / trials[negative].sum(0),
            )
        pairs = zip(accepted, miss, strict=True)
        curves = np.array([np.interp(GRID, fa[::-1], own[::-1]) for fa, own in pairs])
        low, high = np.array([percentile_ends(column) for column in curves.T]).T
        found[task] = low, high
    return found
