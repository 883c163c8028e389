"""Three-class cross-entropy against scikit-learn and a general-purpose minimiser."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.metrics import log_loss

from lightning_sasv import checks
from lightning_sasv.decisions.costs import PRESETS, CostModel
from lightning_sasv.metrics.functional import cross_entropy


def plain(
    theta: np.ndarray, asv: np.ndarray, cm: np.ndarray, labels: np.ndarray, prior: np.ndarray
) -> float:
    logits = theta[0] * np.stack([-cm, 0 * cm, -asv], 1) + np.r_[theta[1:], 0] + np.log(prior)
    weights = (prior / np.bincount(labels, minlength=3))[labels]
    loss = log_loss(labels, softmax(logits, axis=1), sample_weight=weights)
    return float(loss / -(prior * np.log(prior)).sum())


@pytest.fixture
def llrs(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    labels = rng.choice([0, 1, 2], 400, p=[0.5, 0.2, 0.3])
    asv = np.where(labels == 2, -2.0, 2.0) + rng.normal(0, 2, 400)
    cm = np.where(labels == 0, -1.0, 3.0) + rng.normal(0, 2, 400)
    return asv, cm, labels


@pytest.mark.parametrize("preset", ["equal", "a-dcf1", "asvspoof5"])
def test_value_is_the_weighted_log_loss(preset: str, llrs: tuple[np.ndarray, ...]) -> None:
    model = PRESETS[preset]
    prior = np.array([model.p_spoof, model.p_target, model.p_nontarget])
    found = cross_entropy(*llrs, preset)
    assert found.value == pytest.approx(plain(np.array([1.0, 0, 0]), *llrs, prior), rel=1e-9)


def test_minimum_is_that_of_a_general_minimiser(llrs: tuple[np.ndarray, ...]) -> None:
    prior = np.full(3, 1 / 3)
    best = minimize(plain, [1.0, 0, 0], args=(*llrs, prior), method="Nelder-Mead", tol=1e-9)
    found = cross_entropy(*llrs)
    assert found.min == pytest.approx(best.fun, abs=1e-8)
    assert found.min < found.value
    asv, cm, labels = llrs
    assert cross_entropy(3 * asv + 1, 3 * cm - 2, labels).min == pytest.approx(found.min, abs=1e-9)


def test_blocks_of_trials_change_nothing(llrs: tuple[np.ndarray, ...]) -> None:
    whole = cross_entropy(*llrs)
    with mock.patch.object(checks, "BLOCK", 7):
        assert cross_entropy(*llrs) == pytest.approx(whole, abs=1e-12)


def test_useless_separable_and_large_ratios() -> None:
    labels = np.array([0, 1, 2] * 4)
    asv, cm = np.where(labels == 2, -1.0, 1.0), np.where(labels == 0, -1.0, 1.0)
    assert cross_entropy(0 * asv, 0 * cm, labels) == pytest.approx((1, 1), abs=1e-12)
    separable = cross_entropy(3 * asv, 3 * cm, labels)
    assert separable.min < 1e-6 < separable.value
    assert cross_entropy(5e4 * asv, 5e4 * cm, labels).value == 0, "nothing overflows"


def test_infinite_ratios_and_zero_priors_are_named() -> None:
    with pytest.raises(ValueError, match="cm_llr holds infinite values"):
        cross_entropy([1.0, 1.0, 1.0], [1.0, np.inf, 1.0], [0, 1, 2])
    with pytest.raises(ValueError, match="positive priors"):
        cross_entropy([1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [0, 1, 2], CostModel(1, 1, 1, 0.5, 0.5, 0))
