"""Choice of the spoof prevalence ρ of the nonlinear rule on development trials."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from lightning_sasv.checks import Codes, Floats
from lightning_sasv.decisions.costs import CostModel
from lightning_sasv.errors import InputError
from lightning_sasv.fusion.rules import check_rho, fuse_nonlinear
from lightning_sasv.metrics.functional import eer
from lightning_sasv.trials import CLASS_ORDER, TrialClass

SEARCHES = ("grid_eer", "grid_risk")
"""Choices of ρ that need development trials."""

RHO_CHOICES = (*SEARCHES, "priors")
"""Names that ρ can be given by; a number is a fixed ρ."""

_SAME_RISK = 1e-12
"""Risks that differ by less are equal: they are sums in different orders."""

Loss = Callable[[float], float]
"""Maps a candidate of ρ to its loss."""


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
    price = _price_of_accepting(labels, costs)
    step = np.where(end < 1, price, -price)[turns]
    order = np.argsort(change, kind="stable")
    risk = np.append(0.0, np.cumsum(step[order]))
    edges = np.concatenate([[0.0], change[order], [1.0]])
    width = np.diff(edges)
    least = risk[width > 0].min()
    widest = np.argmax(np.where((width > 0) & (risk <= least + _SAME_RISK), width, -1.0))
    return float(edges[widest] + edges[widest + 1]) / 2


def _price_of_accepting(labels: Codes, costs: CostModel) -> Floats:
    """What it adds to the risk to accept each trial instead of rejecting it."""
    target, nontarget, spoof = costs.weights
    price = np.zeros(len(labels))
    for code, weight in zip(CLASS_ORDER, (-target, nontarget, spoof), strict=True):
        price[labels == code] = weight / np.count_nonzero(labels == code)
    return price
