"""The t-EER from a window of the scores: the very result of sorting all of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_sasv.metrics.functional import meeting_window, t_eer, teer
from lightning_sasv.metrics.functional.teer import TandemEER, tandem_of
from tests.metrics.oracles import trials

Trials = tuple[np.ndarray, np.ndarray, np.ndarray]


@contextmanager
def windows_of(number: int, most: float = 1.0) -> Iterator[None]:
    """So many buckets, for however few trials."""
    with (
        mock.patch.object(teer, "MANY", 0),
        mock.patch.multiple(meeting_window, _NUMBER=number, _MOST=most),
    ):
        yield


def sorted_all(case: Trials) -> TandemEER:
    with mock.patch.object(teer, "MANY", 10**12):
        return t_eer(*case)


def same(found: TandemEER, expected: TandemEER, case: Trials) -> bool:
    """Equal but for rounding and the choice between pairs of thresholds of equal residual."""
    if found.asv_threshold != expected.asv_threshold or found.cm_threshold != expected.cm_threshold:
        assert residual_at(case, found) == pytest.approx(found.residual, abs=1e-13)
    pairs = ((x.value, x.residual, x.exists, x.closest) for x in (found, expected))
    return bool(next(pairs) == pytest.approx(next(pairs), rel=0, abs=1e-13, nan_ok=True))


def residual_at(case: Trials, pair: TandemEER) -> float:
    """Largest difference of the tandem's error rates at a pair of thresholds."""
    asv, cm, labels = case
    passed = np.mean(cm[labels != 0] > pair.cm_threshold)
    accepted = [np.mean(asv[labels == code] > pair.asv_threshold) for code in (1, 2, 0)]
    spoof = np.mean(cm[labels == 0] > pair.cm_threshold)
    rates = 1 - passed * accepted[0], passed * accepted[1], spoof * accepted[2]
    return float(max(rates) - min(rates))


@given(trials(10), st.integers(4, 12))
@settings(max_examples=500, deadline=None)
def test_few_trials_with_ties(case: Trials, number: int) -> None:
    with windows_of(number):
        found = t_eer(*case)
    assert same(found, sorted_all(case), case)


@given(st.integers(0, 10**6), st.floats(-1, 3), st.floats(-1, 4), st.sampled_from([1, 2, 9]))
@settings(max_examples=150, deadline=None)
def test_many_trials(seed: int, shift: float, cm_shift: float, digits: int) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, 3000, p=[0.5, 0.1, 0.4]).astype(np.int8)
    asv = rng.normal(size=3000) + 2 * (labels == 1) + shift * (labels == 0)
    cm = rng.normal(size=3000) + cm_shift * (labels != 0)
    case = asv.round(digits), cm.round(digits), labels
    with windows_of(64):
        found = t_eer(*case)
    assert same(found, sorted_all(case), case)


def test_most_scores_are_not_sorted(rng: np.random.Generator) -> None:
    labels = rng.choice(3, 60_000).astype(np.int8)
    asv = rng.normal(size=60_000) + 3 * (labels == 1) + 2 * (labels == 0)
    case = asv, rng.normal(size=60_000) + 3 * (labels != 0), labels
    with mock.patch.object(teer, "tandem_of", side_effect=AssertionError):
        found = t_eer(*case)
    assert found.exists
    assert same(found, sorted_all(case), case)


@pytest.mark.parametrize("kind", ["constant", "infinite", "outliers", "tiny"])
def test_columns_without_a_window(kind: str, rng: np.random.Generator) -> None:
    labels = rng.choice(3, 5000).astype(np.int8)
    asv = rng.normal(size=5000) + 2 * (labels == 1) + 1.5 * (labels == 0)
    cm = rng.normal(size=5000) + 2 * (labels != 0)
    if kind == "constant":
        asv[:] = 1.0
    elif kind == "infinite":
        asv[0], cm[1], cm[2] = -math.inf, math.inf, -math.inf
    elif kind == "outliers":
        asv[:4], cm[:4] = [-1e12, 1e12, 3, 4], [1e300, -1e300, 0, 1]
    else:
        cm *= 1e-310
    with windows_of(64, 0.25):
        found = t_eer(asv, cm, labels)
    assert same(found, sorted_all((asv, cm, labels)), (asv, cm, labels))


def test_a_wide_window_is_given_up(rng: np.random.Generator) -> None:
    labels = rng.choice(3, 5000).astype(np.int8)
    asv = rng.normal(size=5000) + 2 * (labels == 1) + 1.5 * (labels == 0)
    case = asv, rng.normal(size=5000) + 2 * (labels != 0), labels
    with (
        windows_of(4, 0.25),
        mock.patch.object(teer, "tandem_of", side_effect=tandem_of) as everything,
    ):
        found = t_eer(*case)
    everything.assert_called_once()
    assert same(found, sorted_all(case), case)
