"""Fusion on the paper's own scores, against what other tools computed from them.

Fitted on the dev scores of the authors' seed 1986, tested on its eval scores. Required values come
from the reference folder, never from this code.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from torch.nn.functional import logsigmoid

from lightning_sasv.decisions import compare_policies, cost_preset
from lightning_sasv.fusion import PAPER_SYSTEMS, FusionSystem, fit_and_fuse
from lightning_sasv.metrics.functional import sasv_eers
from lightning_sasv.scores import read_scores
from lightning_sasv.trials import TrialClass

CLASSES = {"spf": TrialClass.SPOOF, "tar": TrialClass.TARGET, "non": TrialClass.NONTARGET}


@pytest.fixture(scope="module")
def golden(shared):
    return json.loads((shared / "golden/systems.json").read_text())


@pytest.fixture(scope="module")
def scores(shared):
    """Scores of dev and of eval."""
    return {
        part: read_scores(shared / f"data/sasv2022/{part}_scores.csv") for part in ("dev", "eval")
    }


@pytest.fixture(scope="module")
def fitted(scores):
    """Every named system fitted on dev, and its scores of dev and eval."""
    systems, on_eval = fit_and_fuse(scores["dev"], scores["eval"])
    on_dev = {name: one(scores["dev"].asv, scores["dev"].cm) for name, one in systems.items()}
    return systems, {"dev": on_dev, "eval": on_eval}


def softplus_bits(x):
    return np.logaddexp(0, x).mean() / math.log(2)


def cllr(positives, negatives):
    return (softplus_bits(-positives) + softplus_bits(negatives)) / 2


def cllr_min(positives, negatives):
    """Cllr of the isotonic LLRs, by scikit-learn."""
    truth = np.concatenate([np.ones(len(positives)), np.zeros(len(negatives))])
    posterior = IsotonicRegression().fit_transform(np.concatenate([positives, negatives]), truth)
    with np.errstate(divide="ignore"):
        llrs = np.log(posterior / (1 - posterior)) - math.log(len(positives) / len(negatives))
    return cllr(llrs[truth == 1], llrs[truth == 0])


@pytest.mark.parametrize("part", ["dev", "eval"])
@pytest.mark.parametrize("name", PAPER_SYSTEMS)
def test_the_papers_systems(fitted, scores, golden, name, part):
    expected = golden["systems"][name][part]
    expected = expected | expected.get("with_exact_calibration", {})
    tolerance = golden["tolerance"]
    fused, labels = fitted[1][part][name].sasv.numpy(), scores[part].label
    rates = sasv_eers(fused, labels)
    for key, value in (("sasv_eer", rates.sasv), ("sv_eer", rates.sv), ("spf_eer", rates.spf)):
        assert 100 * value == pytest.approx(expected[key], abs=tolerance[key]), key
    assert rates.sasv_threshold == pytest.approx(
        expected["sasv_thr"], rel=tolerance["sasv_thr_relative"]
    )
    positives, negatives = fused[labels == 1], fused[labels != 1]
    assert cllr(positives, negatives) == pytest.approx(expected["cllr"], abs=tolerance["cllr"])
    assert cllr_min(positives, negatives) == pytest.approx(
        expected["cllr_min"], abs=tolerance["cllr_min"]
    )


def test_gaussians_and_rho_of_the_papers_search(fitted, golden):
    for name in ("L3", "L3c"):
        rho = fitted[0][name].rho.item()
        assert rho == pytest.approx(golden["params"]["rho"][name], rel=1e-12)
    for name in ("L2", "L2c", "L3", "L3c"):
        density = fitted[0][name].density
        for key, code in CLASSES.items():
            expected = golden["params"]["gaussians_asv_cm"][key]
            np.testing.assert_allclose(density.mean[code], expected["mean_asv_cm"], rtol=1e-9)
            np.testing.assert_allclose(density.covariance[code], expected["cov_asv_cm"], rtol=1e-9)


SIDES = {"B1c": ("raw_asv", "raw_cm"), "L2c": ("llr_asv", "llr_cm"), "L3c": ("llr_asv", "llr_cm")}


@pytest.mark.parametrize("name", SIDES)
def test_calibration_parameters(fitted, golden, name):
    calibration = fitted[0][name].calibration
    for side, key in enumerate(SIDES[name]):
        expected = golden["params"]["calibration_exact"][key]
        assert calibration.weight[side, side].item() == pytest.approx(expected["a"], rel=1e-8)
        assert calibration.bias[side].item() == pytest.approx(expected["b"], rel=1e-8)
        assert calibration.weight[side, 1 - side] == 0


@pytest.mark.parametrize("name", ["B1c", "L2c"])
def test_calibration_parameters_without_penalty(scores, golden, name):
    """The trap of the paper's recipe: without the penalty B1c has 3.07 % instead of 2.78 %."""
    dev = scores["dev"]
    system = FusionSystem(**PAPER_SYSTEMS[name], penalty=0.0).fit(dev.asv, dev.cm, dev.label)
    for side, key in enumerate(SIDES[name]):
        expected = golden["params"]["calibration_exact"][key]["no_penalty"]
        weight, bias = system.calibration.weight[side, side], system.calibration.bias[side]
        assert weight.item() == pytest.approx(expected["a"], rel=1e-5)
        assert bias.item() == pytest.approx(expected["b"], rel=1e-5)
    if name == "B1c":
        fused = system(scores["eval"].asv, scores["eval"].cm)
        assert eval_metrics(fused, scores)[0] == pytest.approx(3.07, abs=0.005)


