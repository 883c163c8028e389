"""Curves of the report against the metrics; pairs that systems fuse, samples, boundaries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from lightning_sasv.decisions import PRESETS, CostModel, accept
from lightning_sasv.fitted import frozen
from lightning_sasv.fusion import FusionSystem, fit_systems
from lightning_sasv.fusion.rules import PLAIN_RULES
from lightning_sasv.metrics.functional import a_dcf, det_curve, eer, t_eer, t_eer_path
from lightning_sasv.report.curves import (
    DET_CELLS,
    DET_LIMITS,
    PATH_RHOS,
    costs_over_thresholds,
    histogram,
    tandem_paths,
    thin_det,
)
from lightning_sasv.report.planes import (
    GRID,
    affine_map,
    as_pair,
    base_on_grid,
    equal_sample,
    find_pairs,
    on_grid,
    policy_boundaries,
    robust_range,
    rule_boundary,
    stratified,
    window_of,
)
from lightning_sasv.results import Results
from lightning_sasv.trials import FusedScores, TrialClass
from tests.report.conftest import drawn

WINDOW = ((-6.0, 8.0), (-9.0, 7.0))


@pytest.mark.parametrize("task", ["sasv", "sv", "spf"])
def test_a_thinned_det_curve_stays_within_a_cell_of_the_exact_one(
    small: Results, task: str
) -> None:
    scores, labels = small.fused["L3c"], small.scores.label
    thin = thin_det(scores, labels, task)
    negative = {"sasv": labels != 1, "sv": labels == 2, "spf": labels == 0}[task]
    pos, neg = scores[labels == 1], scores[negative]
    assert (thin.eer, thin.threshold) == eer(pos, neg)
    exact = det_curve(pos, neg)
    shown = (exact.miss < DET_LIMITS[1]) & (exact.false_acceptance < DET_LIMITS[1])
    place = [
        ndtri(np.clip(x, DET_LIMITS[0] / 4, 1 - 1e-9))
        for x in (exact.false_acceptance[shown], exact.miss[shown], *thin[:2])
    ]
    cell = float(np.ptp(ndtri(DET_LIMITS))) / DET_CELLS
    distance = np.maximum(
        np.abs(place[0][:, None] - place[2]), np.abs(place[1][:, None] - place[3])
    ).min(axis=1)
    assert distance.max() <= cell
    points = set(zip(exact.false_acceptance, exact.miss, strict=True))
    assert set(zip(thin.false_acceptance, thin.miss, strict=True)) <= points


def test_thinning_shortens_a_long_curve() -> None:
    generator = np.random.default_rng(0)
    scores = np.concatenate([generator.normal(2, 1, 50_000), generator.normal(0, 1, 50_000)])
    labels = np.repeat([1, 0], 50_000)
    assert len(thin_det(scores, labels, "spf").miss) < 3 * DET_CELLS  # the frame and its margin


def test_costs_over_thresholds_are_the_a_dcf(small: Results) -> None:
    scores, labels = small.fused["L3c"], small.scores.label
    costs = costs_over_thresholds(scores, labels)
    for name, model in PRESETS.items():
        weights = [model.weight_miss, model.weight_fa_nontarget, model.weight_fa_spoof]
        total = weights @ costs.rates / model.default_cost
        wanted = a_dcf(scores, labels, model)
        assert costs.presets[name] == wanted
        assert total.min() == pytest.approx(wanted.min, abs=1e-12)
        for k in (0, 60, 180):
            at = a_dcf(scores, labels, model, threshold=float(costs.thresholds[k]))
            assert total[k] == pytest.approx(at.actual, abs=1e-12)


def test_histograms_count_every_trial_in_their_range(small: Results) -> None:
    labels = small.scores.label
    limits = robust_range(small.scores.cm, labels)
    parts = [small.scores.cm[labels == code] for code in TrialClass]
    for part, counts in zip(parts, histogram(parts, limits), strict=True):
        assert counts.sum() == ((part >= limits[0]) & (part <= limits[1])).sum()
        assert counts.sum() >= 0.99 * part.size


def test_the_tandem_path_keeps_its_minimum_and_its_meeting_point(small: Results) -> None:
    pair, labels = np.stack([small.scores.asv, small.scores.cm]), small.scores.label
    point, paths = tandem_paths(pair, labels)
    assert point == t_eer(*pair, labels)
    for (asv, _, value), rho in zip(paths, PATH_RHOS, strict=True):
        exact = t_eer_path(*pair, labels, rho)
        finite = np.isfinite(exact.asv_threshold) & np.isfinite(exact.cm_threshold)
        assert value.min() == exact.value[finite].min()
        assert set(asv) <= set(exact.asv_threshold)


@pytest.mark.parametrize("rule", ["sum", "linear", "sigmoid_sum", "sigmoid_product"])
@pytest.mark.parametrize("level", [-1.5, 0.02, 0.4, 0.9, 2.0])
def test_a_rule_has_its_level_on_its_boundary(rule: str, level: float) -> None:
    system = FusionSystem(rule=rule)
    x, y = rule_boundary(system, level, WINDOW)
    known = np.isfinite(y)
    if known.any():
        score = np.asarray(system(x[known], y[known]).sasv)
        np.testing.assert_allclose(score, level, atol=1e-9)
    else:
        grid = np.meshgrid(*(np.linspace(*limits, 60) for limits in WINDOW))
        score = np.asarray(system(grid[0].ravel(), grid[1].ravel()).sasv)
        assert score.max() < level or score.min() > level


def test_a_rule_of_others_may_rise_and_fall(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its boundary is one line all the same, that of the lowest cm but for a cell at its end."""
    monkeypatch.setitem(PLAIN_RULES, "ring", lambda asv, cm: asv**2 + cm**2)
    x, y = rule_boundary(FusionSystem(rule="ring"), 16.0, WINDOW)
    np.testing.assert_allclose(x**2 + y**2, 16, atol=1e-9)
    assert np.ptp(x) > 7.8
    assert y.max() < 0.8


