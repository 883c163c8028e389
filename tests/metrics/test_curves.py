"""DET, ROC and ECE curves against scikit-learn and direct sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from scipy.special import expit
from sklearn.metrics import auc, log_loss, roc_auc_score
from sklearn.metrics import roc_curve as peer_roc

from lightning_sasv.metrics.functional import cllr_decomposition, det_curve, ece_curve, roc_curve
from tests.metrics.oracles import operating_points, tied_scores


@given(tied_scores(), tied_scores())
def test_det_curve_holds_every_operating_point(pos: np.ndarray, neg: np.ndarray) -> None:
    curve = det_curve(pos, neg)
    expected = np.array(operating_points(pos, neg), dtype=float)
    assert np.stack([curve.miss, curve.false_acceptance], axis=1) == pytest.approx(expected)
    assert curve.thresholds.tolist() == [-math.inf, *np.unique(np.r_[pos, neg])]


def test_roc_curve_is_scikit_learns(rng: np.random.Generator) -> None:
    pos, neg = rng.normal(1, 1, 200).round(1), rng.normal(0, 1, 300).round(1)
    truth, scores = np.r_[np.ones(200), np.zeros(300)], np.r_[pos, neg]
    fpr, tpr, _ = peer_roc(truth, scores, drop_intermediate=False)
    curve = roc_curve(pos, neg)
    assert curve.false_positive == pytest.approx(fpr, abs=1e-14)
    assert curve.true_positive == pytest.approx(tpr, abs=1e-14)
    area = auc(curve.false_positive, curve.true_positive)
    assert area == pytest.approx(roc_auc_score(truth, scores), abs=1e-12)
    accepted = [np.mean(pos > t) for t in curve.thresholds]
    assert curve.true_positive == pytest.approx(accepted)


def test_cross_entropy_curve_is_the_log_loss_of_the_posteriors(rng: np.random.Generator) -> None:
    pos, neg = rng.normal(2, 2, 50).round(1), rng.normal(-2, 2, 80).round(1)
    grid = np.array([-1.5, 0.0, 0.7])
    curve = ece_curve(pos, neg, grid)
    truth = np.r_[np.ones(50), np.zeros(80)]
    for log10_odds, value in zip(grid, curve.ece, strict=True):
        odds = log10_odds * math.log(10)
        prior = expit(odds)
        weights = np.r_[np.full(50, prior / 50), np.full(80, (1 - prior) / 80)]
        loss = log_loss(truth, expit(np.r_[pos, neg] + odds), sample_weight=weights)
        assert value == pytest.approx(loss / math.log(2), rel=1e-9)
    even = curve.ece[1], curve.ece_min[1], curve.reference[1]
    assert even == pytest.approx((*cllr_decomposition(pos, neg)[:2], 1), rel=1e-13)


def test_minimum_and_reference_bound_the_curve(rng: np.random.Generator) -> None:
    curve = ece_curve(rng.normal(3, 1, 500), rng.normal(-1, 1, 500))
    assert curve.log10_odds.size == 81
    assert (curve.ece_min <= curve.ece + 1e-12).all()
    assert (curve.ece_min <= curve.reference + 1e-12).all()
    prior = expit(curve.log10_odds * math.log(10))
    entropy = -prior * np.log2(prior) - (1 - prior) * np.log2(1 - prior)
    assert curve.reference == pytest.approx(entropy, rel=1e-9)
