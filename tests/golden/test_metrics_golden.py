"""The metrics on the real scores, against what other people's tools compute on them."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit
from scipy.stats import multivariate_normal
from sklearn.utils import resample

from lightning_sasv.metrics import SASVEER
from lightning_sasv.metrics.functional import (
    COLUMNS,
    all_metrics,
    bootstrap,
    by_group,
    t_dcf,
    t_eer,
    t_eer_path,
)
from lightning_sasv.metrics.functional.eer import rate_of
from lightning_sasv.metrics.functional.points import Classes

Columns = dict[str, np.ndarray]
SETS = ("dev", "eval")


def read_scores(path: Path) -> Columns:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    numbers = {name: columns.pop(f"{name}_score").astype(np.float64) for name in ("asv", "cm")}
    return columns | numbers


@pytest.fixture(scope="module")
def scores(shared: Path) -> dict[str, Columns]:
    return {part: read_scores(shared / "data/sasv2022" / f"{part}_scores.csv") for part in SETS}


@pytest.fixture(scope="module")
def golden(shared: Path) -> dict[str, Any]:
    return json.loads((shared / "golden/systems.json").read_text())


@pytest.fixture(scope="module")
def llrs(scores: dict[str, Columns]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Gaussian log-likelihood ratios, densities of maximum likelihood fitted on dev."""
    dev = np.stack([scores["dev"]["asv"], scores["dev"]["cm"]], axis=1)
    densities = {}
    for name in ("target", "nontarget", "spoof"):
        part = dev[scores["dev"]["label"] == name]
        covariance = np.cov(part.T, bias=True) + 1e-6 * np.eye(2)
        densities[name] = multivariate_normal(part.mean(axis=0), covariance)
    found = {}
    for name, columns in scores.items():
        points = np.stack([columns["asv"], columns["cm"]], axis=1)
        log = {kind: density.logpdf(points) for kind, density in densities.items()}
        found[name] = (log["target"] - log["nontarget"], log["target"] - log["spoof"])
    return found


@pytest.fixture(scope="module")
def systems(
    scores: dict[str, Columns], llrs: dict[str, tuple[np.ndarray, ...]], golden: dict[str, Any]
) -> dict[str, Columns]:
    """Scores of the eight systems by the formulas, with the golden calibration and ρ."""
    found: dict[str, Columns] = {}
    exact = golden["params"]["calibration_exact"]
    rho = golden["params"]["rho"]

    def calibrate(x: np.ndarray, name: str) -> np.ndarray:
        return exact[name]["a"] * x + exact[name]["b"]

    def nonlinear(tn: np.ndarray, ts: np.ndarray, share: float) -> np.ndarray:
        return -np.logaddexp(math.log1p(-share) - tn, math.log(share) - ts)

    for part, columns in scores.items():
        a, c = columns["asv"], columns["cm"]
        tn, ts = llrs[part]
        tn_c, ts_c = calibrate(tn, "llr_asv"), calibrate(ts, "llr_cm")
        found[part] = {
            "B1": a + c,
            "B1c": calibrate(a, "raw_asv") + calibrate(c, "raw_cm"),
            "L2": (tn + ts) / math.sqrt(6),
            "L2c": (tn_c + ts_c) / math.sqrt(6),
            "L3": nonlinear(tn, ts, rho["L3"]),
            "L3c": nonlinear(tn_c, ts_c, rho["L3c"]),
            "B1v2": a + expit(c),
            "Post": expit(a) * expit(c),
        }
    return found


