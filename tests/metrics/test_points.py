"""The one count: sorted classes with weights, against brute force and numpy's own sort."""

from __future__ import annotations

import math
from functools import partial
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from lightning_sasv import checks
from lightning_sasv.checks import EmptyClassError
from lightning_sasv.metrics.functional import pav, points
from lightning_sasv.metrics.functional.eer import eer_of
from lightning_sasv.metrics.functional.pav import hull, may_dip, pools
from lightning_sasv.metrics.functional.points import (
    Classes,
    Detection,
    Steps,
    lumped,
    operating_points,
    order,
)
from lightning_sasv.trials import TrialClass
from tests.metrics.oracles import check_rates, tied_scores

ANY = st.lists(st.floats(allow_nan=False), min_size=1).map(np.array)
WITH_INFINITIES = tied_scores().flatmap(
    lambda x: st.sampled_from([x, np.append(x, math.inf), np.append(x, -math.inf)])
)


@given(ANY, st.sampled_from([0, 10**9]), st.integers(0, 2**9))
@settings(max_examples=200)
def test_order_is_that_of_the_scores(scores: np.ndarray, few: int, alike: int) -> None:
    near = np.concatenate([scores, 1 + np.arange(alike, 0, -1) * 2.0**-52])  # agree in high bits
    trials = np.arange(0, near.size, 2)
    with mock.patch.object(points, "_FEW", few), mock.patch.object(checks, "BLOCK", 3):
        found = order(near, trials)
    assert (near[found] == np.sort(near[trials])).all()
    assert (np.sort(found) == trials).all()


def weights_for(data: st.DataObject, size: int) -> np.ndarray:
    weights = data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size).filter(any))
    return np.array(weights)


@given(WITH_INFINITIES, st.data())
@settings(max_examples=200)
def test_counts_are_those_of_repeated_trials(scores: np.ndarray, data: st.DataObject) -> None:
    values = np.sort(scores)
    w = weights_for(data, values.size)
    steps, literal = Steps(values, w), np.repeat(values, w)
    assert steps.total == literal.size
    for threshold in (-math.inf, *values, *(values + 0.25), math.inf):
        assert steps.below(threshold) == (literal < threshold).sum()
        assert steps.up_to(threshold) == (literal <= threshold).sum()
    for count in range(1, literal.size + 1):
        assert steps.value(count) == literal[count - 1]
    assert steps.sum(np.ones_like) == literal.size


@given(WITH_INFINITIES, WITH_INFINITIES, st.data())
@settings(max_examples=300)
def test_every_equal_error_rate_of_weights_is_that_of_repeated_trials(
    pos: np.ndarray, neg: np.ndarray, data: st.DataObject
) -> None:
    w, v = weights_for(data, pos.size), weights_for(data, neg.size)
    pos, neg = np.sort(pos), np.sort(neg)
    task = Detection(Steps(pos), Steps(neg)).weighted(Steps(pos, w), Steps(neg, v))
    check_rates(partial(eer_of, task), np.repeat(pos, w), np.repeat(neg, v))


@given(WITH_INFINITIES, WITH_INFINITIES)
@settings(max_examples=300)
def test_negatives_below_every_positive_may_be_one_lump(pos: np.ndarray, neg: np.ndarray) -> None:
    first = Steps(np.sort(pos))
    with mock.patch.object(checks, "BLOCK", 2):
        lump = lumped(neg, first.values[0])
    tasks = [Detection(first, x) for x in (lump, Steps(np.sort(neg)))]
    check_rates(partial(eer_of, tasks[0]), pos, neg)
    assert np.array_equal(*(np.stack(hull(*task.pooled)) for task in tasks))


@given(WITH_INFINITIES, tied_scores(), tied_scores(), st.data())
@settings(max_examples=200)
def test_last_rejected_of_several_kinds_is_that_of_all_together(
    pos: np.ndarray, one: np.ndarray, two: np.ndarray, data: st.DataObject
) -> None:
    parts = [np.sort(part) for part in (pos, one, two)]
    weights = [weights_for(data, part.size) for part in parts]
    task = Detection(*(Steps(part, w) for part, w in zip(parts, weights, strict=True)))
    literal = [np.repeat(part, w) for part, w in zip(parts, weights, strict=True)]
    negatives = np.sort(np.concatenate(literal[1:]))
    for i in range(literal[0].size + 1):
        for m in range(negatives.size + 1):
            rejected = [*literal[0][:i], *negatives[:m]]
            assert task.last_rejected(i, m) == max(rejected, default=-math.inf)


