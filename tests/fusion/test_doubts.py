"""What makes a fit doubtful is found exactly, and nothing else is."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_sasv.errors import InputError
from lightning_sasv.fusion import FusionSystem, build_system
from lightning_sasv.fusion.doubts import as_warnings, warning_lines
from lightning_sasv.fusion.guards import deciding_trials, far_scores, misleading_trials
from tests.fusion.conftest import ALONE
from tests.scores.samples import toy_scores

TARGET, NONTARGET = 1, 2


def codes_of(system):
    return [one["code"] for one in system.warnings]


@given(st.lists(st.sampled_from([-9.0, -1.0, 0.0, 0.5, 1.0, 3.0, 40.0]), min_size=5, max_size=14))
def test_four_trials_decide_iff_some_four_do(values):
    values = np.array(values)
    variance = values.var()
    without = [np.delete(values, list(four)).var() for four in combinations(range(len(values)), 4)]
    margin = min(abs(abs(one - variance) - variance / 2) for one in without)
    if margin < 1e-9 * max(variance, 1):
        return  # a matter of rounding
    decided = max(abs(one - variance) for one in without) > variance / 2
    found = deciding_trials(values)
    assert bool(found.size) == decided
    if decided:
        assert abs(np.delete(values, found).var() - variance) > variance / 2
        assert found.size <= 4


def test_no_more_trials_are_named_than_needed():
    values = np.random.default_rng(0).normal(size=500)
    assert not deciding_trials(values).size
    values[[7, 400]] = 1e12, -1e12
    assert deciding_trials(values).tolist() == [7, 400]
    values[:20] = 1e12
    assert not deciding_trials(values).size, "of so many no four matter"


@pytest.mark.parametrize("trials", [5, 10, 20, 50, 100, 199, 200, 1000])
def test_small_healthy_classes_are_not_doubted_but_outliers_in_them_are(trials):
    generator, doubted = np.random.default_rng(trials), 0
    for _ in range(200):
        values = -np.exp(0.45 * generator.normal(size=trials))  # as skewed as real target scores
        doubted += bool(misleading_trials(values).size)
        values[trials // 2] = 100.0
        assert trials // 2 in misleading_trials(values)
    assert doubted <= (4 if trials >= 200 else 30)


def test_a_class_of_a_hundred_is_judged_by_the_definition_alone():
    values = np.random.default_rng(0).normal(size=100)
    assert not misleading_trials(values).size
    values[:3] = 8.0  # six interquartile ranges out, and half of the variance
    assert misleading_trials(values).tolist() == [0, 1, 2]


@pytest.mark.parametrize("value", [0.1, 0.0, -7e99])
def test_equal_values_rest_on_nothing(value):
    assert not deciding_trials(np.full(1000, value)).size


def test_far_scores_are_counted_from_the_quartiles_of_their_class():
    pairs = np.array([[0.0, 1.0, 2.0, 3.0, 4.0] * 3, [5.0] * 15])
    codes = np.repeat([0, 1, 2], 5)
    pairs[0, 4], pairs[1, 9] = 9.0, 6.0  # quartiles 1 and 3; all others equal
    assert np.argwhere(far_scores(pairs, codes, 2.9)).tolist() == [[0, 4]]
    assert not far_scores(pairs, codes, 3.0).any()
    assert not far_scores(pairs, codes, None).any()


@pytest.mark.parametrize("name", ALONE)
def test_healthy_trials_raise_no_doubt(trials, name):
    assert build_system(name).fit(*trials).warnings == []


DOUBTED = {"B1c", "L2", "L2c", "L3", "L3c", "M3", "J3", "Q3", "L3ct", "M3d"}


@pytest.mark.parametrize("name", ALONE)
def test_one_outlier_is_named_where_it_matters_and_trimmed_away(trials, name):
    asv, cm, labels = (part.numpy().copy() for part in trials)
    row = int(np.flatnonzero(labels == NONTARGET)[5])
    asv[row] = 1e12
    system = build_system(name).fit(asv, cm, labels)
    assert ("dominated" in codes_of(system)) == (name in DOUBTED)
    for one in system.warnings:
        if one["code"] == "dominated":
            assert one["trials"] == [{"at": f"trial {row}", "score": 1e12}]
            assert "nontarget" in one["text"]
            assert "1e+12" in one["text"]
    trimmed = build_system(name, trim=20).fit(asv, cm, labels)
    assert codes_of(trimmed) == (["trimmed"] if system.needs_fit else [])
    plain = build_system(name).fit(*(np.delete(part, row) for part in (asv, cm, labels)))
    for value, known in zip(trimmed.arrays().values(), plain.arrays().values(), strict=True):
        np.testing.assert_array_equal(value, known)


def test_spoofs_do_not_matter_to_a_calibration_of_asv_scores(trials):
    asv, cm, labels = (part.numpy().copy() for part in trials)
    asv[np.flatnonzero(labels == 0)[5]] = 1e12
    assert build_system("B1c").fit(asv, cm, labels).warnings == []
    assert codes_of(build_system("L2").fit(asv, cm, labels)) == ["dominated"]


@pytest.mark.parametrize(
    ("setting", "parameters"),
    [
        ({"density": "gaussian"}, 5),
        ({"density": "student_t"}, 5),
        ({"density": "diagonal"}, 4),
        ({"density": "tied"}, 2),
        ({"density": "mixture", "components": 3}, 17),
        ({"calibration": "paper"}, 4),
        ({"calibration": "multinomial"}, 6),
        ({"calibration": "pav"}, 0),
        ({}, 0),
    ],
)
def test_a_class_needs_as_many_trials_as_are_fitted(trials, setting, parameters):
    asv, cm, labels = (part.numpy().copy() for part in trials)
    for spoofs in {max(parameters - 1, 1), max(parameters, 1)}:
        kept = np.concatenate([np.flatnonzero(labels != 0), np.flatnonzero(labels == 0)[:spoofs]])
        if setting.get("components", 1) > spoofs:
            continue
        system = FusionSystem(**setting).fit(asv[kept], cm[kept], labels[kept])
        few = [one for one in system.warnings if one["code"] == "few"]
        assert bool(few) == (spoofs < parameters)
        for one in few:
            assert one["value"] == spoofs
            assert f"{parameters} parameters" in one["text"]


@pytest.mark.parametrize("order", ["linear", "squares", "quadratic"])
def test_parameters_are_those_of_the_order_that_was_chosen(trials, order, monkeypatch):
    monkeypatch.setattr("lightning_sasv.fusion.choice.ORDERS", (order,))
    labels = trials[2].numpy()
    kept = np.concatenate([np.flatnonzero(labels != 0)[:200], np.flatnonzero(labels == 0)[:5]])
    given = [part.numpy()[kept] for part in trials]
    system = build_system("Q3cv").fit(*given, speakers=np.arange(len(kept)) % 2)
    assert system.choice.best.order == order
    parameters = {"linear": 6, "squares": 10, "quadratic": 12}[order]
    (few,) = [one for one in system.warnings if one["code"] == "few"]
    assert f"fewer than the {parameters} parameters" in few["text"]


def test_scores_the_wrong_way_round_are_named(trials):
    asv, cm, labels = trials
    system = build_system("B1c").fit(-asv, cm, labels)
    assert codes_of(system)[:2] == ["slope", "order"]
    slope, order, *_ = system.warnings
    assert "asv" in slope["text"]
    assert slope["value"] < 0
    assert "asv scores" in order["text"]
    assert order["value"] > 0.5
    assert codes_of(build_system("B1").fit(-asv, -cm, labels)) == ["order"] * 3
    pav = FusionSystem(calibration="pav", rule="sum").fit(asv, -cm, labels)
    assert "slope" in codes_of(pav)


def test_a_fit_that_fails_names_the_outlier(trials):
    asv, cm, labels = (part.numpy().copy() for part in trials)
    asv[3] = 1e90
    with pytest.raises(InputError, match=r"rests on one dev trial \(here 3 asv: 1e\+90\)"):
        build_system("L2c").fit(asv, cm, labels, lambda row, side: f"here {row} {side}")


def test_lines_say_each_thing_once():
    one = {"code": "few", "text": "a", "value": 1.0, "trials": []}
    other = {"code": "trimmed", "text": "b", "value": 1.0, "trials": []}
    found = {"B1": [], "L2": [one], "L3": [one, other]}
    assert warning_lines(found) == ["warning: L2, L3: a", "note: L3: b"]


@pytest.mark.parametrize("damaged", [1, "few", ["few"], [{}], [{"code": "few"}], [None], {"a": 1}])
def test_damaged_warnings_are_refused(damaged):
    with pytest.raises(InputError, match="warnings"):
        as_warnings(damaged)


def test_a_negative_slope_is_named_with_its_value_and_remedy(trials):
    """Bona fide speech of others that scores below spoofs turns the paper's CM side round."""
    asv, cm, labels = (part.numpy().copy() for part in trials)
    cm[labels == NONTARGET] -= 30
    system = build_system("L3c").fit(asv, cm, labels)
    slope = system.calibration.weight[1, 1].item()
    assert slope < 0
    texts = [one["text"] for one in system.warnings if one["code"] == "slope"]
    assert any(f"cm side has no positive slope ({slope:.3g})" in text for text in texts)
    assert any("cm_positives: target" in text for text in texts)
    assert system.values()["slopes"]["cm"] == slope
    remedy = build_system("L3ct").fit(asv, cm, labels)
    assert remedy.config["cm_positives"] == "target"
    assert remedy.values()["slopes"]["cm"] > 0
    assert not [one for one in remedy.warnings if one["code"] == "slope"]
    assert warning_lines({"L3c": system.warnings})[0].startswith("warning: L3c: ")


def test_no_system_is_advised_to_be_itself():
    scores = toy_scores(300)
    whole = np.round(scores.asv), np.round(scores.cm / 5), scores.label
    remedies = {
        name: one["text"].rpartition("; ")[2]
        for name in ("L3t", "L3c")
        for one in build_system(name).fit(*whole).warnings
        if one["code"] == "dominated"
    }
    trim = "correct such scores, leave them out (trim: 10, say)"
    assert remedies == {"L3t": trim, "L3c": f"{trim}, or take L3t"}
