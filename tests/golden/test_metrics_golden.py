"""The metrics on the real scores, against what other people's tools compute on them."""

from __future__ import annotations

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
from lightning_sasv.scores import read_scores

Columns = dict[str, np.ndarray]
Pairs = dict[str, dict[str, tuple[np.ndarray, ...]]]
Golden = dict[str, Any]
SETS = ("dev", "eval")


def read_columns(path: Path) -> Columns:
    scores = read_scores(path)
    return scores.columns() | {"label": np.array(["spoof", "target", "nontarget"])[scores.label]}


@pytest.fixture(scope="module")
def scores(shared: Path) -> dict[str, Columns]:
    return {part: read_columns(shared / f"data/sasv2022/{part}_scores.csv") for part in SETS}


@pytest.fixture(scope="module")
def golden(shared: Path) -> Golden:
    return json.loads((shared / "golden/systems.json").read_text())


@pytest.fixture(scope="module")
def pairs(scores: dict[str, Columns]) -> Pairs:
    """ASV score, CM score and label of each set: raw, and as Gaussian log-likelihood ratios.

    The densities are of maximum likelihood, fitted on dev.
    """
    points = {part: np.stack([one["asv"], one["cm"]], axis=1) for part, one in scores.items()}
    densities = {}
    for name in ("target", "nontarget", "spoof"):
        part = points["dev"][scores["dev"]["label"] == name]
        covariance = np.cov(part.T, bias=True) + 1e-6 * np.eye(2)
        densities[name] = multivariate_normal(part.mean(axis=0), covariance)
    found: Pairs = {"raw": {}, "llr": {}}
    for name, columns in scores.items():
        log = {kind: density.logpdf(points[name]) for kind, density in densities.items()}
        llrs = log["target"] - log["nontarget"], log["target"] - log["spoof"]
        found["raw"][name] = columns["asv"], columns["cm"], columns["label"]
        found["llr"][name] = *llrs, columns["label"]
    return found


@pytest.fixture(scope="module")
def systems(pairs: Pairs, golden: Golden) -> dict[str, Columns]:
    """Scores of the eight systems by the formulas, with the golden calibration and ρ."""
    found: dict[str, Columns] = {}
    exact = golden["params"]["calibration_exact"]
    rho = golden["params"]["rho"]

    def calibrate(x: np.ndarray, name: str) -> np.ndarray:
        return exact[name]["a"] * x + exact[name]["b"]

    def nonlinear(tn: np.ndarray, ts: np.ndarray, share: float) -> np.ndarray:
        return -np.logaddexp(math.log1p(-share) - tn, math.log(share) - ts)

    for part in SETS:
        (a, c, _), (tn, ts, _) = pairs["raw"][part], pairs["llr"][part]
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
    golden: Golden,
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
def test_raw_pair(part: str, pairs: Pairs, golden: Golden) -> None:
    (asv, cm, labels), expected = pairs["raw"][part], golden["pairs"]["raw"][part]
    found = all_metrics(asv, cm, None, labels)
    assert 100 * found["cm_eer"] == pytest.approx(expected["cm_eer"], abs=1e-6)
    assert 100 * found["asv_eer"] == pytest.approx(expected["asv_eer"], abs=1e-6)
    assert found["cm_min_dcf"] == pytest.approx(expected["cm_minDCF"], abs=1e-6)
    assert found["cm_act_dcf"] == pytest.approx(expected["cm_actDCF"], abs=1e-6)
    assert found["cm_cllr"] == pytest.approx(expected["cm_cllr"], abs=1e-6)
    if part == "eval":
        cost = t_dcf(asv, cm, labels)
        assert cost.min == pytest.approx(expected["min_tDCF_2021"], abs=1e-9)
        rates = expected["Pmiss_asv"], expected["Pfa_asv"], expected["Pfa_spoof_asv"]
        assert cost.asv_rates == pytest.approx(rates, abs=1e-12)


def test_concurrent_t_eer_of_the_raw_pair(pairs: Pairs, golden: Golden) -> None:
    expected = golden["t_eer"]["raw_eval"]
    asv, cm, labels = case = pairs["raw"]["eval"]
    found, reference = t_eer(*case), t_eer(*case, rule="reference")
    assert found.exists
    assert reference.exists
    assert 100 * found.value == pytest.approx(expected["exact_interpolated"], abs=5e-7)
    assert 100 * reference.value == pytest.approx(expected["reference_rule"], abs=5e-7)
    assert found.residual < 5e-4
    dev = golden["t_eer"]["raw_dev"]["exact_interpolated"]
    assert 100 * t_eer(*pairs["raw"]["dev"]).value == pytest.approx(dev, abs=1e-6)
    # The trap of counting only targets as bona fide gives 1.7472 %.
    passing = np.where(labels == "nontarget", np.inf, cm)
    assert 0.13 < np.mean(labels[labels != "spoof"] == "target") < 0.15
    assert abs(100 * t_eer(asv, passing, labels).value - 2.103168) > 0.1
    # Monotone maps leave the value as it is, and so does ρ by the reference rule.
    assert t_eer(expit(asv), cm, labels).value == found.value
    assert t_eer(np.exp(3 * asv), np.arctan(cm / 9), labels).value == found.value
    for rho in (0.1, 0.5, 0.9):
        one = t_eer(*case, rule="reference", rho=rho)
        assert f"{100 * one.value:.3f}" == "2.103"
        assert one.closest == one.value


