"""Accept or reject: the paper's Bayes policy and the two policies it is compared with.

All policies see a trial through its two log-likelihood ratios ``a = log p(x|tar)/p(x|non)`` and
``c = log p(x|tar)/p(x|spf)`` and through the cost-weighted priors ``w_tar = C_miss π_tar``,
``w_non = C_fa,non π_non``, ``w_spf = C_fa,spf π_spf`` of a :class:`CostModel`. With equal costs the
latter are the priors, and the policies are literally those of the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, overload

import torch
from torch import Tensor

from lightning_sasv.decisions.costs import CostModel
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
        p_fa_spoof: Share of accepted spoofs.
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


def nonlinear_score(
    asv_llr: Tensor, cm_llr: Tensor, nontarget: float | Tensor, spoof: float | Tensor
) -> Tensor:
    """Score of the optimal policy, ``−log[w_non e^(−a) + w_spf e^(−c)]``.

    Eq. fusionthreegaussiansnl of the paper with ``nontarget`` = 1 − ρ and ``spoof`` = ρ, and the
    left side of its Ineq. app_policy_gen_llr4 with the costs inside the weights. Computed as a
    log-sum-exp, so that it is finite for every finite pair of LLRs.

    Args:
        asv_llr: ``a`` of each trial.
        cm_llr: ``c`` of each trial.
        nontarget: Weight ``w_non`` of at least 0.
        spoof: Weight ``w_spf`` of at least 0; +inf is the score if both weights are 0.
    """
    return -torch.logaddexp(_log(nontarget) - asv_llr, _log(spoof) - cm_llr)


def bayes_accept(asv_llr: Tensor, cm_llr: Tensor, costs: CostModel) -> Tensor:
    """The optimal policy: ``w_tar > w_non e^(−a) + w_spf e^(−c)`` (Ineq. app_policy_gen)."""
    score = nonlinear_score(asv_llr, cm_llr, costs.weight_fa_nontarget, costs.weight_fa_spoof)
    return score > -_log(costs.weight_miss)


def linear_accept(asv_llr: Tensor, cm_llr: Tensor, costs: CostModel) -> Tensor:
    """The linear policy: ``a + c > log(w_non w_spf / w_tar²)`` (Ineq. action_fused_lr).

    That is P_tar² > P_non P_spf for the posteriors of the cost-weighted priors.
    """
    if costs.weight_miss == 0:
        return torch.zeros_like(asv_llr, dtype=torch.bool)
    threshold = _log(costs.weight_fa_nontarget) + _log(costs.weight_fa_spoof)
    return asv_llr + cm_llr > threshold - 2 * _log(costs.weight_miss)


def utility_accept(asv_llr: Tensor, cm_llr: Tensor, costs: CostModel) -> Tensor:
    """The utility policy: ``P_tar > P_non`` and ``P_tar > P_spf`` (Ineq. app_policy_utility).

    The posteriors are those of the cost-weighted priors.
    """
    if costs.weight_miss == 0:
        return torch.zeros_like(asv_llr, dtype=torch.bool)
    target = _log(costs.weight_miss)
    over_nontarget = asv_llr > _log(costs.weight_fa_nontarget) - target
    return over_nontarget & (cm_llr > _log(costs.weight_fa_spoof) - target)


POLICIES: dict[str, Callable[[Tensor, Tensor, CostModel], Tensor]] = {
    "bayes": bayes_accept,
    "linear": linear_accept,
    "utility": utility_accept,
}


def accept(fused: FusedScores, costs: CostModel, policy: str = "bayes") -> Tensor:
    """Whether each trial is accepted.

    Args:
        fused: LLRs of the trials; the fused score itself plays no part.
        costs: Costs and priors.
        policy: ``bayes``, ``linear`` or ``utility``.

    Returns:
        Booleans of the shape of the LLRs.

    Raises:
        InputError: An unknown policy.
    """
    if policy not in POLICIES:
        raise InputError(f"unknown policy {policy!r}; expected one of {', '.join(POLICIES)}")
    asv_llr, cm_llr = _llrs(fused)
    return POLICIES[policy](asv_llr, cm_llr, costs)


def posteriors(fused: FusedScores, costs: CostModel) -> Tensor:
    """Posterior probabilities (..., 3) in the paper's order [P_spf, P_non, P_tar].

    Bayes' formula with the priors of ``costs``: P_tar ∝ π_tar, P_non ∝ π_non e^(−a) and
    P_spf ∝ π_spf e^(−c).
    """
    asv_llr, cm_llr = _llrs(fused)
    prior = [_log(p) for p in (costs.p_spoof, costs.p_nontarget, costs.p_target)]
    logits = torch.stack([prior[0] - cm_llr, prior[1] - asv_llr, prior[2] + 0 * cm_llr], dim=-1)
    return torch.softmax(logits, dim=-1)


def expected_cost(fused: FusedScores, costs: CostModel, policy: str = "bayes") -> Tensor:
    """Posterior risk R(action | x) of the action taken on each trial.

    ``R(accept) = C_fa,non P_non + C_fa,spf P_spf``, ``R(reject) = C_miss P_tar`` (Eqs. app_cost1
    and app_cost2), the posteriors being those of the LLRs and the priors of ``costs``.

    Args:
        fused: LLRs of the trials.
        costs: Costs and priors.
        policy: See :func:`accept`.

    Returns:
        One risk per trial; no labels are needed. Their mean estimates the cost on trials whose
        classes occur as often as the priors say.
    """
    spoof, nontarget, target = posteriors(fused, costs).unbind(dim=-1)
    risk_accept = costs.c_fa_nontarget * nontarget + costs.c_fa_spoof * spoof
    return torch.where(accept(fused, costs, policy), risk_accept, costs.c_miss * target)


def empirical_cost(accepted: Any, labels: Any, costs: CostModel) -> EmpiricalCost:
    """What decisions cost by the true classes: the actual a-DCF.

    Args:
        accepted: Decisions, (trials,) or (copies, trials).
        labels: ``TrialClass`` codes, (trials,).
        costs: Costs and priors.

    Raises:
        InputError: A class without trials, an unknown code, or lengths that differ.
    """
    decisions = torch.as_tensor(accepted).to(torch.bool)
    codes = torch.as_tensor(labels).to(decisions.device)
    if codes.ndim != 1 or decisions.shape[-1:] != codes.shape:
        raise InputError(
            f"accepted has shape {tuple(decisions.shape)}, labels {tuple(codes.shape)}"
        )
    rates = [_acceptance(decisions, codes, code) for code in TrialClass]
    if len(codes) != sum(count for _, count in rates):
        unknown = codes[(codes != 0) & (codes != 1) & (codes != 2)][0].item()
        raise InputError(f"labels hold the code {unknown}; expected 0, 1 or 2")
    spoof, target, nontarget = (rate for rate, _ in rates)
    cost = (
        costs.weight_miss * (1 - target)
        + costs.weight_fa_nontarget * nontarget
        + costs.weight_fa_spoof * spoof
    )
    blind = costs.default_cost
    normalised = cost / blind if blind > 0 else torch.where(cost > 0, torch.inf, cost)
    return EmpiricalCost(cost, normalised, 1 - target, nontarget, spoof)


def compare_policies(fused: FusedScores, labels: Any, costs: CostModel) -> dict[str, PolicyCost]:
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


def _acceptance(decisions: Tensor, codes: Tensor, code: TrialClass) -> tuple[Tensor, int]:
    """Share of accepted trials of a class, and their number."""
    mask = codes == int(code)
    count = int(mask.sum())
    if count == 0:
        raise InputError(f"labels hold no {code} trial (code {int(code)})")
    return decisions[..., mask].sum(dim=-1).double() / count, count


def _llrs(fused: FusedScores) -> tuple[Tensor, Tensor]:
    """Both LLRs in float64, checked."""
    asv_llr = torch.as_tensor(fused.asv_llr, dtype=torch.float64)
    cm_llr = torch.as_tensor(fused.cm_llr, dtype=torch.float64)
    if asv_llr.shape != cm_llr.shape:
        raise InputError(
            f"asv_llr and cm_llr differ in shape: {tuple(asv_llr.shape)}, {tuple(cm_llr.shape)}"
        )
    for name, llrs in (("asv_llr", asv_llr), ("cm_llr", cm_llr)):
        if not bool(torch.isfinite(llrs).all()):
            raise InputError(f"{name} must be finite, got {llrs[~torch.isfinite(llrs)][0].item()}")
    return asv_llr, cm_llr


@overload
def _log(weight: float) -> float: ...
@overload
def _log(weight: Tensor) -> Tensor: ...
def _log(weight: float | Tensor) -> float | Tensor:
    """Natural logarithm, −inf for 0."""
    if isinstance(weight, Tensor):
        return weight.log()
    return math.log(weight) if weight > 0 else -math.inf