@settings(max_examples=60, deadline=None)
@given(st.floats(0.001, 0.999), st.floats(-4, 4))
def test_the_nonlinear_rule_has_its_level_on_its_boundary(rho: float, level: float) -> None:
    system = FusionSystem(rule="nonlinear", rho=rho)
    x, y = rule_boundary(system, level, WINDOW)
    drawn_up = slice(1, None)  # the first point stands for the vertical asymptote
    known = np.isfinite(y[drawn_up])
    score = np.asarray(system(x[drawn_up][known], y[drawn_up][known]).sasv)
    np.testing.assert_allclose(score, level, atol=1e-7)


def test_one_score_alone_decides_at_an_extreme_rho_and_the_cascade_has_a_corner() -> None:
    for rho in (0.0, 1.0):
        x, y = rule_boundary(FusionSystem(rule="nonlinear", rho=rho), 1.25, WINDOW)
        np.testing.assert_allclose(y if rho else x, 1.25)
    x, y = rule_boundary(FusionSystem(rule="cascade"), 1.5, WINDOW)
    assert np.minimum(x, y).tolist() == [1.5] * 3


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(0.1, 20), min_size=3, max_size=3),
    st.floats(0.05, 0.9),
    st.floats(0.05, 0.95),
)
def test_policies_change_their_mind_at_their_boundaries(
    prices: list[float], target: float, share: float
) -> None:
    rest = 1 - target
    costs = CostModel(*prices, target, rest * (1 - share), 1 - target - rest * (1 - share))
    for policy, (x, y) in policy_boundaries(costs, WINDOW).items():
        chosen = np.isfinite(y) & (np.arange(len(y)) >= (policy != "linear"))
        a, c, step = x[chosen], y[chosen], 1e-6
        assert accept(FusedScores(a + step, c + step, c), costs, policy).all(), policy
        assert not accept(FusedScores(a - step, c - step, c), costs, policy).any(), policy


