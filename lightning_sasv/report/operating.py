"""Cost over operating points: actual, smallest, at the threshold of dev, and of the policy.

Bands by speaker around this and around DET curves: errors of each speaker at thresholds, and
speakers drawn.

An operating point is a threshold τ = −log β̃ that costs and priors ask for, at a spoof share ρ̃; the
area between actual and smallest cost is the calibration loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from lightning_sasv.checks import Codes, Floats, as_labels
from lightning_sasv.decisions import CostModel, compared
from lightning_sasv.metrics.bootstrap import ClusterDraws
from lightning_sasv.metrics.functional.dcf import a_dcf_weights, cost_at, dcf_of, normaliser
from lightning_sasv.metrics.functional.points import Classes, Detection
from lightning_sasv.metrics.intervals import percentile_ends
from lightning_sasv.report.curves import DET_LIMITS, DET_TASKS, Material
from lightning_sasv.report.description import Axis, Figure, Panel, Series, shared
from lightning_sasv.report.sure import few_speakers
from lightning_sasv.results import PREFIX
from lightning_sasv.trials import CLASS_ORDER, TASKS, FusedScores, TrialClass, claimed_speakers

RHO = 2 / 3
"""Spoof share, weighted by cost, that the files show: that of the costs a-dcf1."""
RHOS = dict(
    sorted([("2/3", RHO), *((f"{k / 10:.1f}", k / 10) for k in range(11))], key=lambda r: r[1])
)
"""Spoof shares where the slider of the page stops."""
TAUS = np.unique([*np.linspace(-6, 6, 25), 0.511])
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


def costs_of(tau: float, rho: float = RHO) -> CostModel:
    """Unit costs, and priors that ask for the threshold τ with the spoof share ρ̃."""
    beta = math.exp(-tau)  # C π of targets over that of all others
    target = beta / (1 + beta)
    return CostModel(1.0, 1.0, 1.0, target, (1 - target) * (1 - rho), (1 - target) * rho)


def costs_at(
    scores: Floats,
    labels: Codes,
    taus: Floats = TAUS,
    rho: float = RHO,
    dev: Detection | None = None,
) -> Floats:
    """Normalised a-DCF at operating points: actual, smallest, at the thresholds best on dev.

    Args:
        scores: Fused scores.
        labels: ``TrialClass`` codes.
        taus: Thresholds that costs and priors ask for.
        rho: Spoof share.
        dev: Scores of dev by class; without them the last row is NaN.
    """
    task = _task(scores, labels)
    rows = []
    for tau in taus:
        weights = a_dcf_weights(costs_of(tau, rho))
        found = dcf_of(task, weights)
        at = math.nan if dev is None else dcf_of(dev, weights).threshold
        fixed = math.nan if dev is None else cost_at(task, weights, at) / normaliser(weights)
        rows.append((found.actual, found.min, fixed))
    return np.array(rows).T


def policy_costs_at(fused: FusedScores, labels: Codes, taus: Floats, rho: float) -> Floats:
    """Normalised a-DCF of the Bayes rule on the pair of LLRs at operating points."""
    score, _ = compared(fused, costs_of(0.0, rho))
    task = _task(np.asarray(score), labels)
    weights = [a_dcf_weights(costs_of(tau, rho)) for tau in taus]
    pairs = zip(taus, weights, strict=True)
    return np.array([cost_at(task, own, tau) / normaliser(own) for tau, own in pairs])


def _task(scores: Floats, labels: Codes) -> Detection:
    return Classes({"sasv": scores}, as_labels(labels)).task("sasv")


def band_at(band: Band, taus: Floats, rho: float) -> Floats:
    """95 % percentile interval of the actual cost at each operating point."""
    rates, found = band.rates(), []
    for place, tau in enumerate(taus):
        weights = np.array(a_dcf_weights(costs_of(tau, rho)))
        costs = (weights[:, None] * rates[:, :, place]).sum(0) / normaliser(tuple(weights))
        found.append(percentile_ends(costs))
    return np.array(found).T


_COLUMNS = ("tau", "actual", "minimum", "dev", "policy", "low", "high")
"""What the data of the figure say of a system at a spoof share."""


def operating_points(material: Material) -> Figure:
    """Costs of every system over operating points; between actual and smallest lies its loss."""
    labels = ("τ = −log β̃, with ρ̃ = 2/3", "normalised a-DCF")
    x, y = Axis(-6.4, 6.4, "τ = −log β̃"), Axis(0, 1.1, labels[1])
    panels, data = [], []
    for name in material.results.fused:
        for rho, columns in _curves(material, name):
            only = "" if RHOS[rho] == RHO else "page"
            of = {"system": name, "rho": rho}
            panels.append(Panel(x, y, _series(columns), name, of=of, only=only))
            data += [of | dict(zip(_COLUMNS, row, strict=True)) for row in columns.T.tolist()]
    words = shared()["words"]
    banded = any(math.isfinite(row["low"]) for row in data)
    band = words["operating_points band"] if banded else ""
    caption = words["operating_points"].format(band=band)
    choices = {"rho": {rho: f"ρ̃ = {rho}" for rho in RHOS}}
    title = "Cost over operating points"
    return Figure("operating_points", title, panels, caption, choices, labels=labels, data=data)


def _curves(material: Material, name: str) -> Iterator[tuple[str, Floats]]:
    """The data of a system, (columns, operating points), by spoof share."""
    results = material.results
    scores, trials, dev = results.fused[name], results.scores, results.dev
    system, n = results.systems.get(name), 0 if results.parts else material.replicates
    on_dev = None if dev is None else dev.extra.get(f"{PREFIX}{name}")
    task = None if dev is None or on_dev is None else _task(on_dev, dev.label)
    fused = system.of(trials) if system is not None and system.gives_llrs else None
    band = None
    if n and trials.speaker is not None and not few_speakers(trials):
        speakers = np.array(claimed_speakers(trials.speaker.astype(str).tolist()))
        band = Band.of(scores, trials.label, speakers, TAUS, n)
    none = np.full(TAUS.size, math.nan)
    for key, rho in sorted(RHOS.items(), key=lambda one: one[1] != RHO):  # what is shown first
        found = costs_at(scores, trials.label, TAUS, rho, task)
        found[0] = found[0] if material.is_llr(name) else none
        policy = none if fused is None else policy_costs_at(fused, trials.label, TAUS, rho)
        ends = (
            (none, none) if band is None or not material.is_llr(name) else band_at(band, TAUS, rho)
        )
        yield key, np.array([TAUS, *found, policy, *ends])


def _series(columns: Floats) -> list[Series]:
    """Lines of the four costs, the calibration loss, and the band of speakers.

    Scores that are no LLRs have no actual cost.
    """
    taus, actual, least, dev, policy, low, high = columns
    hover = "τ {x:.2f}: actual {y:.3f}, minimum {least:.3f}"
    first = Series("line", "actual", taus, actual.clip(max=2), "actual", hover=hover)
    found = [Series("line", "best", taus, least, "minimum")]
    if np.isfinite(actual).all():
        loss = _between(taus, actual, least, "actual", "calibration loss")
        found = [replace(first, more={"least": least}), *found, loss]
    for values, style, label in ((dev, "first", "dev threshold"), (policy, "third", "policy")):
        if np.isfinite(values).all():
            found.append(Series("line", style, taus, values.clip(max=2), label))
    if np.isfinite(low).all():
        found.append(_between(taus, low, high, "reference", "95 % of actual, by speaker"))
    return found


def _between(x: Floats, low: Floats, high: Floats, style: str, label: str) -> Series:
    """The area between two lines."""
    edge = np.concatenate([low, high[::-1]]).clip(max=2)
    return Series("area", style, np.concatenate([x, x[::-1]]), edge, label)
