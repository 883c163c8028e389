"""Calibration: maps from scores (or a pair of LLRs) to a pair of better LLRs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lightning_sasv.checks import Codes, Floats
from lightning_sasv.errors import InputError
from lightning_sasv.fusion.columns import PAIR, Columns
from lightning_sasv.fusion.densities import Config, Single, Stage, State
from lightning_sasv.fusion.logistic import (
    SMALL_PENALTY,
    Affine,
    fit_joint,
    fit_monotone,
    fit_multinomial,
    logistic_of_side,
    logit,
    minimise_pair_loss,
    multinomial_loss,
    standardised,
    weighted_logistic,
)
from lightning_sasv.metrics.functional.pav import pools
from lightning_sasv.numerics import interpolate, namespace
from lightning_sasv.trials import TrialClass

Sides = dict[str, tuple[Floats, Floats]]


def split_sides(scores: Sequence[Floats] | Floats, labels: Codes, cm_positives: str) -> Sides:
    """Positives and negatives of the ASV and of the CM calibration, by the name of the side.

    ASV: target against nontarget, spoof left out. CM: bona fide (or target) against spoof.

    Args:
        scores: ASV scores and CM scores, each (n,) or (columns, n).
        labels: ``TrialClass`` codes (n,).
        cm_positives: ``bonafide`` or ``target``.
    """
    target, spoof = labels == TrialClass.TARGET, labels == TrialClass.SPOOF
    positive = ~spoof if cm_positives == "bonafide" else target
    asv, cm = scores
    nontarget = labels == TrialClass.NONTARGET
    return {
        "asv": (asv[..., target], asv[..., nontarget]),
        "cm": (cm[..., positive], cm[..., spoof]),
    }


def fit_paper(scores: Floats, labels: Codes, config: Config) -> Affine:
    """Calibration as in the paper's published numbers.

    Every positive weighs π and every negative 1 − π, π being the fraction of positives; a penalty
    of ½‖w‖² (``penalty`` 1) is on the slopes; logit π is subtracted from the intercept.
    """
    return _two_sides(scores, labels, config, 1.0, lambda pos, neg: (pos / (pos + neg), 1.0, 1.0))


def fit_effective_prior(scores: Floats, labels: Codes, config: Config) -> Affine:
    """Prior-weighted logistic regression (Brümmer): weights P/N₊ and (1−P)/N₋, offset logit P.

    The log-loss is that of the posterior ``σ(ax + b + logit P)``, so that ax + b is an LLR
    whatever the proportions of the data. No penalty unless one is asked for.
    """
    prior = config["effective_prior"]
    return _two_sides(scores, labels, config, 0.0, lambda pos, neg: (prior, pos, neg))


def fit_single(scores: Floats, labels: Codes, config: Config) -> Affine:
    """One affine map of one score, of targets against all others, which both sides have.

    Weighted as :func:`fit_effective_prior`, with a ridge that matters to separable trials alone.
    The score stands in the place of both scores of a pair, so that the two LLRs are equal, and
    every rule of LLRs ends with that very one.
    """
    _one_each("single", config)
    if not np.array_equal(*scores):
        raise InputError("calibration: single takes one score, in the places of both of a pair")
    target, prior = labels == TrialClass.TARGET, config["effective_prior"]
    pos, neg = scores[0][target], scores[0][~target]
    weights = prior / len(pos), (1 - prior) / len(neg)
    ridge = _penalty(config, SMALL_PENALTY)
    slope, bias = weighted_logistic(pos, neg, weights, ridge, "sasv")
    return slope * np.eye(2), np.full(2, bias - logit(prior))


def _one_each(name: str, config: Config) -> None:
    """Refuse other columns than a pair."""
    columns = config.get("columns", PAIR)
    if not columns.one_each:
        raise InputError(
            f"calibration: {name} takes one ASV and one CM score, not {', '.join(columns.names)}; "
            "put a density before it, or take effective_prior"
        )


def _as_given(scores: Floats, _: Codes, config: Config) -> State:
    """Nothing is fitted to scores that are LLRs already."""
    _one_each("given", config)
    return {}


def _two_sides(
    scores: Floats,
    labels: Codes,
    config: Config,
    penalty: float,
    weigh: Callable[[int, int], tuple[float, float, float]],
) -> Affine:
    """Logistic regressions of each side on its own columns.

    Args:
        scores: Scores (columns, n).
        labels: ``TrialClass`` codes (n,).
        config: Settings.
        penalty: Ridge strength of the recipe.
        weigh: Prior P and divisors of P and 1 − P in the weights of a positive and of a negative,
            from how many there are of each.
    """
    columns = config.get("columns", PAIR)
    places = columns.sides()
    weight, bias = np.zeros((2, columns.scores)), np.zeros(2)
    parts = split_sides([scores[place] for place in places], labels, config["cm_positives"])
    for k, (place, (pos, neg)) in enumerate(zip(places, parts.values(), strict=True)):
        prior, share, other = weigh(pos.shape[1], neg.shape[1])
        weights, ridge = (prior / share, (1 - prior) / other), _penalty(config, penalty)
        names = columns.shown[place]
        weight[k, place], found = logistic_of_side(pos, neg, weights, ridge, names)
        bias[k] = found - logit(prior)
    return weight, bias


def _penalty(config: Config, default: float) -> float:
    """The penalty asked for, or the recipe's own."""
    return default if config["penalty"] is None else float(config["penalty"])


