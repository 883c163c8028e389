"""Calibrations against scikit-learn, scipy, autograd and brute force, and on bad data."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from torch.nn.functional import logsigmoid

from lightning_sasv.decisions import PRESETS, CostModel, accept, cost_preset, inversions
from lightning_sasv.fusion import FusionSystem, build_system
from lightning_sasv.fusion.calibration import fit_effective_prior, fit_paper, pav_llrs, split_sides
from lightning_sasv.fusion.columns import Columns
from lightning_sasv.fusion.logistic import (
    Basis,
    fit_joint,
    fit_monotone,
    fit_multinomial,
    minimise_pair_loss,
    multinomial_loss,
    weighted_logistic,
)
from lightning_sasv.trials import FusedScores

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


def test_multinomial_is_scikit_learns_balanced_softmax_regression(trials, pairs):
    weight, bias = fit_multinomial(pairs, trials[2].numpy(), penalty=0.0)
    default, _ = fit_multinomial(pairs, trials[2].numpy())
    np.testing.assert_allclose(default, weight, rtol=1e-6)  # the default penalty cannot be seen
    model = LogisticRegression(
        C=np.inf, class_weight="balanced", solver="newton-cg", tol=1e-10, max_iter=1000
    )
    model.fit(pairs.T, trials[2].numpy())
    spoof, target, nontarget = range(3)
    expected = [model.coef_[target] - model.coef_[other] for other in (nontarget, spoof)]
    offset = [model.intercept_[target] - model.intercept_[other] for other in (nontarget, spoof)]
    np.testing.assert_allclose(weight, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(bias, offset, rtol=1e-5, atol=1e-6)


def joint_loss(parameters, pairs, labels, costs):
    """The joint log-loss, written out class by class."""
    a1, b1, a2, b2 = parameters
    weights = torch.tensor(
        [costs.weight_fa_spoof, costs.weight_miss, costs.weight_fa_nontarget], dtype=torch.float64
    )
    spoof, target, nontarget = weights / weights.sum()
    rho = spoof / (spoof + nontarget)
    asv, cm = a1 * pairs[0] + b1, a2 * pairs[1] + b2
    score = -torch.log((1 - rho) * torch.exp(-asv) + rho * torch.exp(-cm))
    logits = score + torch.log(target / (1 - target))
    return -(
        target * logsigmoid(logits[labels == 1]).mean()
        + nontarget * logsigmoid(-logits[labels == 2]).mean()
        + spoof * logsigmoid(-logits[labels == 0]).mean()
    )


@pytest.mark.parametrize("name", ["a-dcf1", "asvspoof5", "equal"])
def test_joint_is_a_stationary_point_that_no_other_start_beats(trials, pairs, name):
    labels, costs = trials[2], cost_preset(name)
    weight, bias = fit_joint(pairs, labels.numpy(), costs, penalty=0.0)
    assert weight[0, 1] == weight[1, 0] == 0
    values = [weight[0, 0], bias[0], weight[1, 1], bias[1]]
    found, pairs = torch.tensor(values, requires_grad=True), torch.from_numpy(pairs)
    value = joint_loss(found, pairs, labels, costs)
    value.backward()
    assert found.grad.norm().item() < 1e-8

    def plain(parameters):
        tensor = torch.tensor(parameters, dtype=torch.float64, requires_grad=True)
        loss = joint_loss(tensor, pairs, labels, costs)
        loss.backward()
        return loss.item(), tensor.grad.numpy()

    for start in ([1.0, 0, 1.0, 0], [5.0, -1, 0.2, 0], [0.5, 1, 2.0, -1]):
        other = minimize(plain, start, jac=True, method="BFGS")
        assert value.item() <= other.fun + 1e-8


@pytest.mark.parametrize("name", ["M3", "J3"])
def test_separable_classes_stay_finite(name):
    asv = torch.tensor([1.0, 1.1, 0.9, -1.0, -1.1, 1.0, 0.8, 0.2])
    cm = torch.tensor([3.0, 3.5, 3.2, 3.1, 2.9, -3.0, -4.0, -3.3])
    labels = torch.tensor([1, 1, 1, 2, 2, 0, 0, 0])
    system = build_system(name).fit(asv, cm, labels)
    fused = system(asv, cm)
    assert all(torch.isfinite(values).all() for values in fused)
    assert (fused.sasv[labels == 1].min() > fused.sasv[labels != 1].max()).item()
    assert system.calibration.weight.abs().max() < 1e4


def test_joint_needs_weight_on_every_class(trials):
    costs = CostModel(p_target=0.5, p_nontarget=0.5, p_spoof=0.0)
    with pytest.raises(ValueError, match="class spoof the weight 0"):
        build_system("J3", costs=costs).fit(*trials)


def drawn(seed: int, signs: tuple[int, ...] = (1, 1, 1, 1), n: int = 600) -> tuple[np.ndarray, ...]:
    """Two ASV and two CM columns, of which some point the wrong way."""
    random, labels = np.random.default_rng(seed), np.arange(n) % 3
    good = np.stack([labels == 1, labels == 1, labels != 0, labels != 0])
    scores = random.normal(size=(4, n)) + 1.5 * good * np.array(signs)[:, None]
    return scores + 0.6 * random.normal(size=n), labels


def value(weight: np.ndarray, bias: np.ndarray, scores: np.ndarray, labels: np.ndarray) -> float:
    basis = Basis(scores)
    return basis.pair_loss(np.column_stack([weight, bias]), multinomial_loss(labels))[0]


@pytest.mark.parametrize("signs", [(1, 1, 1, 1), (1, -1, 1, 1), (-1, -1, 1, -1), (1, 1, -1, 0)])
def test_it_is_the_least_loss_of_all_choices_of_columns_at_zero(signs: tuple[int, ...]) -> None:
    scores, labels = drawn(1, signs)
    columns = Columns(("asv_a", "asv_b", "cm_a", "cm_b"))
    weight, bias = fit_monotone(scores, labels, columns=columns)
    assert (weight >= 0).all()
    assert not weight[0, 2:].any()
    assert not weight[1, :2].any()
    losses = []
    for kept in itertools.product([False, True], repeat=4):  # brute force over the active sets
        free = np.zeros((2, 5), dtype=bool)
        free[0, :2], free[1, 2:4], free[:, -1] = kept[:2], kept[2:], True
        start = np.zeros((2, 5))
        theta = minimise_pair_loss(Basis(scores), multinomial_loss(labels), 1e-10, start, free)
        if (theta[:, :-1] >= 0).all():
            losses.append(value(theta[:, :-1], theta[:, -1], scores, labels))
    assert value(weight, bias, scores, labels) == pytest.approx(min(losses), abs=1e-12)


def test_with_one_score_of_each_kind_that_says_nothing_of_the_other_it_is_near_m3() -> None:
    random, labels = np.random.default_rng(0), np.arange(30_000) % 3
    scores = random.normal(size=(2, 30_000)) + 2 * np.stack([labels == 1, labels != 0])
    scores[0, labels == 0] += 2  # spoofs have the voice
    own, free = fit_monotone(scores, labels), fit_multinomial(scores, labels)
    assert np.diagonal(own[0]) == pytest.approx(np.diagonal(free[0]), abs=0.08)


def test_a_column_at_zero_is_named() -> None:
    scores, labels = drawn(2, (1, -1, 1, 1))
    names = ("asv_good", "asv_bad", "cm_a", "cm_b")
    system = build_system("M3d").fit(scores[:2].T, scores[2:].T, labels, columns=names)
    texts = [one["text"] for one in system.warnings if one["code"] == "fixed"]
    assert len(texts) == 1
    assert texts[0].startswith("the weight of asv_bad would be negative; it is fixed at 0")
    pair = build_system("M3d").fit(-scores[0], scores[2], labels)
    assert [one["text"][:17] for one in pair.warnings if one["code"] == "fixed"] == [
        "the weight of asv"
    ]
    assert not pair.calibration.weight[0].any()


@pytest.mark.parametrize("seed", range(3))
def test_nobody_is_rejected_for_a_better_score(seed: int) -> None:
    scores, labels = drawn(seed, (1, -1, 1, 1))
    fused = build_system("M3d").fit(scores[:2].T, scores[2:].T, labels)(scores[:2].T, scores[2:].T)
    for costs in (*PRESETS.values(), CostModel(3.0, 0.5, 7.0)):
        accepted = accept(fused, costs).numpy()
        assert 0 < accepted.mean() < 1
        assert not inversions(accepted, scores).any()


@pytest.mark.parametrize("columns", [1, 2, 4])
def test_inversions_are_those_of_all_pairs(columns: int) -> None:
    random = np.random.default_rng(columns)
    for _ in range(20):
        scores = random.integers(0, 6, size=(columns, 60)).astype(float)
        accepted = random.random(60) < random.random()
        nowhere_worse = (scores[:, :, None] >= scores[:, None, :]).all(axis=0)
        expected = ~accepted & (nowhere_worse & accepted).any(axis=1)
        assert np.array_equal(inversions(accepted, scores), expected)
    assert not inversions(np.zeros(60, dtype=bool), scores).any()
    fused = FusedScores(scores[0], scores[0], scores[0])
    assert not inversions(accept(fused, "equal"), scores[:1]).any()
