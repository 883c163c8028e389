"""What decisions cost: by the labels, and as the LLRs promise."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.decisions.policy import POLICIES, accept, as_column, expected_cost
from lightning_sasv.errors import InputError
from lightning_sasv.trials import FusedScores, TrialClass


class EmpiricalCost(NamedTuple):
    """What a set of decisions cost, each of shape () or (copies,).

    Attributes:
        cost: ``C_miss π_tar P_miss + C_fa,non π_non P_fa,non + C_fa,spf π_spf P_fa,spf``.
        normalised: The same over the cost of the better of "accept all" and "reject all", the
            actual a-DCF; 0 or inf where one of these is free of charge.
        p_miss: Share of rejected targets.
        p_fa_nontarget: Share of accepted nontargets.
        p_fa_spoof: Share of accepted spoofs; this or another share is NaN where the class has
            neither trials nor weight, as spoofs in plain speaker verification.
    """

    cost: Tensor
    normalised: Tensor
    p_miss: Tensor
    p_fa_nontarget: Tensor
    p_fa_spoof: Tensor


class PolicyCost(NamedTuple):
    """Expected and empirical cost of one policy.

    Attributes:
        expected: Mean posterior risk of the actions taken, () or (copies,).
        empirical: What they cost by the labels.
        accepted: Share of accepted trials.
    """

    expected: Tensor
    empirical: EmpiricalCost
    accepted: Tensor


def empirical_cost(accepted: Any, labels: Any, costs: CostModel | str) -> EmpiricalCost:
    """What decisions cost by the true classes: the actual a-DCF.

    Args:
        accepted: Decisions, (trials,) or (copies, trials).
        labels: ``TrialClass`` codes, (trials,).
        costs: Costs and priors, or the name of a preset.

    Raises:
        InputError: A decision other than 0 and 1, a code outside {0, 1, 2}, lengths that differ,
            or no trial of a class that has weight in ``costs``.
    """
    actions = as_column("accepted", accepted)
    codes = as_column("labels", labels).to(actions.device)
    if codes.ndim != 1 or actions.shape[-1:] != codes.shape:
        raise InputError(f"accepted has shape {tuple(actions.shape)}, labels {tuple(codes.shape)}")
    _check_values("accepted", actions, {0: "reject", 1: "accept"})
    _check_values("labels", codes, {int(code): str(code) for code in TrialClass})
    model = as_cost_model(costs)
    weights = {
        TrialClass.SPOOF: model.weight_fa_spoof,
        TrialClass.TARGET: model.weight_miss,
        TrialClass.NONTARGET: model.weight_fa_nontarget,
    }
    errors = {code: _error_rate(actions == 1, codes, code, weights[code]) for code in TrialClass}
    parts = [weight * errors[code] for code, weight in weights.items() if weight > 0]
    cost = torch.stack(parts).sum(dim=0) if parts else torch.zeros_like(errors[TrialClass.TARGET])
    blind = model.default_cost
    normalised = cost / blind if blind > 0 else torch.where(cost > 0, torch.inf, cost)
    rates = (errors[code] for code in (TrialClass.TARGET, TrialClass.NONTARGET, TrialClass.SPOOF))
    return EmpiricalCost(cost, normalised, *rates)


def compare_policies(
    fused: FusedScores, labels: Any, costs: CostModel | str
) -> dict[str, PolicyCost]:
    """Expected and empirical cost of every policy on the same trials."""
    results = {}
    for policy in POLICIES:
        decisions = accept(fused, costs, policy)
        results[policy] = PolicyCost(
            expected_cost(fused, costs, policy).mean(dim=-1),
            empirical_cost(decisions, labels, costs),
            decisions.double().mean(dim=-1),
        )
    return results


def _error_rate(accepted: Tensor, codes: Tensor, code: TrialClass, weight: float) -> Tensor:
    """Share of wrong decisions on the trials of a class; NaN for no trials without weight."""
    mask = codes == int(code)
    if weight > 0 and not bool(mask.any()):
        raise InputError(f"labels hold no {code} trial (code {int(code)})")
    wrong = accepted if code is not TrialClass.TARGET else ~accepted
    return wrong[..., mask].double().mean(dim=-1)


def _check_values(name: str, values: Tensor, known: dict[int, str]) -> None:
    """Raise at the first value that is none of the known ones."""
    unknown = torch.stack([values != value for value in known]).all(dim=0)
    if bool(unknown.any()):
        allowed = ", ".join(f"{value} ({word})" for value, word in known.items())
        raise InputError(f"{name} must be among {allowed}, got {values[unknown][0].item()}")
