"""A second look makes values exact: equal to those of the trials in memory."""

from __future__ import annotations

import math
import os
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightning_sasv.counting import Counts, column, gathered, refine
from lightning_sasv.counting import state as state_module
from lightning_sasv.counting.state import merged
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.binned import Bounded
from lightning_sasv.metrics.bounds import available
from lightning_sasv.metrics.functional.points import Classes
from lightning_sasv.metrics.registry import Settings, explained
from tests.counting.cases import COLUMNS, count, edge_scores

NAMES = available(dict.fromkeys(COLUMNS), Settings())
SUMS = ("cllr", "cllr_calib", "asv_cllr", "cm_cllr", "asv_cllr_calib", "cm_cllr_calib")


def random_case(seed: int) -> dict[str, np.ndarray]:
    """A few trials with ties, scores on edges and next to them."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 25))
    known = np.concatenate([edge_scores(), np.arange(-3.0, 4.0), rng.uniform(-8, 8, 20)])
    case = {name: rng.choice(known, n) for name in COLUMNS}
    case["labels"] = np.append([0, 1, 2], rng.integers(0, 3, n - 3)).astype(np.int8)
    case["clusters"] = rng.choice(["a", "b", "c"], n)
    return case | {"attacks": np.where(case["labels"] == 0, "A1", "-")}


@pytest.fixture(params=[0, 2, 14])
def fine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Bits of the fine grid: few of them leave many trials in a bin, whose order must be found."""
    monkeypatch.setattr(column, "FINE", request.param)
    monkeypatch.setattr(state_module, "TANDEM_BITS", 0)
    return int(request.param)


@pytest.mark.parametrize("convention", ["asvspoof", "interpolated", "max", "rocch"])
def test_refined_values_are_exact(convention: Any, fine: int) -> None:
    own = Settings(convention=convention)
    for seed in range(int(os.environ.get("SASV_FUZZ_EXAMPLES", "24"))):
        case = random_case(seed)
        classes = Classes({name: case[name] for name in COLUMNS}, case["labels"])
        truth = explained(NAMES, classes, own).values
        state = count(case, min(fine, 3))
        order = np.random.default_rng(seed).permutation(case["labels"].size)
        halves = [
            {name: values[part] for name, values in case.items()}
            for part in np.array_split(order, 2)
        ]
        check(state.refine(halves, own), truth, seed)
        for name in NAMES[seed % 8 :: 8]:  # alone: bins that other metrics need do not help
            check(state.refine(halves, own, [name]), truth, seed)


def check(found: dict[str, Bounded], truth: dict[str, float], seed: int) -> None:
    """Refined values are those of the trials."""
    for name, one in found.items():
        if name.endswith("_eer") and name != "t_eer":  # which is found along a path, in steps
            assert one.value == truth[name], (seed, name)
        elif math.isnan(truth[name]):
            assert math.isnan(one.value), (seed, name)
        else:
            assert one.value == pytest.approx(truth[name], abs=1e-12), (seed, name)
        assert one.exact or math.isnan(truth[name])


TANDEM = ("min_t_dcf", "min_t_dcf_legacy", "t_eer")