def test_pairs_are_found_once_and_affine_maps_recognised() -> None:
    scores = drawn(900, 1)
    names = ("B1", "B1c", "L2", "L2c", "L3", "L3c", "B1v2", "Post", "L3t", "M3", "J3")
    fitted = fit_systems(scores.asv, scores.cm, scores.label, names)
    systems = {name: frozen(system, name) for name, system in fitted.items()}
    pairs, bases = find_pairs(scores, systems)
    groups = [set(pair.systems) for pair in pairs]
    assert groups[0] == {"B1", "B1v2", "Post"}
    assert {"L2", "L3"} in groups
    assert {"L2c", "L3c"} in groups
    assert sum(map(len, groups)) == len(names)
    assert [pair.is_llr for pair in pairs] == [False] + [True] * (len(pairs) - 1)
    assert len(bases) == 3  # raw scores, Gaussian and Student-t LLRs
    for pair in pairs:
        rows = np.array(pair.affine)
        rebuilt = rows[:, :2] @ bases[pair.base].values + rows[:, 2:]
        np.testing.assert_allclose(rebuilt, pair.values, rtol=1e-8, atol=1e-8)
        for name in pair.systems:
            fused = systems[name](scores.asv, scores.cm)
            np.testing.assert_array_equal(pair.values, as_pair(fused))


def test_what_is_not_affine_is_not_called_so() -> None:
    generator = np.random.default_rng(0)
    source = generator.normal(size=(2, 300))
    assert affine_map(source, np.stack([source[0], source[1] ** 3])) is None
    assert affine_map(np.zeros((2, 300)), source) is None
    rows = affine_map(source, np.stack([3 * source[1] - 1, source[0] + source[1] / 7]))
    np.testing.assert_allclose(rows, [[0, 3, -1], [1, 1 / 7, 0]], atol=1e-12)


def test_a_base_on_the_grid_is_what_its_system_says(small: Results) -> None:
    pairs, bases = find_pairs(small.scores, small.systems)
    window = pairs[0].window
    asv, cm = (
        low + (high - low) * k / (GRID - 1) for (low, high), k in zip(window, (5, 7), strict=True)
    )
    for pair in pairs:
        base = bases[pair.base]
        assert base_on_grid(base, window).shape == (2, GRID, GRID)
        wanted = [asv, cm]
        if pair.systems and pair.is_llr:
            system = small.systems[pair.systems[0]]
            wanted = as_pair(system(np.array([asv]), np.array([cm])))[:, 0]
        np.testing.assert_allclose(on_grid(pair, base, window)[:, 7, 5], wanted, rtol=1e-8)


def test_samples_are_stratified_and_the_same_every_time() -> None:
    labels = np.repeat([0, 1, 2], [60_000, 5_000, 35_000])
    chosen = stratified(labels, 10_000)
    assert len(chosen) == len(set(chosen)) == 10_000
    assert np.bincount(labels[chosen]).tolist() == [6_000, 500, 3_500]
    np.testing.assert_array_equal(chosen, stratified(labels, 10_000))
    assert labels[chosen].tolist() == sorted(labels[chosen], key=lambda code: (1, 2, 0).index(code))
    np.testing.assert_array_equal(np.sort(stratified(labels, 200_000)), np.arange(100_000))
    assert np.bincount(labels[stratified(labels, 1_000)]).tolist() == [450, 200, 350]
    assert np.bincount(labels[equal_sample(labels, 700)]).tolist() == [700, 700, 700]
    assert np.bincount(labels[equal_sample(labels, 6_000)]).tolist() == [6_000, 5_000, 6_000]


def test_the_window_shows_the_targets_and_cuts_long_tails() -> None:
    generator = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 1000)
    column = generator.normal(size=3000) + np.repeat([-1e4, 10, 0], 1000)
    low, high = window_of(column, labels)
    assert -60 < low < 0
    assert high > 12
    assert window_of(np.zeros(3000), labels)[0] < 0
