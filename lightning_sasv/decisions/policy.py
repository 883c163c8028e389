"""Accept or reject: the paper's Bayes policy and the two policies it is compared with.

All policies see a trial through its two log-likelihood ratios ``a = log p(x|tar)/p(x|non)`` and
``c = log p(x|tar)/p(x|spf)`` and through the cost-weighted priors ``w_tar = C_miss π_tar``,
``w_non = C_fa,non π_non``, ``w_spf = C_fa,spf π_spf`` of a :class:`CostModel`. With equal costs the
latter are the priors, and the policies are literally those of the paper. Each policy *is* a score
and a threshold: a trial is accepted where the score is greater.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lightning_sasv.checks import as_finite, is_tensor
from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.errors import InputError, meant
from lightning_sasv.numerics import double, log_add, namespace, softmax
from lightning_sasv.trials import FusedScores

Score = Callable[[Any, Any], Any]
"""One score from two LLRs: floats, arrays or tensors."""


class Comparison(NamedTuple):
    """What a policy compares: the score of each trial, and the threshold it must exceed.

    Example:
        >>> Comparison(np.array([3.0]), 0.5).threshold
        0.5
    """

    score: Any
    threshold: float


def nonlinear_score(asv_llr: Any, cm_llr: Any, nontarget: Any, spoof: Any) -> Any:
    """Score of the optimal policy, ``−log[w_non e^(−a) + w_spf e^(−c)]``.

    Eq. fusionthreegaussiansnl of the paper with ``nontarget`` = 1 − ρ and ``spoof`` = ρ, and the
    left side of its Ineq. app_policy_gen_llr4 with the costs inside the weights. Computed as a
    log-sum-exp in float64, so that it is finite for every finite pair of LLRs.

    Args:
        asv_llr: ``a`` of each trial, array or tensor.
        cm_llr: ``c`` of each trial.
        nontarget: Weight ``w_non`` of at least 0.
        spoof: Weight ``w_spf`` of at least 0; +inf is the score if both weights are 0.

    Example:
        >>> nonlinear_score(np.array([2.0]), np.array([3.0]), 1.0, 0.0)
        array([2.])
    """
    return nonlinear_rule(nontarget, spoof)(double(asv_llr), double(cm_llr))


def nonlinear_rule(nontarget: Any, spoof: Any) -> Score:
    """:func:`nonlinear_score` at fixed weights: a function of two LLRs, plain floats among them.

    Example:
        >>> nonlinear_rule(1.0, 0.0)(2.0, 3.0)
        2.0
    """
    log_nontarget, log_spoof = _log(nontarget), _log(spoof)
    return lambda asv, cm: -log_add(log_nontarget - asv, log_spoof - cm)


def bayes_rule(costs: CostModel) -> tuple[Score, float]:
    """The optimal policy: ``w_tar > w_non e^(−a) + w_spf e^(−c)`` (Ineq. app_policy_gen).

    Returns:
        ``−log[(1−ρ̃) e^(−a) + ρ̃ e^(−c)]`` as a function of two LLRs, and ``−log β̃``, which it must
        exceed (Ineq. app_policy_gen_llr4).

    Example:
        >>> score, threshold = bayes_rule(CostModel())
        >>> round(score(2.0, 2.0) - threshold, 3)
        1.307
    """
    if costs.weight_miss == 0:  # a miss costs nothing
        return (lambda a, c: 0 * a), math.inf
    if costs.log_beta == math.inf:  # no false acceptance costs anything
        return (lambda a, c: 0 * a + math.inf), -math.inf
    rho = costs.spoof_share
    return nonlinear_rule(1 - rho, rho), -costs.log_beta


def abstain_rule(costs: CostModel) -> Score | None:
    """When to decide nothing: where that has less risk than accepting and than rejecting.

    ``R_accept = w_non e^(−a) + w_spf e^(−c)``, ``R_reject = w_tar`` and
    ``R_abstain = c_abstain (π_tar + π_non e^(−a) + π_spf e^(−c))``, each over p(x|tar).

    Returns:
        ``log min(R_accept, R_reject) − log R_abstain`` as a function of two LLRs, which is positive
        where nothing is to be decided; nothing where ``c_abstain`` is infinite.

    Example:
        >>> gain = abstain_rule(CostModel(c_abstain=0.1))
        >>> gain(0.0, 5.0) > 0, gain(9.0, 9.0) > 0
        (True, False)
    """
    if costs.c_abstain == math.inf:
        return None
    target, nontarget, spoof = costs.log_weights
    price = _log(costs.c_abstain)
    own_target, own_nontarget, own_spoof = (_log(prior) + price for prior in costs.priors)

    def gain(a: Any, c: Any) -> Any:
        accepting = log_add(nontarget - a, spoof - c)
        abstaining = log_add(log_add(own_nontarget - a, own_spoof - c), own_target + 0 * a)
        return namespace(a).minimum(accepting, target + 0 * a) - abstaining

    return gain


def abstain(fused: FusedScores, costs: CostModel | str) -> Any:
    """Whether nothing is decided on each trial, at the price ``c_abstain`` of the costs.

    Example:
        >>> fused = FusedScores(np.array([0.0, 9.0]), np.array([5.0, 9.0]), np.zeros(2))
        >>> abstain(fused, CostModel(c_abstain=0.1))
        array([ True, False])
    """
    (a, c), rule = _llrs(fused), abstain_rule(as_cost_model(costs))
    return namespace(a).zeros_like(a > 0) if rule is None else rule(a, c) > 0


def _bayes(a: Any, c: Any, costs: CostModel) -> Comparison:
    """The optimal policy, see :func:`bayes_rule`."""
    score, threshold = bayes_rule(costs)
    return Comparison(score(a, c), threshold)


def _linear(a: Any, c: Any, costs: CostModel) -> Comparison:
    """The linear policy: ``a + c > log(w_non w_spf / w_tar²)`` (Ineq. action_fused_lr).

    That is P_tar² > P_non P_spf for the posteriors of the cost-weighted priors.
    """
    target, nontarget, spoof = costs.log_weights
    return Comparison(a + c, nontarget + spoof - 2 * target)


def _utility(a: Any, c: Any, costs: CostModel) -> Comparison:
    """The utility policy: ``P_tar > P_non`` and ``P_tar > P_spf`` (Ineq. app_policy_utility).

    The posteriors are those of the cost-weighted priors.
    """
    target, nontarget, spoof = costs.log_weights
    score = namespace(a).minimum(a - nontarget + target, c - spoof + target)
    return Comparison(score, 0.0)


POLICIES: dict[str, Callable[[Any, Any, CostModel], Comparison]] = {
    "bayes": _bayes,
    "linear": _linear,
    "utility": _utility,
}


def compared(fused: FusedScores, costs: CostModel | str, policy: str = "bayes") -> Comparison:
    """The score of a policy and its threshold; arguments and errors as for :func:`accept`.

    Example:
        >>> fused = FusedScores(np.array([2.0]), np.array([1.0]), np.array([0.0]))
        >>> compared(fused, "equal", "linear")
        Comparison(score=array([3.]), threshold=0.0)
    """
    if policy not in POLICIES:
        expected = f"expected one of {', '.join(POLICIES)}{meant(policy, POLICIES)}"
        raise InputError(f"unknown policy {policy!r}; {expected}")
    (a, c), model = _llrs(fused), as_cost_model(costs)
    if model.weight_miss == 0:  # a miss costs nothing: every policy rejects
        return Comparison(0 * a, math.inf)
    return POLICIES[policy](a, c, model)


def accept(fused: FusedScores, costs: CostModel | str, policy: str = "bayes") -> Any:
    """Whether each trial is accepted; where :func:`abstain` says so nothing is decided instead.

    Args:
        fused: LLRs of the trials, arrays or tensors; the fused score itself plays no part.
        costs: Costs and priors, or the name of a preset.
        policy: ``bayes``, ``linear`` or ``utility``.

    Returns:
        Booleans of the shape of the LLRs.

    Raises:
        InputError: An unknown policy or preset, or LLRs that are not finite or differ in shape.

    Example:
        >>> fused = FusedScores(np.array([3.0, -2.0]), np.array([4.0, 5.0]), np.zeros(2))
        >>> accept(fused, "equal")
        array([ True, False])
    """
    score, threshold = compared(fused, costs, policy)
    return score > threshold


def posteriors(fused: FusedScores, costs: CostModel | str) -> Any:
    """Posterior probabilities (..., 3) in the paper's order [P_spf, P_non, P_tar].

    Bayes' formula with the priors of ``costs``: P_tar ∝ π_tar, P_non ∝ π_non e^(−a) and
    P_spf ∝ π_spf e^(−c).

    Example:
        >>> posteriors(FusedScores(np.zeros(1), np.full(1, 50.0), np.zeros(1)), "equal").round(3)
        array([[0. , 0.5, 0.5]])
    """
    asv_llr, cm_llr = _llrs(fused)
    model = as_cost_model(costs)
    target, nontarget, spoof = map(_log, model.priors)
    return softmax([spoof - cm_llr, nontarget - asv_llr, target + 0 * cm_llr])


def expected_cost(fused: FusedScores, costs: CostModel | str, policy: str = "bayes") -> Any:
    """Posterior risk R(action | x) of the action taken on each trial.

    ``R(accept) = C_fa,non P_non + C_fa,spf P_spf``, ``R(reject) = C_miss P_tar`` (Eqs. app_cost1
    and app_cost2), the posteriors being those of the LLRs and the priors of ``costs``;
    ``R(abstain) = c_abstain`` where the Bayes policy decides nothing.

    Args:
        fused: LLRs of the trials.
        costs: Costs and priors, or the name of a preset.
        policy: See :func:`accept`.

    Returns:
        One risk per trial; no labels are needed. Their mean estimates the cost on trials whose
        classes occur as often as the priors say.

    Example:
        >>> expected_cost(FusedScores(np.zeros(1), np.full(1, 50.0), np.zeros(1)), "equal").round(3)
        array([0.5])
    """
    model, risks = as_cost_model(costs), posteriors(fused, costs)
    risk_accept = model.c_fa_nontarget * risks[..., 1] + model.c_fa_spoof * risks[..., 0]
    accepted, xp = accept(fused, model, policy), namespace(risks)
    decided = xp.where(accepted, risk_accept, model.c_miss * risks[..., 2])
    if policy != "bayes" or model.c_abstain == math.inf:
        return decided
    return xp.where(abstain(fused, model), 0 * decided + model.c_abstain, decided)


def _llrs(fused: FusedScores) -> tuple[Any, Any]:
    """Both LLRs in float64, checked."""
    for name in ("asv_llr", "cm_llr"):
        values = getattr(fused, name)
        as_finite(values.reshape(-1) if is_tensor(values) else np.ravel(values), name)
    asv_llr, cm_llr = double(fused.asv_llr), double(fused.cm_llr)
    if asv_llr.shape != cm_llr.shape:
        raise InputError(
            f"asv_llr and cm_llr differ in shape: {tuple(asv_llr.shape)}, {tuple(cm_llr.shape)}"
        )
    return asv_llr, cm_llr


def _log(weight: Any) -> Any:
    """Natural logarithm, −inf for 0."""
    if is_tensor(weight):
        return weight.log()
    return math.log(weight) if weight > 0 else -math.inf
