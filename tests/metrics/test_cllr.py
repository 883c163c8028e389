"""Cllr and its parts against direct sums, scikit-learn's isotonic regression, and invariances."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from lightning_sasv.metrics.functional import cllr, cllr_decomposition, cllr_min
from tests.metrics import oracles
from tests.metrics.oracles import tied_scores


def isotonic_llrs(pos: np.ndarray, neg: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log-likelihood ratios of scikit-learn's isotonic posteriors."""
    scores = np.concatenate([pos, neg])
    truth = np.r_[np.ones(pos.size), np.zeros(neg.size)]
    posterior = np.clip(IsotonicRegression().fit_transform(scores, truth), 0, 1)
    with np.errstate(divide="ignore"):
        llr = np.log(posterior) - np.log1p(-posterior) - math.log(pos.size / neg.size)
    return llr[: pos.size], llr[pos.size :]


@given(st.lists(st.floats(-800, 800), min_size=1), st.lists(st.floats(-800, 800), min_size=1))
def test_against_the_direct_sum(pos: list[float], neg: list[float]) -> None:
    assert cllr(pos, neg) == pytest.approx(oracles.cllr(pos, neg), rel=1e-13)


@given(tied_scores(max_size=15), tied_scores(max_size=15))
def test_minimum_is_the_cost_of_isotonic_regression(pos: np.ndarray, neg: np.ndarray) -> None:
    calibrated = isotonic_llrs(pos, neg)
    assert cllr_min(pos, neg) == pytest.approx(oracles.cllr(*calibrated), abs=1e-12)
    assert cllr_decomposition(*calibrated).calib < 1e-12, "nothing is left to calibrate"


@given(tied_scores(), tied_scores(), st.floats(0.1, 5), st.floats(-5, 5))
def test_calibration_loss_is_never_negative_and_adds_up(
    pos: np.ndarray, neg: np.ndarray, scale: float, shift: float
) -> None:
    parts = cllr_decomposition(scale * pos + shift, scale * neg + shift)
    assert parts.calib >= 0
    assert parts.min + parts.calib == pytest.approx(parts.cllr, abs=1e-12)
    assert parts.min == pytest.approx(cllr_min(pos, neg), abs=1e-12), "an increasing map"
    assert parts.cllr == cllr(scale * pos + shift, scale * neg + shift)


def test_more_trials_than_a_block(rng: np.random.Generator) -> None:
    pos, neg = rng.normal(2, 2, 70_001), rng.normal(-2, 2, 140_000)
    assert cllr(pos, neg) == pytest.approx(oracles.cllr(pos, neg), rel=1e-13)
    w, v = rng.random(70_001), rng.random(140_000)
    losses = np.logaddexp(0, -pos), np.logaddexp(0, neg)
    expected = (np.average(losses[0], weights=w) + np.average(losses[1], weights=v)) / 2
    weighted = cllr(pos, neg, pos_weights=w, neg_weights=v)
    assert weighted == pytest.approx(expected / math.log(2), rel=1e-12)


def test_infinite_ratios_are_defined() -> None:
    assert cllr([-5000.0], [5000.0]) == pytest.approx(5000 / math.log(2)), "nothing overflows"
    assert cllr([math.inf], [-math.inf]) == cllr([5000.0], [-5000.0]) == 0
    assert cllr([0.0], [0.0]) == 1
    with pytest.warns(UserWarning, match="1 positive scores are -inf"):
        assert cllr([-math.inf, 3.0], [0.0]) == math.inf
    with pytest.warns(UserWarning, match="1 negative are \\+inf"):
        parts = cllr_decomposition([1.0, 2.0], [math.inf, 0.0])
    assert parts.cllr == parts.calib == math.inf
    assert math.isfinite(parts.min)


@given(tied_scores(1, 6), tied_scores(1, 6), st.data())
def test_whole_weights_are_repetitions(
    pos: np.ndarray, neg: np.ndarray, data: st.DataObject
) -> None:
    count = st.integers(0, 3)
    w, v = (
        np.array(data.draw(st.lists(count, min_size=x.size, max_size=x.size).filter(any)))
        for x in (pos, neg)
    )
    weighted = cllr_decomposition(pos, neg, pos_weights=w, neg_weights=v)
    literal = cllr_decomposition(np.repeat(pos, w), np.repeat(neg, v))
    assert weighted == pytest.approx(literal, abs=1e-12)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([-1.0, 1.0], "neg_weights must be finite"),
        ([0.0, 0.0], "neg_weights must be finite"),
        ([math.inf, 1.0], "neg_weights must be finite"),
        ([1.0], "differ in length"),
    ],
)
def test_impossible_weights_are_named(weights: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cllr([1.0], [0.0, 0.5], neg_weights=weights)
