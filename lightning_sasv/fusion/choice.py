"""What is chosen on development trials: order, penalty and transforms by cross-validation, and ρ.

Folds: the distinct speakers, sorted, number j in fold j mod K, K = min(10, speakers). Every trial
is scored once by the fit to the other folds; transforms, standardisation and class weights are
those of that training part. The criterion is the class-balanced cross-entropy
``L = ⅓ Σ_k mean over class k of −log P_k`` in nats, all folds pooled. Nothing is random.

The spoof prevalence ρ of the nonlinear rule is searched on the LLRs of all development trials.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lightning_sasv.checks import Codes, Floats
from lightning_sasv.decisions.costs import CostModel
from lightning_sasv.errors import InputError
from lightning_sasv.fusion.columns import DevTrials
from lightning_sasv.fusion.logistic import (
    ORDERS,
    SMALL_PENALTY,
    Basis,
    class_weights,
    minimise_pair_loss,
    multinomial_loss,
)
from lightning_sasv.fusion.rules import check_rho, fuse_nonlinear
from lightning_sasv.fusion.transforms import CHOSEN, apply_transforms, domain, fit_transforms
from lightning_sasv.metrics.functional import eer
from lightning_sasv.trials import TrialClass, claimed_speakers

PENALTIES = (1e-3, 1e-4, 1e-5, 1e-6)
MOST_FOLDS = 10
_BETTER, _WORTH_IT = 1e-6, 0.99
_DECREMENT = 1e-11

SEARCHES = ("grid_eer", "grid_risk")
"""Choices of ρ that need development trials."""

RHO_CHOICES = (*SEARCHES, "priors")
"""Names that ρ can be given by; a number is a fixed ρ."""

_SAME_RISK = 1e-12
"""Risks that differ by less are equal: they are sums in different orders."""

Loss = Callable[[float], float]
"""Maps a candidate of ρ to its loss."""


@dataclass(frozen=True)
class Candidate:
    """Settings that were tried, and the criterion they have.

    Attributes:
        order: Order of the features.
        penalty: Ridge.
        transforms: Transform of each column.
        criterion: Held-out class-balanced cross-entropy in nats.
    """

    order: str
    penalty: float
    transforms: tuple[str, ...]
    criterion: float


@dataclass(frozen=True)
class Choice:
    """What was chosen, and all that was tried, in the order in which it was.

    Attributes:
        best: The candidate that was chosen.
        tried: Every candidate.
    """

    best: Candidate
    tried: list[Candidate] = field(default_factory=list)


def folds_of(speakers: np.ndarray | None, codes: Codes) -> np.ndarray:
    """Number of the fold of each trial.

    Raises:
        InputError: No speakers, fewer than two, or a training part without one of the classes.

    Example:
        >>> folds_of(np.array(["b", "a", "b", "a"] * 3), np.arange(12) % 3)
        array([1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0])
    """
    if speakers is None:
        raise InputError(
            "cross-validation (cv) needs the enrolled speaker of each dev trial; give speakers, "
            "or fixed values for order, penalty and transform"
        )
    claimed = claimed_speakers(np.asarray(speakers).astype(str).tolist())
    names, places = np.unique(claimed, return_inverse=True)
    if len(names) < 2:
        raise InputError(
            f"cross-validation (cv) needs at least 2 dev speakers, got {len(names)}: "
            f"{', '.join(names)}"
        )
    folds = places % min(MOST_FOLDS, len(names))
    for fold in range(folds.max() + 1):
        for code in TrialClass:
            if not (codes[folds != fold] == code).any():
                left_out = ", ".join(names[fold :: folds.max() + 1])
                raise InputError(
                    f"cross-validation (cv): without the dev speaker(s) {left_out} there is no "
                    f"{code} trial to fit to"
                )
    return np.asarray(folds)


def held_out_llrs(
    trials: DevTrials,
    folds: np.ndarray,
    order: str,
    penalties: Sequence[float],
    transforms: Sequence[str],
) -> Floats:
    """LLR pairs of every trial by the fit to the other folds, (penalties, 2, trials).

    Each fit starts from that of the penalty before.
    """
    result = np.empty((len(penalties), 2, len(folds)))
    scores = replace(trials.columns, transforms=tuple(transforms)).used.scores
    for fold in range(folds.max() + 1):
        train, held = folds != fold, folds == fold
        codes = trials.codes[train]
        own = fit_transforms(transforms, trials.scores[:, train], codes, trials.columns.shown)
        columns = apply_transforms(own, trials.scores)
        centre, scale = columns[:, train].mean(axis=1), columns[:, train].std(axis=1)
        standard = (columns - centre[:, None]) / np.where(scale > 0, scale, 1.0)[:, None]
        basis, loss = Basis(standard[:, train], order, scores), multinomial_loss(codes)
        outside = Basis(standard[:, held], order, scores)
        theta = np.zeros((2, basis.size))
        for k, penalty in enumerate(penalties):
            theta = minimise_pair_loss(basis, loss, penalty, theta, decrement=_DECREMENT)
            parts = [theta @ outside.block(place) for place in outside.places]
            result[k][:, held] = np.concatenate(parts, axis=1)
    return result


def cross_entropy(llrs: Floats, codes: Codes) -> float:
    """Class-balanced cross-entropy ``⅓ Σ_k mean −log P_k`` of LLR pairs (2, trials), in nats."""
    return multinomial_loss(codes)(llrs, slice(None))[0]


def choose(
    trials: DevTrials, order: str, penalty: float | str | None, transforms: Sequence[str]
) -> Choice:
    """Settings by cross-validation; what is not ``cv`` is fixed.

    First order and penalty, all columns that are ``cv`` at ``none``: of the candidates in their
    order (linear, squares, quadratic; within each 1e-3, 1e-4, 1e-5, 1e-6) one replaces the best so
    far only if it is better by more than 1e-6 of it. Then the transforms, column by column: the
    better of ``logit`` (of bounded columns) and ``rank`` is taken if the criterion falls below
    0.99 of what it was.

    Args:
        trials: Development trials with speakers.
        order: One of the orders, or ``cv``.
        penalty: A number, ``None`` for the usual one, or ``cv``.
        transforms: A word for each column; those that are ``cv`` are chosen.

    Raises:
        InputError: As for :func:`folds_of`.
    """
    folds = folds_of(trials.speakers, trials.codes)
    words = tuple("none" if word == CHOSEN else word for word in transforms)
    fixed = SMALL_PENALTY if penalty is None else penalty
    penalties = PENALTIES if penalty == CHOSEN else (float(fixed),)
    tried: list[Candidate] = []

    def candidates(name: str, among: Sequence[float], words: Sequence[str]) -> list[Candidate]:
        llrs = held_out_llrs(trials, folds, name, among, words)
        losses = [cross_entropy(one, trials.codes) for one in llrs]
        settings = zip(among, losses, strict=True)
        return [Candidate(name, float(p), tuple(words), loss) for p, loss in settings]

    for name in ORDERS if order == CHOSEN else (order,):
        tried += candidates(name, penalties, words)
    best = tried[0]
    for one in tried:
        if one.criterion < best.criterion * (1 - _BETTER):
            best = one
    for column in (k for k, word in enumerate(transforms) if word == CHOSEN):
        others = list(_alternatives(best.transforms, column, trials.scores[column]))
        found = [candidates(best.order, [best.penalty], other)[0] for other in others]
        tried += found
        better = min(found, key=lambda one: one.criterion)
        if better.criterion < _WORTH_IT * best.criterion:
            best = better
    return Choice(best, tried)


def _alternatives(words: tuple[str, ...], column: int, values: Floats) -> Iterator[tuple[str, ...]]:
    """The words with another transform of one column."""
    for word in ("logit", "rank") if domain(values) is not None else ("rank",):
        yield (*words[:column], word, *words[column + 1 :])


def initial_rho(rho: float | str, costs: CostModel) -> float:
    """ρ before any fit: the fixed one, that of the priors, or ½ until it is searched.

    Args:
        rho: A number in [0, 1] or one of :data:`RHO_CHOICES`.
        costs: Costs and priors; ``priors`` is their cost-weighted spoof prevalence.

    Raises:
        InputError: An unknown name, or a number outside [0, 1].
    """
    if isinstance(rho, str):
        if rho not in RHO_CHOICES:
            raise InputError(
                f"unknown rho {rho!r}; expected {', '.join(RHO_CHOICES)}, or a fixed number"
            )
        return costs.spoof_share if rho == "priors" else 0.5
    return float(check_rho(rho))


def find_rho(search: str, llrs: Floats, labels: Codes, costs: CostModel) -> float:
    """ρ by one of :data:`SEARCHES` on development trials.

    Args:
        search: ``grid_eer`` (the paper's search, least SASV-EER) or ``grid_risk`` (least empirical
            decision risk).
        llrs: ASV and CM LLRs of the trials, (2, trials).
        labels: ``TrialClass`` codes, (trials,).
        costs: Costs and priors of ``grid_risk``.
    """
    if search == "grid_eer":
        return grid_search(eer_loss(llrs, labels))
    return least_risk_rho(llrs, labels, costs)


def grid_search(loss: Loss, rounds: int = 5, points: int = 10) -> float:
    """The paper's coarse-to-fine grid search over [0, 1].

    Each round tries ``points`` equidistant candidates; one that equals the best so far replaces
    it, so the last of equals wins. Then the end of the range that lies farther from the best
    moves to the best. The search stops early when the range is empty.

    Args:
        loss: Loss of a candidate; asked once for each.
        rounds: Number of rounds.
        points: Candidates per round.
    """
    known_loss = functools.cache(loss)
    low, high, best, least = 0.0, 1.0, 0.0, float("inf")
    for _ in range(rounds):
        for candidate in np.linspace(low, high, points).tolist():
            value = known_loss(candidate)
            if value <= least:
                best, least = candidate, value
        if high - best < best - low:
            low = best
        else:
            high = best
        if low >= high:
            break
    return best


def eer_loss(llrs: Floats, labels: Codes) -> Loss:
    """SASV-EER of the nonlinear score as a function of ρ.

    Args:
        llrs: ASV and CM LLRs of the trials, (2, trials).
        labels: ``TrialClass`` codes, (trials,).
    """
    target = labels == TrialClass.TARGET
    parts = llrs[:, target], llrs[:, ~target]

    def loss(rho: float) -> float:
        positives, negatives = (fuse_nonlinear(asv, cm, rho) for asv, cm in parts)
        return eer(positives, negatives).value

    return loss


def least_risk_rho(llrs: Floats, labels: Codes, costs: CostModel) -> float:
    """The ρ of least empirical decision risk, exactly.

    A trial is accepted iff ``(1−ρ) e^(−a) + ρ e^(−c) < β`` (Ineq. action_optimal_llr, with β the
    ratio of the cost-weighted priors). The left side is linear in ρ, so every trial changes sides
    at most once, and the risk is constant between these points: they are sorted and summed up.
    The middle of the widest interval of least risk is returned.

    Args:
        llrs: ASV and CM LLRs of the trials, (2, trials).
        labels: ``TrialClass`` codes, (trials,).
        costs: Costs and priors.

    Raises:
        InputError: Either the targets or all others have no weight, so that ρ does not matter.
    """
    if not math.isfinite(costs.log_beta):
        raise InputError(f"no rho has the least risk: the odds of {costs} are 0 or infinite")
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        start, end = np.exp(-llrs - costs.log_beta)  # accepted at ρ = 0 and at ρ = 1 if below 1
        rise, fall = (1 - start) / (end - start), 1 - (1 - end) / (start - end)
    turns = (start < 1) != (end < 1)
    change = np.where(end > start, rise, fall)[turns]
    target, nontarget, spoof = costs.weights
    price = class_weights(labels, (-target, nontarget, spoof))  # of accepting, not rejecting
    step = np.where(end < 1, price, -price)[turns]
    order = np.argsort(change, kind="stable")
    risk = np.append(0.0, np.cumsum(step[order]))
    edges = np.concatenate([[0.0], change[order], [1.0]])
    width = np.diff(edges)
    least = risk[width > 0].min()
    widest = np.argmax(np.where((width > 0) & (risk <= least + _SAME_RISK), width, -1.0))
    return float(edges[widest] + edges[widest + 1]) / 2
