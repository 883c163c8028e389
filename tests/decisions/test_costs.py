"""Cost models: presets, derived weights, and what they refuse."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lightning_sasv.decisions import PRESETS, CostModel, as_cost_model, cost_preset
from lightning_sasv.errors import InputError


def test_presets_of_the_field():
    assert cost_preset("equal") == CostModel(1, 1, 1, 1 / 3, 1 / 3, 1 / 3)
    assert cost_preset("a-dcf1") == CostModel(1, 10, 20, 0.9, 0.05, 0.05)
    assert cost_preset("asvspoof5") == CostModel(1, 10, 10, 0.9405, 0.0095, 0.05)


@pytest.mark.parametrize(
    ("name", "rho", "threshold"),
    [("a-dcf1", 0.667, 0.511), ("asvspoof5", 0.840, -0.458), ("equal", 0.5, math.log(2))],
)
def test_effective_rho_and_threshold(name, rho, threshold):
    costs = cost_preset(name)
    assert costs.spoof_share == pytest.approx(rho, abs=5e-4)
    assert -costs.log_beta == pytest.approx(threshold, abs=5e-4)


def test_cost_of_deciding_blindly_and_odds_without_weight_on_one_side():
    assert cost_preset("a-dcf1").default_cost == pytest.approx(0.9)
    assert cost_preset("equal").default_cost == pytest.approx(1 / 3)
    assert CostModel(c_miss=0.0).log_beta == -math.inf
    free = CostModel(c_fa_nontarget=0.0, c_fa_spoof=0.0)
    assert free.log_beta == math.inf
    with pytest.raises(ValueError, match="rho is undefined"):
        _ = free.spoof_share


def test_cost_models_from_names_and_mappings():
    costs = PRESETS["a-dcf1"]
    assert as_cost_model(costs) is costs
    assert as_cost_model("a-dcf1") is costs
    assert as_cost_model({"c_fa_spoof": 2}) == CostModel(c_fa_spoof=2.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"c_miss": -1.0}, "c_miss must be a finite cost of at least 0, got -1"),
        ({"c_fa_spoof": math.inf}, "c_fa_spoof must be a finite cost"),
        ({"p_target": 1.5}, r"p_target must be a probability in \[0, 1\], got 1.5"),
        ({"p_target": 0.5, "p_nontarget": 0.5, "p_spoof": 0.5}, "must be 1, got 1.5"),
        ({"p_target": math.nan}, "p_target must be a probability"),
        ({"c_miss": math.nan}, "c_miss must be a finite cost of at least 0, got nan"),
        ({"p_spoof": -0.1}, r"p_spoof must be a probability in \[0, 1\], got -0.1"),
    ],
)
def test_impossible_costs_and_priors_are_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        CostModel(**arguments)
    with pytest.raises(ValueError, match=message):
        as_cost_model(arguments)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CostModel(c_miss="1"), "c_miss must be a finite cost of at least 0, got '1'"),
        (lambda: CostModel(p_spoof=None), r"p_spoof must be a probability .* got None"),
        (lambda: as_cost_model({"c_fa_spoof": "much"}), "must be numbers, got 'much' for c_fa_sp"),
        (lambda: as_cost_model(5), r"costs must be a CostModel, .* got 5"),
        (lambda: as_cost_model("a-dcf2"), "unknown cost model 'a-dcf2'"),
        (lambda: as_cost_model({"c_mis": 1.0}), "unknown fields"),
    ],
)
def test_what_is_no_cost_model_is_an_error_that_names_it(call, message):
    with pytest.raises(InputError, match=message):
        call()


@settings(max_examples=80, deadline=None)
@given(
    costs=st.tuples(*[st.just(0.0) | st.floats(1e-300, 100)] * 3),
    parts=st.tuples(*[st.floats(0.01, 1)] * 3),
)
@example(costs=(1e-300, 100.0, 100.0), parts=(0.01, 1.0, 1.0))
def test_weights_odds_and_blind_cost_belong_together(costs, parts):
    total = sum(parts)
    target, nontarget = parts[0] / total, parts[1] / total
    model = CostModel(*costs, target, nontarget, 1 - target - nontarget)
    weights = [math.exp(value) for value in model.log_weights]
    expected = [model.weight_miss, model.weight_fa_nontarget, model.weight_fa_spoof]
    assert weights == pytest.approx(expected, rel=1e-12)
    assert model.default_cost == min(expected[0], expected[1] + expected[2])
    if expected[0] > 0 and expected[1] + expected[2] > 0:
        log_odds = math.log(expected[0]) - math.log(sum(expected[1:]))
        assert model.log_beta == pytest.approx(log_odds, rel=1e-9, abs=1e-12)
        assert model.spoof_share * sum(expected[1:]) == pytest.approx(expected[2], rel=1e-9)


@pytest.mark.parametrize(("miss", "false"), [(1e-321, 100.0), (100.0, 1e-321)])
def test_odds_beyond_the_range_of_floats_have_a_logarithm(miss: float, false: float) -> None:
    model = CostModel(miss, false, false, 0.5, 0.25, 0.25)
    assert 700 < abs(model.log_beta) < 760
    assert (model.log_beta > 0) == (miss > false)


def test_a_price_of_abstaining_says_where_it_acts() -> None:
    assert CostModel().most_c_abstain == 0.5
    assert CostModel().idle_c_abstain is None
    assert CostModel(c_abstain=0.49).idle_c_abstain is None
    idle = CostModel(c_abstain=0.5).idle_c_abstain
    assert idle is not None
    assert "c_abstain 0.5 never acts" in idle
    assert "below 0.5" in idle
    assert CostModel(1.0, 5.0, 9.0, 0.5, 0.5, 0.0).most_c_abstain == pytest.approx(5 / 6)
    assert CostModel(c_miss=0.0).most_c_abstain == 0.0
    assert as_cost_model({"c_abstain": 0.25}).as_dict()["c_abstain"] == 0.25
    assert "c_abstain" not in CostModel().as_dict()
    for wrong in (-0.1, math.nan, "free"):
        with pytest.raises(InputError, match="c_abstain"):
            as_cost_model({"c_abstain": wrong})
