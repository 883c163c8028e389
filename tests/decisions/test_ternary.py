"""Ternary classification of the appendix, and its reduction to the SASV policy."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_sasv.decisions import (
    CostModel,
    accept,
    sasv_cost_matrix,
    ternary_accept,
    ternary_decision,
    ternary_risks,
    ternary_utility_accept,
)
from lightning_sasv.trials import FusedScores

PARTS = st.tuples(*[st.floats(0.01, 1)] * 3)
COST = st.floats(0.05, 50)


def closed(parts):
    total = sum(parts)
    first, second = parts[0] / total, parts[1] / total
    return first, second, 1 - first - second


def fused_of(target, nontarget, spoof):
    """A trial with these posteriors at a flat prior."""
    llrs = [torch.tensor([math.log(target / other)]).double() for other in (nontarget, spoof)]
    return FusedScores(*llrs, sum(llrs))


@settings(max_examples=100, deadline=None)
@given(parts=PARTS, miss=COST, fa_nontarget=COST, fa_spoof=COST)
def test_free_confusion_of_the_rejected_classes_gives_the_sasv_policy(
    parts, miss, fa_nontarget, fa_spoof
):
    posterior = closed(parts)
    costs = CostModel(miss, fa_nontarget, fa_spoof)
    gap = fa_nontarget * posterior[1] + fa_spoof * posterior[2] - miss * posterior[0]
    if abs(gap) > 1e-9:
        accepted = ternary_accept(posterior, sasv_cost_matrix(costs)).item()
        assert accepted == (gap < 0)
        assert accepted == accept(fused_of(*posterior), costs).item()


@settings(max_examples=60, deadline=None)
@given(parts=PARTS, c12=COST, c13=COST, c21=COST, c31=COST)
def test_unequal_costs_of_a_miss_count_as_the_smaller(parts, c12, c13, c21, c31):
    p1, p2, p3 = closed(parts)
    matrix = [[0, c12, c13], [c21, 0, 0], [c31, 0, 0]]
    gap = c21 * p2 + c31 * p3 - min(c12, c13) * p1
    if abs(gap) > 1e-9:
        assert ternary_accept([p1, p2, p3], matrix).item() == (gap < 0)


@settings(max_examples=60, deadline=None)
@given(parts=PARTS, costs=st.lists(COST, min_size=9, max_size=9))
def test_risks_are_sums_over_the_true_class_and_the_decision_is_the_least(parts, costs):
    posterior = closed(parts)
    matrix = [costs[:3], costs[3:6], costs[6:]]
    expected = [sum(posterior[i] * matrix[i][j] for i in range(3)) for j in range(3)]
    risks = ternary_risks(posterior, matrix)
    assert risks.tolist() == pytest.approx(expected)
    decision = ternary_decision(posterior, matrix).item()
    assert expected[decision] == pytest.approx(min(expected))
    if decision == 0:
        assert ternary_accept(posterior, matrix).item()


def test_equal_risks_are_no_reason_to_accept():
    assert ternary_decision([0.5, 0.25, 0.25], sasv_cost_matrix(CostModel())).item() == 2
    assert not ternary_accept([0.5, 0.25, 0.25], sasv_cost_matrix(CostModel())).item()


@settings(max_examples=60, deadline=None)
@given(parts=PARTS, utility=COST)
def test_scalar_utilities_give_the_utility_policy(parts, utility):
    p1, p2, p3 = closed(parts)
    matrix = utility * torch.eye(3)
    if min(abs(p1 - p2), abs(p1 - p3)) > 1e-9:
        accepted = ternary_utility_accept([p1, p2, p3], matrix).item()
        assert accepted == (p1 > p2 and p1 > p3)
        assert accepted == accept(fused_of(p1, p2, p3), CostModel(), "utility").item()


def test_general_utilities_weigh_the_posteriors():
    matrix = [[2.0, 0.5, 0.0], [0.0, 1.0, 0.2], [0.0, 0.3, 4.0]]
    posterior = [0.5, 0.3, 0.2]
    utilities = [sum(posterior[i] * matrix[i][j] for i in range(3)) for j in range(3)]
    expected = utilities[0] > max(utilities[1:])
    assert ternary_utility_accept(posterior, matrix).item() == expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ternary_risks([0.5, 0.5], torch.eye(3)), r"shape \(..., 3\), got \(2,\)"),
        (lambda: ternary_risks([0.5, 0.5, 0.5], torch.eye(3)), "sum to one"),
        (lambda: ternary_risks([1.5, -0.5, 0.0], torch.eye(3)), "at least 0 and sum"),
        (lambda: ternary_risks([1.0, 0.0, 0.0], torch.eye(2)), r"shape \(3, 3\), got \(2, 2\)"),
        (lambda: ternary_risks([1.0, 0.0, 0.0], -torch.eye(3)), "at least 0, got -1"),
        (lambda: ternary_utility_accept([1.0, 0, 0], torch.ones(3, 3)), "on the diagonal"),
    ],
)
def test_bad_input_is_an_error(call, message):
    with pytest.raises(ValueError, match=message):
        call()
