"""Four real scores on every SASV 2022 trial: fitted and chosen on dev, tested on eval.

Required values come from the reference folder, never from this code.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest

from lightning_sasv.checks import as_labels
from lightning_sasv.decisions import accept, cost_preset, empirical_cost
from lightning_sasv.errors import InputError
from lightning_sasv.fusion import FusionSystem, build_system, fit_systems
from lightning_sasv.fusion.choice import cross_entropy, folds_of, held_out_llrs
from lightning_sasv.fusion.columns import Columns, dev_trials
from lightning_sasv.fusion.rules import fuse_nonlinear
from lightning_sasv.metrics.functional import (
    a_dcf,
    bootstrap,
    cllr,
    cllr_min,
    paired_bootstrap,
    sasv_eers,
)
from lightning_sasv.trials import FusedScores

FOUR = ("asv_ecapa", "asv_xvector", "cm_aasist", "cm_ocsoftmax")
OWN = ("density", "calibration", "rule", "rho", "costs", "dof", "penalty", "order")


class Trials:
    """Columns, labels and speakers of a set."""

    def __init__(self, path) -> None:
        frame = pl.read_csv(path)
        self.columns = {name: frame[name].to_numpy() for name in FOUR}
        self.labels, self.speakers = (
            as_labels(frame["label"].to_list()),
            frame["speaker"].to_numpy(),
        )

    def sides(self, names=FOUR, **more):
        """ASV and CM columns (trials, columns) by name, some of them made up."""
        columns = self.columns | more
        return [
            np.stack([columns[name] for name in names if name.startswith(kind)], axis=1)
            for kind in ("asv", "cm")
        ]


@pytest.fixture(scope="module")
def golden(shared):
    return json.loads((shared / "golden/more_scores.json").read_text())


@pytest.fixture(scope="module")
def sets(shared):
    folder = shared / "data/sasv2022_more"
    return {part: Trials(folder / f"{part}_scores.csv") for part in ("dev", "eval")}


def fit(system, dev, names=FOUR, **more):
    return system.fit(*dev.sides(names, **more), dev.labels, columns=names, speakers=dev.speakers)


def values_of(fused, labels):
    """EERs in per cent and Cllrs of fused scores."""
    sasv, target = np.asarray(fused.sasv), labels == 1
    rates = sasv_eers(sasv, labels)
    found = {f"{name}_eer": 100 * getattr(rates, name) for name in ("sasv", "sv", "spf")}
    found["cllr"] = cllr(sasv[target], sasv[~target])
    found["cllr_min"] = cllr_min(sasv[target], sasv[~target])
    return found


def policy_cost(fused, labels, costs):
    return empirical_cost(accept(fused, costs), labels, costs).normalised


def at_costs(fused, costs):
    """The score with the spoof prevalence of the costs, whatever that of the system is."""
    return np.asarray(fuse_nonlinear(fused.asv_llr, fused.cm_llr, costs.spoof_share))


def smallest_cost(fused, labels, costs):
    return a_dcf(at_costs(fused, costs), labels, costs).min


def check_values(found, expected, tolerance, what):
    for name, value in found.items():
        if name.endswith("eer"):
            assert value == pytest.approx(expected[name], abs=tolerance["eer"]), (what, name)
        else:  # those of raw tails are large: compared relatively
            own = {"abs": tolerance[name], "rel": tolerance["L2_cllr_relative"]}
            assert value == pytest.approx(expected[name], **own), (what, name)


def made(entry):
    """The system of an entry of the golden values."""
    settings = entry["settings"]
    own: dict[str, Any] = {name: settings[name] for name in OWN if name in settings}
    if "order" in settings:
        own["calibration"] = "multinomial"
    words = settings.get("transform", settings.get("transforms"))
    if words:
        own["transform"] = dict(zip(entry["columns"], words, strict=True))
    return FusionSystem(**own)


def standardised(system):
    """Coefficients (2, features) of a multinomial in the order of the golden values."""
    state, scores = system.arrays(), system.columns.scores
    weight, bias = state["calibration.weight"], state["calibration.bias"]
    if "calibration.quadratic" not in state:
        return weight, bias, np.empty((2, 0))
    upper = np.triu_indices(scores)
    quadratic = state["calibration.quadratic"]
    diagonal = np.diagonal(quadratic, axis1=1, axis2=2)
    squares = not np.any(quadratic * (1 - np.eye(scores)))
    return weight, bias, diagonal if squares else quadratic[:, *upper]


NAMES = [
    "M3",
    "Q3",
    "Q3_rho_a-dcf1",
    "Q3_rho_asvspoof5",
    "Q3cv",
    "Q3cv_rho_a-dcf1",
    "Q3cv_rho_asvspoof5",
    "quadratic_1e-4",
    "Q3_pair",
    "M3_pair",
    "Q3_no_ecapa",
    "squares_1e-4_no_ecapa",
    "Q3_no_xvector",
    "squares_1e-4_no_xvector",
    "Q3_no_aasist",
    "squares_1e-4_no_aasist",
    "Q3_no_ocsoftmax",
    "squares_1e-4_no_ocsoftmax",
    "B1",
    "B1v2",
    "Post",
    "B1c",
    "L2",
    "L3",
    "L2c",
    "L3c",
    "L2_logit",
    "L3_logit",
    "L2c_logit",
    "L3c_logit",
    "L3t_logit",
    "J3",
    "B1_standard",
    "B1v2_standard",
    "Post_standard",
]


def test_every_system_of_the_reference_is_looked_at(golden):
    assert set(golden["systems"]) - set(NAMES) == {"M3d_pair"}  # bounds on weights: not here


@pytest.mark.parametrize("name", NAMES)
def test_systems_on_several_scores(golden, sets, name):
    entry, tolerance = golden["systems"][name], golden["tolerance"]
    system = fit(made(entry), sets["dev"], entry["columns"])
    for part, trials in sets.items():
        fused = system(*trials.sides(entry["columns"]))
        check_values(values_of(fused, trials.labels), entry[part], tolerance, part)
        if part == "eval":
            for preset, expected in entry.get("a_dcf_eval", {}).items():
                cost = policy_cost(fused, trials.labels, cost_preset(preset))
                assert cost == pytest.approx(expected["policy"], abs=tolerance["a_dcf"])
                least = smallest_cost(fused, trials.labels, cost_preset(preset))
                assert least == pytest.approx(expected["min_at_cost_rho"], abs=tolerance["a_dcf"])
    if "rho" in entry:
        assert float(system.rho) == pytest.approx(entry["rho"], abs=tolerance["rho"])
    if "coefficients" in entry:
        check_coefficients(system, entry, tolerance["coefficients_relative_to_largest"])
    if name == "B1c":
        weight, bias = system.calibration.weight.numpy(), system.calibration.bias.numpy()
        expected = entry["calibration"]
        slopes = expected["asv_slopes"] + expected["cm_slopes"]
        np.testing.assert_allclose([*weight[0, :2], *weight[1, 2:]], slopes, rtol=1e-6)
        assert not weight[0, 2:].any()
        assert not weight[1, :2].any()
        intercepts = [expected["asv_intercept"], expected["cm_intercept"]]
        np.testing.assert_allclose(bias, intercepts, rtol=1e-6)


def check_coefficients(system, entry, tolerance):
    mean, sd = (np.array(entry["standardise"][key]) for key in ("mean", "sd"))
    weight, bias, more = standardised(system)
    if "calibration.centre" in system.arrays():
        np.testing.assert_allclose(system.calibration.centre, mean, rtol=1e-9)
        np.testing.assert_allclose(system.calibration.scale, sd, rtol=1e-9)
    else:
        weight, bias = weight * sd, bias + weight @ mean
    found = np.column_stack([weight, more, bias])
    for row, side in zip(found, ("llr_tn", "llr_ts"), strict=True):
        expected = np.array(entry["coefficients"][side])
        np.testing.assert_allclose(row, expected, atol=tolerance * np.abs(expected).max())


@pytest.fixture(scope="module")
def chosen(sets):
    return fit(build_system("Q3cv"), sets["dev"])


def test_the_choice_by_cross_validation(golden, sets, chosen):
    expected, tolerance = golden["q3cv"], golden["tolerance"]["cv_criterion"]
    tried = {(c.order, c.penalty, c.transforms): c.criterion for c in chosen.choice.tried}
    listed = [*expected["stage1"], *expected["stage2"]]
    assert len(tried) == len(listed) == 18
    for one in listed:
        criterion = tried[one["order"], one["penalty"], tuple(one["transforms"])]
        assert criterion == pytest.approx(one["criterion"], abs=tolerance)
    best, wanted = chosen.choice.best, expected["chosen"]
    assert (best.order, best.penalty) == (wanted["order"], wanted["penalty"])
    assert list(best.transforms) == wanted["transforms"]
    bars = expected["bars"]
    trials = sets["eval"]
    fused = chosen(*trials.sides())
    found = values_of(fused, trials.labels)
    assert found["sasv_eer"] <= bars["eval_sasv_eer_at_most"]
    assert found["cllr"] <= bars["eval_cllr_at_most"]
    at_costs = fuse_nonlinear(fused.asv_llr, fused.cm_llr, 2 / 3)
    found = values_of(FusedScores(fused.asv_llr, fused.cm_llr, at_costs), trials.labels)
    assert found["cllr"] <= bars["eval_cllr_rho_a_dcf1_at_most"]
    same = fit(made(golden["systems"]["Q3cv"]), sets["dev"])(*trials.sides())
    np.testing.assert_allclose(same.sasv, fused.sasv, rtol=1e-9, atol=1e-9)


def test_what_each_column_is_worth(golden, sets):
    dev, evaluation, costs = sets["dev"], sets["eval"], cost_preset("a-dcf1")
    for name, entry in golden["worth"]["values"].items():
        names = entry["columns"]
        system = FusionSystem(
            calibration="multinomial", order="squares", penalty=entry["penalty"], rule="nonlinear"
        )
        fit(system, dev, names)
        rho = float(system.rho)
        assert rho == pytest.approx(entry["rho"], abs=golden["tolerance"]["rho"])
        trials = dev_trials(*dev.sides(names), dev.labels, columns=names, speakers=dev.speakers)
        words = ["none"] * len(names)
        folds = folds_of(trials.speakers, trials.codes)
        (llrs,) = held_out_llrs(trials, folds, "squares", [entry["penalty"]], words)
        expected = entry["dev_held_out"]
        tolerance = golden["tolerance"]["cv_criterion"]
        found = cross_entropy(llrs, trials.codes)
        assert found == pytest.approx(expected["cross_entropy"], abs=tolerance), name
        held = FusedScores(*llrs, fuse_nonlinear(*llrs, rho))
        fused = system(*evaluation.sides(names))
        for scores, labels, wanted in (
            (held, dev.labels, expected),
            (fused, evaluation.labels, entry["eval"]),
        ):
            found = values_of(scores, labels)
            assert found["sasv_eer"] == pytest.approx(wanted["sasv_eer"], abs=0.01), name
            assert found["cllr"] == pytest.approx(wanted["cllr"], abs=1e-4), name
            cost = policy_cost(scores, labels, costs)
            assert cost == pytest.approx(wanted["policy_a_dcf1"], abs=2e-4), name


def on_eval(sets, names, penalty, make):
    """SASV-EER and Cllr of Q3 on columns of which some are made from others."""
    dev, evaluation = sets["dev"], sets["eval"]
    system = fit(build_system("Q3", penalty=penalty), dev, names, **make(dev.columns))
    fused = system(*evaluation.sides(names, **make(evaluation.columns)))
    found = values_of(fused, evaluation.labels)
    return system, fused, found["sasv_eer"], found["cllr"]


MADE_UP = {
    "ties": (lambda c: np.round(c["cm_aasist"]), (0.671, 0.056), (0.633, 0.041)),
    "clipped": (lambda c: np.clip(c["cm_aasist"], -3, 3), (0.592, None), (0.614, None)),
    "sigmoid": (
        lambda c: (1 / (1 + np.exp(-c["cm_aasist"].astype(np.float32)))).astype(float),
        *((0.581, None), (0.613, None)),
    ),
    "decision": (lambda c: (c["cm_aasist"] > 0).astype(float), (0.596, None), (0.633, None)),
}


@pytest.mark.parametrize("kind", MADE_UP)
def test_ties_and_saturation(sets, kind):
    function, *expected = MADE_UP[kind]
    for penalty, (rate, bits) in zip((1e-10, 1e-4), expected, strict=True):
        names = (*FOUR, "cm_made")
        _, _, found, cost = on_eval(sets, names, penalty, lambda c: {"cm_made": function(c)})
        assert found == pytest.approx(rate, abs=0.01), penalty
        if bits is not None:
            assert cost == pytest.approx(bits, abs=6e-4), penalty


@pytest.mark.parametrize("factor", [1.0, -3.0])
@pytest.mark.parametrize("noise", [0.0, 1e-9])
def test_copies_change_nothing_and_are_named(sets, factor, noise):
    random = np.random.default_rng(0)

    def copy(columns):
        values = columns["asv_ecapa"]
        return {"asv_twice": factor * values + 1 + noise * random.standard_normal(len(values))}

    names = ("asv_ecapa", "asv_xvector", "asv_twice", "cm_aasist", "cm_ocsoftmax")
    system, fused, rate, _ = on_eval(sets, names, 1e-10, copy)
    plain = fit(build_system("Q3"), sets["dev"])(*sets["eval"].sides())
    for found, known in zip(fused[:2], plain[:2], strict=True):
        assert (found - known).abs().max() < 1e-3
    assert rate == pytest.approx(0.616, abs=0.01)
    texts = [one["text"] for one in system.warnings if one["code"] == "copy"]
    assert len(texts) == 1
    assert "asv_ecapa and asv_twice are copies" in texts[0]


@pytest.mark.parametrize(("column", "rate"), [("asv_ecapa", 0.652), ("cm_ocsoftmax", 0.648)])
def test_a_copy_halves_its_ridge(sets, column, rate):
    names = tuple(sorted((*FOUR, f"{column}_2")))
    found = on_eval(sets, names, 1e-4, lambda c: {f"{column}_2": c[column]})[2]
    assert found == pytest.approx(rate, abs=0.01)


@pytest.mark.parametrize(("factor", "bound"), [(1.0, 2e-3), (2.0, 4e-3)])
def test_a_copy_in_a_density_cancels(sets, factor, bound):
    dev, evaluation = sets["dev"], sets["eval"]
    pair, names = ("asv_ecapa", "cm_aasist"), ("asv_ecapa", "asv_twice", "cm_aasist")
    plain = fit(build_system("L3"), dev, pair)(*evaluation.sides(pair))
    copies = [{"asv_twice": factor * one.columns["asv_ecapa"]} for one in (dev, evaluation)]
    system = fit(build_system("L3"), dev, names, **copies[0])
    fused = system(*evaluation.sides(names, **copies[1]))
    for found, known in zip(fused[:2], plain[:2], strict=True):
        assert (found - known).abs().max() < 1.1 * bound
    rates = [values_of(one, evaluation.labels)["sasv_eer"] for one in (fused, plain)]
    assert rates[0] == rates[1]


def test_a_constant_column_is_as_if_it_were_not_there(sets):
    names = (*FOUR, "cm_zero")
    dev, evaluation = sets["dev"], sets["eval"]
    for name in ("Q3", "L3", "B1", "B1c", "J3"):
        zero, random = np.full(len(dev.labels), 7.0), np.random.default_rng(0)
        system = fit(build_system(name), dev, names, cm_zero=zero)
        varies = random.standard_normal(len(evaluation.labels))
        fused = system(*evaluation.sides(names, cm_zero=varies))
        plain = fit(build_system(name), dev)(*evaluation.sides())
        np.testing.assert_array_equal(fused.sasv, plain.sasv)
        texts = [one["text"] for one in system.warnings if one["code"] == "constant"]
        assert len(texts) == 1
        assert "cm_zero is constant" in texts[0]


def test_saturated_columns_in_densities_are_refused_with_the_remedy(sets):
    dev = sets["dev"]
    message = r"L3t: the student_t density of class target is nearly singular in cm_ocsoftmax: "
    with pytest.raises(InputError, match=message + r"its variance is 4e-07; .* logit$"):
        fit(build_system("L3t"), dev)
    with pytest.raises(InputError, match=r"mixture density of class \w+ .* in cm_ocsoftmax"):
        fit(FusionSystem(density="mixture"), dev)
    failures: dict[str, str] = {}
    more = {"columns": FOUR, "speakers": dev.speakers, "failures": failures}
    systems = fit_systems(*dev.sides(), dev.labels, ["L3t", "L3", "B1"], **more)
    assert list(systems) == ["L3", "B1"]
    assert list(failures) == ["L3t"]
    assert "cm_ocsoftmax" in failures["L3t"]


def test_names_of_columns_are_kept(sets):
    assert fit(build_system("Q3"), sets["dev"]).columns == Columns(FOUR)


def test_intervals_and_differences_by_speaker(golden, sets):
    known, near = (
        golden["intervals_by_speaker"]["values"],
        golden["tolerance"]["intervals_relative"],
    )
    trials, scores = sets["eval"], {}
    for name, system, columns in (
        ("L3c pair", build_system("L3c"), FOUR[::2]),
        ("Q3", build_system("Q3"), FOUR),
        ("Q3cv", build_system("Q3cv"), FOUR),
    ):
        fused = fit(system, sets["dev"], columns)(*trials.sides(columns))
        scores[name] = np.asarray(fused.sasv)
        for metric, key, unit in (("sasv_eer", "sasv_ci", 100), ("cllr", "cllr_ci", 1)):
            one = bootstrap(
                metric, scores[name], trials.labels, trials.speakers, method="percentile"
            )
            expected = known[name][key]
            assert unit * one.value == pytest.approx(known[name][metric], abs=0.01)
            found = [unit * one.low, unit * one.high]
            np.testing.assert_allclose(found, expected, rtol=near, err_msg=f"{name} {metric}")
    for name in ("Q3", "Q3cv"):
        both = scores[name], scores["L3c pair"]
        one = paired_bootstrap("sasv_eer", *both, trials.labels, trials.speakers)
        expected = known[f"{name} - L3c pair"]
        assert 100 * one.difference == pytest.approx(expected["d_sasv_eer"], abs=0.01)
        assert one.high < 0, "the gain over the paper is told apart by speakers"
        np.testing.assert_allclose([100 * one.low, 100 * one.high], expected["ci"], rtol=2 * near)
