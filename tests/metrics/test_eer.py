"""Equal error rates against exact restatements, a peer, and their invariances."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from scipy.optimize import brentq
from sklearn.metrics import roc_curve

from lightning_sasv.metrics.functional import eer, sasv_eers
from tests.metrics.oracles import (
    asvspoof_eer,
    interpolated_eer,
    max_eer,
    operating_points,
    rocch_eer,
    tied_scores,
)

CONVENTIONS = ("asvspoof", "interpolated", "max", "rocch")


@given(tied_scores(), tied_scores())
@settings(max_examples=200, deadline=None)
def test_asvspoof_rule_bit_for_bit(pos: np.ndarray, neg: np.ndarray) -> None:
    assert tuple(eer(pos, neg)) == asvspoof_eer(pos, neg)


@given(tied_scores(), tied_scores())
@settings(max_examples=100, deadline=None)
def test_other_conventions_against_exact_fractions(pos: np.ndarray, neg: np.ndarray) -> None:
    points = operating_points(pos, neg)
    oracles = {"interpolated": interpolated_eer, "max": max_eer, "rocch": rocch_eer}
    for convention, oracle in oracles.items():
        found = eer(pos, neg, convention=convention)  # type: ignore[arg-type]
        assert found.value == pytest.approx(oracle(points), abs=1e-14), convention


@given(tied_scores(), tied_scores())
@settings(max_examples=100, deadline=None)
def test_threshold_has_the_error_rates_that_it_claims(pos: np.ndarray, neg: np.ndarray) -> None:
    value, threshold = eer(pos, neg, convention="max")
    assert max(np.mean(pos <= threshold), np.mean(neg > threshold)) == pytest.approx(value)


@given(tied_scores(), tied_scores(), tied_scores())
@settings(max_examples=100, deadline=None)
def test_three_rates_are_those_of_their_tasks(
    tar: np.ndarray, non: np.ndarray, spf: np.ndarray
) -> None:
    scores = np.concatenate([spf, tar, non])
    labels = np.repeat([0, 1, 2], [spf.size, tar.size, non.size])
    for convention in CONVENTIONS:
        found = sasv_eers(scores, labels, convention=convention)  # type: ignore[arg-type]
        for negatives, value, threshold in zip(
            (np.concatenate([non, spf]), non, spf), found[:3], found[3:], strict=True
        ):
            alone = eer(tar, negatives, convention=convention)  # type: ignore[arg-type]
            assert (value, threshold) == tuple(alone)


def test_large_random_case_against_the_plain_rule(rng: np.random.Generator) -> None:
    pos, neg = rng.normal(1, 1, 3000).round(2), rng.normal(0, 1, 7000).round(2)
    assert tuple(eer(pos, neg)) == asvspoof_eer(pos, neg)


def test_agrees_with_the_root_on_scikit_learns_curve(rng: np.random.Generator) -> None:
    pos, neg = rng.normal(1, 1, 400), rng.normal(0, 1, 700)
    truth = np.r_[np.ones(400), np.zeros(700)]
    fpr, tpr, _ = roc_curve(truth, np.r_[pos, neg], drop_intermediate=False)
    root = brentq(lambda x: 1 - x - np.interp(x, fpr, tpr), 0, 1, xtol=1e-14)
    assert eer(pos, neg, convention="interpolated").value == pytest.approx(root, abs=1e-12)


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_increasing_maps_change_nothing(convention: str, rng: np.random.Generator) -> None:
    pos, neg = rng.normal(1, 1, 300).round(1), rng.normal(0, 1, 500).round(1)
    raw = eer(pos, neg, convention=convention).value  # type: ignore[arg-type]
    for increasing in (np.exp, np.arctan, lambda x: 3 * x - 7):
        mapped = eer(increasing(pos), increasing(neg), convention=convention)  # type: ignore[arg-type]
        assert mapped.value == raw


@given(tied_scores(), tied_scores())
@settings(max_examples=100, deadline=None)
def test_swapping_the_classes_of_negated_scores(pos: np.ndarray, neg: np.ndarray) -> None:
    for convention in ("interpolated", "rocch"):
        here = eer(pos, neg, convention=convention).value  # type: ignore[arg-type]
        there = eer(-neg, -pos, convention=convention).value  # type: ignore[arg-type]
        assert here == pytest.approx(there, abs=1e-14)


def test_normal_scores_have_the_closed_form(rng: np.random.Generator) -> None:
    pos, neg = rng.normal(2, 1, 400_000), rng.normal(0, 1, 400_000)
    expected = 0.15865525393145707  # Φ(-1)
    for convention in CONVENTIONS:
        value = eer(pos, neg, convention=convention).value  # type: ignore[arg-type]
        assert value == pytest.approx(expected, abs=2e-3)


def test_constant_scores_by_convention() -> None:
    pos, neg = np.ones(3), np.ones(5)
    expected = {"asvspoof": 1.0, "interpolated": 0.5, "max": 1.0, "rocch": 0.5}
    for convention, value in expected.items():
        assert eer(pos, neg, convention=convention).value == value  # type: ignore[arg-type]


def test_perfect_and_inverted_scores() -> None:
    for convention in CONVENTIONS:
        assert eer([2.0, 3.0], [0.0, 1.0], convention=convention).value == 0  # type: ignore[arg-type]
    assert eer([0.0], [1.0]).value == 1
    assert eer([0.0, 1.0], [2.0, 3.0], convention="interpolated").value == 1
    assert eer([0.0, 1.0], [2.0, 3.0], convention="rocch").value == 0.5


def test_unknown_convention_is_named() -> None:
    with pytest.raises(ValueError, match="unknown convention 'best'"):
        eer([1.0], [0.0], convention="best")  # type: ignore[arg-type]


def test_tensors_and_arrays_agree() -> None:
    generator = torch.Generator().manual_seed(0)
    pos, neg = torch.randn(40, generator=generator) + 1, torch.randn(60, generator=generator)
    assert eer(pos, neg) == eer(pos.numpy(), neg.numpy()) == eer(pos.double(), neg.tolist())
