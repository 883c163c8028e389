"""What decisions cost: by the labels, and as the LLRs promise."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from lightning_sasv.checks import Codes, Floats, as_labels, as_scores
from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.decisions.policy import POLICIES, accept, expected_cost
from lightning_sasv.errors import InputError
from lightning_sasv.trials import CLASS_ORDER, FusedScores, TrialClass


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

    Example:
        >>> float(empirical_cost([1, 0, 0], [1, 2, 0], "equal").cost)
        0.0
    """

    cost: np.float64
    normalised: np.float64
    p_miss: np.float64
    p_fa_nontarget: np.float64
    p_fa_spoof: np.float64


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


def empirical_cost(accepted: Any, labels: Any, costs: CostModel | str) -> EmpiricalCost:
    """What decisions cost by the true classes: the actual a-DCF.

    Args:
        accepted: Decisions, (trials,).
        labels: ``TrialClass`` codes or words, (trials,).
        costs: Costs and priors, or the name of a preset.

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
    rates = [_error_rate(actions, codes, *item) for item in weights.items()]
    parts = zip(weights.values(), rates, strict=True)
    cost = np.float64(math.fsum(weight * rate for weight, rate in parts if weight > 0))
    if model.default_cost > 0:
        normalised = cost / model.default_cost
    else:
        normalised = np.float64(math.inf if cost > 0 else 0.0)
    return EmpiricalCost(cost, normalised, *rates)


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
        empirical = empirical_cost(decisions, labels, costs)
        results[policy] = PolicyCost(risks.mean(), empirical, decisions.mean())
    return results


def _error_rate(accepted: Floats, codes: Codes, code: TrialClass, weight: float) -> np.float64:
    """Share of wrong decisions on the trials of a class; NaN for no trials without weight."""
    of_class = accepted[codes == code]
    if of_class.size == 0:
        if weight > 0:
            raise InputError(f"labels hold no {code} trial (code {int(code)})")
        return np.float64(math.nan)
    return np.float64((of_class == (code is not TrialClass.TARGET)).mean())
