"""Policies of the appendix: their inequalities, their order, their costs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_sasv.decisions import (
    POLICIES,
    PRESETS,
    CostModel,
    accept,
    compare_policies,
    compared,
    empirical_cost,
    expected_cost,
    nonlinear_score,
    posteriors,
)
from lightning_sasv.trials import FusedScores

LLRS = st.floats(-40, 40)
COSTS = st.floats(0.05, 50)
PARTS = st.tuples(*[st.floats(0.01, 1)] * 3)


def model(costs, parts):
    total = sum(parts)
    p_target, p_nontarget = parts[0] / total, parts[1] / total
    return CostModel(*costs, p_target, p_nontarget, 1 - p_target - p_nontarget)


def trial(asv_llr, cm_llr):
    a, c = (np.asarray(x, dtype=np.float64).reshape(-1) for x in (asv_llr, cm_llr))
    return FusedScores(a, c, a + c)


def from_posterior(spoof, nontarget, target):
    """A trial that has these posteriors at a flat prior."""
    return trial(math.log(target / nontarget), math.log(target / spoof))


@settings(max_examples=150, deadline=None)
@given(asv=LLRS, cm=LLRS, costs=st.tuples(COSTS, COSTS, COSTS), parts=PARTS)
def test_bayes_policy_compares_two_risks_costs_least_and_accepts_least(asv, cm, costs, parts):
    """What it accepts, the utility policy accepts, and what that accepts, the linear one."""
    m, fused = model(costs, parts), trial(asv, cm)
    spoof, nontarget, target = posteriors(fused, m)[0].tolist()
    risk_accept = m.c_fa_nontarget * nontarget + m.c_fa_spoof * spoof
    risk_reject = m.c_miss * target
    if abs(risk_accept - risk_reject) > 1e-9 * (risk_accept + risk_reject):
        assert accept(fused, m).item() == (risk_reject > risk_accept)
    best = expected_cost(fused, m).item()
    assert all(best <= expected_cost(fused, m, policy).item() + 1e-12 for policy in POLICIES)
    accepted = [accept(fused, m, policy).item() for policy in ("bayes", "utility", "linear")]
    assert accepted == sorted(accepted)


@settings(max_examples=60, deadline=None)
@given(parts=PARTS)
def test_linear_and_utility_policies_are_their_inequalities_in_the_posteriors(parts):
    spoof, nontarget, target = (part / sum(parts) for part in parts)
    fused = from_posterior(spoof, nontarget, target)
    flat = CostModel()
    if abs(target**2 - nontarget * spoof) > 1e-12:
        assert accept(fused, flat, "linear").item() == (target**2 > nontarget * spoof)
    if min(abs(target - nontarget), abs(target - spoof)) > 1e-12:
        assert accept(fused, flat, "utility").item() == (target > max(nontarget, spoof))
    if abs(target - 0.5) > 1e-12:
        assert accept(fused, flat).item() == (target > 0.5)


def test_the_papers_example_is_accepted_by_the_linear_policy_alone():
    fused, flat = from_posterior(0.05, 0.65, 0.30), CostModel()
    np.testing.assert_allclose(posteriors(fused, flat), [[0.05, 0.65, 0.30]])
    assert accept(fused, flat, "linear").item()
    assert not accept(fused, flat).item()
    assert not accept(fused, flat, "utility").item()


def test_without_spoofs_the_policy_is_plain_asv_and_without_nontargets_plain_cm():
    llrs = np.linspace(-5, 5, 101)
    other = np.full_like(llrs, -1e6)
    asv_only = CostModel(2.0, 5.0, 7.0, 0.3, 0.7, 0.0)
    threshold = math.log(0.7 / 0.3 * 5 / 2)  # Ineq. app_policy_asv_llr2
    np.testing.assert_array_equal(accept(trial(llrs, other), asv_only), llrs > threshold)
    cm_only = CostModel(2.0, 5.0, 7.0, 0.3, 0.0, 0.7)
    threshold = math.log(0.7 / 0.3 * 7 / 2)
    np.testing.assert_array_equal(accept(trial(other, llrs), cm_only), llrs > threshold)


@pytest.mark.parametrize("policy", POLICIES)
def test_classes_without_weight(policy):
    fused = trial([-3.0, 0.0, 3.0], [3.0, 0.0, -3.0])
    nothing_to_lose = CostModel(c_fa_nontarget=0.0, c_fa_spoof=0.0)
    assert accept(fused, nothing_to_lose, policy).all()
    nothing_to_gain = CostModel(c_miss=0.0)
    assert not accept(fused, nothing_to_gain, policy).any()


def test_expected_cost_is_the_posterior_risk_of_the_action():
    costs = CostModel(1.0, 10.0, 20.0, 0.5, 0.3, 0.2)
    fused = trial([2.0, -1.0], [3.0, 4.0])
    for k in range(2):
        a, c = fused.asv_llr[k].item(), fused.cm_llr[k].item()
        joint = [0.2 * math.exp(-c), 0.3 * math.exp(-a), 0.5]
        spoof, nontarget, target = (x / sum(joint) for x in joint)
        risks = 1.0 * target, 10.0 * nontarget + 20.0 * spoof
        assert expected_cost(fused, costs)[k].item() == pytest.approx(min(risks))


def test_empirical_cost_counts_the_errors_of_each_class():
    accepted = torch.tensor([1, 1, 0, 0, 1, 0, 0, 0, 1, 0]).bool()
    labels = torch.tensor([1, 1, 1, 1, 2, 2, 0, 0, 0, 0])
    costs = CostModel(1.0, 10.0, 20.0, 0.9, 0.05, 0.05)
    result = empirical_cost(accepted, labels, costs)
    assert result.p_miss.item() == 0.5
    assert result.p_fa_nontarget.item() == 0.5
    assert result.p_fa_spoof.item() == 0.25
    assert result.cost.item() == pytest.approx(0.9 * 0.5 + 0.5 * 0.5 + 1.0 * 0.25)
    assert result.normalised.item() == pytest.approx(result.cost.item() / 0.9)
    words = np.array(["spoof", "target", "nontarget"])[labels]
    assert result == empirical_cost(accepted.tolist(), words, costs)


def test_normalised_cost_where_deciding_blindly_is_free():
    labels, free = torch.tensor([0, 1, 2]), CostModel(c_miss=0.0)
    assert empirical_cost(torch.tensor([0, 0, 0]), labels, free).normalised.item() == 0
    assert empirical_cost(torch.tensor([1, 0, 0]), labels, free).normalised.item() == math.inf


@pytest.mark.parametrize(
    ("absent", "costs"),
    [(0, CostModel(1.0, 2.0, 9.0, 0.4, 0.6, 0.0)), (2, CostModel(1.0, 9.0, 2.0, 0.4, 0.0, 0.6))],
    ids=["plain verification", "plain countermeasure"],
)
def test_a_class_without_weight_needs_no_trials(absent, costs):
    """The reductions at ρ = 0 and 1 have lists of two classes."""
    labels = torch.tensor([1, 1, 1, 1, *[2 - absent] * 2])
    result = empirical_cost([1, 1, 1, 0, 1, 0], labels, costs)
    assert result.cost.item() == pytest.approx(0.4 * 0.25 + 2 * 0.6 * 0.5)
    rates = result.p_fa_spoof, None, result.p_fa_nontarget
    assert math.isnan(rates[absent].item())
    assert rates[2 - absent].item() == 0.5
    with pytest.raises(ValueError, match=f"labels hold no {['spoof', '', 'nontarget'][absent]}"):
        empirical_cost([1, 1, 1, 0, 1, 0], labels, CostModel())


def test_costs_may_be_given_by_the_name_of_a_preset():
    fused, labels = trial([2.0, -1.0, 0.5], [3.0, 4.0, -0.5]), [1, 2, 0]
    for name, costs in PRESETS.items():
        for function in (accept, posteriors, expected_cost):
            np.testing.assert_array_equal(function(fused, name), function(fused, costs))
        assert compare_policies(fused, labels, name) == compare_policies(fused, labels, costs)


@settings(max_examples=60, deadline=None)
@given(asv=st.floats(-1e6, 1e6, width=32), cm=st.floats(-1e6, 1e6, width=32), rho=st.floats(0, 1))
def test_the_nonlinear_score_is_float64_whatever_the_llrs_are(asv, cm, rho):
    single = torch.tensor([asv], dtype=torch.float32), torch.tensor([cm], dtype=torch.float32)
    score = nonlinear_score(*single, 1 - rho, rho)
    assert score.dtype == torch.float64
    assert torch.equal(score, nonlinear_score(*(x.double() for x in single), 1 - rho, rho))


def test_compare_policies_is_accept_and_the_two_costs():
    generator = np.random.default_rng(0)
    fused = trial(generator.normal(0, 3, 500), generator.normal(0, 3, 500))
    labels = generator.integers(0, 3, 500)
    costs = PRESETS["a-dcf1"]
    table = compare_policies(fused, labels, costs)
    assert set(table) == {"bayes", "linear", "utility"}
    for policy, result in table.items():
        decisions = accept(fused, costs, policy)
        assert result.empirical == empirical_cost(decisions, labels, costs)
        assert result.expected.item() == pytest.approx(
            expected_cost(fused, costs, policy).mean().item()
        )
        assert result.accepted.item() == pytest.approx(decisions.mean())


@pytest.mark.parametrize("policy", POLICIES)
def test_tensors_give_tensors_of_the_same_numbers(policy):
    generator = np.random.default_rng(1)
    fused = trial(generator.normal(0, 3, (4, 50)), generator.normal(0, 3, (4, 50)))
    tensors = FusedScores(*map(torch.from_numpy, fused))
    costs = PRESETS["a-dcf1"]
    assert torch.equal(
        accept(tensors, costs, policy), torch.from_numpy(accept(fused, costs, policy))
    )
    assert isinstance(compared(tensors, costs, policy).score, torch.Tensor)
    for function in (posteriors, lambda *args: expected_cost(*args, policy)):
        found = function(tensors, costs)
        assert isinstance(found, torch.Tensor)
        np.testing.assert_allclose(found, function(fused, costs), rtol=1e-12)


@settings(max_examples=100, deadline=None)
@given(asv=LLRS, cm=LLRS, costs=st.tuples(COSTS, COSTS, COSTS), parts=PARTS)
def test_each_policy_is_its_inequality(asv, cm, costs, parts):
    """Ineqs. app_policy_gen, action_fused_lr and app_policy_utility, as they are written."""
    m, fused = model(costs, parts), trial(asv, cm)
    target, nontarget, spoof = m.weights
    both = nontarget * math.exp(-asv) + spoof * math.exp(-cm)
    gaps = {
        "bayes": math.log(target) - math.log(both),
        "linear": asv + cm - math.log(nontarget * spoof / target**2),
        "utility": min(asv - math.log(nontarget / target), cm - math.log(spoof / target)),
    }
    for policy, gap in gaps.items():
        score, threshold = compared(fused, m, policy)
        assert (score - threshold).item() == pytest.approx(gap, abs=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: accept(trial(0, 0), CostModel(), "greedy"), "unknown policy 'greedy'"),
        (lambda: accept(trial(math.nan, 0), CostModel()), "asv_llr must be finite .*got nan"),
        (lambda: accept(trial(0, math.inf), CostModel()), "cm_llr must be finite .*got inf"),
        (lambda: accept(trial([0, 1], 0), CostModel()), r"differ in shape: \(2,\), \(1,\)"),
        (lambda: empirical_cost([1, 0], [0, 1, 2], CostModel()), r"shape \(2,\), labels \(3,\)"),
        (lambda: empirical_cost([1, 0, 1], [0, 1, 1], CostModel()), "no nontarget trial"),
        (
            lambda: empirical_cost([1, 0, 1, 1], [0, 1, 2, 5], CostModel()),
            r"labels\[3\] is 5; expected 0 \(spoof\), 1 \(target\) or 2 \(nontarget\)",
        ),
        (lambda: empirical_cost([0.3, 0, 1], [0, 1, 2], CostModel()), "accepted must .* got 0.3"),
        (
            lambda: empirical_cost([1, 0], ["spoof", "x"], CostModel()),
            "expected spoof, target",
        ),
        (lambda: accept(trial(0, 0), "a-dcf2"), "unknown cost model 'a-dcf2'"),
        (
            lambda: accept(FusedScores("x", [0.0], [0.0]), CostModel()),
            "must hold real numbers",
        ),
    ],
)
def test_bad_input_is_an_error(call, message):
    with pytest.raises(ValueError, match=message):
        call()
