"""Densities against scipy and scikit-learn, EM at its fixed point, degenerate data."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.mixture import GaussianMixture

from lightning_sasv.fusion import FusionSystem
from lightning_sasv.fusion.densities import COVARIANCE_FLOOR, Gaussian
from lightning_sasv.fusion.mixture import Mixture, fit_mixture
from lightning_sasv.fusion.student_t import StudentT, fit_student_t
from lightning_sasv.trials import TrialClass

FLOOR = COVARIANCE_FLOOR * np.eye(2)


def fitted(density, trials, pairs):
    density.fit(pairs[None], trials[2][None])
    return density


def by_class(trials, pairs):
    return [pairs[:, trials[2] == code].numpy() for code in range(3)]


def test_gaussian_is_the_maximum_likelihood_normal(trials, pairs):
    density = fitted(Gaussian(), trials, pairs)
    log_prob = density.log_prob(pairs[None])[0]
    for code, points in enumerate(by_class(trials, pairs)):
        covariance = np.cov(points, bias=True) + FLOOR
        np.testing.assert_allclose(density.covariance[0, code], covariance, rtol=1e-12)
        expected = stats.multivariate_normal(points.mean(axis=1), covariance).logpdf(pairs.T)
        np.testing.assert_allclose(log_prob[code], expected, rtol=1e-10)


def test_diagonal_and_tied_covariances(trials, pairs):
    points = by_class(trials, pairs)
    diagonal = fitted(Gaussian(covariance="diagonal"), trials, pairs).covariance[0]
    tied = fitted(Gaussian(covariance="tied"), trials, pairs).covariance[0]
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
    density = fitted(StudentT(dof=dof), trials, pairs)
    log_prob = density.log_prob(pairs[None])[0]
    for code in range(3):
        peer = stats.multivariate_t(density.mean[0, code], density.scatter[0, code], df=dof)
        np.testing.assert_allclose(log_prob[code], peer.logpdf(pairs.T), rtol=1e-10)


@pytest.mark.parametrize("dof", [1.0, 4.0, 30.0])
def test_student_t_em_ends_where_the_likelihood_is_stationary(dof):
    generator = np.random.default_rng(1)
    points = torch.from_numpy(
        stats.multivariate_t([1, -2], [[2, 0.5], [0.5, 1]], df=4).rvs(2000, generator).T.copy()
    )
    mean, scatter = fit_student_t(points, dof, TrialClass.TARGET)
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
    mean, scatter = fit_student_t(torch.from_numpy(points.copy()), 4.0, TrialClass.SPOOF)
    np.testing.assert_allclose(mean, [1, -2], atol=0.05)
    np.testing.assert_allclose(scatter, [[2, 0.5], [0.5, 1]], atol=0.08)


def test_student_t_of_many_degrees_of_freedom_is_the_gaussian(trials, pairs):
    normal = FusionSystem(density="gaussian").fit(*trials)(*trials[:2])
    heavy = FusionSystem(density="student_t", dof=1e9).fit(*trials)(*trials[:2])
    assert torch.allclose(normal.cm_llr, heavy.cm_llr, rtol=1e-5, atol=1e-5)


def test_mixture_of_one_is_the_gaussian(trials, pairs):
    one = fitted(Mixture(components=1), trials, pairs)
    gaussian = fitted(Gaussian(), trials, pairs)
    assert torch.allclose(one.log_prob(pairs[None]), gaussian.log_prob(pairs[None]), atol=1e-9)


@pytest.mark.parametrize("components", [2, 4])
def test_mixture_is_at_least_as_likely_as_scikit_learns(components):
    generator = np.random.default_rng(4)
    points = np.concatenate(
        [generator.normal([0, 0], [1, 2], (900, 2)), generator.normal([5, 3], [2, 1], (600, 2))]
    )
    weight, mean, covariance = fit_mixture(
        torch.from_numpy(points.T.copy()), components, TrialClass.TARGET
    )
    peer = GaussianMixture(components, tol=1e-5, max_iter=500, random_state=0).fit(points)
    density = Mixture(components=components)
    for name, value in (("weight", weight), ("mean", mean), ("covariance", covariance)):
        getattr(density, name)[0, 0] = value
    log_prob = density.log_prob(torch.from_numpy(points.T.copy())[None])[0, 0]
    if components == 2:  # well separated, so both find the same optimum
        assert log_prob.mean().item() == pytest.approx(peer.score(points), abs=1e-4)
    assert log_prob.mean().item() >= peer.score(points) - 0.01
    peer.weights_, peer.means_, peer.covariances_ = (
        part.numpy() for part in (weight, mean, covariance)
    )
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


def test_unknown_densities_are_errors():
    with pytest.raises(ValueError, match="unknown density 'laplace'; expected one of gaussian"):
        FusionSystem(density="laplace")
