"""``lightning drift``: whether the thresholds of a bundle can still be trusted, without labels.

What is measured (:func:`measure`), and the verdict on it in words (:func:`judge`).
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from lightning_sasv.checks import Floats, as_finite
from lightning_sasv.deploy.bundle import load
from lightning_sasv.deploy.dev import Reference, numbered
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
from lightning_sasv.trials import CLASS_ORDER, OWN_CM

DRAWS, REPLICATES, BLOCKS = 999, 399, 20

TRUSTED = "thresholds can be trusted"
PRIORS = "priors differ: new threshold"
SCORES = "scores differ: measure again with labels"
TOO_LITTLE = "too little to tell"

FEWEST_SPEAKERS, FEWEST_TRIALS = 5, 200
ORDINARY = 0.1
"""KS distance that ordinary speakers reach from others."""
NEAR = 0.05
"""Priors this near to those of the costs are taken for them: EM is right to 0.034, and estimates of
1,000 trials vary by 0.016."""
ALPHA = 0.05


@dataclass(frozen=True)
class Estimate:
    """A share with its 95 % interval, NaN where there is none."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        bracket = f" [{100 * self.low:.1f}, {100 * self.high:.1f}]" if self.low == self.low else ""
        return f"{100 * self.value:.1f}{bracket} %"


@dataclass(frozen=True)
class Shift:
    """How far a score has moved from dev.

    Attributes:
        distance: KS distance D to dev weighted by the estimated priors.
        p: Share of permutations of speakers that are as far apart; ``None`` without their names.
        adjusted: The same adjusted by Holm over the scores.
        dev_halves: What 95 % of random halves of dev's own speakers stay below.
    """

    distance: float
    p: float | None
    adjusted: float | None
    dev_halves: float | None


@dataclass(frozen=True)
class Drift:
    """What new trials say of a bundle.

    Attributes:
        verdict: One of the four in words.
        reasons: What it rests on.
        trials: New trials.
        speakers: New speakers; ``None`` where they are not named.
        priors: Estimated prior of each class.
        cost_priors: Priors of the bundle's costs.
        outside: Share of trials outside what dev measured, at ``level``; ``None`` where dev has too
            few trials to say.
        level: Its level.
        scores: How far each score has moved.
        threshold: Threshold of the bundle's costs.
        new_threshold: That of the same costs at the estimated priors, −log β.

    Example:
        >>> shown = {"target": Estimate(0.9, 0.85, 0.93)}, {"target": 0.9}
        >>> found = Drift("", [], 150, 4, *shown, None, 0.01, {}, 0.5, 0.4)
        >>> judge(found)[0]
        'too little to tell'
    """

    verdict: str
    reasons: list[str]
    trials: int
    speakers: int | None
    priors: dict[str, Estimate]
    cost_priors: dict[str, float]
    outside: Estimate | None
    level: float
    scores: dict[str, Shift]
    threshold: float
    new_threshold: float

    def as_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        return asdict(self)

    def lines(self) -> list[str]:
        """The same in words, the verdict last."""
        whose = "no speakers named" if self.speakers is None else f"{self.speakers:,} speakers"
        priors = ", ".join(
            f"{name} {one} (costs: {100 * self.cost_priors[name]:g} %)"
            for name, one in self.priors.items()
        )
        far = "dev has too few trials to say" if self.outside is None else str(self.outside)
        lines = [
            f"{self.trials:,} trials, {whose}",
            f"priors: {priors}",
            f"outside what dev measured at {100 * self.level:g} %: {far}",
        ]
        for name, one in self.scores.items():
            said = f"{name}: KS distance to dev at these priors {one.distance:.3f}"
            if one.dev_halves is not None:
                said += f" (95 % of dev's own halves: {one.dev_halves:.3f})"
            if one.p is not None:
                said += f", p {one.p:.3g} by permuting speakers, {one.adjusted:.3g} by Holm"
            lines.append(said)
        return [*lines, f"{self.verdict} ({'; '.join(self.reasons)})"]


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
    estimates = {str(c): _estimate(priors[c], drawn[:, c]) for c in CLASS_ORDER}
    weights = class_weights(reference.label, priors)
    rows = [
        _shift(*pair, reference, speakers, weights, seed)
        for pair in zip(reference.scores, new, strict=True)
    ]
    known = [row.p for row in rows if row.p is not None]
    fixed = holm(known).tolist() if len(known) == len(rows) else [None] * len(rows)
    rows = [replace(row, adjusted=p) for row, p in zip(rows, fixed, strict=True)]
    costs = scorer.costs
    at_priors = {f"p_{code}": float(priors[code]) for code in CLASS_ORDER}
    found = Drift(
        "",
        [],
        new.shape[1],
        None if speakers is None else int(speakers.max()) + 1,
        estimates,
        {str(code): getattr(costs, f"p_{code}") for code in CLASS_ORDER},
        None if far is None else _estimate(float(far.mean()), shares),
        LEVEL,
        dict(zip(scorer.system.columns.shown, rows, strict=True)),
        scorer.rule.threshold,
        -replace(costs, **at_priors).log_beta,
    )
    verdict, reasons = judge(found)
    return replace(found, verdict=verdict, reasons=reasons)