@pytest.mark.parametrize("name", SIDES)
def test_gradient_of_the_paper_calibration_is_below_1e_9(fitted, scores, golden, name):
    """In the units of the scores and of the weighted sum of losses, as the paper states it."""
    dev, system = scores["dev"], fitted[0][name]
    fused = (dev.asv, dev.cm) if name == "B1c" else fitted[1]["dev"]["L2"][:2]
    x = [np.asarray(side) for side in fused]
    bonafide = dev.label != 0
    sides = [(x[0][bonafide], dev.label[bonafide] == 1), (x[1], bonafide)]
    for side, (values, truth) in enumerate(sides):
        prior = truth.mean()
        a = system.calibration.weight[side, side].item()
        b = system.calibration.bias[side].item() + math.log(prior / (1 - prior))
        sign = np.where(truth, 1.0, -1.0)
        slope = np.where(truth, prior, 1 - prior) * -sign * expit(-sign * (a * values + b))
        gradient = [math.fsum(slope * values) + a, math.fsum(slope)]
        assert math.hypot(*gradient) < 1e-9


def textbook_loss(llrs, labels):
    """Effective-prior log-loss at ½ of both sides: target/nontarget and bona fide/spoof."""
    asv, cm = llrs
    sides = [(asv[labels == 1], asv[labels == 2]), (cm[labels != 0], cm[labels == 0])]
    return -sum(0.5 * logsigmoid(p).mean() + 0.5 * logsigmoid(-n).mean() for p, n in sides)


def multinomial_loss(llrs, labels):
    """Class-balanced log-loss of the softmax over spoof, target and nontarget."""
    asv, cm = llrs
    log_posterior = torch.stack([-cm, torch.zeros_like(asv), -asv]).log_softmax(dim=0)
    return -sum(log_posterior[code, labels == code].mean() for code in range(3)) / 3


def joint_loss(llrs, labels):
    """Log-loss of the nonlinear score at the effective priors of ASVspoof 5."""
    costs = cost_preset("asvspoof5")
    weights = costs.weight_fa_spoof, costs.weight_miss, costs.weight_fa_nontarget
    spoof, target, nontarget = (weight / sum(weights) for weight in weights)
    parts = torch.stack([math.log(nontarget) - llrs[0], math.log(spoof) - llrs[1]])
    margin = math.log(target) - parts.logsumexp(dim=0)
    share = {0: spoof, 1: target, 2: nontarget}
    return -sum(
        part * logsigmoid((1 if code == 1 else -1) * margin[labels == code]).mean()
        for code, part in share.items()
    )


LOSSES = {"effective_prior": textbook_loss, "multinomial": multinomial_loss, "joint": joint_loss}


@pytest.mark.parametrize("recipe", LOSSES)
def test_gradient_of_our_calibrations_is_below_1e_9(scores, recipe):
    """By autograd, in the units of the scores; off-diagonal weights are free in one recipe only."""
    dev = scores["dev"]
    labels = torch.from_numpy(dev.label)
    system = FusionSystem(calibration=recipe, costs="asvspoof5", penalty=0.0)
    system.fit(dev.asv, dev.cm, dev.label)
    weight, bias = (
        part.clone().requires_grad_() for part in system.calibration.state_dict().values()
    )
    pairs = torch.from_numpy(np.stack([dev.asv, dev.cm]))
    LOSSES[recipe](weight @ pairs + bias[:, None], labels).backward()
    free = weight.grad if recipe == "multinomial" else weight.grad.diagonal()
    assert math.hypot(free.norm().item(), bias.grad.norm().item()) < 1e-9


