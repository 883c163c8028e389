"""Equal error rates against exact restatements, a peer, and their invariances."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from sklearn.metrics import roc_curve

from lightning_sasv.metrics.functional import crossing as search
from lightning_sasv.metrics.functional import eer, sasv_eers, unordered
from lightning_sasv.metrics.functional.eer import eer_of_sorted
from lightning_sasv.metrics.functional.ladder import crossing, ladder, points_eer
from lightning_sasv.metrics.functional.pav import hull_eer, score_hull
from lightning_sasv.trials import TrialClass
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
def test_rungs_alone_give_the_same_rates(pos: np.ndarray, neg: np.ndarray) -> None:
    rungs = ladder(np.sort(pos), np.sort(neg))
    assert crossing(rungs.first, rungs.below[0]).value == eer(pos, neg).value
    vertices = score_hull(np.sort(pos), np.sort(neg))
    assert hull_eer(vertices) == pytest.approx(eer(pos, neg, convention="rocch").value, abs=1e-15)


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


@given(tied_scores(max_size=30), tied_scores(max_size=30))
@settings(max_examples=200, deadline=None)
def test_a_misleading_sample_of_the_negatives_changes_nothing(
    pos: np.ndarray, neg: np.ndarray
) -> None:
    with mock.patch.object(search, "_FEW", 1):
        assert tuple(eer(pos, neg)) == asvspoof_eer(pos, neg)
        points = operating_points(pos, neg)
        interpolated = eer(pos, neg, convention="interpolated").value
        assert interpolated == pytest.approx(interpolated_eer(points), abs=1e-14)
        assert eer(pos, neg, convention="max").value == pytest.approx(max_eer(points), abs=1e-14)


def test_many_negatives_in_an_order_that_misleads(rng: np.random.Generator) -> None:
    pos = rng.normal(1, 1, 800).round(2)
    neg = np.concatenate([rng.normal(0, 1, 30_000).round(2), np.full(2_000, 0.5)])
    step = neg.size // int(neg.size ** (2 / 3))
    neg[::step] = 9.0  # all that the sample sees
    assert tuple(eer(pos, neg)) == asvspoof_eer(pos, neg)
    assert tuple(eer(pos, np.sort(neg))) == asvspoof_eer(pos, neg)
    assert tuple(eer(pos, neg[::step])) == asvspoof_eer(pos, neg[::step])


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


@given(tied_scores(2, 30), st.data())
@settings(max_examples=60, deadline=None)
def test_negatives_among_other_trials(scores: np.ndarray, data: st.DataObject) -> None:
    code = st.sampled_from([0, 2])
    codes = np.array(data.draw(st.lists(code, min_size=scores.size, max_size=scores.size)), np.int8)
    chosen = scores[codes == 0]
    if not chosen.size:
        return
    pos = np.array([-1.0, 0.5, 0.5, 1.0])
    with mock.patch.object(search, "_FEW", 1), mock.patch.object(unordered, "BLOCK", 5):
        among = eer_of_sorted(pos, unordered.Unordered(scores, codes, (TrialClass.SPOOF,)))
    assert among == eer(pos, chosen)


def test_points_around_the_diagonal() -> None:
    positives, negatives = np.array([0, 1, 2]), np.array([0, 1, 2])
    assert points_eer(positives, negatives) == 0.5
    assert points_eer(positives, negatives, worst=True) == 0.5


def test_unknown_convention_is_named() -> None:
    with pytest.raises(ValueError, match="unknown convention 'best'"):
        eer([1.0], [0.0], convention="best")  # type: ignore[arg-type]


def test_tensors_and_arrays_agree() -> None:
    generator = torch.Generator().manual_seed(0)
    pos, neg = torch.randn(40, generator=generator) + 1, torch.randn(60, generator=generator)
    assert eer(pos, neg) == eer(pos.numpy(), neg.numpy()) == eer(pos.double(), neg.tolist())