def outside(scorer: Scorer, reference: Reference, new: Floats) -> np.ndarray | None:
    """Which trials are outside what dev measured; ``None`` where dev cannot say.

    All its conformal p-values are at most ``LEVEL`` there, see :class:`Measured`. Too small a class
    of dev cannot say it, nor one whose scores are all alike.
    """
    columns = scorer.system.columns.without_quality()
    judged, found = columns.scores, scorer.measured
    with suppress(InputError):
        found = found or measured_by(reference.scores[:judged], reference.label, columns)
    if found is None or found.least_level > LEVEL:
        return None
    return found.outside(new[:judged], LEVEL)


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


def judge(found: Drift) -> tuple[str, list[str]]:
    """The verdict on measured values, and the reasons in words."""
    few = []
    if found.trials < FEWEST_TRIALS:
        few.append(f"{found.trials} trials, at least {FEWEST_TRIALS} are needed")
    if found.speakers is not None and found.speakers < FEWEST_SPEAKERS:
        few.append(f"{found.speakers} speakers, at least {FEWEST_SPEAKERS} are needed")
    if few:
        return TOO_LITTLE, few
    moved = _moved(found)
    apart = {
        name: one.value
        for name, one in found.priors.items()
        if abs(one.value - found.cost_priors[name]) > NEAR
    }
    lacking = found.speakers is None or None in (one.p for one in found.scores.values())
    notes = [_no_p(found)] if lacking else []
    if moved:
        return SCORES, moved + notes
    if apart:
        shown = ", ".join(
            f"{name} {100 * value:.1f} % (costs: {100 * found.cost_priors[name]:g} %)"
            for name, value in apart.items()
        )
        return PRIORS, [
            f"{shown}: same LLRs, threshold {_plain(found.new_threshold)} instead of "
            f"{_plain(found.threshold)}",
            *notes,
        ]
    return TRUSTED, ["no score has moved, and the priors are near those of the costs", *notes]


def _plain(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "none (a class has no share)"


def _moved(found: Drift) -> list[str]:
    """Signs that scores are others than on dev."""
    signs = []
    for name, one in found.scores.items():
        if one.adjusted is not None and one.adjusted <= ALPHA:
            signs.append(f"{name}: permuting speakers gives p = {one.adjusted:.3g} (Holm)")
        if one.distance > ORDINARY:
            signs.append(
                f"{name}: KS distance {one.distance:.3f}, ordinary speakers stay below {ORDINARY}"
            )
    if found.outside is not None and found.outside.low > found.level:
        signs.append(
            f"{found.outside} of the trials are outside what dev measured, "
            f"{100 * found.level:g} % would be usual"
        )
    return signs


def _no_p(found: Drift) -> str:
    whose = "the trials name no speakers"
    if found.speakers is not None:
        whose = "dev's trials name no speakers, or one alone"
    return (
        f"no p-values: {whose}, and a test of single trials cries wolf, because those of one "
        "speaker are alike"
    )
