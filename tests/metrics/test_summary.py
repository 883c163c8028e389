"""All metrics at once, and by groups."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_sasv.decisions.costs import PRESETS, CostModel
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.functional import (
    ASVRates,
    Convention,
    a_dcf,
    all_metrics,
    by_group,
    cllr_decomposition,
    cm_dcf,
    cross_entropy,
    eer,
    sasv_eers,
    t_dcf,
    t_eer,
)
from lightning_sasv.metrics.registry import (
    ASV_POINTS,
    Settings,
    explained_metrics,
)
from tests.metrics.oracles import trials

Columns = dict[str, np.ndarray]
Four = tuple[np.ndarray, ...]
JSON_KEYS = ("sasv_eer", "sv_eer", "spf_eer", "cllr", "cllr_min", "cllr_calib")
JSON_KEYS += ("t_eer", "min_a_dcf", "act_a_dcf")


@given(trials(), st.data(), st.sampled_from(["asvspoof", "interpolated", "max", "rocch"]))
@settings(max_examples=60, deadline=None)
def test_weights_are_repetitions(case: Four, data: st.DataObject, convention: Convention) -> None:
    asv, cm, codes = case
    size = codes.size
    w = np.array(data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size).filter(any)))
    columns, own = {"asv": asv, "cm": cm, "sasv": asv + cm}, Settings(convention=convention)
    more = {"llrs": True, "allow_missing": True}
    literal = {name: np.repeat(column, w) for name, column in columns.items()}
    expected = explained_metrics(literal, np.repeat(codes, w), own, **more)
    found = explained_metrics(columns, codes, own, weights=w, **more)
    assert found.undefined.keys() == expected.undefined.keys()
    for name in ("t_eer_asv_threshold", "t_eer_cm_threshold"):  # of equal pairs either is right
        assert math.isnan(found.values.pop(name)) == math.isnan(expected.values.pop(name))
    assert found.values == pytest.approx(expected.values, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.5, 1.0, 1.0], "weights must be whole numbers"),
        ([-1.0, 1.0, 1.0], "weights must be finite, at least 0"),
        ([0.0, 0.0, 0.0], "not all 0"),
        ([1.0, 1.0], "differ in length"),
    ],
)
def test_weights_that_are_no_numbers_of_times_are_named(weights: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        explained_metrics({"sasv": [2.0, 1.0, 0.0]}, [1, 2, 0], weights=np.array(weights))


@pytest.fixture
def four(columns: Columns, simulated: Columns) -> tuple[np.ndarray, ...]:
    """The three columns of scores and the labels."""
    return *columns.values(), simulated["labels"]


def test_every_value_is_that_of_its_function(four: Four) -> None:
    asv, cm, sasv, labels = four
    found = all_metrics(*four, llrs=True)
    assert set(JSON_KEYS) <= set(found)
    assert all(isinstance(value, float) for value in found.values())
    json.dumps(found)
    rates = sasv_eers(sasv, labels)
    assert [found[f"{k}_eer"] for k in ("sasv", "sv", "spf")] == list(rates[:3])
    assert [found[f"{k}_threshold"] for k in ("sasv", "sv", "spf")] == list(rates[3:])
    parts = cllr_decomposition(sasv[labels == 1], sasv[labels != 1])
    assert [found[k] for k in ("cllr", "cllr_min", "cllr_calib")] == pytest.approx(list(parts))
    cost = a_dcf(sasv, labels)
    assert [found[k] for k in ("min_a_dcf", "act_a_dcf", "a_dcf_threshold")] == list(cost)
    assert found["asv_eer"] == eer(asv[labels == 1], asv[labels == 2]).value
    assert found["cm_eer"] == eer(cm[labels != 0], cm[labels == 0]).value
    assert found["cm_min_dcf"] == cm_dcf(cm[labels != 0], cm[labels == 0]).min
    tandem = t_eer(asv, cm, labels)
    assert (found["t_eer"], found["t_eer_residual"]) == (tandem.value, tandem.residual)
    assert (found["t_eer_exists"], found["t_eer_closest"]) == (1.0, tandem.closest)
    assert found["min_t_dcf"] == t_dcf(asv, cm, labels).min
    assert found["min_t_dcf_legacy"] == t_dcf(asv, cm, labels, version="legacy").min
    assert [found["nce"], found["nce_min"]] == list(cross_entropy(asv, cm, labels))


ASV = {
    *("asv_eer", "asv_threshold", "asv_cllr", "asv_cllr_min", "asv_cllr_calib"),
    *("asv_min_dcf", "asv_act_dcf", "iapmr"),
}
"""What is known of a verifier alone."""


def test_sre16_is_the_mean_of_two_points(four: Four) -> None:
    asv, _, _, labels = four
    points = [(0.01, 1.0, 1.0), (0.005, 1.0, 1.0)]
    costs = [
        explained_metrics({"asv": asv}, labels, Settings(asv_points=(point,))).values
        for point in points
    ]
    both = explained_metrics({"asv": asv}, labels, Settings(asv_points=ASV_POINTS["sre16"])).values
    for name in ("asv_min_dcf", "asv_act_dcf"):
        assert both[name] == pytest.approx((costs[0][name] + costs[1][name]) / 2, abs=1e-15)


def test_unpaired_trials_have_the_tandem_metrics_of_their_distributions(four: Four) -> None:
    asv, cm, _, labels = four
    paired = all_metrics(asv, cm, None, labels)
    order = np.random.default_rng(0).permutation(len(asv))
    bona_fide = np.where(labels == 2, 1, labels)
    none = np.full(len(asv), math.nan)
    apart = {"asv": np.append(asv, none), "cm": np.append(none, cm[order])}
    every = np.append(labels, bona_fide[order])
    found = explained_metrics(apart, every, allow_missing=True, unpaired=True).values
    assert found.keys() == paired.keys()
    for name, value in found.items():
        assert value == pytest.approx(paired[name], nan_ok=True), name
    fixed = Settings(asv_rates=ASVRates(0.1, 0.1, 0.4))
    alone = explained_metrics({"cm": cm}, labels, fixed).values
    assert alone["min_t_dcf"] == t_dcf(None, cm, labels, asv_rates=ASVRates(0.1, 0.1, 0.4)).min


def test_given_columns_decide_what_comes_out(four: Four) -> None:
    asv, cm, sasv, labels = four
    everything = all_metrics(*four)
    only = {
        "asv": all_metrics(asv, None, None, labels),
        "cm": all_metrics(None, cm, None, labels),
        "sasv": all_metrics(None, None, sasv, labels),
        "pair": all_metrics(asv, cm, None, labels),
    }
    assert set(only["asv"]) == ASV
    assert all(name.startswith("cm_") for name in only["cm"])
    assert {"t_eer", "min_t_dcf"} <= set(only["pair"]) - set(only["asv"]) - set(only["cm"])
    assert only["pair"] | only["sasv"] == everything
    assert "nce" not in everything


def test_costs_reach_their_metrics(four: Four) -> None:
    asv, cm, sasv, labels = four
    costs = CostModel(1, 2, 3, 0.5, 0.3, 0.2)
    found = all_metrics(*four, costs, tandem_costs="a-dcf1", convention="rocch")
    assert found["min_a_dcf"] == a_dcf(sasv, labels, costs).min
    assert found["min_t_dcf"] == t_dcf(asv, cm, labels, "a-dcf1").min
    assert found["sasv_eer"] == sasv_eers(sasv, labels, convention="rocch").sasv


def test_groups_are_separate_and_attacks_keep_all_bona_fide_trials(
    four: Four, columns: Columns, simulated: Columns
) -> None:
    labels, speaker, attack = (simulated[name] for name in ("labels", "speaker", "attack"))
    by_attack = by_group(attack, labels, **columns, attacks=True)
    assert list(by_attack) == ["A1", "A2", "A3", "A4"]
    assert by_attack["A1"]["asv_eer"] == by_attack["A2"]["asv_eer"]
    by_speaker = by_group(speaker, labels, **columns)
    assert len(by_speaker) == 12
    of_attack = by_attack["A3"], (labels != 0) | (attack == "A3")
    for found, chosen in (of_attack, (by_speaker["S05"], speaker == "S05")):
        assert found == all_metrics(*(column[chosen] for column in four))


def test_group_without_a_class_has_nan_for_what_needs_it() -> None:
    groups = ["a", "a", "a", "b", "b", "c", "c", "d"]
    labels = ["target", "nontarget", "spoof", "target", "nontarget", "nontarget", "spoof", "spoof"]
    scores = np.array([3.0, 1.0, 0.0, 2.0, 1.0, 1.0, 0.0, 0.0])
    found = by_group(groups, labels, asv=scores, cm=scores, sasv=scores)
    assert list(found) == ["a", "b", "c", "d"]
    assert {frozenset(result) for result in found.values()} == {frozenset(found["a"])}
    defined = {
        name: {key for key, value in result.items() if not math.isnan(value)}
        for name, result in found.items()
    }
    assert {"sasv_eer", "cm_eer", "t_eer"} <= defined["a"]
    assert defined["b"] == {"sv_eer", "sv_threshold", *ASV} - {"iapmr"}
    assert defined["c"] == {key for key in found["a"] if key.startswith("cm_")}
    assert defined["d"] == set()


def test_missing_class_is_an_error_unless_allowed() -> None:
    scores, labels = [1.0, 0.0], ["target", "nontarget"]
    with pytest.raises(ValueError, match="no spoof trials"):
        all_metrics(None, None, scores, labels)
    found = all_metrics(None, None, scores, labels, allow_missing=True)
    assert found["sv_eer"] == 0
    assert math.isnan(found["sasv_eer"])


def test_verifier_too_poor_for_a_t_dcf_gives_nan_not_an_error() -> None:
    asv, cm, labels = [0.0, 1.0, -1.0], [1.0, 1.0, 0.0], [1, 2, 0]
    found = all_metrics(asv, cm, None, labels, tandem_costs=CostModel(1, 9, 9, 0.4, 0.4, 0.2))
    assert math.isnan(found["min_t_dcf"])
    assert found["asv_eer"] == 1


def test_mistakes_are_named() -> None:
    for nothing in (lambda: all_metrics(None, None, None, [1, 2, 0]), lambda: by_group(["a"], [1])):
        with pytest.raises(ValueError, match="no scores: give at least one"):
            nothing()
    with pytest.raises(ValueError, match=r"differ in length: \{'asv': 2, 'labels': 3\}"):
        all_metrics([1.0, 2.0], None, None, [1, 2, 0])
    with pytest.raises(ValueError, match="'groups': 1"):
        by_group(["a"], [1, 2, 0], sasv=[1.0, 2.0, 3.0])


def test_costs_by_their_names(columns: Columns, simulated: Columns) -> None:
    """Dev threshold, actual and policy cost are single sums over trials."""
    labels, costs = simulated["labels"], PRESETS["a-dcf1"]
    settings = Settings(costs, dev_threshold=3.0)
    found = explained_metrics(columns, labels, settings, llrs=True)
    a, c = columns["asv"], columns["cm"]
    rho, threshold = 2 / 3, np.log(1.5 / 0.9)
    policy = -np.log((1 - rho) * np.exp(-a) + rho * np.exp(-c))
    ways = {
        "dev_a_dcf": columns["sasv"] > 3.0,
        "act_a_dcf": columns["sasv"] > threshold,
        "policy_a_dcf": policy > threshold,
    }
    for name, accepted in ways.items():
        rates = [np.mean(accepted[labels == kind]) for kind in (1, 2, 0)]
        cost = (0.9 * (1 - rates[0]) + 0.5 * rates[1] + 1.0 * rates[2]) / 0.9
        assert found.values[name] == pytest.approx(cost, rel=1e-12), name
    plain = explained_metrics(columns, labels, Settings(costs, not_llr=True))
    assert plain.undefined["act_a_dcf"] == "no LLR"
    assert math.isnan(plain.values["act_a_dcf"])
    assert not plain.values.keys() & {"dev_a_dcf", "policy_a_dcf"}
    assert found.undefined.keys() == {n for n, x in found.values.items() if math.isnan(x)}


def test_every_undefined_metric_has_its_reason() -> None:
    labels = ["target", "target", "nontarget", "nontarget"]
    found = explained_metrics({"asv": [2.0, 1.0, 0.0, 0.5]}, labels, allow_missing=True)
    assert found.undefined == {}
    scores = {"sasv": [2.0, 1.0, 0.0, 0.5]}
    found = explained_metrics(scores, labels, allow_missing=True)
    assert found.undefined["sasv_eer"].startswith("no spoof trials")
    assert found.undefined.keys() == {n for n, x in found.values.items() if math.isnan(x)}