def _affine(recipe: Callable[[Floats, Codes, Config], Affine]) -> Stage:
    """``y = W x + b`` on all columns, fitted by a recipe."""

    def start(config: Config) -> State:
        asv, _, _ = config["columns"].counts
        weight = np.zeros((2, len(config["columns"].names)))
        weight[0, 0] = weight[1, asv] = 1.0
        return {"weight": weight, "bias": np.zeros(2)}

    def fit(scores: Floats, codes: Codes, config: Config) -> State:
        weight, bias = recipe(scores, codes, config)
        return {"weight": weight, "bias": bias}

    return Stage(
        start,
        fit,
        lambda state, scores, _: state["weight"] @ scores + state["bias"][:, None],
        _single_affine,
    )


def _single_affine(state: State, _: Config) -> Single:
    rows = [*zip(state["weight"].tolist(), state["bias"].tolist(), strict=True)]
    return lambda scores: [sum(map(operator.mul, weight, scores)) + bias for weight, bias in rows]


_LINEAR = _affine(
    lambda scores, codes, config: fit_multinomial(
        scores, codes, _penalty(config, SMALL_PENALTY), config["columns"]
    )
)


def _start_multinomial(config: Config) -> State:
    """The identity; ``quadratic`` and the moments are there unless the order is ``linear``."""
    state = _LINEAR.start(config)
    if config["order"] == "linear":
        return state
    columns: Columns = config["columns"]
    return state | {
        "quadratic": np.zeros((2, columns.scores, columns.scores)),
        "centre": np.zeros(len(columns.names)),
        "scale": np.ones(len(columns.names)),
    }


def _fit_curved(scores: Floats, codes: Codes, config: Config) -> State:
    """Multinomial logistic regression of all orders, on standardised columns z.

    ``llr = W z + zᵀ Q z + b``, Q upper triangular and 0 but for what the order allows.
    """
    if config["order"] == "linear":
        return _LINEAR.fit(scores, codes, config)
    columns, order = config["columns"], config.get("chosen_order", config["order"])
    basis, centre, scale = standardised(scores, columns, order)
    penalty = _penalty(config, SMALL_PENALTY)
    theta = minimise_pair_loss(basis, multinomial_loss(codes), penalty)
    quadratic = np.zeros((2, columns.scores, columns.scores))
    for k, (i, j) in enumerate(basis.pairs):
        quadratic[:, i, j] = theta[:, columns.scores + k]
    middle = slice(columns.scores, columns.scores + len(basis.pairs))
    state = {"weight": np.delete(theta, middle, axis=1)[:, :-1], "bias": theta[:, -1]}
    return state | {"quadratic": quadratic, "centre": centre, "scale": scale}


def _apply_multinomial(state: State, scores: Any, config: Config) -> Any:
    if "quadratic" not in state:
        return _LINEAR.apply(state, scores, config)
    standard = (scores - state["centre"][:, None]) / state["scale"][:, None]
    own = standard[: state["quadratic"].shape[-1]]
    curved = (state["quadratic"] @ own * own).sum(1)
    return state["weight"] @ standard + curved + state["bias"][:, None]


def _single_multinomial(state: State, config: Config) -> Single:
    affine = _single_affine(state, config)
    if "quadratic" not in state:
        return affine
    moments = [*zip(state["centre"].tolist(), state["scale"].tolist(), strict=True)]
    curves = state["quadratic"].tolist()

    def llrs(scores: Sequence[float]) -> Sequence[float]:
        standard = [
            (x - centre) / scale for x, (centre, scale) in zip(scores, moments, strict=True)
        ]
        curved = [
            sum(
                sum(map(operator.mul, row, standard)) * z
                for row, z in zip(curve, standard, strict=False)
            )
            for curve in curves
        ]
        return [*map(operator.add, affine(standard), curved)]

    return llrs


def fit_isotonic(scores: Floats, labels: Codes, config: Config) -> State:
    """The increasing map of each score that fits its LLR best, without any other assumption.

    The posterior is constant on each pooled block of scores, straight between blocks and constant
    beyond the ends. One positive below all scores and one negative above them (a misleading trial
    at either end) keep the LLRs finite. The number of knots is that of the data; the shorter side
    repeats its last one.
    """
    _one_each("pav", config)
    sides = split_sides(scores, labels, config["cm_positives"])
    curves = [pav_llrs(*side) for side in sides.values()]
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


def _single_interpolated(state: State, _: Config) -> Single:
    knots, llrs = state["knots"].tolist(), state["llrs"].tolist()
    return lambda scores: [*map(interpolate, scores, knots, llrs)]


def _identity_knots(_: Config) -> State:
    return {name: np.array([[-1.0, 1.0]] * 2) for name in ("knots", "llrs")}


CALIBRATIONS: dict[str, Stage] = {
    "paper": _affine(fit_paper),
    "effective_prior": _affine(fit_effective_prior),
    "multinomial": Stage(_start_multinomial, _fit_curved, _apply_multinomial, _single_multinomial),
    "joint": _affine(
        lambda scores, codes, config: fit_joint(
            scores, codes, config["costs"], _penalty(config, SMALL_PENALTY), config["columns"]
        )
    ),
    "monotone": _affine(
        lambda scores, codes, config: fit_monotone(
            scores, codes, _penalty(config, SMALL_PENALTY), config["columns"]
        )
    ),
    "pav": Stage(_identity_knots, fit_isotonic, _interpolated, _single_interpolated),
    "single": _affine(fit_single),
    "given": Stage(lambda _: {}, _as_given, lambda _, scores, __: scores[:2]),
}
"""Calibrations by name; a new recipe is a fit, or a function to a weight and a bias."""
