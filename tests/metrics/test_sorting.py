"""Scores in order, and in rough order: against numpy's own sort, and the hull against all rungs."""

from __future__ import annotations

import math
import subprocess
import sys
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_sasv.metrics.functional import pav, sorting
from lightning_sasv.metrics.functional.buckets import Buckets, overlap
from lightning_sasv.metrics.functional.ladder import ladder
from lightning_sasv.metrics.functional.sorted_trials import SortedTrials
from lightning_sasv.metrics.functional.steps import Steps
from lightning_sasv.trials import TrialClass
from tests.metrics.oracles import tied_scores

ANY = st.lists(st.floats(allow_nan=False), min_size=1).map(np.array)


@given(ANY, st.sampled_from([0, 10**9]))
@settings(max_examples=200, deadline=None)
def test_ascending_is_numpys_sort(scores: np.ndarray, few: int) -> None:
    before = scores.copy()
    with mock.patch.object(sorting, "_FEW", few):
        assert (sorting.ascending(scores) == np.sort(scores)).all()
    assert np.array_equal(scores, before)


def test_ascending_of_strided_and_many_scores(rng: np.random.Generator) -> None:
    scores = rng.normal(size=40_000)
    assert (sorting.ascending(scores[::-2]) == np.sort(scores[::-2])).all()


@given(st.lists(ANY, min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_merged_are_the_distinct_scores(parts: list[np.ndarray]) -> None:
    found = sorting.merged(*(np.sort(part) for part in parts))
    assert (found == np.unique(np.concatenate(parts))).all()


_FORKING = """
import os, sys
import numpy, polars
from lightning_sasv.metrics.functional.sorting import ascending

scores = numpy.random.default_rng(0).normal(size=100_000)
polars.DataFrame({"a": scores, "b": scores}).sort("a")  # starts the library's threads
child = os.fork()
if not child:
    os._exit(0 if (numpy.diff(ascending(scores)) >= 0).all() else 3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_can_sort_though_its_parent_has_threads() -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", _FORKING], check=True, timeout=120)


@given(ANY, st.floats(-1e300, 1e300), st.floats(1e-300, 1e300), st.integers(4, 50))
@settings(max_examples=300, deadline=None)
def test_buckets_keep_the_order(scores: np.ndarray, low: float, width: float, number: int) -> None:
    high = low + width
    if not low < high or not math.isfinite((number - 3) / (high - low)):
        return
    buckets = Buckets(low, high, number)
    ranked = np.sort(np.concatenate([scores, [low, high]]))
    of = buckets.of(ranked)
    assert (np.diff(of) >= 0).all()
    assert (ranked[of == 0] < low).all(), "the first is for what lies below"
    assert (of[ranked < low - 1e-9 * width] == 0).all()
    assert (of[ranked <= high] < number - 1).all(), "the last is for what lies above"
    assert (buckets.counts(ranked) == np.bincount(of, minlength=number)).all()
    wanted = np.arange(number) % 2 == 0
    assert (buckets.within(ranked, wanted) == ranked[of % 2 == 0]).all()


@pytest.mark.parametrize(
    ("pos", "neg"),
    [([2.0], [1.0]), ([1.0], [1.0]), ([-math.inf, 1], [3.0]), ([0.0], [math.inf]), ([0], [5e-324])],
)
def test_no_buckets_without_a_finite_range_in_common(pos: list[float], neg: list[float]) -> None:
    assert overlap(np.array(pos, float), np.array(neg, float)) is None


def _hull_of_all_rungs(pos: np.ndarray, neg: np.ndarray) -> pav.Hull:
    rungs = ladder(np.sort(pos), np.sort(neg))
    return pav.hull(rungs.first, rungs.below[0])


def _same_hull(pos: np.ndarray, neg: np.ndarray) -> None:
    found, expected = pav.score_hull(pos, neg), _hull_of_all_rungs(pos, neg)
    assert np.array_equal(found.positives, expected.positives)
    assert np.array_equal(found.negatives, expected.negatives)


@given(tied_scores(max_size=60), tied_scores(max_size=60))
@settings(max_examples=300, deadline=None)
def test_hull_by_buckets_of_ties(pos: np.ndarray, neg: np.ndarray) -> None:
    with mock.patch.object(pav, "_FEW", 0):
        _same_hull(pos, neg)


@given(ANY, ANY)
@settings(max_examples=300, deadline=None)
def test_hull_by_buckets_of_any_scores(pos: np.ndarray, neg: np.ndarray) -> None:
    with mock.patch.object(pav, "_FEW", 0):
        _same_hull(pos, neg)


@pytest.mark.parametrize("kind", ["plain", "sigmoid", "rounded", "outliers", "infinite", "apart"])
def test_hull_by_buckets_of_many_scores(kind: str, rng: np.random.Generator) -> None:
    pos, neg = rng.normal(2, 1, 20_000), rng.normal(0, 1.5, 60_000)
    if kind == "sigmoid":
        pos, neg = (1 / (1 + np.exp(-9 * part)) for part in (pos, neg))
    elif kind == "rounded":
        pos, neg = pos.round(1), neg.round(1)
    elif kind in ("outliers", "infinite"):
        far = 1e12 if kind == "outliers" else math.inf
        pos[3], pos[4], neg[5], neg[6] = -far, far, -far, far
    elif kind == "apart":
        neg -= 100
    _same_hull(pos, neg)


@given(tied_scores(), tied_scores(), st.booleans(), st.data())
@settings(max_examples=100, deadline=None)
def test_curve_is_the_share_at_each_threshold(
    own: np.ndarray, other: np.ndarray, accepted: bool, data: st.DataObject
) -> None:
    own = np.sort(np.append(own, -math.inf)) if data.draw(st.booleans()) else np.sort(own)
    weights = np.array(data.draw(st.lists(st.integers(1, 3), min_size=own.size, max_size=own.size)))
    grid = np.concatenate([[-math.inf], np.unique(np.concatenate([own, other]))])
    found = Steps(own, weights).curve(grid, accepted=accepted)
    rejected = [0.0] + [float(weights[own <= x].sum()) for x in grid[1:]]
    shares = np.array(rejected) / weights.sum()
    assert found == pytest.approx(1 - shares if accepted else shares, abs=1e-15)


def test_classes_are_sorted_once_and_not_mixed_up(rng: np.random.Generator) -> None:
    codes = np.array([0, 1, 2, 1, 0], dtype=np.int8)
    trials = SortedTrials({"asv": rng.normal(size=5), "cm": rng.normal(size=5)}, codes)
    target, nontarget = TrialClass.TARGET, TrialClass.NONTARGET
    both = trials.of("asv", target, nontarget)
    assert sorted(trials.of("asv", target).trials) == [1, 3]
    assert sorted(both.trials) == [1, 2, 3]
    assert trials.of("asv", target, nontarget) is both
    assert (trials.of("cm", target).values == np.sort(trials.columns["cm"][[1, 3]])).all()