@pytest.mark.parametrize("name", TANDEM)
def test_the_tandem_alone_of_crowded_bins(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each bin has trials of all classes: one that is not looked at shows."""
    monkeypatch.setattr(column, "FINE", 1)
    monkeypatch.setattr(state_module, "TANDEM_BITS", 0)
    names, own = ("asv", "cm"), Settings()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        labels = np.append([0, 1, 2], rng.choice(3, 57, p=rng.dirichlet([4, 4, 4]))).astype(np.int8)
        apart = rng.uniform(0.5, 3, 3)
        asv = rng.normal(size=60) + apart[0] * (labels == 1) + apart[1] * (labels == 0)
        case = {"asv": asv, "cm": rng.normal(size=60) + apart[2] * (labels > 0)}
        if seed % 3 == 0:  # ties, and empty bins between
            case = {one: np.round(values) for one, values in case.items()}
        truth = explained([name], Classes(case, labels), own).values[name]
        state = count(case | {"labels": labels, "clusters": None, "attacks": None}, 1, names)
        found = state.refine([case | {"labels": labels}], own, [name])
        if not math.isnan(truth):
            assert found[name].exact, seed
            assert found[name].value == pytest.approx(truth, abs=1e-12), seed


@pytest.mark.parametrize("bits", [3, 14])
def test_refined_values_of_many_trials(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column, "FINE", bits)
    monkeypatch.setattr(state_module, "TANDEM_BITS", 0)
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 3, 20_000).astype(np.int8)
    asv, cm = rng.normal(size=(2, labels.size))
    case = {"asv": asv + 3 * (labels == 1) + (labels == 0), "cm": cm + 3 * (labels > 0)}
    case |= {"sasv": case["asv"] + case["cm"], "labels": labels}
    case |= {"clusters": np.full(labels.size, "a"), "attacks": np.full(labels.size, "-")}
    truth = explained(NAMES, Classes({n: case[n] for n in COLUMNS}, labels), Settings()).values
    state = count(case, min(bits, 7))
    alone = [[name] for name in NAMES] if bits < 14 else []  # bins of others do not help
    for names in (NAMES, *alone):
        for name, one in state.refine([case], names=names).items():
            exact = name not in SUMS and "cllr" not in name
            wanted = truth[name] if exact else pytest.approx(truth[name], abs=1e-12)
            assert one.value == wanted, (name, names)


def test_other_trials_are_refused() -> None:
    case = {name: np.array([0.0, 1.0, 2.0, 3.0]) for name in COLUMNS}
    case |= {"labels": np.array([0, 1, 2, 1], np.int8)}
    case |= {"clusters": np.array(["a"] * 4), "attacks": np.array(["-"] * 4)}
    state = count(case)
    fewer = {name: values[:-1] for name, values in case.items()}
    with pytest.raises(InputError, match="are not those that were counted"):
        state.refine([fewer, fewer])
    with pytest.raises(InputError, match="are not those that were counted"):
        state.refine([{**case, "sasv": 99 * case["sasv"]}])


TINY, HUGE = 5e-324, 1.7e308
ODD = {
    "one trial of each class": [0.0, 0.0, 0.0],
    "all equal": [1.0] * 60,
    "subnormal": [TINY * k for k in range(-30, 30)],
    "infinite": [-np.inf, np.inf] * 30,
    "huge span": [s * 10.0**e for e in range(-300, 300, 20) for s in (-1, 1)],
    "largest": [-HUGE, HUGE, np.nextafter(HUGE, 0), -TINY, TINY, -0.0, 0.0] * 9,
    "neighbours": (1.0 + np.arange(60) * 2.0**-52).tolist(),
}
"""Scores that no grid tells apart, or that it spans with few."""


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize(("bits", "few"), [(0, gathered.FEW), (7, gathered.FEW), (7, 2)])
def test_no_scores_make_it_grow(
    kind: str, bits: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept is bounded by the trials, whatever their scores, and exact values come out."""
    monkeypatch.setattr(refine, "FEW", few)  # more are crowded, and parted by their next bits
    monkeypatch.setattr(gathered, "PARTS", 6)
    scores = np.array(ODD[kind])
    rng = np.random.default_rng(1)
    labels = np.resize([0, 1, 2], scores.size).astype(np.int8)
    case = {name: rng.permutation(scores) for name in COLUMNS}
    case |= {"labels": labels, "clusters": np.full(scores.size, "a")}
    case |= {"attacks": np.full(scores.size, "-")}
    summed = np.abs(scores).max() < 1e300
    names = [name for name in NAMES if summed or "cllr" not in name]
    classes = Classes({name: case[name] for name in COLUMNS}, labels)
    truth = explained(names, classes, Settings()).values
    state = count(case, bits)
    for one in state.columns.values():
        assert one.fine_bins.size <= scores.size
        assert one.counts(len(state.rows)).shape[1] <= scores.size
    for name, one in state.refine([case], names=names).items():
        if one.exact:
            assert one.value == pytest.approx(truth[name], abs=1e-12, rel=1e-12), name
        else:
            assert math.isnan(truth[name]) or one.low - 1e-12 <= truth[name] <= one.high + 1e-12


def resident() -> int:
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_a_state_takes_the_memory_of_what_occurs() -> None:
    """A table of all bins would be 10 MB, and a search for failures holds many states at once."""
    case = random_case(3)
    before, states = resident(), []
    for _ in range(50):
        states.append(count(case))
        states[-1].refine([case])
    assert resident() - before < 200e6
    assert len(states) == 50


def test_crowded_bins_are_counted_by_their_next_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """1e6 + s lies in two bins: not all trials are kept, and the values are exact."""
    kept = []
    monkeypatch.setattr(refine, "FEW", 2000)
    monkeypatch.setattr(gathered, "PARTS", 12)
    plain = gathered.gather
    monkeypatch.setattr(refine, "gather", lambda *a: kept.append(found := plain(*a)) or found)
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 3, 30_000).astype(np.int8)
    scores = 1e6 + rng.normal(size=labels.size) + 3 * (labels == 1)
    state = Counts()
    state.add(labels, sasv=scores)
    assert state.columns["sasv"].fine_bins.size < 3
    batches = [{"labels": labels[k::5], "sasv": scores[k::5]} for k in range(5)]
    names = ["sasv_eer", "sv_eer", "spf_eer", "min_a_dcf", "cllr_min"]
    truth = explained(names, Classes({"sasv": scores}, labels), Settings()).values
    for given in (batches, iter(batches)):  # what can be read once is kept whole
        for name, one in state.refine(given, names=names).items():
            assert one.exact
            assert one.value == (approx if "cllr" in name else float)(truth[name]), name
    assert sum(kept[0]["sasv"].totals) <= 2000
    assert sum(kept[1]["sasv"].totals) == labels.size
    other = [{"labels": labels, "sasv": scores + 40}]
    with pytest.raises(InputError, match="are not those that were counted"):
        state.refine(other, names=names)


