"""Calibration against scikit-learn, against its own optimality conditions, and on bad data."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from torch.nn.functional import logsigmoid

from lightning_sasv.fusion import FusionSystem
from lightning_sasv.fusion.calibration import (
    fit_effective_prior,
    fit_paper,
    pav_llrs,
    split_sides,
)
from lightning_sasv.fusion.logistic import weighted_logistic

SETTINGS = {"penalty": None, "effective_prior": 0.5, "cm_positives": "bonafide"}


def judge(x, y, weight, penalty):
    """Scikit-learn's optimum, converged: slope and intercept."""
    inverse = np.inf if penalty == 0 else 1 / penalty
    model = LogisticRegression(C=inverse, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    model.fit(x[:, None], y, sample_weight=weight)
    return model.coef_[0, 0], model.intercept_[0]


def sides(trials):
    """Scores and truth of the two calibrations, in plain numpy."""
    asv, cm, labels = (part.numpy() for part in trials)
    bonafide = labels != 0
    return [(asv[bonafide], labels[bonafide] == 1), (cm, bonafide)]


def check_sides(trials, found, recipe, **tolerance):
    """A calibration is scikit-learn's; the recipe gives weights, penalty and prior of a side."""
    weight, bias = found
    for side, (x, y) in enumerate(sides(trials)):
        weights, penalty, prior = recipe(y)
        slope, intercept = judge(x, y, weights, penalty)
        assert weight[side, side] == pytest.approx(slope, **tolerance)
        offset = intercept - math.log(prior / (1 - prior))
        assert bias[side] == pytest.approx(offset, **tolerance)
    assert weight[0, 1] == weight[1, 0] == 0


@pytest.mark.parametrize("penalty", [None, 0.0, 1.0, 30.0])
def test_paper_recipe_is_the_weighted_regression_of_scikit_learn(trials, pairs, penalty):
    found = fit_paper(pairs, trials[2].numpy(), SETTINGS | {"penalty": penalty})
    strength = 1.0 if penalty is None else penalty
    recipe = lambda y: (np.where(y, y.mean(), 1 - y.mean()), strength, y.mean())  # noqa: E731
    check_sides(trials, found, recipe, rel=1e-6)


@pytest.mark.parametrize("prior", [0.05, 0.5, 0.9])
def test_effective_prior_recipe_is_the_textbook_regression(trials, pairs, prior):
    found = fit_effective_prior(pairs, trials[2].numpy(), SETTINGS | {"effective_prior": prior})
    # Scikit-learn's tolerance is absolute, so it gets weights of the size of the data.
    recipe = lambda y: (np.where(y, prior / y.mean(), (1 - prior) / (1 - y.mean())), 0.0, prior)  # noqa: E731
    check_sides(trials, found, recipe, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_gradient_at_the_optimum_is_below_1e_9(trials, scale):
    asv, _, labels = (part.numpy() for part in trials)
    positives, negatives = scale * asv[labels == 1], scale * asv[labels == 2]
    weights = (0.3 / len(positives), 0.7 / len(negatives))
    slope, intercept = weighted_logistic(positives, negatives, weights, penalty=1e-3)
    parameters = torch.tensor([slope, intercept], dtype=torch.float64, requires_grad=True)
    positives, negatives = map(torch.from_numpy, (positives, negatives))
    loss = (
        -weights[0] * logsigmoid(parameters[0] * positives + parameters[1]).sum()
        - weights[1] * logsigmoid(-parameters[0] * negatives - parameters[1]).sum()
        + 0.5 * 1e-3 * parameters[0] ** 2
    )
    loss.backward()
    assert parameters.grad.norm().item() < 1e-9


@settings(max_examples=25)
@given(
    slope=st.floats(0.01, 100).flatmap(lambda x: st.sampled_from([x, -x])),
    shift=st.floats(-100, 100),
    seed=st.integers(0, 1000),
)
def test_calibrated_llrs_do_not_depend_on_the_units_of_the_scores(slope, shift, seed):
    generator = np.random.default_rng(seed)
    positives = generator.normal(1, 1, 60)
    negatives = generator.normal(-1, 1, 80)
    weights = (0.5 / 60, 0.5 / 80)
    a, b = weighted_logistic(positives, negatives, weights, 0.0)
    a2, b2 = weighted_logistic(slope * positives + shift, slope * negatives + shift, weights, 0.0)
    np.testing.assert_allclose(
        a2 * (slope * positives + shift) + b2, a * positives + b, rtol=1e-5, atol=1e-7
    )


def test_positives_of_the_cm_calibration_are_selectable(trials, pairs):
    labels = trials[2].numpy()
    bonafide = split_sides(pairs, labels, "bonafide")["cm"][0]
    target = split_sides(pairs, labels, "target")["cm"][0]
    assert len(bonafide) == int((labels != 0).sum())
    assert len(target) == int((labels == 1).sum())
    fits = [
        FusionSystem(calibration="paper", cm_positives=name).fit(*trials).calibration.weight
        for name in ("bonafide", "target")
    ]
    assert fits[0][0, 0] == fits[1][0, 0]
    assert fits[0][1, 1] != fits[1][1, 1]


@pytest.mark.parametrize("flip", [1.0, -1.0])
def test_separable_scores_without_penalty_are_an_error(flip):
    positives, negatives = np.array([1.0, 2.0]) * flip, np.array([0.0, 1.0]) * flip
    with pytest.raises(ValueError, match=r"separates the two classes.*penalty > 0"):
        weighted_logistic(positives, negatives, (0.5, 0.5), 0.0, "cm")


def test_separable_scores_with_penalty_have_a_finite_optimum():
    positives, negatives = np.array([1.0, 2.0]), np.array([-1.0, -2.0])
    slope, intercept = weighted_logistic(positives, negatives, (1.0, 1.0), 1.0)
    x = np.array([1.0, 2.0, -1.0, -2.0])
    expected = judge(x, x > 0, np.ones(4), 1.0)
    assert slope == pytest.approx(expected[0], rel=1e-7)
    assert intercept == pytest.approx(expected[1], abs=1e-7)


def test_pav_is_the_isotonic_regression_with_a_misleading_trial_at_each_end(trials):
    asv, _, labels = (part.numpy() for part in trials)
    asv = np.round(asv, 2)  # ties
    positives, negatives = asv[labels == 1], asv[labels == 2]
    x = np.concatenate([positives, negatives, [asv.min() - 1], [asv.max() + 1]])
    y = np.concatenate([np.ones(len(positives)), np.zeros(len(negatives)), [1.0], [0.0]])
    model = IsotonicRegression().fit(x, y)
    knots, llrs = pav_llrs(positives, negatives)
    probability = model.predict(knots)
    expected = np.log(probability / (1 - probability)) - np.log(
        (len(positives) + 1) / (len(negatives) + 1)
    )
    np.testing.assert_allclose(llrs, expected, atol=1e-9)
    assert (np.diff(llrs) >= 0).all()
    assert np.isfinite(llrs).all()


def test_pav_system_interpolates_its_knots(trials):
    system = FusionSystem(calibration="pav").fit(*trials)
    fused = system(*trials[:2])
    for side, values in enumerate((fused.asv_llr, fused.cm_llr)):
        stage = system.calibration
        expected = np.interp(trials[side], stage.knots[side], stage.llrs[side])
        np.testing.assert_allclose(values.numpy(), expected, atol=1e-10)
    far = system(torch.tensor([-1e6, 1e6]), torch.tensor([-1e6, 1e6]))
    assert torch.isfinite(far.sasv).all()
    assert far.asv_llr[0] == system.calibration.llrs[0, 0]