def eval_metrics(fused, scores):
    values, labels = fused.sasv.numpy(), scores["eval"].label
    return 100 * sasv_eers(values, labels).sasv, cllr(values[labels == 1], values[labels != 1])


@pytest.mark.parametrize(
    ("name", "eer", "bits", "rho"),
    [("L3t", 1.378, 0.0627, 0.926), ("M3", 1.359, 0.111, 0.956), ("J3", 1.489, 0.089, None)],
)
def test_systems_beyond_the_paper(fitted, scores, name, eer, bits, rho):
    """Heavy tails (L3t) beat the paper in EER and calibration, multinomial LLRs (M3) in EER."""
    found = eval_metrics(fitted[1]["eval"][name], scores)
    assert found[0] == pytest.approx(eer, abs=5e-4)
    assert found[1] == pytest.approx(bits, abs=5e-5 if name == "L3t" else 5e-4)
    if rho is not None:
        assert found[0] <= 1.40
        assert fitted[0][name].rho.item() == pytest.approx(rho, abs=5e-4)


JOINT = {"calibration": "joint", "rho": "priors", "costs": "a-dcf1"}
TEXTBOOK = {"density": "gaussian", "calibration": "effective_prior", "cm_positives": "target"}
VARIANTS = {
    "joint at a-dcf1": (JOINT, 1.564, 0.095),
    "heavy tails, flat rho": ({"density": "student_t", "rho": 0.5}, 1.583, 0.071),
    "textbook calibration": (TEXTBOOK, 1.415, 0.119),
    "ternary affine": ({"density": "gaussian", "calibration": "multinomial"}, 1.363, 0.147),
    "tied": ({"density": "tied"}, 1.397, 0.724),
    "diagonal": ({"density": "diagonal"}, 1.487, 0.181),
    "isotonic": ({"calibration": "pav"}, 1.545, 0.151),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_other_configurations_give_the_numbers_of_independent_trials(scores, name):
    arguments, eer, bits = VARIANTS[name]
    dev, unseen = scores["dev"], scores["eval"]
    system = FusionSystem(**arguments, rule="nonlinear").fit(dev.asv, dev.cm, dev.label)
    found = eval_metrics(system(unseen.asv, unseen.cm), scores)
    assert found[0] == pytest.approx(eer, abs=6e-4)
    assert found[1] == pytest.approx(bits, abs=6e-4)


# Actual normalised a-DCF on eval of the Bayes and of the linear policy.
POLICY_COSTS = {
    ("L3", "a-dcf1"): (0.0301, 0.467),
    ("L3", "asvspoof5"): (0.0329, 0.154),
    ("L3", "equal"): (0.0338, 0.819),
    ("L2c", "a-dcf1"): (0.0360, 0.130),
    ("L2c", "asvspoof5"): (0.0402, 0.084),
    ("L2c", "equal"): (0.0392, 0.190),
    ("L3t", "a-dcf1"): (0.0313, None),
    ("L3t", "asvspoof5"): (0.0329, None),
    ("L3t", "equal"): (0.0353, None),
}


@pytest.mark.parametrize(("name", "preset"), POLICY_COSTS)
def test_actual_costs_of_the_policies(fitted, scores, name, preset):
    bayes, linear = POLICY_COSTS[name, preset]
    table = compare_policies(fitted[1]["eval"][name], scores["eval"].label, cost_preset(preset))
    assert table["bayes"].empirical.normalised.item() == pytest.approx(bayes, abs=1.1e-4)
    if linear is not None:
        assert table["linear"].empirical.normalised.item() == pytest.approx(linear, abs=1.1e-3)
    assert table["bayes"].empirical.normalised < table["linear"].empirical.normalised


def test_an_affine_change_of_the_cm_score_changes_nothing_but_the_floor(scores):
    dev, unseen = scores["dev"], scores["eval"]
    system = FusionSystem(**PAPER_SYSTEMS["L3c"]).fit(dev.asv, 1.5 * dev.cm - 1, dev.label)
    fused = system(unseen.asv, 1.5 * unseen.cm - 1)
    assert eval_metrics(fused, scores)[0] == pytest.approx(1.4154, abs=5e-3)
