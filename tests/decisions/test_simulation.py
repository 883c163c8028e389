"""The simulation behind the paper's fig. simplex."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from lightning_sasv.decisions import (
    CostModel,
    accept,
    compare_policies,
    empirical_cost,
    expected_cost,
    simulate,
    simulated_policy_costs,
)
from lightning_sasv.decisions.simulation import COVARIANCE, MEANS


def test_llrs_are_those_of_the_generating_densities():
    drawn = simulate(500, seed=1)
    points = np.stack([drawn.asv, drawn.cm], axis=1)
    spoof, target, nontarget = (
        stats.multivariate_normal(mean, COVARIANCE).logpdf(points) for mean in MEANS
    )
    np.testing.assert_allclose(drawn.true.asv_llr, target - nontarget, atol=1e-9)
    np.testing.assert_allclose(drawn.true.cm_llr, target - spoof, atol=1e-9)


def test_scores_have_the_moments_asked_for():
    drawn = simulate(60_000, CostModel(p_target=0.5, p_nontarget=0.3, p_spoof=0.2), seed=2)
    shares = np.bincount(drawn.labels) / 60_000
    np.testing.assert_allclose(shares, [0.2, 0.5, 0.3], atol=0.01)
    points = np.stack([drawn.asv, drawn.cm])
    for code in range(3):
        mine = points[:, drawn.labels == code]
        np.testing.assert_allclose(mine.mean(axis=1), MEANS[code], atol=0.05)
        np.testing.assert_allclose(np.cov(mine), COVARIANCE, atol=0.05)


@pytest.mark.parametrize("seed", range(3))
def test_nonlinear_policy_costs_less_than_linear_mostly_by_fewer_false_acceptances(seed):
    table = simulated_policy_costs(30_000, seed=seed)
    bayes, linear = table["bayes"].empirical, table["linear"].empirical
    assert bayes.cost < linear.cost
    accepted = [one.p_fa_nontarget + one.p_fa_spoof for one in (linear, bayes)]
    assert accepted[0] - accepted[1] > max(0, linear.p_miss - bayes.p_miss)
    assert bayes.cost <= table["utility"].empirical.cost + 1e-3


@pytest.mark.parametrize(
    "costs", [CostModel(), CostModel(1.0, 10.0, 20.0, 0.6, 0.2, 0.2)], ids=["flat", "skewed"]
)
def test_expected_and_empirical_cost_agree_where_llrs_and_priors_are_true(costs):
    drawn = simulate(100_000, costs, seed=5)
    for result in compare_policies(drawn.true, drawn.labels, costs).values():
        expected, actual = result.expected.item(), result.empirical.cost.item()
        assert expected == pytest.approx(actual, rel=0.05)


def test_mismatched_priors_cost_more_than_true_ones_and_less_than_the_linear_policy():
    """The green line of the figure: priors 0.05, 0.05 and 0.9 where the truth is flat."""
    drawn, flat = simulate(100_000, seed=6), CostModel()
    mismatched = CostModel(p_spoof=0.05, p_nontarget=0.05, p_target=0.9)
    decisions = [accept(drawn.true, *how) for how in ((flat,), (mismatched,), (flat, "linear"))]
    true, other, linear = (empirical_cost(one, drawn.labels, flat).cost for one in decisions)
    assert true < other < linear


def test_no_perturbed_policy_has_less_empirical_cost_than_bayes():
    drawn, flat = simulate(200_000, seed=7), CostModel()
    best = empirical_cost(accept(drawn.true, flat), drawn.labels, flat).cost
    assert best.item() == pytest.approx(expected_cost(drawn.true, flat).mean().item(), rel=0.03)
    for da, dc in [(0.5, 0), (-0.5, 0), (0, 0.5), (0, -0.5)]:
        moved = drawn.true._replace(asv_llr=drawn.true.asv_llr + da, cm_llr=drawn.true.cm_llr + dc)
        assert empirical_cost(accept(moved, flat), drawn.labels, flat).cost > best


def test_draws_depend_on_the_seed_alone():
    np.random.seed(1)  # noqa: NPY002
    first = simulate(100, seed=3)

    np.random.seed(2)  # noqa: NPY002
    again, other = simulate(100, seed=3), simulate(100, seed=4)
    assert np.array_equal(first.asv, again.asv)
    assert not np.array_equal(first.asv, other.asv)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"trials": 0}, "trials must be at least 1, got 0"),
        ({"trials": 5, "covariance": [[1.0, 2.0], [2.0, 1.0]]}, "positive definite"),
        ({"trials": 5, "covariance": [[1.0, 0.5], [0.2, 1.0]]}, "positive definite"),
        ({"trials": 5, "means": [[0.0, 1.0]]}, r"means must have the shape \(3, 2\)"),
    ],
)
def test_bad_input_is_an_error(arguments, message):
    with pytest.raises(ValueError, match=message):
        simulate(**arguments)
