"""The calibrations that see all three classes: against scikit-learn, autograd and scipy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from torch.nn.functional import logsigmoid

from lightning_sasv.decisions import CostModel, cost_preset
from lightning_sasv.fusion import build_system
from lightning_sasv.fusion.logistic import fit_joint, fit_multinomial


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
