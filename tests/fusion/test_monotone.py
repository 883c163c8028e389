"""M3d: the constrained optimum of M3's loss, and decisions that no better score turns round."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from lightning_sasv.decisions import PRESETS, CostModel, accept, inversions
from lightning_sasv.fusion import build_system
from lightning_sasv.fusion.columns import Columns
from lightning_sasv.fusion.logistic import (
    Basis,
    fit_monotone,
    fit_multinomial,
    minimise_pair_loss,
    multinomial_loss,
)
from lightning_sasv.trials import FusedScores


def drawn(seed: int, signs: tuple[int, ...] = (1, 1, 1, 1), n: int = 600) -> tuple[np.ndarray, ...]:
    """Two ASV and two CM columns, of which some point the wrong way."""
    random, labels = np.random.default_rng(seed), np.arange(n) % 3
    good = np.stack([labels == 1, labels == 1, labels != 0, labels != 0])
    scores = random.normal(size=(4, n)) + 1.5 * good * np.array(signs)[:, None]
    return scores + 0.6 * random.normal(size=n), labels


def value(weight: np.ndarray, bias: np.ndarray, scores: np.ndarray, labels: np.ndarray) -> float:
    basis = Basis(scores)
    return basis.pair_loss(np.column_stack([weight, bias]), multinomial_loss(labels))[0]


@pytest.mark.parametrize("signs", [(1, 1, 1, 1), (1, -1, 1, 1), (-1, -1, 1, -1), (1, 1, -1, 0)])
def test_it_is_the_least_loss_of_all_choices_of_columns_at_zero(signs: tuple[int, ...]) -> None:
    scores, labels = drawn(1, signs)
    columns = Columns(("asv_a", "asv_b", "cm_a", "cm_b"))
    weight, bias = fit_monotone(scores, labels, columns=columns)
    assert (weight >= 0).all()
    assert not weight[0, 2:].any()
    assert not weight[1, :2].any()
    losses = []
    for kept in itertools.product([False, True], repeat=4):  # brute force over the active sets
        free = np.zeros((2, 5), dtype=bool)
        free[0, :2], free[1, 2:4], free[:, -1] = kept[:2], kept[2:], True
        start = np.zeros((2, 5))
        theta = minimise_pair_loss(Basis(scores), multinomial_loss(labels), 1e-10, start, free)
        if (theta[:, :-1] >= 0).all():
            losses.append(value(theta[:, :-1], theta[:, -1], scores, labels))
    assert value(weight, bias, scores, labels) == pytest.approx(min(losses), abs=1e-12)


def test_with_one_score_of_each_kind_that_says_nothing_of_the_other_it_is_near_m3() -> None:
    random, labels = np.random.default_rng(0), np.arange(30_000) % 3
    scores = random.normal(size=(2, 30_000)) + 2 * np.stack([labels == 1, labels != 0])
    scores[0, labels == 0] += 2  # spoofs have the voice
    own, free = fit_monotone(scores, labels), fit_multinomial(scores, labels)
    assert np.diagonal(own[0]) == pytest.approx(np.diagonal(free[0]), abs=0.08)


def test_a_column_at_zero_is_named() -> None:
    scores, labels = drawn(2, (1, -1, 1, 1))
    names = ("asv_good", "asv_bad", "cm_a", "cm_b")
    system = build_system("M3d").fit(scores[:2].T, scores[2:].T, labels, columns=names)
    texts = [one["text"] for one in system.warnings if one["code"] == "fixed"]
    assert len(texts) == 1
    assert texts[0].startswith("the weight of asv_bad would be negative; it is fixed at 0")
    pair = build_system("M3d").fit(-scores[0], scores[2], labels)
    assert [one["text"][:17] for one in pair.warnings if one["code"] == "fixed"] == [
        "the weight of asv"
    ]
    assert not pair.calibration.weight[0].any()


@pytest.mark.parametrize("seed", range(3))
def test_nobody_is_rejected_for_a_better_score(seed: int) -> None:
    scores, labels = drawn(seed, (1, -1, 1, 1))
    fused = build_system("M3d").fit(scores[:2].T, scores[2:].T, labels)(scores[:2].T, scores[2:].T)
    for costs in (*PRESETS.values(), CostModel(3.0, 0.5, 7.0)):
        accepted = accept(fused, costs).numpy()
        assert 0 < accepted.mean() < 1
        assert not inversions(accepted, scores).any()


@pytest.mark.parametrize("columns", [1, 2, 4])
def test_inversions_are_those_of_all_pairs(columns: int) -> None:
    random = np.random.default_rng(columns)
    for _ in range(20):
        scores = random.integers(0, 6, size=(columns, 60)).astype(float)
        accepted = random.random(60) < random.random()
        nowhere_worse = (scores[:, :, None] >= scores[:, None, :]).all(axis=0)
        expected = ~accepted & (nowhere_worse & accepted).any(axis=1)
        assert np.array_equal(inversions(accepted, scores), expected)
    assert not inversions(np.zeros(60, dtype=bool), scores).any()
    fused = FusedScores(scores[0], scores[0], scores[0])
    assert not inversions(accept(fused, "equal"), scores[:1]).any()