def approx(value: float) -> Any:
    return pytest.approx(value, abs=1e-12)


def test_a_concurrent_point_that_may_not_exist_is_not_exact() -> None:
    """All scores of the countermeasure are in the last bin, whose order decides whether it does."""
    labels = np.array([0, 1, 2, 1, 2, 1, 0], np.int8)
    asv = np.array([996.07, 998.86, 999.27, 1000.85, 1001.33, 1001.17, 997.77])
    cm = np.array([2.7e97, np.inf, 1.3e15, np.inf, 1.6e156, np.inf, 4.9e197])
    case = {"asv": asv, "cm": cm}
    truth = explained(["t_eer", "t_eer_closest"], Classes(case, labels), Settings()).values
    assert math.isnan(truth["t_eer"])
    state = Counts(("asv", "cm"))
    state.add(labels, **case)
    assert not state.metrics(names=["t_eer"])["t_eer"].exact
    found = state.refine([case | {"labels": labels}], names=["t_eer", "t_eer_closest"])
    assert "t_eer" not in found
    assert found["t_eer_closest"].value == approx(truth["t_eer_closest"])


def test_many_equal_trials_are_one_value_with_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathered, "FEW", 50)
    rng = np.random.default_rng(8)
    labels = rng.integers(0, 3, 5000).astype(np.int8)
    scores = np.round(rng.normal(size=5000) + 2 * (labels == 1), 1)
    scores[:200] = np.inf
    trials = gathered.Gathered()
    for part in np.array_split(rng.permutation(5000), 40):
        trials.add(scores[part], labels[part])
        assert trials._waiting <= 50 + 125
        assert sum(values.size for values, _ in trials._known) <= 3 * np.unique(scores).size
    for code in range(3):
        values, weights = trials.of([code])
        wanted = np.unique(scores[labels == code], return_counts=True)
        np.testing.assert_array_equal(values, wanted[0])
        np.testing.assert_array_equal(weights, wanted[1])
    case = {"labels": labels, **dict.fromkeys(COLUMNS, scores[:5000])}
    case |= {"clusters": np.full(5000, "a"), "attacks": np.full(5000, "-")}
    truth = explained(["sasv_eer"], Classes({"sasv": scores}, labels), Settings()).values
    halves = [{name: values[k::7] for name, values in case.items()} for k in range(7)]
    assert count(case, 3).refine(halves, names=["sasv_eer"])["sasv_eer"].value == truth["sasv_eer"]


def test_merged_states_are_refined_with_all_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column, "FINE", 4)  # whose bins are in no order after merging
    monkeypatch.setattr(state_module, "TANDEM_BITS", 0)
    rng = np.random.default_rng(12)
    labels = rng.integers(0, 3, 900).astype(np.int8)
    case = {name: rng.normal(size=900) + 2 * (labels == 1) for name in COLUMNS}
    case |= {"labels": labels, "clusters": rng.choice(["a", "b"], 900)}
    case |= {"attacks": np.where(labels == 0, "A1", "-")}
    parts = [{name: values[k::3] for name, values in case.items()} for k in range(3)]
    whole = merged([count(parts[k], bits) for k, bits in ((0, 2), (1, 4), (2, 3))])
    assert whole.columns["sasv"].bits == 2
    truth = explained(NAMES, Classes({n: case[n] for n in COLUMNS}, labels), Settings()).values
    for name, one in whole.refine(parts).items():
        assert one.value == pytest.approx(truth[name], abs=1e-12), name
        assert one.value == truth[name] or not name.endswith("_eer")
    with pytest.raises(InputError, match="are not those that were counted"):
        whole.refine(parts[:2])
