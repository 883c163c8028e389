"""The planes of the scores: which pairs systems fuse, samples of trials, decision boundaries.

Systems that begin alike fuse the same pair. Many further pairs are affine maps of one another (a
calibration of scores or of LLRs), so that a page needs the trials of a few base pairs only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Codes, Floats
from lightning_sasv.decisions import CostModel
from lightning_sasv.fitted import FittedSystem
from lightning_sasv.fusion.rules import fuse
from lightning_sasv.trials import CLASS_ORDER, FusedScores, Scores, TrialClass

Affine = tuple[tuple[float, float, float], tuple[float, float, float]]
Window = tuple[tuple[float, float], tuple[float, float]]
"""Ends of the two axes of a plane."""

Line = tuple[Floats, Floats]
"""x and y of the points of a line; NaN where it leaves the plane."""

IDENTITY: Affine = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
GRID = 81
"""Points per axis of the grid on which pairs are given over the plane of the raw scores."""

POINTS = 241
"""Points of a boundary."""

_SAME = 1e-9
"""Residual, relative to the range of a column, below which an affine map is exact."""


class Pair(NamedTuple):
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
    window: Window


class Base(NamedTuple):
    """A base pair.

    Attributes:
        values: The pair of every trial, (2, trials).
        system: A system that gives it from raw scores; absent for the raw scores themselves.
    """

    values: Floats
    system: FittedSystem | None


def as_pair(fused: FusedScores) -> Floats:
    """Both log-likelihood ratios of each trial, (2, trials)."""
    return np.stack([np.asarray(fused.asv_llr), np.asarray(fused.cm_llr)])


def robust_range(
    column: Floats,
    labels: Codes,
    ends: tuple[float, float] = (0.002, 0.998),
    reach: float = math.inf,
    margin: float = 0.02,
) -> tuple[float, float]:
    """From the lowest to the highest of two quantiles of the classes.

    Args:
        column: Scores.
        labels: Their classes.
        ends: The two quantiles.
        reach: How far below the targets' median it begins at most, in units of what lies above it.
        margin: Share of the range that is added on either side.
    """
    parts = [column[labels == code] for code in TrialClass]
    low = min(float(np.quantile(part, ends[0])) for part in parts)
    high = max(float(np.quantile(part, ends[1])) for part in parts)
    centre = float(np.median(parts[TrialClass.TARGET]))
    if high > centre:
        low = max(low, centre - reach * (high - centre))
    if high <= low:
        low, high = low - 0.5, high + 0.5
    return low - margin * (high - low), high + margin * (high - low)


def window_of(column: Floats, labels: Codes) -> tuple[float, float]:
    """Range of a column in which decisions are made: long tails of the negatives are cut."""
    return robust_range(column, labels, (0.02, 0.995), reach=12, margin=0.04)


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
    scores: Scores, systems: Mapping[str, FittedSystem]
) -> tuple[list[Pair], list[Base]]:
    """The distinct pairs, that of the raw scores first, and the base pairs they are maps of."""
    raw = np.stack([scores.asv, scores.cm]).astype(np.float64)
    groups: list[tuple[list[str], Floats]] = [([], raw)]
    for name, system in systems.items():
        values = as_pair(system.of(scores))
        members = next((m for m, known in groups if np.array_equal(known, values)), None)
        if members is None:
            groups.append(([name], values))
        else:
            members.append(name)
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


def base_on_grid(base: Base, window: Window) -> Floats:
    """A base pair over a window of the raw scores, (2, GRID, GRID): [asv or cm, cm row, asv].

    NaN where it is not made of two scores alone.
    """
    if base.system is not None and not base.system.columns.is_pair:
        return np.full((2, GRID, GRID), np.nan)
    x, y = np.meshgrid(*(np.linspace(*limits, GRID) for limits in window))
    if base.system is None:
        return np.stack([x, y])
    return as_pair(base.system(x.ravel(), y.ravel())).reshape(2, GRID, GRID)


def on_grid(pair: Pair, base: Base, window: Window) -> Floats:
    """A pair over a window of the raw scores, as ``base_on_grid``."""
    rows = np.array(pair.affine)
    found = np.tensordot(rows[:, :2], base_on_grid(base, window), axes=1)
    return np.asarray(found + rows[:, 2, None, None])


def stratified(labels: Codes, limit: int, seed: int = 0) -> NDArray[np.intp]:
    """Trials of at most ``limit``, in the order target, nontarget, spoof; all where they fit in.

    Classes keep their proportions, but none falls below 200 trials it has (or its equal share).
    The choice is drawn without replacement and is the same every time.
    """
    wanted = [int((labels == code).sum()) for code in CLASS_ORDER]
    if len(labels) > limit:
        floor = min(200, limit // len(wanted))
        wanted = [max(floor, round(limit * size / len(labels))) for size in wanted]
        wanted[int(np.argmax(wanted))] -= max(sum(wanted) - limit, 0)
    return _draw(labels, wanted, seed)


def equal_sample(labels: Codes, per_class: int, seed: int = 0) -> NDArray[np.intp]:
    """The same number of trials of every class, as far as it has them; order as ``stratified``."""
    return _draw(labels, [per_class] * len(CLASS_ORDER), seed)


def _draw(labels: Codes, wanted: list[int], seed: int) -> NDArray[np.intp]:
    generator, groups = np.random.default_rng(seed), [labels == code for code in CLASS_ORDER]
    chosen = [
        np.sort(generator.choice(np.flatnonzero(group), min(count, group.sum()), replace=False))
        for group, count in zip(groups, wanted, strict=True)
    ]
    return np.concatenate(chosen)


def asymptotes(nontarget: float, spoof: float, level: float) -> tuple[float, float]:
    """Smallest a and smallest c that are accepted at all at a level; −inf for a weight of 0."""
    weights = (nontarget, spoof)
    left, bottom = (math.log(one) + level if one > 0 else -math.inf for one in weights)
    return left, bottom


def _nonlinear_line(window: Window, nontarget: float, spoof: float, level: float) -> Line:
    """Where ``−log[w_non e^(−a) + w_spf e^(−c)] = level``, drawn up to its vertical asymptote.

    c = log w_spf − log(e^(−level) − w_non e^(−a)), computed with the larger term taken out; points
    are dense near the asymptote. A weight of 0 on spoofs leaves the asymptote alone.
    """
    (x_low, x_high), (y_low, y_high) = window
    left, bottom = asymptotes(nontarget, spoof, level)
    if spoof <= 0:
        return np.array([left, left]), np.array([y_low, y_high])
    start = min(max(x_low, left), x_high)
    x = start + (x_high - start) * np.linspace(0, 1, POINTS) ** 3
    gap = np.where(x > left, x - left, np.nan)  # of the logs of the two terms
    y = bottom - np.log(-np.expm1(-gap))
    if x_low < left < x_high:
        y[0] = 2 * y_high - y_low
    return x, y


def _corner(left: float, bottom: float, x_high: float, y_high: float) -> Line:
    """Two straight lines that meet at (left, bottom) and run up and to the right."""
    end, top = max(x_high, left), max(y_high, bottom)
    return np.array([left, left, end]), np.array([top, bottom, bottom])


def rule_boundary(system: FittedSystem, level: float, window: Window) -> Line:
    """Where the score of a system equals a level, in the plane of the pair that it fuses."""
    if system.rho is not None:
        rho = float(system.rho)
        return _nonlinear_line(window, 1 - rho, rho, level)
    if system.rule == "cascade":
        return _corner(level, level, window[0][1], window[1][1])

    def above(a: Floats, c: Floats) -> NDArray[np.bool_]:
        return np.asarray(fuse(system.rule, None, a.ravel(), c.ravel()) > level).reshape(a.shape)

    a, c = (np.linspace(*ends, POINTS) for ends in window)
    x, y = _crossings(above, a, c)
    other_y, other_x = _crossings(lambda cm, asv: above(asv, cm), c, a)  # where it is steep
    beside, place = np.concatenate([[np.inf], y, [-np.inf]]), np.searchsorted(x, other_x)
    falls = (beside[place] >= other_y) & (other_y >= beside[place + 1])  # else of another branch
    x, y = np.concatenate([x, other_x[falls]]), np.concatenate([y, other_y[falls]])
    order = np.lexsort((-y, x))
    return x[order], y[order]


def _crossings(
    above: Callable[[Floats, Floats], NDArray[np.bool_]], at: Floats, by: Floats
) -> Line:
    """The first place along one axis, at places of the other, where a score passes the level."""
    sides = above(*np.meshgrid(at, by, indexing="ij"))
    turns = np.diff(sides, axis=1)
    there = turns.any(axis=1)
    at, found = at[there], turns.argmax(axis=1)[there]
    low, high, side = by[found], by[found + 1], sides[there, found]
    for _ in range(50):  # bisections: to the last bits
        middle = (low + high) / 2
        same = above(at, middle) == side
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return at, high


def policy_boundaries(costs: CostModel, window: Window) -> dict[str, Line]:
    """Boundaries of the Bayes, linear and utility policies in the plane of the two LLRs.

    Bayes: w_non e^(−a) + w_spf e^(−c) = w_tar (Ineq. app_policy_gen); linear: a + c =
    log(w_non w_spf / w_tar²) (Ineq. action_fused_lr); utility: the corner P_tar = P_non,
    P_tar = P_spf (Ineq. app_policy_utility). Weights are the cost-weighted priors, all positive.
    """
    (x_low, x_high), (_, y_high) = window
    target, nontarget, spoof = costs.weight_miss, costs.weight_fa_nontarget, costs.weight_fa_spoof
    level = -math.log(target)
    left, bottom = asymptotes(nontarget, spoof, level)
    x = np.array([x_low, x_high])
    return {
        "bayes": _nonlinear_line(window, nontarget, spoof, level),
        "linear": (x, left + bottom - x),
        "utility": _corner(left, bottom, x_high, y_high),
    }