def test_no_concurrent_point_of_the_llr_pair(pairs: Pairs, golden: Golden) -> None:
    expected = golden["t_eer"]["llr_eval"]
    case = pairs["llr"]["eval"]
    found, reference = t_eer(*case), t_eer(*case, rule="reference")
    assert found.exists is expected["concurrent_point_exists"] is False
    assert math.isnan(found.value)
    assert 100 * reference.value == pytest.approx(expected["reference_rule_returns"], abs=5e-5)
    assert 100 * found.closest == pytest.approx(1.676, abs=5e-4)
    rates = expected["rates_there"]
    spread = max(rates.values()) - min(rates.values())
    assert 100 * found.residual == pytest.approx(spread, abs=1e-3)
    # The pair nearest to concurrency lies on the path of ρ = 0.5.
    path = t_eer_path(*case, 0.5, rule="reference")
    at = int(np.flatnonzero(path.asv_threshold == found.asv_threshold)[0])
    assert path.value[at] == pytest.approx(found.closest, abs=1e-12)
    assert path.cm_threshold[at] == found.cm_threshold


@pytest.mark.parametrize(
    ("rho", "by_ratio", "by_mean"), [(0.1, 1.253, 1.713), (0.5, 1.327, 1.676), (0.9, 1.451, 1.546)]
)
def test_both_rules_of_the_llr_pair_on_the_path_of_each_rho(
    rho: float, by_ratio: float, by_mean: float, pairs: Pairs
) -> None:
    case = pairs["llr"]["eval"]
    assert 100 * t_eer(*case, rule="reference", rho=rho).value == pytest.approx(by_ratio, abs=6e-4)
    assert 100 * t_eer(*case, rho=rho).closest == pytest.approx(by_mean, abs=6e-4)


def test_closest_point_of_the_llr_pair_of_dev_is_not_the_open_verifier(pairs: Pairs) -> None:
    """The ratios alone choose the end where the verifier accepts everything: 33.3 %."""
    case = pairs["llr"]["dev"]
    reference, found = t_eer(*case, rule="reference"), t_eer(*case)
    assert (reference.value, reference.asv_threshold) == (0.0, -math.inf)
    assert reference.residual > 0.66
    assert not found.exists
    assert found.residual < 0.03
    assert 100 * found.closest == pytest.approx(1.348, abs=1e-3)


@pytest.mark.parametrize("pair", ["raw", "llr"])
def test_smallest_value_of_each_path(pair: str, pairs: Pairs, golden: Golden) -> None:
    for rho, expected in golden["t_eer"][f"{pair}_eval"]["path_minimum_by_rho"].items():
        path = t_eer_path(*pairs[pair]["eval"], float(rho))
        assert 100 * path.value.min() == pytest.approx(expected, abs=1e-3), rho


@pytest.mark.slow
def test_intervals_by_trials_are_the_packages(
    scores: dict[str, Columns], systems: dict[str, Columns], golden: Golden
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
    scores: dict[str, Columns], systems: dict[str, Columns], golden: Golden
) -> None:
    columns, sasv = scores["eval"], systems["eval"]["L3"]
    by_trial = bootstrap("sasv_eer", sasv, columns["label"], n=400)
    by_speaker = bootstrap(
        "sasv_eer", sasv, columns["label"], columns["speaker"], n=400, method="percentile"
    )
    crossed = bootstrap(
        "sasv_eer", sasv, columns["label"], (columns["speaker"], columns["attack"]), n=100
    )
    half = golden["systems"]["L3"]["eval"]["ci95_trials"]["half"]
    assert 100 * by_trial.half_width == pytest.approx(half, rel=0.15)
    assert 2 < by_speaker.half_width / by_trial.half_width < 5
    assert crossed.half_width > by_trial.half_width


def test_batches_do_not_matter_where_stock_torchmetrics_fails(
    scores: dict[str, Columns], golden: Golden
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
    found = bootstrap(list(COLUMNS), raw, columns["label"], n=3, alpha=0.5)
    assert all(math.isfinite(interval.value) for interval in found.values())
    assert all(interval.undefined == 0 for interval in found.values())
