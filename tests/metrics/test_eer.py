"""Equal error rates against exact restatements, a peer, and their invariances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import brentq
from sklearn.metrics import roc_curve

from lightning_sasv.metrics.functional import eer, sasv_eers
from lightning_sasv.metrics.functional.eer import Convention
from tests.metrics.oracles import asvspoof_eer, check_rates, tied_scores

CONVENTIONS: tuple[Convention, ...] = ("asvspoof", "interpolated", "max", "rocch")


@given(tied_scores(), tied_scores())
@settings(max_examples=200)
def test_asvspoof_rule_bit_for_bit_and_others_to_exact_fractions(
    pos: np.ndarray, neg: np.ndarray
) -> None:
    check_rates(lambda convention: eer(pos, neg, convention=convention), pos, neg)  # type: ignore[arg-type]
    value, threshold = eer(pos, neg, convention="max")
    assert max(np.mean(pos <= threshold), np.mean(neg > threshold)) == pytest.approx(value)


def test_large_random_case_against_the_plain_rule(rng: np.random.Generator) -> None:
    pos, neg = rng.normal(1, 1, 3000).round(2), rng.normal(0, 1, 7000).round(2)
    assert tuple(eer(pos, neg)) == asvspoof_eer(pos, neg)


@pytest.mark.parametrize(
    ("pos", "neg", "expected"),
    [
        ([2.0, 3.0], [0.0, 1.0], (0, 0, 0, 0)),
        ([0.0, 1.0], [2.0, 3.0], (1, 1, 1, 0.5)),
        ([1.0] * 3, [1.0] * 5, (1, 0.5, 1, 0.5)),
    ],
)
def test_perfect_inverted_and_constant_scores(
    pos: list[float], neg: list[float], expected: tuple[float, ...]
) -> None:
    found = [eer(pos, neg, convention=convention).value for convention in CONVENTIONS]
    assert tuple(found) == expected


@given(tied_scores(), tied_scores(), tied_scores())
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


def test_unknown_convention_is_named() -> None:
    with pytest.raises(ValueError, match="unknown convention 'best'"):
        eer([1.0], [0.0], convention="best")  # type: ignore[arg-type]
