"""What decisions cost, by the labels and as the LLRs promise, and which a better score turns."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Codes, Floats, as_labels, as_scores
from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.decisions.policy import POLICIES, abstain, accept, expected_cost
from lightning_sasv.errors import InputError
from lightning_sasv.trials import CLASS_ORDER, FusedScores, TrialClass

Flags = NDArray[np.bool_]


class EmpiricalCost(NamedTuple):
    """What a set of decisions cost, numbers of numpy.

    Attributes:
        cost: ``C_miss π_tar P_miss + C_fa,non π_non P_fa,non + C_fa,spf π_spf P_fa,spf``.
        normalised: The same over the cost of the better of "accept all" and "reject all", the
            actual a-DCF; 0 or inf where one of these is free of charge.
        p_miss: Share of rejected targets.
        p_fa_nontarget: Share of accepted nontargets.
        p_fa_spoof: Share of accepted spoofs; this or another share is NaN where the class has
            neither trials nor weight, as spoofs in plain speaker verification.
        unsure: Share of targets, nontargets and spoofs on which nothing was decided. At a finite
            ``c_abstain`` the cost has ``c_abstain Σ π_k P_unsure,k`` added; the normaliser has not.

    Example:
        >>> float(empirical_cost([1, 0, 0], [1, 2, 0], "equal").cost)
        0.0
    """

    cost: np.float64
    normalised: np.float64
    p_miss: np.float64
    p_fa_nontarget: np.float64
    p_fa_spoof: np.float64
    unsure: tuple[float, float, float] = (0.0, 0.0, 0.0)


class PolicyCost(NamedTuple):
    """Expected and empirical cost of one policy.

    Attributes:
        expected: Mean posterior risk of the actions taken.
        empirical: What they cost by the labels.
        accepted: Share of accepted trials.

    Example:
        >>> PolicyCost._fields
        ('expected', 'empirical', 'accepted')
    """

    expected: np.float64
    empirical: EmpiricalCost
    accepted: np.float64


def empirical_cost(
    accepted: Any, labels: Any, costs: CostModel | str, unsure: Any = None
) -> EmpiricalCost:
    """What decisions cost by the true classes: the actual a-DCF.

    Args:
        accepted: Decisions, (trials,).
        labels: ``TrialClass`` codes or words, (trials,).
        costs: Costs and priors, or the name of a preset.
        unsure: Where nothing was decided, (trials,); by default nowhere.

    Raises:
        InputError: A decision other than 0 and 1, an unknown label, lengths that differ, or no
            trial of a class that has weight in ``costs``.

    Example:
        >>> labels = ["target", "target", "nontarget", "spoof"]
        >>> found = empirical_cost([1, 0, 1, 0], labels, "equal")
        >>> float(found.p_miss), float(found.p_fa_nontarget), float(found.p_fa_spoof)
        (0.5, 1.0, 0.0)
    """
    actions, codes = as_scores(accepted, "accepted"), as_labels(labels)
    if actions.shape != codes.shape:
        raise InputError(f"accepted has shape {actions.shape}, labels {codes.shape}")
    unknown = (actions != 0) & (actions != 1)
    if unknown.any():
        raise InputError(
            f"accepted must be among 0 (reject), 1 (accept), got {actions[unknown][0]}"
        )
    model = as_cost_model(costs)
    weights = dict(zip(CLASS_ORDER, model.weights, strict=True))
    undecided = np.zeros(len(codes), dtype=bool) if unsure is None else np.asarray(unsure, bool)
    rates = [_error_rate(actions, codes, undecided, *item) for item in weights.items()]
    parts = [w * rate for w, rate in zip(weights.values(), rates, strict=True) if w > 0]
    shares = [share_of(undecided, codes, code) for code in CLASS_ORDER]
    if unsure is not None and model.c_abstain < math.inf:
        paid = zip(model.priors, shares, strict=True)
        parts += [np.float64(model.c_abstain * p * share) for p, share in paid if p > 0]
    cost = np.float64(math.fsum(parts))
    if model.default_cost > 0:
        normalised = cost / model.default_cost
    else:
        normalised = np.float64(math.inf if cost > 0 else 0.0)
    miss, nontarget, spoof = rates
    unsure_by_class = shares[0], shares[1], shares[2]
    return EmpiricalCost(cost, normalised, miss, nontarget, spoof, unsure_by_class)


def share_of(flags: Any, codes: Codes, code: TrialClass) -> float:
    """Share of the trials of a class that are flagged; NaN where it has none.

    Example:
        >>> share_of(np.array([True, False]), np.array([1, 1]), TrialClass.TARGET)
        0.5
    """
    of_class = flags[codes == code]
    return float(of_class.mean()) if of_class.size else math.nan


def worth_below(unsure: Any, labels: Any, costs: CostModel | str) -> float:
    """The price of deciding nothing below which it pays to take accepted trials back.

    False acceptances saved over what is taken back, both at the priors:
    ``(C_non π_non u_non + C_spf π_spf u_spf) / Σ π_k u_k`` with u_k the shares taken back.

    Args:
        unsure: Accepted trials that are taken back, (trials,).
        labels: ``TrialClass`` codes or words, (trials,).
        costs: Costs and priors, or the name of a preset.

    Returns:
        The price; NaN where nothing is taken back.

    Example:
        >>> worth_below([True, True, False], ["target", "spoof", "nontarget"], "equal")
        0.5
    """
    model, codes, flags = as_cost_model(costs), as_labels(labels), np.asarray(unsure, bool)
    saves = 0.0, model.c_fa_nontarget, model.c_fa_spoof
    shares = [np.nan_to_num(share_of(flags, codes, code)) for code in CLASS_ORDER]
    taken = [prior * share for prior, share in zip(model.priors, shares, strict=True)]
    saved = math.fsum(cost * share for cost, share in zip(saves, taken, strict=True))
    return float(saved / math.fsum(taken)) if any(taken) else math.nan


def compare_policies(
    fused: FusedScores, labels: Any, costs: CostModel | str
) -> dict[str, PolicyCost]:
    """Expected and empirical cost of every policy on the same trials.

    Example:
        >>> llrs = np.array([3.0, -2.0, 1.0])
        >>> found = compare_policies(FusedScores(llrs, llrs, llrs), [1, 2, 0], "equal")
        >>> {policy: round(float(one.empirical.cost), 3) for policy, one in found.items()}
        {'bayes': 0.333, 'linear': 0.333, 'utility': 0.333}
    """
    results = {}
    for policy in POLICIES:
        decisions = as_scores(accept(fused, costs, policy), "decisions")
        risks = as_scores(expected_cost(fused, costs, policy), "risks")
        unsure = as_scores(abstain(fused, costs), "unsure") if policy == "bayes" else None
        empirical = empirical_cost(decisions, labels, costs, unsure)
        results[policy] = PolicyCost(risks.mean(), empirical, decisions.mean())
    return results


def _error_rate(
    accepted: Floats, codes: Codes, undecided: Any, code: TrialClass, weight: float
) -> np.float64:
    """Share of wrong decisions on the trials of a class; NaN for no trials without weight."""
    of_class, own = accepted[codes == code], undecided[codes == code]
    if of_class.size == 0:
        if weight > 0:
            raise InputError(f"labels hold no {code} trial (code {int(code)})")
        return np.float64(math.nan)
    return np.float64(((of_class == (code is not TrialClass.TARGET)) & ~own).mean())


def inversions(accepted: Flags, scores: Floats) -> Flags:
    """Rejected trials that are at least as good in every score as some accepted one.

    Of a pair the least second score of all accepted trials up to a first score decides; of more
    columns only accepted trials that no other one is at or below in every score are looked at.

    Args:
        accepted: Decisions (trials,).
        scores: Scores (columns, trials), higher is better.

    Returns:
        Which trials these are, (trials,).

    Example:
        >>> inversions(np.array([True, False, False]), np.array([[1, 2, 0], [5, 5, 9]])).tolist()
        [False, True, False]
    """
    found = np.zeros(len(accepted), dtype=bool)
    rejected, good = scores[:, ~accepted], scores[:, accepted]
    found[~accepted] = (_as_good_pairs if len(scores) == 2 else _as_good)(rejected, good)
    return found


def _as_good_pairs(rejected: Floats, good: Floats) -> Flags:
    first, second = good[:, np.argsort(good[0])]
    least = np.append(np.inf, np.minimum.accumulate(second))
    return rejected[1] >= least[np.searchsorted(first, rejected[0], side="right")]


def _as_good(rejected: Floats, good: Floats) -> Flags:
    found = np.zeros(rejected.shape[1], dtype=bool)
    while good.shape[1]:
        least = good[:, good.sum(axis=0).argmin(), None]
        found |= (rejected >= least).all(axis=0)
        good = good[:, (good < least).any(axis=0)]
    return found
