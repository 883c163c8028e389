"""Simulated score pairs whose true LLRs are known, as behind the paper's fig. simplex."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Floats
from lightning_sasv.decisions.costs import CostModel
from lightning_sasv.decisions.outcome import PolicyCost, compare_policies
from lightning_sasv.decisions.policy import nonlinear_score
from lightning_sasv.errors import InputError
from lightning_sasv.trials import FusedScores, TrialClass

Matrix = Sequence[Sequence[float]]

MEANS: Matrix = ((1.0, -2.0), (2.0, 2.0), (-2.0, 1.5))
"""Mean [asv, cm] of spoof, target and nontarget: spoofs sound like the target, somewhat."""

COVARIANCE: Matrix = ((1.5, 0.3), (0.3, 1.5))
"""Covariance of the two scores in every class."""


class Simulation(NamedTuple):
    """Simulated trials.

    Attributes:
        asv: ASV scores, (trials,).
        cm: CM scores, (trials,).
        labels: ``TrialClass`` codes.
        true: The true LLRs of the generating densities, and the optimal score for the costs.

    Example:
        >>> Simulation._fields
        ('asv', 'cm', 'labels', 'true')
    """

    asv: Floats
    cm: Floats
    labels: NDArray[np.int64]
    true: FusedScores


def simulate(
    trials: int,
    costs: CostModel | None = None,
    *,
    means: Matrix = MEANS,
    covariance: Matrix = COVARIANCE,
    seed: int = 0,
) -> Simulation:
    """Score pairs drawn from one Gaussian per class, with classes drawn from the priors.

    Args:
        trials: Number of trials.
        costs: Their priors are those of the classes; flat by default.
        means: Means of spoof, target and nontarget, (3, 2).
        covariance: Covariance of the two scores in every class, (2, 2), positive definite.
        seed: Seed of the draw; nothing depends on global random state.

    Raises:
        InputError: ``trials`` is not positive or the covariance is not positive definite.

    Example:
        >>> drawn = simulate(1000)
        >>> float(drawn.true.asv_llr[drawn.labels == TrialClass.TARGET].mean().round(1))
        5.3
    """
    from scipy.stats import multivariate_normal  # takes long to import

    if trials < 1:
        raise InputError(f"trials must be at least 1, got {trials}")
    model = costs or CostModel()
    mean, spread = np.asarray(means, dtype=np.float64), np.asarray(covariance, dtype=np.float64)
    if mean.shape != (3, 2) or spread.shape != (2, 2) or not _positive_definite(spread):
        raise InputError(
            "means must have the shape (3, 2) and covariance be positive definite (2, 2), "
            f"got {mean.shape} and {spread.tolist()}"
        )
    generator = np.random.default_rng(seed)
    prior = [model.p_spoof, model.p_target, model.p_nontarget]
    labels = generator.choice(len(TrialClass), size=trials, p=prior)
    noise = generator.standard_normal((trials, 2)) @ np.linalg.cholesky(spread).T
    scores = mean[labels] + noise
    spoof, target, nontarget = (multivariate_normal(one, spread).logpdf(scores) for one in mean)
    asv_llr, cm_llr = np.atleast_1d(target - nontarget), np.atleast_1d(target - spoof)
    sasv = nonlinear_score(asv_llr, cm_llr, 1 - model.spoof_share, model.spoof_share)
    asv, cm = scores.T.copy()
    return Simulation(asv, cm, labels, FusedScores(asv_llr, cm_llr, sasv))


def simulated_policy_costs(
    trials: int = 30_000, costs: CostModel | None = None, *, seed: int = 0
) -> dict[str, PolicyCost]:
    """Cost of every policy on :func:`simulate`'s trials when true LLRs and priors are known.

    Example:
        >>> costs = simulated_policy_costs(2000)
        >>> bool(costs["bayes"].empirical.cost < costs["linear"].empirical.cost)
        True
    """
    model = costs or CostModel()
    simulation = simulate(trials, model, seed=seed)
    return compare_policies(simulation.true, simulation.labels, model)


def _positive_definite(matrix: Floats) -> bool:
    symmetric = bool(np.array_equal(matrix, matrix.T))
    return symmetric and bool((np.linalg.eigvalsh(matrix) > 0).all())
