"""Calibration: maps from a pair of scores (or LLRs) to a pair of better LLRs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lightning_sasv.checks import Codes, Floats
from lightning_sasv.fusion.densities import Config, Stage, State
from lightning_sasv.fusion.logistic import (
    SMALL_PENALTY,
    Affine,
    fit_joint,
    fit_multinomial,
    logit,
    weighted_logistic,
)
from lightning_sasv.metrics.functional.pav import pools
from lightning_sasv.numerics import namespace
from lightning_sasv.trials import TrialClass

Sides = dict[str, tuple[Floats, Floats]]


def split_sides(scores: Floats, labels: Codes, cm_positives: str) -> Sides:
    """Positives and negatives of the ASV and of the CM calibration, by the name of the side.

    ASV: target against nontarget, spoof left out. CM: bona fide (or target) against spoof.
    """
    target, spoof = labels == TrialClass.TARGET, labels == TrialClass.SPOOF
    positive = ~spoof if cm_positives == "bonafide" else target
    asv, cm = scores
    nontarget = labels == TrialClass.NONTARGET
    return {"asv": (asv[target], asv[nontarget]), "cm": (cm[positive], cm[spoof])}


def fit_paper(scores: Floats, labels: Codes, config: Config) -> Affine:
    """Calibration as in the paper's published numbers.

    Every positive weighs π and every negative 1 − π, π being the fraction of positives; a penalty
    of ½a² (``penalty`` 1) is on the slope; logit π is subtracted from the intercept.
    """
    maps = []
    for name, (pos, neg) in split_sides(scores, labels, config["cm_positives"]).items():
        prior = len(pos) / (len(pos) + len(neg))
        weights = (prior, 1 - prior)
        slope, intercept = weighted_logistic(pos, neg, weights, _penalty(config, 1.0), name)
        maps.append((slope, intercept - logit(prior)))
    return _diagonal(maps)


def fit_effective_prior(scores: Floats, labels: Codes, config: Config) -> Affine:
    """Prior-weighted logistic regression (Brümmer): weights P/N₊ and (1−P)/N₋, offset logit P.

    The log-loss is that of the posterior ``σ(ax + b + logit P)``, so that ax + b is an LLR
    whatever the proportions of the data. No penalty unless one is asked for.
    """
    prior, maps = config["effective_prior"], []
    for name, (pos, neg) in split_sides(scores, labels, config["cm_positives"]).items():
        weights = (prior / len(pos), (1 - prior) / len(neg))
        slope, intercept = weighted_logistic(pos, neg, weights, _penalty(config, 0.0), name)
        maps.append((slope, intercept - logit(prior)))
    return _diagonal(maps)


def _penalty(config: Config, default: float) -> float:
    """The penalty asked for, or the recipe's own."""
    return default if config["penalty"] is None else float(config["penalty"])


def _diagonal(maps: list[tuple[float, float]]) -> Affine:
    """Weight and bias of two separate affine maps."""
    slopes, intercepts = np.array(maps).T
    return np.diag(slopes), intercepts


def _affine(recipe: Callable[[Floats, Codes, Config], Affine]) -> Stage:
    """``y = W x + b`` on score pairs, fitted by a recipe."""

    def fit(pairs: Floats, codes: Codes, config: Config) -> State:
        weight, bias = recipe(pairs, codes, config)
        return {"weight": weight, "bias": bias}

    return Stage(
        lambda config: {"weight": np.eye(2), "bias": np.zeros(2)},
        fit,
        lambda state, pairs, config: state["weight"] @ pairs + state["bias"][:, None],
    )


def fit_isotonic(scores: Floats, labels: Codes, config: Config) -> State:
    """The increasing map of each score that fits its LLR best, without any other assumption.

    The posterior is constant on each pooled block of scores, straight between blocks and constant
    beyond the ends. One positive below all scores and one negative above them (a misleading trial
    at either end) keep the LLRs finite. The number of knots is that of the data; the shorter side
    repeats its last one.
    """
    curves = [
        pav_llrs(*side) for side in split_sides(scores, labels, config["cm_positives"]).values()
    ]
    longest = max(len(knots) for knots, _ in curves)
    knots, llrs = (
        np.stack([np.pad(part, (0, longest - len(part)), mode="edge") for part in parts])
        for parts in zip(*curves, strict=True)
    )
    return {"knots": knots, "llrs": llrs}


def pav_llrs(positives: Floats, negatives: Floats) -> tuple[Floats, Floats]:
    """LLRs of the isotonic regression of the class on the score.

    Args:
        positives: Scores of the positive class.
        negatives: Scores of the negative class.

    Returns:
        First and last score of every pooled block, and the block's LLR
        ``log(n₊/n₋) − log(N₊/N₋)``, the counts with one misleading trial at each end.
    """
    found = pools(positives, negatives, misleading=1)
    return np.stack([found.start, found.end], axis=1).ravel(), np.repeat(found.llr, 2)


def _interpolated(state: State, pairs: Any, config: Config) -> Any:
    """Straight lines between the knots of each side, constant beyond them."""
    sides = zip(pairs, state["knots"], state["llrs"], strict=True)
    return namespace(pairs).stack([interpolate(*side) for side in sides])


def interpolate(values: Any, knots: Any, heights: Any) -> Any:
    """Piecewise linear map through (knot, height), constant beyond the ends; knots may repeat.

    Example:
        >>> interpolate(np.array([-1.0, 0.5, 9.0]), np.array([0.0, 1.0]), np.array([2.0, 4.0]))
        array([2., 3., 4.])
    """
    xp = namespace(values)
    inside = xp.clip(values, knots[0], knots[-1])
    upper = xp.clip(xp.searchsorted(knots, inside), 1, len(knots) - 1)
    width = knots[upper] - knots[upper - 1]
    share = (inside - knots[upper - 1]) / xp.where(width > 0, width, 1.0)
    share = xp.where(width > 0, share, 0.0)
    return heights[upper - 1] + share * (heights[upper] - heights[upper - 1])


def _identity_knots(_: Config) -> State:
    return {name: np.array([[-1.0, 1.0]] * 2) for name in ("knots", "llrs")}


CALIBRATIONS: dict[str, Stage] = {
    "paper": _affine(fit_paper),
    "effective_prior": _affine(fit_effective_prior),
    "multinomial": _affine(
        lambda pairs, codes, config: fit_multinomial(pairs, codes, _penalty(config, SMALL_PENALTY))
    ),
    "joint": _affine(
        lambda pairs, codes, config: fit_joint(
            pairs, codes, config["costs"], _penalty(config, SMALL_PENALTY)
        )
    ),
    "pav": Stage(_identity_knots, fit_isotonic, _interpolated),
}
"""Calibrations by name; a new recipe is a fit, or a function to a weight and a bias."""
