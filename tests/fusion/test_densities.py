"""Densities against scipy and scikit-learn, EM at its fixed point, degenerate trials."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.mixture import GaussianMixture

from lightning_sasv.errors import InputError
from lightning_sasv.fusion import CALIBRATIONS, DENSITIES, FusionSystem
from lightning_sasv.fusion.densities import (
    COVARIANCE_FLOOR,
    fit_mixture,
    fit_student_t,
    gaussian_log_prob,
)
from lightning_sasv.trials import TrialClass

FLOOR = COVARIANCE_FLOOR * np.eye(2)


def fitted(trials, density, **settings):
    """What a density learns, by name."""
    arrays = FusionSystem(density, **settings).fit(*trials).arrays()
    return {name.removeprefix("density."): value for name, value in arrays.items()}


def llrs_of(log_prob):
    spoof, target, nontarget = log_prob
    return np.stack([target - nontarget, target - spoof])


def by_class(trials, pairs):
    return [pairs[:, trials[2] == code] for code in range(3)]


def test_gaussian_is_the_maximum_likelihood_normal(trials, pairs):
    density, log_prob = fitted(trials, "gaussian"), []
    for code, points in enumerate(by_class(trials, pairs)):
        covariance = np.cov(points, bias=True) + FLOOR
        np.testing.assert_allclose(density["covariance"][code], covariance, rtol=1e-12)
        log_prob += [stats.multivariate_normal(points.mean(axis=1), covariance).logpdf(pairs.T)]
    fused = FusionSystem("gaussian").fit(*trials)(*trials[:2])
    np.testing.assert_allclose(fused[:2], llrs_of(log_prob), rtol=1e-9, atol=1e-9)


def test_diagonal_and_tied_covariances(trials, pairs):
    points = by_class(trials, pairs)
    diagonal = fitted(trials, "diagonal")["covariance"]
    tied = fitted(trials, "tied")["covariance"]
    within = sum(len(x.T) * np.cov(x, bias=True) for x in points) / pairs.shape[1] + FLOOR
    for code, x in enumerate(points):
        np.testing.assert_allclose(diagonal[code], np.diag(x.var(axis=1)) + FLOOR, rtol=1e-12)
        np.testing.assert_allclose(tied[code], within, rtol=1e-12)


def test_tied_gaussian_llrs_are_linear_in_the_scores(trials):
    fused = FusionSystem(density="tied").fit(*trials)(*trials[:2])
    design = torch.stack([*trials[:2], torch.ones_like(trials[0])], dim=1)
    for llr in (fused.asv_llr, fused.cm_llr):
        solution = torch.linalg.lstsq(design, llr[:, None]).solution
        assert torch.allclose(design @ solution, llr[:, None], atol=1e-9)


@pytest.mark.parametrize("dof", [1.0, 4.0, 30.0])
def test_student_t_log_density_is_scipys(trials, pairs, dof):
    density = fitted(trials, "student_t", dof=dof)
    classes = zip(density["mean"], density["scatter"], strict=True)
    log_prob = [stats.multivariate_t(*one, df=dof).logpdf(pairs.T) for one in classes]
    fused = FusionSystem("student_t", dof=dof).fit(*trials)(*trials[:2])
    np.testing.assert_allclose(fused[:2], llrs_of(log_prob), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dof", [1.0, 4.0, 30.0])
def test_student_t_em_ends_where_the_likelihood_is_stationary(dof):
    generator = np.random.default_rng(1)
    points = stats.multivariate_t([1, -2], [[2, 0.5], [0.5, 1]], df=4).rvs(2000, generator).T.copy()
    mean, scatter = map(torch.from_numpy, fit_student_t(points, TrialClass.TARGET, {"dof": dof}))
    points = torch.from_numpy(points)
    mean.requires_grad_()
    free = (scatter - COVARIANCE_FLOOR * torch.eye(2, dtype=torch.float64)).requires_grad_()
    offset = points - mean[:, None]
    distance = (offset * torch.linalg.solve(free, offset)).sum(dim=0)
    likelihood = (-0.5 * torch.logdet(free) - 0.5 * (dof + 2) * torch.log1p(distance / dof)).mean()
    likelihood.backward()
    assert mean.grad.norm().item() < 1e-6
    assert free.grad.norm().item() < 1e-5  # the floor of 1e-6 moves the optimum that much


def test_student_t_recovers_its_parameters_and_ignores_outliers():
    generator = np.random.default_rng(2)
    points = stats.multivariate_t([1, -2], [[2, 0.5], [0.5, 1]], df=4).rvs(40_000, generator).T
    points[:, :20] = 1e4
    mean, scatter = fit_student_t(points, TrialClass.SPOOF, {"dof": 4.0})
    np.testing.assert_allclose(mean, [1, -2], atol=0.05)
    np.testing.assert_allclose(scatter, [[2, 0.5], [0.5, 1]], atol=0.08)


@pytest.mark.parametrize(
    ("settings", "tolerance"),
    [({"density": "student_t", "dof": 1e9}, 1e-5), ({"density": "mixture", "components": 1}, 1e-9)],
)
def test_limits_are_the_gaussian(trials, settings, tolerance):
    limit = FusionSystem(**settings).fit(*trials)(*trials[:2])
    gaussian = FusionSystem("gaussian").fit(*trials)(*trials[:2])
    assert torch.allclose(limit.cm_llr, gaussian.cm_llr, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("components", [2, 4])
def test_mixture_is_at_least_as_likely_as_scikit_learns(components):
    generator = np.random.default_rng(4)
    points = np.concatenate(
        [generator.normal([0, 0], [1, 2], (900, 2)), generator.normal([5, 3], [2, 1], (600, 2))]
    )
    settings = {"components": components}
    weight, mean, covariance = fit_mixture(points.T, TrialClass.TARGET, settings)
    peer = GaussianMixture(components, tol=1e-5, max_iter=500, random_state=0).fit(points)
    parts = gaussian_log_prob(points.T, mean, covariance) + np.log(weight)[:, None]
    log_prob = np.logaddexp.reduce(parts)
    if components == 2:  # well separated, so both find the same optimum
        assert log_prob.mean() == pytest.approx(peer.score(points), abs=1e-4)
    assert log_prob.mean() >= peer.score(points) - 0.01
    peer.weights_, peer.means_, peer.covariances_ = weight, mean, covariance
    peer.precisions_cholesky_ = np.linalg.cholesky(np.linalg.inv(peer.covariances_))
    np.testing.assert_allclose(log_prob, peer.score_samples(points), rtol=1e-9)


def test_mixture_needs_as_many_trials_as_components():
    labels = torch.tensor([0, 0, 0, 1, 2, 2, 2])
    with pytest.raises(ValueError, match="components is 2, but class target has 1 trials"):
        FusionSystem(density="mixture").fit(torch.randn(7), torch.randn(7), labels)


def test_fits_do_not_touch_the_global_random_state(trials):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = FusionSystem(density="mixture", components=3).fit(*trials).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    second = FusionSystem(density="mixture", components=3).fit(*trials).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


TRIALS = 12

COLUMNS = st.one_of(
    st.lists(st.floats(-3, 3), min_size=TRIALS, max_size=TRIALS),
    st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=TRIALS, max_size=TRIALS),
    st.lists(st.floats(-1e100, 1e100), min_size=TRIALS, max_size=TRIALS),
    st.lists(st.sampled_from([-1e90, -1e-90, 0.0, 1.0, 1e90]), min_size=TRIALS, max_size=TRIALS),
).map(np.array)


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize(
    "kind", ["one cm value per class", "two trials", "one trial", "collinear", "far out"]
)
def test_degenerate_classes_give_finite_llrs(density, kind):
    generator = torch.Generator().manual_seed(0)
    asv = torch.randn(30, generator=generator, dtype=torch.float64)
    cm = torch.randn(30, generator=generator, dtype=torch.float64)
    labels = torch.arange(30) % 3
    asv, cm, labels = {
        "one cm value per class": (asv, labels.double(), labels),
        "two trials": (asv[:6], cm[:6], labels[:6]),
        "one trial": (asv[:3], cm[:3], labels[:3]),
        "collinear": (asv, 2 * asv - 1, labels),
        "far out": (1e8 + 1e8 * asv, 1e-8 * cm, labels),
    }[kind]
    components = 1 if kind == "one trial" else 2
    system = FusionSystem(density=density, rule="nonlinear", components=components)
    fused = system.fit(asv, cm, labels)(asv, cm)
    assert all(torch.isfinite(values).all() for values in fused)


@pytest.mark.parametrize("density", ["gaussian", "tied", "student_t", "mixture"])
def test_collinear_scores_of_huge_scale_are_a_clear_error(density):
    generator = torch.Generator().manual_seed(0)
    asv = 1e12 * torch.randn(30, generator=generator, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"collinear in class \w+: covariance .* is singular"):
        FusionSystem(density=density).fit(asv, 2 * asv, torch.arange(30) % 3)


@pytest.mark.parametrize("calibration", [None, *CALIBRATIONS])
@pytest.mark.parametrize("density", [None, *DENSITIES])
@settings(max_examples=8)
@given(asv=COLUMNS, cm=COLUMNS, rho=st.sampled_from(["grid_eer", "grid_risk"]))
def test_any_finite_scores_give_finite_scores_or_an_input_error(density, calibration, asv, cm, rho):
    labels = np.arange(TRIALS) % 3
    system = FusionSystem(density, calibration, "nonlinear", rho)
    try:
        system.fit(asv, cm, labels)
    except InputError:
        assert not system.is_fitted
        return
    assert all(torch.isfinite(values).all() for values in system(asv, cm))
    assert all(torch.isfinite(buffer).all() for buffer in system.buffers())


@pytest.mark.parametrize("calibration", ["paper", "effective_prior", "multinomial", "joint"])
def test_llrs_beyond_the_range_of_a_fit_are_named(calibration):
    """A class of no spread and another far away: the LLRs are too large to be standardised."""
    asv = np.array([0.0, 1.0, 1e60, 0.5, 1.0, -1e60, 0.2, 1.0, 2e60])
    cm = np.array([-1.0, 1.0, 1.0, -2.0, 1.5, 0.5, -1.5, 0.8, 1.2])
    with pytest.raises(InputError, match=r"(asv|cm) must be finite .at most 1e.100 in size., got"):
        FusionSystem("gaussian", calibration).fit(asv, cm, np.arange(9) % 3)
