"""Accept or reject: the paper's Bayes policy and the two policies it is compared with.

All policies see a trial through its two log-likelihood ratios ``a = log p(x|tar)/p(x|non)`` and
``c = log p(x|tar)/p(x|spf)`` and through the cost-weighted priors ``w_tar = C_miss π_tar``,
``w_non = C_fa,non π_non``, ``w_spf = C_fa,spf π_spf`` of a :class:`CostModel`. With equal costs the
latter are the priors, and the policies are literally those of the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, overload

import torch
from torch import Tensor

from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.errors import InputError
from lightning_sasv.trials import FusedScores


def nonlinear_score(
    asv_llr: Tensor, cm_llr: Tensor, nontarget: float | Tensor, spoof: float | Tensor
) -> Tensor:
    """Score of the optimal policy, ``−log[w_non e^(−a) + w_spf e^(−c)]``.

    Eq. fusionthreegaussiansnl of the paper with ``nontarget`` = 1 − ρ and ``spoof`` = ρ, and the
    left side of its Ineq. app_policy_gen_llr4 with the costs inside the weights. Computed as a
    log-sum-exp in float64, so that it is finite for every finite pair of LLRs.

    Args:
        asv_llr: ``a`` of each trial.
        cm_llr: ``c`` of each trial.
        nontarget: Weight ``w_non`` of at least 0.
        spoof: Weight ``w_spf`` of at least 0; +inf is the score if both weights are 0.
    """
    asv, cm = asv_llr.to(torch.float64), cm_llr.to(torch.float64)
    return -torch.logaddexp(_log(nontarget) - asv, _log(spoof) - cm)


def bayes_accept(asv_llr: Tensor, cm_llr: Tensor, costs: CostModel) -> Tensor:
    """The optimal policy: ``w_tar > w_non e^(−a) + w_spf e^(−c)`` (Ineq. app_policy_gen)."""
    score = nonlinear_score(asv_llr, cm_llr, costs.weight_fa_nontarget, costs.weight_fa_spoof)
    return score > -costs.log_weights[0]


def linear_accept(asv_llr: Tensor, cm_llr: Tensor, costs: CostModel) -> Tensor:
    """The linear policy: ``a + c > log(w_non w_spf / w_tar²)`` (Ineq. action_fused_lr).

    That is P_tar² > P_non P_spf for the posteriors of the cost-weighted priors.
    """
    if costs.weight_miss == 0:
        return torch.zeros_like(asv_llr, dtype=torch.bool)
    target, nontarget, spoof = costs.log_weights
    return asv_llr + cm_llr > nontarget + spoof - 2 * target


def utility_accept(asv_llr: Tensor, cm_llr: Tensor, costs: CostModel) -> Tensor:
    """The utility policy: ``P_tar > P_non`` and ``P_tar > P_spf`` (Ineq. app_policy_utility).

    The posteriors are those of the cost-weighted priors.
    """
    if costs.weight_miss == 0:
        return torch.zeros_like(asv_llr, dtype=torch.bool)
    target, nontarget, spoof = costs.log_weights
    return (asv_llr > nontarget - target) & (cm_llr > spoof - target)


POLICIES: dict[str, Callable[[Tensor, Tensor, CostModel], Tensor]] = {
    "bayes": bayes_accept,
    "linear": linear_accept,
    "utility": utility_accept,
}


def accept(fused: FusedScores, costs: CostModel | str, policy: str = "bayes") -> Tensor:
    """Whether each trial is accepted.

    Args:
        fused: LLRs of the trials; the fused score itself plays no part.
        costs: Costs and priors, or the name of a preset.
        policy: ``bayes``, ``linear`` or ``utility``.

    Returns:
        Booleans of the shape of the LLRs.

    Raises:
        InputError: An unknown policy or preset, or LLRs that are not finite or differ in shape.
    """
    if policy not in POLICIES:
        raise InputError(f"unknown policy {policy!r}; expected one of {', '.join(POLICIES)}")
    asv_llr, cm_llr = _llrs(fused)
    return POLICIES[policy](asv_llr, cm_llr, as_cost_model(costs))


def posteriors(fused: FusedScores, costs: CostModel | str) -> Tensor:
    """Posterior probabilities (..., 3) in the paper's order [P_spf, P_non, P_tar].

    Bayes' formula with the priors of ``costs``: P_tar ∝ π_tar, P_non ∝ π_non e^(−a) and
    P_spf ∝ π_spf e^(−c).
    """
    asv_llr, cm_llr = _llrs(fused)
    model = as_cost_model(costs)
    prior = [_log(p) for p in (model.p_spoof, model.p_nontarget, model.p_target)]
    logits = torch.stack([prior[0] - cm_llr, prior[1] - asv_llr, prior[2] + 0 * cm_llr], dim=-1)
    return torch.softmax(logits, dim=-1)


def expected_cost(fused: FusedScores, costs: CostModel | str, policy: str = "bayes") -> Tensor:
    """Posterior risk R(action | x) of the action taken on each trial.

    ``R(accept) = C_fa,non P_non + C_fa,spf P_spf``, ``R(reject) = C_miss P_tar`` (Eqs. app_cost1
    and app_cost2), the posteriors being those of the LLRs and the priors of ``costs``.

    Args:
        fused: LLRs of the trials.
        costs: Costs and priors, or the name of a preset.
        policy: See :func:`accept`.

    Returns:
        One risk per trial; no labels are needed. Their mean estimates the cost on trials whose
        classes occur as often as the priors say.
    """
    model = as_cost_model(costs)
    spoof, nontarget, target = posteriors(fused, model).unbind(dim=-1)
    risk_accept = model.c_fa_nontarget * nontarget + model.c_fa_spoof * spoof
    return torch.where(accept(fused, model, policy), risk_accept, model.c_miss * target)


def _llrs(fused: FusedScores) -> tuple[Tensor, Tensor]:
    """Both LLRs in float64, checked."""
    asv_llr = as_column("asv_llr", fused.asv_llr, torch.float64)
    cm_llr = as_column("cm_llr", fused.cm_llr, torch.float64)
    if asv_llr.shape != cm_llr.shape:
        raise InputError(
            f"asv_llr and cm_llr differ in shape: {tuple(asv_llr.shape)}, {tuple(cm_llr.shape)}"
        )
    for name, llrs in (("asv_llr", asv_llr), ("cm_llr", cm_llr)):
        if not bool(torch.isfinite(llrs).all()):
            raise InputError(f"{name} must be finite, got {llrs[~torch.isfinite(llrs)][0].item()}")
    return asv_llr, cm_llr


def as_column(name: str, values: Any, dtype: torch.dtype | None = None) -> Tensor:
    """A column as a tensor, or an error that names it."""
    try:
        return torch.as_tensor(values, dtype=dtype)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} must be numbers: {error}") from None


@overload
def _log(weight: float) -> float: ...
@overload
def _log(weight: Tensor) -> Tensor: ...
def _log(weight: float | Tensor) -> float | Tensor:
    """Natural logarithm, −inf for 0."""
    if isinstance(weight, Tensor):
        return weight.log()
    return math.log(weight) if weight > 0 else -math.inf
