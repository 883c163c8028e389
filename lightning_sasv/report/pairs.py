"""Pairs of scores or log-likelihood ratios that systems fuse: which are alike, and their windows.

Systems that begin alike fuse the same pair. Many further pairs are affine maps of one another (a
calibration of scores or of LLRs), so that a page needs the trials of a few base pairs only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.fusion import FusionSystem, fuse_systems
from lightning_sasv.trials import Scores, TrialClass

Floats = NDArray[np.float64]
Affine = tuple[tuple[float, float, float], tuple[float, float, float]]

IDENTITY: Affine = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
GRID = 81
"""Points per axis of the grid on which pairs are given over the plane of the raw scores."""

_SAME = 1e-9
"""Residual, relative to the range of a column, below which an affine map is exact."""


@dataclass(frozen=True)
class Pair:
    """One pair of columns that systems fuse.

    Attributes:
        systems: The systems that fuse it; none for raw scores that no system fuses.
        is_llr: Whether it comes out of a density or a calibration, not the raw scores.
        values: The pair of every trial, (2, trials).
        base: Number of the base pair that it is an affine map of.
        affine: That map: rows of (x from asv, x from cm, constant).
        window: Part of the plane to show, ((x low, x high), (y low, y high)).
    """

    systems: tuple[str, ...]
    is_llr: bool
    values: Floats
    base: int
    affine: Affine
    window: tuple[tuple[float, float], tuple[float, float]]


@dataclass(frozen=True)
class Base:
    """A base pair.

    Attributes:
        values: The pair of every trial, (2, trials).
        system: A system that gives it from raw scores; absent for the raw scores themselves.
    """

    values: Floats
    system: FusionSystem | None


def window_of(column: Floats, labels: NDArray[np.int64]) -> tuple[float, float]:
    """Range of a column in which decisions are made: long tails of the negatives are cut.

    From the lowest 2 % quantile of a class to the highest 99.5 % one, but no further below the
    targets' median than twelve times what lies above it; a margin of 4 % on either side.
    """
    parts = [column[labels == code] for code in TrialClass]
    low = min(float(np.quantile(part, 0.02)) for part in parts)
    high = max(float(np.quantile(part, 0.995)) for part in parts)
    centre = float(np.median(parts[TrialClass.TARGET]))
    if high > centre:
        low = max(low, centre - 12 * (high - centre))
    if high <= low:
        low, high = low - 0.5, high + 0.5
    margin = 0.04 * (high - low)
    return low - margin, high + margin


def affine_map(source: Floats, target: Floats) -> Affine | None:
    """The affine map from one pair (2, trials) to another, or ``None`` if there is no exact one."""
    centre = source.mean(axis=1, keepdims=True)
    scale = np.ptp(source, axis=1, keepdims=True)
    if (scale == 0).any():
        return None
    design = np.stack([*((source - centre) / scale), np.ones(source.shape[1])])
    solution, *_ = np.linalg.lstsq(design @ design.T, design @ target.T, rcond=None)
    slopes = solution[:2].T / scale.T
    constant = solution[2] - slopes @ centre[:, 0]
    residual = np.abs(slopes @ source + constant[:, None] - target).max(axis=1)
    if (residual > _SAME * np.maximum(np.ptp(target, axis=1), 1e-300)).any():
        return None
    rows = [(float(s[0]), float(s[1]), float(c)) for s, c in zip(slopes, constant, strict=True)]
    return rows[0], rows[1]


def find_pairs(
    scores: Scores, systems: Mapping[str, FusionSystem]
) -> tuple[list[Pair], list[Base]]:
    """The distinct pairs, that of the raw scores first, and the base pairs they are maps of."""
    raw = np.stack([scores.asv, scores.cm]).astype(np.float64)
    groups: list[tuple[list[str], Floats]] = [([], raw)]
    for name, fused in fuse_systems(systems, scores.asv, scores.cm).items() if systems else ():
        values = np.stack([fused.asv_llr.numpy(), fused.cm_llr.numpy()])
        for members, known in groups:
            if np.array_equal(known, values):
                members.append(name)
                break
        else:
            groups.append(([name], values))
    pairs: list[Pair] = []
    bases: list[Base] = []
    for members, values in groups:
        number, affine = _base_of(values, bases)
        if number == len(bases):
            bases.append(Base(values, systems[members[0]] if pairs else None))
        window = window_of(values[0], scores.label), window_of(values[1], scores.label)
        pairs.append(Pair(tuple(members), bool(pairs), values, number, affine, window))
    return pairs, bases


def _base_of(values: Floats, bases: list[Base]) -> tuple[int, Affine]:
    for number, base in enumerate(bases):
        affine = affine_map(base.values, values)
        if affine is not None:
            return number, affine
    return len(bases), IDENTITY


def base_on_grid(base: Base, raw: Pair) -> Floats:
    """A base pair over the window of the raw scores, (2, GRID, GRID): [asv or cm, cm row, asv]."""
    (x_low, x_high), (y_low, y_high) = raw.window
    x, y = np.meshgrid(np.linspace(x_low, x_high, GRID), np.linspace(y_low, y_high, GRID))
    if base.system is None:
        return np.stack([x, y])
    fused = base.system(x.ravel(), y.ravel())
    return np.stack([fused.asv_llr.numpy(), fused.cm_llr.numpy()]).reshape(2, GRID, GRID)


def stratified(labels: NDArray[np.int64], limit: int, seed: int = 0) -> NDArray[np.intp]:
    """Trials of at most ``limit``, in the order target, nontarget, spoof; all where they fit in.

    Classes keep their proportions, but none falls below 200 trials it has (or its equal share).
    The choice is drawn without replacement and is the same every time.
    """
    groups = [np.flatnonzero(labels == code) for code in ORDER]
    if len(labels) <= limit:
        return np.concatenate(groups)
    floor = min(200, limit // len(groups))
    wanted = [max(floor, round(limit * len(group) / len(labels))) for group in groups]
    excess = sum(wanted) - limit
    wanted[int(np.argmax(wanted))] -= max(excess, 0)
    return _draw(groups, wanted, seed)


def equal_sample(labels: NDArray[np.int64], per_class: int, seed: int = 0) -> NDArray[np.intp]:
    """The same number of trials of every class, as far as it has them; order as ``stratified``."""
    groups = [np.flatnonzero(labels == code) for code in ORDER]
    return _draw(groups, [per_class] * len(groups), seed)


ORDER = (TrialClass.TARGET, TrialClass.NONTARGET, TrialClass.SPOOF)
"""Order of the classes in the page."""


def _draw(groups: list[NDArray[np.intp]], wanted: list[int], seed: int) -> NDArray[np.intp]:
    generator = np.random.default_rng(seed)
    chosen = [
        np.sort(generator.choice(group, size=min(count, len(group)), replace=False))
        for group, count in zip(groups, wanted, strict=True)
    ]
    return np.concatenate(chosen)