@pytest.mark.parametrize("part", SETS)
@pytest.mark.parametrize("name", ["B1", "B1c", "L2", "L2c", "L3", "L3c", "B1v2", "Post"])
def test_every_value_of_the_systems(
    part: str,
    name: str,
    scores: dict[str, Columns],
    systems: dict[str, Columns],
    golden: dict[str, Any],
) -> None:
    expected = golden["systems"][name][part]
    expected = expected | expected.get("with_exact_calibration", {})
    labels, sasv = scores[part]["label"], systems[part][name]
    found = all_metrics(None, None, sasv, labels)
    for key in ("sasv_eer", "sv_eer", "spf_eer"):
        assert 100 * found[key] == pytest.approx(expected[key], abs=1e-6), key
    assert found["sasv_threshold"] == pytest.approx(expected["sasv_thr"], rel=1e-3)
    # Golden values that come from a loosely converged calibration differ in the fifth digit.
    tolerance = 2e-5 if name.endswith("c") else 1e-6
    for key in ("cllr", "cllr_min", "cllr_calib"):
        assert found[key] == pytest.approx(expected[key], abs=tolerance), key
    cost = found["min_a_dcf"], all_metrics(None, None, sasv, labels, "asvspoof5")["min_a_dcf"]
    tolerance = 5e-6 if name.endswith("c") else 1e-6
    assert cost[0] == pytest.approx(expected["min_adcf_default"], abs=tolerance)
    assert cost[1] == pytest.approx(expected["min_adcf_asvspoof5"], abs=tolerance)


@pytest.mark.parametrize("part", SETS)
def test_raw_pair(part: str, scores: dict[str, Columns], golden: dict[str, Any]) -> None:
    columns, expected = scores[part], golden["pairs"]["raw"][part]
    found = all_metrics(columns["asv"], columns["cm"], None, columns["label"])
    assert 100 * found["cm_eer"] == pytest.approx(expected["cm_eer"], abs=1e-6)
    assert 100 * found["asv_eer"] == pytest.approx(expected["asv_eer"], abs=1e-6)
    assert found["cm_min_dcf"] == pytest.approx(expected["cm_minDCF"], abs=1e-6)
    assert found["cm_act_dcf"] == pytest.approx(expected["cm_actDCF"], abs=1e-6)
    assert found["cm_cllr"] == pytest.approx(expected["cm_cllr"], abs=1e-6)


def test_tandem_cost_of_the_raw_pair(scores: dict[str, Columns], golden: dict[str, Any]) -> None:
    columns, expected = scores["eval"], golden["pairs"]["raw"]["eval"]
    found = t_dcf(columns["asv"], columns["cm"], columns["label"])
    assert found.min == pytest.approx(expected["min_tDCF_2021"], abs=1e-9)
    rates = expected["Pmiss_asv"], expected["Pfa_asv"], expected["Pfa_spoof_asv"]
    assert found.asv_rates == pytest.approx(rates, abs=1e-12)


def test_concurrent_t_eer_of_the_raw_pair(
    scores: dict[str, Columns], golden: dict[str, Any]
) -> None:
    expected = golden["t_eer"]["raw_eval"]
    case = [scores["eval"][name] for name in ("asv", "cm", "label")]
    found, reference = t_eer(*case), t_eer(*case, rule="reference")
    assert found.exists
    assert reference.exists
    assert 100 * found.value == pytest.approx(expected["exact_interpolated"], abs=5e-7)
    assert 100 * reference.value == pytest.approx(expected["reference_rule"], abs=5e-7)
    assert found.residual < 5e-4
    dev = t_eer(*(scores["dev"][name] for name in ("asv", "cm", "label")))
    assert 100 * dev.value == pytest.approx(
        golden["t_eer"]["raw_dev"]["exact_interpolated"], abs=1e-6
    )


def test_nontargets_left_out_of_the_cm_give_another_value(scores: dict[str, Columns]) -> None:
    """The trap of counting only targets as bona fide: 1.7472 %."""
    asv, cm, labels = (scores["eval"][name] for name in ("asv", "cm", "label"))
    passing = np.where(labels == "nontarget", np.inf, cm)
    share = np.mean(labels[labels != "spoof"] == "target")
    assert 0.13 < share < 0.15
    assert abs(100 * t_eer(asv, passing, labels).value - 2.103168) > 0.1


def test_monotone_maps_leave_the_t_eer_of_the_raw_pair(scores: dict[str, Columns]) -> None:
    asv, cm, labels = (scores["eval"][name] for name in ("asv", "cm", "label"))
    raw = t_eer(asv, cm, labels).value
    assert t_eer(expit(asv), cm, labels).value == raw
    assert t_eer(np.exp(3 * asv), np.arctan(cm / 9), labels).value == raw


