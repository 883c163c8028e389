"""Tandem detection cost against a plain restatement of both definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from lightning_sasv.decisions.costs import PRESETS, CostModel
from lightning_sasv.metrics.functional import ASVSPOOF5_RATES, ASVRates, eer, t_dcf
from tests.metrics.oracles import trials

Trials = tuple[np.ndarray, np.ndarray, np.ndarray]


def brute_force(cm: np.ndarray, labels: np.ndarray, coefficients: tuple[float, ...]) -> float:
    c0, c1, c2 = coefficients
    bona, spoof = cm[labels != 0], cm[labels == 0]
    costs = [c0 + c2]
    costs += [c0 + c1 * np.mean(bona <= t) + c2 * np.mean(spoof > t) for t in cm]
    return min(costs) / (c0 + min(c1, c2))


@given(trials())
def test_minimum_over_all_cm_thresholds(case: Trials) -> None:
    asv, cm, labels = case
    costs = PRESETS["asvspoof5"]
    threshold = eer(asv[labels == 1], asv[labels == 2]).threshold
    spoof, accepted, fa = (np.mean(asv[labels == k] >= threshold) for k in range(3))
    miss = 1 - accepted
    c0 = costs.weight_miss * miss + costs.weight_fa_nontarget * fa
    c1, c2 = costs.weight_miss - c0, costs.weight_fa_spoof * spoof
    if c1 < 0 or c2 == 0:
        return
    found = t_dcf(asv, cm, labels)
    assert found.asv_rates == pytest.approx((miss, fa, spoof))
    assert found.coefficients == pytest.approx((c0, c1, c2))
    assert found.min == pytest.approx(brute_force(cm, labels, (c0, c1, c2)), abs=1e-12)
    legacy = t_dcf(asv, cm, labels, version="legacy")
    assert legacy.min == pytest.approx(brute_force(cm, labels, (0.0, c1, c2)), abs=1e-12)
    at = found.threshold
    cost = c0 + c1 * np.mean(cm[labels != 0] <= at) + c2 * np.mean(cm[labels == 0] > at)
    assert cost / (c0 + min(c1, c2)) == pytest.approx(found.min, abs=1e-12)


def test_fixed_rates_of_the_verifier_replace_its_scores(pair: Trials) -> None:
    _, cm, labels = pair
    costs = PRESETS["asvspoof5"]
    c0 = costs.weight_miss * 0.01880141010575793 + costs.weight_fa_nontarget * 0.01881016557566423
    coefficients = (c0, costs.weight_miss - c0, costs.weight_fa_spoof * 0.4607082907604729)
    found = t_dcf(None, cm, labels, asv_rates=ASVSPOOF5_RATES)
    assert found.min == pytest.approx(brute_force(cm, labels, coefficients), abs=1e-12)


def test_useless_and_perfect_countermeasures() -> None:
    asv, labels = np.array([3.0, 2.0, 1.0, 0.0, 3.0, 2.0]), np.array([1, 1, 2, 2, 0, 0])
    assert t_dcf(asv, np.zeros(6), labels).min == 1
    assert t_dcf(asv, np.zeros(6), labels, version="legacy").min == 1
    assert t_dcf(asv, labels != 0, labels, version="legacy").min == 0


def test_what_makes_it_undefined_is_named() -> None:
    asv, cm, labels = [3.0, 1.0, 3.0], [1.0, 1.0, 0.0], [1, 2, 0]
    with pytest.raises(ValueError, match=r"needs the ASV scores \(asv\) or fixed error rates"):
        t_dcf(None, cm, labels)
    with pytest.raises(ValueError, match="t-DCF is undefined"):
        t_dcf(asv, cm, labels, asv_rates=ASVRates(0.1, 0.1, 0.0), version="legacy")
    with pytest.raises(ValueError, match="t-DCF is undefined"):
        t_dcf(asv, cm, labels, CostModel(1, 100, 1, 0.4, 0.4, 0.2), asv_rates=ASVRates(1, 1, 1))
    with pytest.raises(ValueError, match="unknown version '2018'"):
        t_dcf(asv, cm, labels, version="2018")  # type: ignore[arg-type]
