"""Bounds hold the exact value, of every metric and convention, whatever the trials are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_sasv.counting import Counts
from lightning_sasv.counting.by_trial import Cells
from lightning_sasv.counting.column import MOST_BINS
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.bootstrap import bootstrap, replicate_weights
from lightning_sasv.metrics.bounds import available
from lightning_sasv.metrics.functional.points import Classes
from lightning_sasv.metrics.registry import METRICS, Settings, explained, values_of
from tests.counting.cases import COLUMNS, coarse_metrics, count, examples, trials

CONVENTIONS = ("asvspoof", "interpolated", "max", "rocch")
NAMES = available(dict.fromkeys(COLUMNS), Settings())
SEVEN = ["sasv_eer", "sv_eer", "spf_eer", "min_a_dcf", "act_a_dcf", "cllr", "cllr_min"]


def exact(case: dict[str, np.ndarray], own: Settings, names: list[str]) -> dict[str, float]:
    columns = {name: case[name] for name in COLUMNS}
    return explained(names, Classes(columns, case["labels"]), own).values


def test_what_counts_give() -> None:
    missing = {name for name, one in METRICS.items() if one.lower_is_better} - set(NAMES)
    assert missing == {"dev_a_dcf", "policy_a_dcf", "nce", "nce_min", "iapmr"}


@pytest.mark.parametrize("convention", CONVENTIONS)
@given(case=trials(), bits=st.integers(0, 3))
@examples(60)
def test_bounds_hold_the_exact_value(
    convention: Any, case: dict[str, np.ndarray], bits: int
) -> None:
    own = Settings(convention=convention)
    state, truth = count(case, bits), exact(case, own, NAMES)
    for found in (coarse_metrics(state, own, NAMES), state.metrics(own)):
        for name, one in found.items():
            if not math.isnan(truth[name]):
                assert one.low - 1e-12 <= truth[name] <= one.high + 1e-12, (name, one)
            if one.exact:
                assert truth[name] == pytest.approx(one.value, abs=1e-12), (name, one)
        # what is undefined of the trials alone may have bounds, but not the other way round
        assert {name for name, value in truth.items() if not math.isnan(value)} <= found.keys()


@given(case=trials(infinite=True), bits=st.integers(0, 3))
@examples(60)
def test_infinite_scores(case: dict[str, np.ndarray], bits: int) -> None:
    own = Settings()
    state, truth = count(case, bits), exact(case, own, SEVEN)
    for name, one in coarse_metrics(state, own, SEVEN).items():
        assert one.low - 1e-12 <= truth[name] <= one.high + 1e-12, (name, one)


@given(case=trials(), bits=st.integers(0, 3))
@examples(60)
def test_coarser_grids_give_wider_bounds(case: dict[str, np.ndarray], bits: int) -> None:
    names = ["sasv_eer", "min_a_dcf", "cllr_min", "t_eer_closest"]
    own = Settings(convention="interpolated")
    wide, narrow = (coarse_metrics(count(case, b), own, names) for b in (bits, bits + 2))
    for name, one in narrow.items():
        assert wide[name].low - 1e-12 <= one.low <= one.high <= wide[name].high + 1e-12, name


@pytest.mark.parametrize("convention", ["asvspoof", "interpolated", "max", "rocch"])
@given(case=trials(), bits=st.integers(0, 3), seed=st.integers(0, 99))
@examples(24)
def test_bounds_of_replicates(
    convention: Any, case: dict[str, np.ndarray], bits: int, seed: int
) -> None:
    own = Settings(convention=convention)
    names = [name for name in NAMES if not name.startswith(("t_", "min_t_"))]
    names = names if seed % 5 else NAMES
    state = count(case, bits)
    if not set(names) <= state.metrics(own).keys():
        return
    crossed = bool(seed % 2)
    way, n = "speaker-attack" if crossed else "speaker", 9
    found = state.bootstrap(names, way, n, 0.2, seed=seed, settings=own)
    clusters = (case["clusters"], case["attacks"]) if crossed else case["clusters"]
    if crossed and (case["attacks"] == "-").all():
        return
    classes = Classes({name: case[name] for name in COLUMNS}, case["labels"])
    drawn = replicate_weights(case["labels"].size, clusters, n, seed)
    for number, weights in enumerate(drawn):
        truth = values_of(names, classes.weighted(weights), own)
        for name, one in found.items():
            low, high = one.low_bounds[number], one.high_bounds[number]
            if not math.isnan(truth[name]):
                assert low - 1e-12 <= truth[name] <= high + 1e-12, (name, number)
            elif not name.startswith(("t_", "min_t_")):
                assert math.isnan(one.replicates[number])


@given(case=trials(), bits=st.integers(0, 3), seed=st.integers(0, 99))
@examples(25)
def test_drawn_trials_are_cells_of_the_whole(
    case: dict[str, np.ndarray], bits: int, seed: int
) -> None:
    """Any order within the bins, drawn alike, has values within the bounds of the replicate."""
    state = count(case, bits)
    cells = Cells(state.columns["sasv"], state.codes, seed)
    whole = cells.block(np.array([-1])).view(0)
    trials_ = case["sasv"], case["labels"]
    for cut, rejected in zip(whole.cuts, whole.rejected.T, strict=True):
        wanted = np.bincount(trials_[1], trials_[0] <= cut, minlength=3)
        np.testing.assert_array_equal(rejected, wanted)
        np.testing.assert_array_equal(whole.counts[:, whole.edges <= cut].sum(axis=1), wanted)
    assert (whole.starts <= np.where(whole.counts.any(axis=0), whole.edges, np.inf)).all()
    names = ["sasv_eer", "sv_eer", "min_a_dcf", "act_a_dcf", "cllr_min"]
    for one in state.bootstrap(names, None, 39, seed=seed).values():
        defined = ~np.isnan(one.replicates)
        assert (one.low_bounds <= one.replicates + 1e-12)[defined].all()
        assert (one.replicates <= one.high_bounds + 1e-12)[defined].all()


def test_drawn_trials_have_the_spread_of_trials() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 9000).astype(np.int8)
    scores = 3 * rng.normal(size=9000) + 8 * (labels == 1)
    state, names = Counts(), ["sasv_eer", "act_a_dcf"]
    state.add(labels, sasv=scores)
    exact = bootstrap(names, {"sasv": scores}, labels, None, 300)
    for name, one in state.bootstrap(names, None, 300).items():
        spread = float(np.std(exact[name].replicates))
        assert one.method == "percentile"
        assert one.low == pytest.approx(exact[name].low, abs=0.6 * spread)
        assert one.high == pytest.approx(exact[name].high, abs=0.6 * spread)


def test_permuted_countermeasure_scores_leave_the_tandem_alone() -> None:
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, 4000).astype(np.int8)
    asv, cm = rng.normal(size=(2, 4000))
    asv, cm = asv + (labels == 1), cm + 2 * (labels > 0)
    other = cm.copy()
    for part in (np.flatnonzero(labels == 0), np.flatnonzero(labels > 0)):
        other[part] = rng.permutation(other[part])
    states = [Counts(("asv", "cm")), Counts(("asv", "cm"))]
    for state, column in zip(states, (cm, other), strict=True):
        state.add(labels, asv=asv, cm=column)
    names = ["t_eer", "t_eer_closest", "min_t_dcf", "min_t_dcf_legacy"]
    assert states[0].metrics(names=names) == states[1].metrics(names=names)


def test_bits_are_as_many_as_leave_few_bins() -> None:
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 3, 200_000).astype(np.int8)
    scores = 3 * rng.normal(size=labels.size) + 6 * (labels == 1)
    near, far = Counts(), Counts()
    near.add(labels, sasv=scores)
    far.add(labels, sasv=scores + 1000)
    assert near.columns["sasv"].bits < far.columns["sasv"].bits
    assert near.columns["sasv"].bins.size <= MOST_BINS
    once, again = Counts(), Counts()
    once.add(labels, sasv=scores)
    for part in np.array_split(rng.permutation(labels.size), 7):
        again.add(labels[part], sasv=scores[part])
    assert once.columns["sasv"].bits == again.columns["sasv"].bits


def test_what_is_refused() -> None:
    state = Counts()
    with pytest.raises(InputError, match=r"this state counts \['sasv'\], got \['cm'\]"):
        state.add(["target"], cm=[1.0])
    with pytest.raises(InputError, match="sasv"):
        state.add(["target"], sasv=[math.nan])
    with pytest.raises(InputError, match="columns must be some of"):
        Counts(("score",))
    state.add(["target", "nontarget", "spoof"], sasv=[1.0, 0.0, 0.0])
    with pytest.raises(InputError, match="these counts know no speakers"):
        state.bootstrap(["sasv_eer"], "speaker", 39)
    with pytest.raises(InputError, match="counts give no asv_eer"):
        state.bootstrap(["asv_eer"], "speaker", 39)
    with pytest.raises(InputError, match="'speaker-attack' or, of trials, None; got 'trial'"):
        state.bootstrap(["sasv_eer"], "trial", 39)
    with pytest.raises(InputError, match="counts do not know cllr of drawn trials"):
        state.bootstrap(["cllr"], None, 39)
