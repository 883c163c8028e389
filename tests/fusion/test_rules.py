"""Fusion rules and the search for ρ: formulas, order, range; the paper's rule and its losses."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from lightning_sasv.decisions import PRESETS, CostModel, accept, empirical_cost
from lightning_sasv.fusion import FusionSystem
from lightning_sasv.fusion.choice import eer_loss, grid_search, least_risk_rho
from lightning_sasv.fusion.densities import gaussian_log_prob
from lightning_sasv.fusion.rules import (
    fuse_cascade,
    fuse_linear,
    fuse_nonlinear,
    fuse_sigmoid_product,
    fuse_sigmoid_sum,
    fuse_sum,
)
from tests.metrics.oracles import asvspoof_eer

LLRS = st.floats(-1e6, 1e6)
RHOS = st.floats(0, 1)


def array(value):
    return np.array([value])


def scalar(value):
    return torch.tensor([value], dtype=torch.float64)


def exact_nonlinear(asv, cm, rho):
    """The formula in 60-digit arithmetic, where nothing overflows."""
    getcontext().prec, getcontext().Emax, getcontext().Emin = 60, 10**8, -(10**8)
    asv, cm, rho = Decimal(asv), Decimal(cm), Decimal(rho)
    return float(-((1 - rho) * (-asv).exp() + rho * (-cm).exp()).ln())


@given(asv=LLRS, cm=LLRS, rho=st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_nonlinear_rule_is_its_formula_to_the_last_digits(asv, cm, rho):
    """So it is finite and lies between its two sides, as the formula does."""
    for kind in (scalar, array):
        value = fuse_nonlinear(kind(asv), kind(cm), rho).item()
        assert value == pytest.approx(exact_nonlinear(asv, cm, rho), rel=1e-14, abs=1e-14)


@given(asv=LLRS, cm=LLRS, rho=RHOS, more=st.floats(0, 100))
def test_nonlinear_rule_never_falls_when_an_llr_rises(asv, cm, rho, more):
    base = fuse_nonlinear(scalar(asv), scalar(cm), rho)
    assert fuse_nonlinear(scalar(asv + more), scalar(cm), rho) >= base
    assert fuse_nonlinear(scalar(asv), scalar(cm + more), rho) >= base


@given(asv=LLRS, cm=LLRS)
def test_nonlinear_rule_reduces_to_asv_at_0_and_to_cm_at_1(asv, cm):
    for kind in (scalar, array):
        assert fuse_nonlinear(kind(asv), kind(cm), 0.0).item() == asv
        assert fuse_nonlinear(kind(asv), kind(cm), 1.0).item() == cm


def test_plain_rules_are_their_formulas():
    asv, cm = torch.tensor([0.3, -1.2]).double(), torch.tensor([2.0, -0.5]).double()
    for k in range(2):
        a, c = asv[k].item(), cm[k].item()
        sigma = [1 / (1 + math.exp(-x)) for x in (a, c)]
        assert fuse_sum(asv, cm)[k].item() == pytest.approx(a + c)
        assert fuse_linear(asv, cm)[k].item() == pytest.approx((a + c) / math.sqrt(6))
        assert fuse_sigmoid_sum(asv, cm)[k].item() == pytest.approx(a + sigma[1])
        assert fuse_sigmoid_product(asv, cm)[k].item() == pytest.approx(sigma[0] * sigma[1])
        assert fuse_cascade(asv, cm)[k].item() == min(a, c)


@given(asv=st.floats(-50, 50), cm=st.floats(-50, 50), threshold=st.floats(-50, 50))
def test_cascade_accepts_iff_both_sides_do(asv, cm, threshold):
    accepted = fuse_cascade(scalar(asv), scalar(cm)).item() > threshold
    assert accepted == (asv > threshold and cm > threshold)


@pytest.mark.parametrize("rho", [-0.1, 1.1, math.nan])
def test_rho_outside_the_unit_interval_is_an_error(rho):
    with pytest.raises(ValueError, match=rf"rho must lie in \[0, 1\], got {rho}"):
        fuse_nonlinear(scalar(0.0), scalar(0.0), rho)


def reference_search(loss):
    """The search in its plainest words: 5 rounds of 10 points, the last of equals wins."""
    low, high = 0.0, 1.0
    best, least = None, None
    for _ in range(5):
        for rho in np.linspace(low, high, 10):
            if least is None or loss(rho) < least or loss(rho) == least:
                best, least = rho, loss(rho)
        if abs(high - best) < abs(best - low):
            low = best
        else:
            high = best
        if not low < high:
            return best
    return best


@given(centre=st.floats(-0.2, 1.2), steps=st.integers(1, 200))
@example(centre=0.5, steps=1)  # all are equal, and the last of equals wins
def test_search_follows_the_rule_on_losses_with_plateaus(centre, steps):
    def loss(rho):
        return float(np.floor(steps * abs(rho - centre)))

    assert grid_search(loss) == reference_search(loss)


def test_no_candidate_is_evaluated_twice():
    asked = []
    grid_search(lambda rho: asked.append(rho) or abs(rho - 0.3))
    assert len(asked) == len(set(asked)) <= 50
    assert {0.0, 1.0} <= set(asked)


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.99, 1.0])
def test_eer_loss_is_the_sasv_eer_of_the_nonlinear_score(trials, pairs, rho):
    labels = trials[2].numpy()
    with np.errstate(divide="ignore"):
        asv, cm = pairs
        scores = -np.logaddexp(np.log(1 - rho) - asv, np.log(rho) - cm)
    expected, _ = asvspoof_eer(scores[labels == 1], scores[labels != 1])
    assert eer_loss(pairs, labels)(rho) == pytest.approx(expected, abs=1e-12)


def risk(fused, labels, costs, rho):
    """Empirical cost of deciding by the nonlinear score of ρ at the threshold of the costs."""
    accepted = fuse_nonlinear(fused.asv_llr, fused.cm_llr, rho) > -costs.log_beta
    return empirical_cost(accepted, labels, costs).cost.item()


RISK_COSTS = [*PRESETS.values(), CostModel(1.0, 5.0, 20.0, 0.5, 0.3, 0.2)]


@pytest.mark.parametrize("costs", RISK_COSTS)
@pytest.mark.parametrize("density", [None, "gaussian"])
def test_grid_risk_is_no_worse_than_any_candidate(trials, costs, density):
    labels = trials[2]
    system = FusionSystem(density, rule="nonlinear", rho="grid_risk", costs=costs).fit(*trials)
    fused = system(*trials[:2])
    least = risk(fused, labels, costs, system.rho.item())
    candidates = [*np.linspace(0, 1, 201), costs.spoof_share]
    assert least <= min(risk(fused, labels, costs, rho) for rho in candidates) + 1e-12


def test_risk_at_the_rho_of_the_costs_is_the_cost_of_the_bayes_policy(trials):
    fused = FusionSystem(density="gaussian").fit(*trials)(*trials[:2])
    for costs in RISK_COSTS:
        expected = empirical_cost(accept(fused, costs), trials[2], costs).cost.item()
        assert risk(fused, trials[2], costs, costs.spoof_share) == pytest.approx(expected)


def test_grid_risk_survives_llrs_beyond_the_range_of_exponentials(trials):
    llrs = np.array([[-1e6, 1e6, 3.0, -2.0, 1e6, -1e6], [1e6, -1e6, 1.0, 2.0, 1e6, -1e6]])
    rho = least_risk_rho(llrs, np.array([0, 2, 1, 2, 1, 0]), CostModel())
    assert 0 < rho < 1


def test_grid_risk_needs_costs_on_both_sides(trials):
    costs = CostModel(c_miss=0.0)
    with pytest.raises(ValueError, match="no rho has the least risk"):
        FusionSystem(rule="nonlinear", rho="grid_risk", costs=costs).fit(*trials)


def test_choices_of_rho(trials):
    costs = CostModel(1.0, 10.0, 20.0, 0.9, 0.05, 0.05)
    for rho, expected in (("priors", costs.spoof_share), (0.25, 0.25), (1, 1.0)):
        system = FusionSystem(rule="nonlinear", rho=rho, costs=costs)
        assert system.is_fitted
        assert system.rho.item() == expected
        assert system.fit(*trials).rho.item() == expected
    assert costs.spoof_share == pytest.approx(2 / 3)
    assert FusionSystem(rule="sum").rho is None


def test_gaussian_nonlinear_fusion_is_the_gaussian_back_end(trials, pairs):
    """Eq. app_gaussian: log p_tar / [(1−ρ) p_non + ρ p_spf]."""
    system = FusionSystem(density="gaussian", rule="nonlinear", rho=0.3).fit(*trials)
    fitted = system.arrays()
    log_prob = gaussian_log_prob(pairs, fitted["density.mean"], fitted["density.covariance"])
    spoof, target, nontarget = np.exp(log_prob)
    expected = np.log(target / (0.7 * nontarget + 0.3 * spoof))
    np.testing.assert_allclose(system(*trials[:2]).sasv, expected, rtol=1e-5, atol=1e-9)
