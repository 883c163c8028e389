"""Detection costs against brute force and the a-dcf package."""

from __future__ import annotations

import math

import numpy as np
import pytest
from a_dcf import a_dcf as peer
from hypothesis import given
from hypothesis import strategies as st

from lightning_sasv.decisions.costs import PRESETS, CostModel
from lightning_sasv.metrics.functional import a_dcf, cm_dcf
from lightning_sasv.metrics.functional.dcf import macro_a_dcf
from tests.metrics import oracles
from tests.metrics.oracles import tied_scores, trials


def flat(tar: np.ndarray, non: np.ndarray, spf: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([spf, tar, non]), np.repeat([0, 1, 2], [spf.size, tar.size, non.size])


def peer_minimum(parts: tuple[np.ndarray, ...], costs: CostModel) -> float:
    model = peer.CostModel(
        Pspf=costs.p_spoof,
        Pnontrg=costs.p_nontarget,
        Ptrg=costs.p_target,
        Cmiss=costs.c_miss,
        Cfa_asv=costs.c_fa_nontarget,
        Cfa_cm=costs.c_fa_spoof,
    )
    fa_non, fa_spf, frr, _ = (np.array(x) for x in peer.compute_a_det_curve(*parts))
    total = model.Cmiss * model.Ptrg * frr + model.Cfa_asv * model.Pnontrg * fa_non
    return float(np.min(peer.normalize(total + model.Cfa_cm * model.Pspf * fa_spf, model)))


def cost_at(threshold: float, parts: tuple[np.ndarray, ...], costs: CostModel) -> float:
    tar, non, spf = parts
    rates = np.mean(tar <= threshold), np.mean(non > threshold), np.mean(spf > threshold)
    weights = (costs.weight_miss, costs.weight_fa_nontarget, costs.weight_fa_spoof)
    return sum(w * r for w, r in zip(weights, rates, strict=True)) / costs.default_cost


@pytest.mark.parametrize("preset", PRESETS)
@given(tied_scores(), tied_scores(), tied_scores())
def test_minimum_against_brute_force_and_the_package(
    preset: str, tar: np.ndarray, non: np.ndarray, spf: np.ndarray
) -> None:
    costs = PRESETS[preset]
    found = a_dcf(*flat(tar, non, spf), preset)
    weights = (costs.weight_miss, costs.weight_fa_nontarget, costs.weight_fa_spoof)
    assert found.min == pytest.approx(oracles.a_dcf(tar, non, spf, weights), abs=1e-12)
    assert found.min == pytest.approx(peer_minimum((tar, non, spf), costs), abs=1e-12)
    assert cost_at(found.threshold, (tar, non, spf), costs) == pytest.approx(found.min, abs=1e-12)


@given(st.lists(trials(max_per_class=4), min_size=1, max_size=3), st.booleans())
def test_macro_costs_are_those_of_every_threshold(
    cases: list[tuple[np.ndarray, ...]], infinite: bool
) -> None:
    parts = [(np.where(x == x.min(), -math.inf, x) if infinite else x, y) for x, _, y in cases]
    classes = [tuple(x[y == code] for code in (1, 2, 0)) for x, y in parts]
    costs, found = PRESETS["equal"], macro_a_dcf(parts, "equal")
    everywhere = [np.mean([cost_at(t, one, costs) for one in classes]) for x, _ in parts for t in x]
    accept_all = (costs.weight_fa_nontarget + costs.weight_fa_spoof) / costs.default_cost
    assert found.common == pytest.approx(min(*everywhere, accept_all), abs=1e-12)
    assert found.mean == pytest.approx(np.mean([a_dcf(*one, costs).min for one in parts]))


@pytest.mark.parametrize(("preset", "threshold"), [("a-dcf1", 0.511), ("asvspoof5", -0.458)])
def test_actual_cost_is_taken_at_the_bayes_threshold(
    preset: str, threshold: float, rng: np.random.Generator
) -> None:
    parts = tuple(rng.normal(mean, 2, 3000) for mean in (2, -2, -1))
    costs = PRESETS[preset]
    expected = cost_at(threshold, parts, costs)
    found = a_dcf(*flat(*parts), costs)
    assert found.actual == pytest.approx(expected, abs=2e-3)
    assert found.min == pytest.approx(peer_minimum(parts, costs), abs=1e-12)
    assert found.min <= found.actual
    elsewhere = a_dcf(*flat(*parts), costs, threshold=threshold).actual
    assert elsewhere == pytest.approx(expected, abs=1e-12)


@given(tied_scores(), tied_scores(), st.floats(0.05, 0.95))
def test_countermeasure_cost_is_that_of_two_classes(
    pos: np.ndarray, neg: np.ndarray, p_spoof: float
) -> None:
    costs = CostModel(1.0, 1.0, 10.0, 1 - p_spoof, 0.0, p_spoof)
    weights = (1 - p_spoof, 10 * p_spoof)
    found = cm_dcf(pos, neg, costs)
    expected = oracles.a_dcf(pos, neg, neg, (weights[0], 0.0, weights[1]))
    assert found.min == pytest.approx(expected, abs=1e-12)
    cut = -math.log(weights[0] / weights[1])
    actual = weights[0] * np.mean(pos <= cut) + weights[1] * np.mean(neg > cut)
    assert found.actual == pytest.approx(actual / min(weights), abs=1e-12)


def test_costs_that_cannot_be_normalised_are_named() -> None:
    with pytest.raises(ValueError, match="positive costs and priors"):
        a_dcf([1.0, 0.0, 0.0], [1, 2, 0], CostModel(0.0, 1.0, 1.0))
    with pytest.raises(ValueError, match="unknown cost model 'mine'"):
        a_dcf([1.0, 0.0, 0.0], [1, 2, 0], "mine")