def test_no_concurrent_point_of_the_llr_pair(
    scores: dict[str, Columns], llrs: dict[str, tuple[np.ndarray, ...]], golden: dict[str, Any]
) -> None:
    expected = golden["t_eer"]["llr_eval"]
    case = (*llrs["eval"], scores["eval"]["label"])
    found, reference = t_eer(*case), t_eer(*case, rule="reference")
    assert found.exists is expected["concurrent_point_exists"] is False
    assert math.isnan(found.value)
    assert 100 * reference.value == pytest.approx(expected["reference_rule_returns"], abs=5e-5)
    assert 100 * found.closest == pytest.approx(1.676, abs=5e-4)
    rates = expected["rates_there"]
    spread = max(rates.values()) - min(rates.values())
    assert 100 * found.residual == pytest.approx(spread, abs=1e-3)


@pytest.mark.parametrize(
    ("rho", "by_ratio", "by_mean"), [(0.1, 1.253, 1.713), (0.5, 1.327, 1.676), (0.9, 1.451, 1.546)]
)
def test_both_rules_of_the_llr_pair_on_the_path_of_each_rho(
    rho: float,
    by_ratio: float,
    by_mean: float,
    scores: dict[str, Columns],
    llrs: dict[str, tuple[np.ndarray, ...]],
) -> None:
    case = (*llrs["eval"], scores["eval"]["label"])
    assert 100 * t_eer(*case, rule="reference", rho=rho).value == pytest.approx(by_ratio, abs=6e-4)
    assert 100 * t_eer(*case, rho=rho).closest == pytest.approx(by_mean, abs=6e-4)


def test_reference_rule_gives_the_raw_pair_the_same_value_for_every_rho(
    scores: dict[str, Columns],
) -> None:
    case = [scores["eval"][name] for name in ("asv", "cm", "label")]
    found = [t_eer(*case, rule="reference", rho=rho) for rho in (0.1, 0.5, 0.9)]
    assert {round(100 * one.value, 3) for one in found} == {2.103}
    assert all(one.closest == one.value for one in found)


def test_closest_point_of_the_llr_pair_of_dev_is_not_the_open_verifier(
    scores: dict[str, Columns], llrs: dict[str, tuple[np.ndarray, ...]]
) -> None:
    """The ratios alone choose the end where the verifier accepts everything: 33.3 %."""
    case = (*llrs["dev"], scores["dev"]["label"])
    reference, found = t_eer(*case, rule="reference"), t_eer(*case)
    assert (reference.value, reference.asv_threshold) == (0.0, -math.inf)
    assert reference.residual > 0.66
    assert not found.exists
    assert found.residual < 0.03
    assert 100 * found.closest == pytest.approx(1.348, abs=1e-3)


@pytest.mark.parametrize("pair", ["raw", "llr"])
def test_smallest_value_of_each_path(
    pair: str,
    scores: dict[str, Columns],
    llrs: dict[str, tuple[np.ndarray, ...]],
    golden: dict[str, Any],
) -> None:
    columns = scores["eval"]
    case = (columns["asv"], columns["cm"]) if pair == "raw" else llrs["eval"]
    for rho, expected in golden["t_eer"][f"{pair}_eval"]["path_minimum_by_rho"].items():
        path = t_eer_path(*case, columns["label"], float(rho))
        assert 100 * path.value.min() == pytest.approx(expected, abs=1e-3), rho


def test_llr_path_by_the_mean_rule(
    scores: dict[str, Columns], llrs: dict[str, tuple[np.ndarray, ...]]
) -> None:
    """At the pair nearest to concurrency the ρ = 0.5 path has 1.676 %."""
    case = (*llrs["eval"], scores["eval"]["label"])
    path, found = t_eer_path(*case, 0.5, rule="reference"), t_eer(*case)
    at = int(np.flatnonzero(path.asv_threshold == found.asv_threshold)[0])
    assert path.value[at] == pytest.approx(found.closest, abs=1e-12)
    assert path.cm_threshold[at] == found.cm_threshold


