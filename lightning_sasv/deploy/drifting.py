"""``lightning drift``: whether the thresholds of a bundle can still be trusted, without labels."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from lightning_sasv.checks import Floats, as_finite
from lightning_sasv.decisions import CostModel
from lightning_sasv.deploy.bundle import load
from lightning_sasv.deploy.dev import Reference, numbered
from lightning_sasv.deploy.drift_verdict import Drift, Estimate, Shift, judge
from lightning_sasv.deploy.scorer import Scorer
from lightning_sasv.errors import InputError
from lightning_sasv.fusion.conformal import LEVEL
from lightning_sasv.fusion.conformal import measure as measured_by
from lightning_sasv.metrics.bootstrap import ClusterDraws
from lightning_sasv.metrics.drift import (
    Groups,
    Speakers,
    class_ratios,
    class_weights,
    compare_speakers,
    estimate_priors,
    ks_distance,
)
from lightning_sasv.metrics.families import holm
from lightning_sasv.metrics.intervals import Resampled
from lightning_sasv.scores import ScoreTable
from lightning_sasv.scores.columns import read_columns
from lightning_sasv.scores.reading import ReadingOptions, reading, takes_reading_options
from lightning_sasv.scores.sources import Tell, silent
from lightning_sasv.trials import OWN_CM, TrialClass

DRAWS, REPLICATES, BLOCKS = 999, 399, 20
_ORDER = (TrialClass.TARGET, TrialClass.NONTARGET, TrialClass.SPOOF)


@takes_reading_options
def drift(
    file: str,
    bundle: str | None = None,
    fingerprint: str | None = None,
    format: str | None = None,
    json: bool = False,
    seed: int = 0,
    *,
    tell: Tell = silent,
    **said: Unpack[ReadingOptions],
) -> Drift:
    """Say whether the thresholds of a bundle can be trusted on new trials, which need no labels.

    Estimates the priors of the new trials, the share of them outside what dev measured, and how far
    each score has moved from dev weighted by these priors. Trials of one speaker are alike: with a
    column of enrolled speakers p-values come from permuting speakers, without one there are none.

    Args:
        file: ASV and CM scores of any known format (docs/formats.md), or asv=FILE,cm=FILE.
        bundle: Folder that `lightning export` wrote.
        fingerprint: SHA-256 that the bundle must have.
        format: Format of the file; recognised when not given.
        json: Print everything as JSON.
        seed: Seed of the permutations and of the intervals.
        tell: Told how the file was read.
        **said: What is said of the file, :class:`..scores.reading.ReadingOptions`.

    Returns:
        The verdict and what it rests on.

    Example:
        >>> drift("scores.csv", "nowhere")
        Traceback (most recent call last):
        lightning_sasv.errors.InputError: no bundle at nowhere; make one with `lightning export`
    """
    if bundle is None:
        raise InputError("--bundle DIR is needed: the folder that `lightning export` wrote")
    scorer = load(bundle, bounds=False, fingerprint=fingerprint)
    if scorer.rule.bounds is None:
        raise InputError(
            f"{bundle} decides by a score that is no log-likelihood ratio: the priors of new "
            "trials cannot be estimated; export a system with LLRs (M3d, L3t)"
        )
    reference = Reference.load(bundle, len(scorer.columns))
    table = read_columns(file, None, reading(format, **said), tell)
    new = _columns_of(table, scorer, Path(file).name)
    speakers = numbered(table.frame["speaker"].to_numpy()) if "speaker" in table else None
    return measure(scorer, reference, new, speakers, seed)


def _columns_of(table: ScoreTable, scorer: Scorer, name: str) -> Floats:
    """The scores that a bundle fuses, (columns, trials)."""
    own = f"{OWN_CM}{scorer.metadata['system']}"
    names = [own if one == "cm_score" and own in table else one for one in scorer.columns]
    table.need(names, "this bundle")
    if not len(table):
        raise InputError(f"{name} holds no trials")
    return np.stack([as_finite(table.numbers(one), f"{name}: {one}") for one in names])


def measure(
    scorer: Scorer, reference: Reference, new: Floats, speakers: Groups | None, seed: int = 0
) -> Drift:
    """What new scores (columns, trials) say; see :func:`drift`."""
    named = dict(zip(scorer.columns, new, strict=True))
    fused = scorer.system(*scorer.system.columns.take(named))
    ratios = class_ratios(fused.asv_llr, fused.cm_llr)
    priors = estimate_priors(ratios)
    far = outside(scorer, reference, new)
    trials = new.shape[1]
    groups = np.arange(trials) * min(BLOCKS, trials) // trials if speakers is None else speakers
    drawn, shares = _replicates(ratios, far, priors, groups, seed)
    estimates = {str(c): _estimate(priors[c], drawn[:, c]) for c in _ORDER}
    weights = class_weights(reference.label, priors)
    rows = [
        _shift(*pair, reference, speakers, weights, seed)
        for pair in zip(reference.scores, new, strict=True)
    ]
    known = [row.p for row in rows if row.p is not None]
    fixed = holm(known).tolist() if len(known) == len(rows) else [None] * len(rows)
    rows = [row._replace(adjusted=p) for row, p in zip(rows, fixed, strict=True)]
    costs = scorer.costs
    found = Drift(
        "",
        [],
        new.shape[1],
        None if speakers is None else int(speakers.max()) + 1,
        estimates,
        {str(code): getattr(costs, f"p_{code}") for code in _ORDER},
        None if far is None else _estimate(float(far.mean()), shares),
        LEVEL,
        dict(zip(scorer.system.columns.shown, rows, strict=True)),
        scorer.rule.threshold,
        -_at_priors(costs, priors).log_beta,
    )
    verdict, reasons = judge(found)
    return replace(found, verdict=verdict, reasons=reasons)


def _at_priors(costs: CostModel, priors: Floats) -> CostModel:
    spoof, target, nontarget = priors.tolist()
    return replace(costs, p_spoof=spoof, p_target=target, p_nontarget=nontarget)


def outside(
    scorer: Scorer, reference: Reference, new: Floats, level: float = LEVEL
) -> np.ndarray | None:
    """Which trials are outside what dev measured; ``None`` where dev cannot say.

    All its conformal p-values are at most ``level`` there, see :class:`Measured`. Too small a class
    of dev cannot say it, nor one whose scores are all alike.
    """
    columns = scorer.system.columns.without_quality()
    judged, found = columns.scores, scorer.measured
    with suppress(InputError):
        found = found or measured_by(reference.scores[:judged], reference.label, columns)
    if found is None or found.least_level > level:
        return None
    return found.outside(new[:judged], level)


def _replicates(
    ratios: Floats, far: Any, priors: Floats, groups: Groups, seed: int
) -> tuple[Floats, Floats]:
    """Priors (replicates, 3) and share outside of trials with their groups drawn anew."""
    start = np.clip(priors, 1e-6, None)
    draws = np.asarray(ClusterDraws(groups, REPLICATES, seed).weights, float)
    found = [estimate_priors(ratios, times[groups], start / start.sum(), 1e-5) for times in draws]
    if far is None:
        return np.array(found), np.full(REPLICATES, np.nan)
    trials = np.bincount(groups)
    return np.array(found), (draws @ np.bincount(groups, far)) / (draws @ trials)


def _estimate(value: float, replicates: Floats) -> Estimate:
    interval = Resampled(float(value), replicates).interval(method="percentile")
    return Estimate(float(value), float(interval.low), float(interval.high))


def _shift(
    dev: Floats,
    new: Floats,
    reference: Reference,
    speakers: Groups | None,
    weights: Floats,
    seed: int,
) -> Shift:
    distance, p, halves = ks_distance(new, dev, weights), None, None
    if reference.speaker is not None and reference.speaker.max() > 0:
        own = Speakers.of(dev, reference.speaker, weights)
        splits = own.splits(len(own.histograms) // 2, DRAWS, seed)
        halves = float(np.quantile(splits, 0.95))
        if speakers is not None:
            groups = reference.speaker, speakers
            p = compare_speakers((dev, new), groups, weights).p_value(DRAWS, seed)
    return Shift(distance, p, None, halves)