@given(WITH_INFINITIES, WITH_INFINITIES, st.data())
def test_operating_points_reject_what_they_say(
    one: np.ndarray, two: np.ndarray, data: st.DataObject
) -> None:
    parts = [np.sort(one), np.sort(two)]
    weights = [weights_for(data, part.size) for part in parts]
    found = operating_points(*(Steps(part) for part in parts))
    assert found.thresholds.tolist() == [-math.inf, *np.unique(np.concatenate(parts))]
    steps = [Steps(part, w) for part, w in zip(parts, weights, strict=True)]
    for counts, part, w in zip(found.rejected(*steps), parts, weights, strict=True):
        assert counts.tolist() == [0, *(w[part <= t].sum() for t in found.thresholds[1:])]


@given(tied_scores(max_size=15), tied_scores(max_size=15))
@settings(max_examples=200)
def test_pools_are_isotonic_regression(pos: np.ndarray, neg: np.ndarray) -> None:
    scores, truth = np.r_[pos, neg], np.r_[np.ones(pos.size), np.zeros(neg.size)]
    posterior = np.clip(IsotonicRegression().fit_transform(scores, truth), 0, 1)
    found = pools(pos, neg)
    assert (found.positives.sum(), found.negatives.sum()) == (pos.size, neg.size)
    share = found.positives / (found.positives + found.negatives)
    for score, expected in zip(scores, posterior, strict=True):
        (at,) = np.flatnonzero((found.start <= score) & (score <= found.end))
        assert share[at] == pytest.approx(expected, abs=1e-12)
    with np.errstate(divide="ignore"):
        odds = np.log(found.positives / pos.size) - np.log(found.negatives / neg.size)
    assert found.llr == pytest.approx(odds)
    mild = pools(pos, neg, misleading=1)
    assert np.isfinite(mild.llr).all()
    assert (np.diff(mild.llr) > 0).all()
    assert (mild.positives.sum(), mild.negatives.sum()) == (pos.size + 1, neg.size + 1)


@given(tied_scores(), tied_scores(), st.integers(1, 4))
def test_what_does_not_dip_below_a_coarse_hull_is_not_needed(
    pos: np.ndarray, neg: np.ndarray, every: int
) -> None:
    parts = Steps(np.sort(pos)), Steps(np.sort(neg))
    counts = [part[1:] for part in operating_points(*parts).rejected(*parts)]
    kept = np.arange(counts[0].size) % every == 0
    kept[-1] = True
    coarse = hull(*(part[kept] for part in counts))
    needed = kept | may_dip(coarse, counts[0], counts[1])
    refined, whole = hull(*(part[needed] for part in counts)), hull(*counts)
    assert all(np.array_equal(a, b) for a, b in zip(refined, whole, strict=True))


def test_classes_are_sorted_once_and_not_mixed_up(rng: np.random.Generator) -> None:
    codes = np.array([0, 1, 2, 1, 0], dtype=np.int8)
    classes = Classes({"asv": rng.normal(size=5), "cm": rng.normal(size=5)}, codes)
    target, nontarget = TrialClass.TARGET, TrialClass.NONTARGET
    both = classes.steps("asv", target, nontarget)
    assert classes.trials(target, nontarget).tolist() == [1, 2, 3]
    assert classes.steps("asv", target, nontarget) is both
    assert (classes.steps("cm", target).values == np.sort(classes.columns["cm"][[1, 3]])).all()
    heavy = classes.weighted(np.array([0, 3, 0, 1, 2]))
    assert heavy.steps("asv", target, nontarget).total == 4
    assert heavy.steps("asv", target).values is classes.steps("asv", target).values
    with pytest.raises(EmptyClassError, match="no nontarget trials"):
        heavy.steps("asv", nontarget)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=40))
def test_few_groups_are_pooled_as_many_are(groups: list[tuple[int, int]]) -> None:
    """Both ways give the same log-likelihood ratios; equal shares may be one pool or two."""
    some = np.array([pair for pair in groups if sum(pair)] or [(1, 1)])
    shares = []
    for few in (0, pav.FEW):
        with mock.patch.object(pav, "FEW", few):
            ends = pav.pooled(some[:, 0], some[:, 1])
        sums = np.add.reduceat(some, ends[:-1])
        shares.append(np.repeat(sums[:, 0] / sums.sum(1), np.diff(ends)))
    np.testing.assert_allclose(*shares, atol=1e-12)
    assert (np.diff(shares[1]) >= 0).all()
