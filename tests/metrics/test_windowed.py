"""Weighted equal error rates from a window of the trials: the very values of all trials."""

from __future__ import annotations

from typing import get_args
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_sasv.metrics.functional import Settings, bootstrap, families
from lightning_sasv.metrics.functional.eer import Convention
from lightning_sasv.metrics.functional.sorted_trials import Drawn, SortedClass
from lightning_sasv.metrics.functional.weighted import DetectionFamily
from lightning_sasv.metrics.functional.windowed import WindowedFamily
from tests.metrics.oracles import trials

NAMES = {"eer": "sasv_eer", "eer_0": "sv_eer", "eer_1": "spf_eer"}


def both(
    scores: np.ndarray, labels: np.ndarray, convention: Convention, names: dict[str, str]
) -> tuple[WindowedFamily, DetectionFamily]:
    masks = labels == 1, labels == 2, labels == 0
    first, *others = (SortedClass(scores, mask) for mask in masks)
    plain = DetectionFamily(first, others, names, (1.0, 1.0, 1.0), convention)
    return WindowedFamily(scores, masks[0], masks[1:], names, convention), plain


@given(
    trials(8),
    st.sampled_from(["asvspoof", "interpolated", "max"]),
    st.sets(st.sampled_from(list(NAMES)), min_size=1),
    st.data(),
)
@settings(max_examples=300, deadline=None)
def test_any_weights(
    case: tuple[np.ndarray, np.ndarray, np.ndarray],
    convention: Convention,
    wanted: set[str],
    data: st.DataObject,
) -> None:
    asv, _, labels = case
    window, plain = both(asv, labels, convention, {what: NAMES[what] for what in sorted(wanted)})
    w = np.array(data.draw(st.lists(st.integers(0, 4), min_size=asv.size, max_size=asv.size)))
    found, expected = window(Drawn(w)), plain(Drawn(w))
    assert found.keys() == expected.keys()
    for name, value in found.items():
        assert value == pytest.approx(expected[name], abs=0, nan_ok=True)


@pytest.mark.parametrize("convention", [c for c in get_args(Convention) if c != "rocch"])
def test_a_replicate_does_not_need_all_trials(
    convention: Convention, rng: np.random.Generator
) -> None:
    labels = rng.integers(0, 3, 30_000)
    scores = rng.normal(size=30_000) + 3 * (labels == 1)
    window, plain = both(scores, labels, convention, NAMES)
    for _ in range(5):
        weights = np.bincount(rng.integers(0, 30_000, 30_000), minlength=30_000)
        assert window(Drawn(weights)) == plain(Drawn(weights))
    assert "_all" not in vars(window), "no replicate left the window"


def test_weights_that_move_the_crossing_away(rng: np.random.Generator) -> None:
    labels = rng.integers(0, 3, 30_000)
    scores = rng.normal(size=30_000) + 3 * (labels == 1)
    window, plain = both(scores, labels, "asvspoof", NAMES)
    weights = np.where((labels == 1) & (scores > 0.3), 0, 1)
    assert window(Drawn(weights)) == plain(Drawn(weights))
    assert "_all" in vars(window)


@pytest.mark.parametrize(
    "names", [["sasv_eer", "sv_eer", "asv_eer"], ["cm_eer"], ["sasv_eer", "cllr"]]
)
@pytest.mark.parametrize("convention", get_args(Convention))
def test_intervals_do_not_depend_on_the_way(
    names: list[str], convention: Convention, simulated: dict[str, np.ndarray]
) -> None:
    columns = {name: simulated[name] for name in ("asv", "cm", "sasv")}
    labels, clusters = simulated["labels"], np.arange(simulated["labels"].size) % 7
    found = []
    for many in (0, 10**9):
        with mock.patch.multiple(families, MANY=many, MOST=2.0):
            result = bootstrap(
                names, columns, labels, clusters, 20, settings=Settings(convention=convention)
            )
        found.append({name: (ci.value, *ci.replicates) for name, ci in result.items()})
    assert found[0] == found[1]