@pytest.mark.slow
def test_intervals_by_trials_are_the_packages(
    scores: dict[str, Columns], systems: dict[str, Columns], golden: dict[str, Any]
) -> None:
    """The package draws replicate k with the random state k; the same draws, weighted."""
    labels = scores["eval"]["label"]
    codes = np.select([labels == "spoof", labels == "target"], [0, 1], 2).astype(np.int8)
    classes = {
        name: Classes({"sasv": systems["eval"][name]}, codes)
        for name in ("B1", "L2", "L3", "B1v2", "Post")
    }
    trials = np.arange(codes.size)
    values: dict[str, list[float]] = {name: [] for name in classes}
    for k in range(1000):
        drawn = np.bincount(resample(trials, random_state=k), minlength=codes.size)
        for name, one in classes.items():
            values[name].append(rate_of(one.weighted(drawn).task("sasv")))
    for name, replicates in values.items():
        expected = golden["systems"][name]["eval"]["ci95_trials"]
        low, high = 100 * np.percentile(replicates, (2.5, 97.5))
        assert low == pytest.approx(expected["low"], abs=1e-6), name
        assert high == pytest.approx(expected["high"], abs=1e-6), name


def test_own_replicates_have_the_papers_width_and_speakers_a_larger_one(
    scores: dict[str, Columns], systems: dict[str, Columns], golden: dict[str, Any]
) -> None:
    columns, sasv = scores["eval"], systems["eval"]["L3"]
    by_trial = bootstrap("sasv_eer", sasv, columns["label"], n=400)
    by_speaker = bootstrap("sasv_eer", sasv, columns["label"], columns["speaker"], n=400)
    crossed = bootstrap(
        "sasv_eer", sasv, columns["label"], (columns["speaker"], columns["attack"]), n=100
    )
    half = golden["systems"]["L3"]["eval"]["ci95_trials"]["half"]
    assert 100 * by_trial.half_width == pytest.approx(half, rel=0.15)
    assert 2 < by_speaker.half_width / by_trial.half_width < 5
    assert crossed.half_width > by_trial.half_width


def test_batches_do_not_matter_where_stock_torchmetrics_fails(
    scores: dict[str, Columns], golden: dict[str, Any]
) -> None:
    from torchmetrics.classification import BinaryEER

    columns = scores["eval"]
    codes = np.select([columns["label"] == "spoof", columns["label"] == "target"], [0, 1], 2)
    keep = codes != 0
    asv, labels = torch.from_numpy(columns["asv"][keep]), torch.from_numpy(codes[keep])
    ours, stock = SASVEER(task="sv"), BinaryEER()
    for start in range(0, labels.numel(), 24):
        ours.update(asv[start : start + 24], labels[start : start + 24])
        stock.update(asv[start : start + 24], (labels[start : start + 24] == 1).long())
    assert 100 * float(ours.compute()) == pytest.approx(golden["pairs"]["raw"]["eval"]["asv_eer"])
    assert f"{100 * float(ours.compute()):.4f}" == "1.6385"
    assert 100 * float(stock.compute()) > 3, "stock torchmetrics has mended its sigmoid: say so"


def test_groups_of_the_real_trials(scores: dict[str, Columns], systems: dict[str, Columns]) -> None:
    columns, sasv = scores["eval"], systems["eval"]["L3"]
    labels = columns["label"]
    by_attack = by_group(columns["attack"], labels, sasv=sasv, attacks=True)
    assert list(by_attack) == [f"A{k:02d}" for k in range(7, 20)]
    whole = all_metrics(None, None, sasv, labels)
    assert {result["sv_eer"] for result in by_attack.values()} == {whole["sv_eer"]}
    chosen = (labels != "spoof") | (columns["attack"] == "A17")
    alone = all_metrics(None, None, sasv[chosen], labels[chosen])
    assert by_attack["A17"] == alone
    by_speaker = by_group(columns["speaker"], labels, asv=columns["asv"], sasv=sasv)
    assert len(by_speaker) == 48
    chosen = columns["speaker"] == "LA_0015"
    alone = all_metrics(columns["asv"][chosen], None, sasv[chosen], labels[chosen])
    assert by_speaker["LA_0015"] == alone


def test_every_named_metric_is_defined_on_the_real_trials(scores: dict[str, Columns]) -> None:
    columns = scores["dev"]
    raw = {"asv": columns["asv"], "cm": columns["cm"], "sasv": columns["asv"] + columns["cm"]}
    found = bootstrap(list(COLUMNS), raw, columns["label"], n=3)
    assert all(math.isfinite(interval.value) for interval in found.values())
    assert all(interval.undefined == 0 for interval in found.values())
