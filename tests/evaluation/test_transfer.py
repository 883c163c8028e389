"""Systems of one corpus on the scores of another: what is lost, and what labels repair."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lightning_sasv import evaluation
from lightning_sasv.cli import main
from lightning_sasv.decisions import PRESETS
from lightning_sasv.evaluation.budget import Found, Row, Target, affine, label_budget
from lightning_sasv.metrics.bootstrap import replicate_weights
from lightning_sasv.metrics.functional import a_dcf, cllr, eer, hter
from lightning_sasv.metrics.intervals import percentile_ends
from lightning_sasv.report.curves import Material
from lightning_sasv.report.figures import describe
from lightning_sasv.results import read_results
from lightning_sasv.scores import read_table
from lightning_sasv.trials import TrialClass
from tests.helpers import failure_of

SPEAKERS, EACH = 20, 60


def frame(seed: int = 0, shift: float = 0.0) -> pl.DataFrame:
    """Trials of twenty speakers; codec b is shifted."""
    rng = np.random.default_rng(seed)
    size = SPEAKERS * EACH
    label = np.arange(size) % 3  # spoof, target, nontarget
    codec = np.array(["a", "b"])[np.arange(size) // 3 % 2]
    scores = [rng.normal(3.0 * side) + shift for side in (label != 2, label != 0)]
    columns = {
        "speaker": [f"s{n // EACH}" for n in range(size)],
        "utterance": [f"u{n}" for n in range(size)],
        "attack": np.where(label == 0, np.array(["A1", "A2"])[np.arange(size) % 2], "-"),
        "label": np.array(["spoof", "target", "nontarget"])[label],
        "codec": codec,
    }
    return pl.DataFrame(columns | dict(zip(("asv_score", "cm_score"), scores, strict=True)))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Systems that were fitted on one set of scores."""
    folder = tmp_path_factory.mktemp("source")
    for name, seed in (("dev", 0), ("eval", 1)):
        frame(seed).write_csv(folder / f"{name}.csv")
    files = {name: str(folder / f"{name}.csv") for name in ("dev", "eval")}
    evaluation.fuse(**files, systems="B1,L3", out=str(folder / "run"))
    for name, shift in (("same", 0.0), ("moved", 1.0)):
        frame(2, shift).write_csv(folder / f"{name}.csv")
    return folder


def audited(run: Path, name: str, **options: object) -> dict[str, object]:
    how = {"draws": 20, "trials": "20,200", "speakers": "1,4", "overwrite": True} | options
    found = evaluation.transfer(
        fitted=str(run / "run"), scores=str(run / f"{name}.csv"), out=str(run / f"to_{name}"), **how
    )  # type: ignore[arg-type]
    return found.content


def brute(table: pl.DataFrame, score: np.ndarray, at: float) -> dict[str, float]:
    """Rates at a threshold, trial by trial."""
    wrong, number = dict.fromkeys(("target", "nontarget", "spoof"), 0), dict[str, int]()
    for word, value in zip(table["label"], score, strict=True):
        number[word] = number.get(word, 0) + 1
        wrong[word] += bool((value > at) != (word == "target"))
    rate = {word: wrong[word] / number[word] for word in wrong}
    false = (wrong["nontarget"] + wrong["spoof"]) / (number["nontarget"] + number["spoof"])
    rate["hter"] = (rate["target"] + false) / 2
    rate["macro"] = (rate["target"] + (rate["nontarget"] + rate["spoof"]) / 2) / 2
    m = PRESETS["a-dcf1"]
    cost = m.c_miss * m.p_target * rate["target"]
    cost += m.c_fa_nontarget * m.p_nontarget * rate["nontarget"]
    cost += m.c_fa_spoof * m.p_spoof * rate["spoof"]
    rate["a_dcf"] = cost / min(m.c_miss * m.p_target, 10 * 0.05 + 20 * 0.05)
    return rate


def test_hter_is_half_of_misses_and_false_acceptances() -> None:
    rng = np.random.default_rng(0)
    labels = rng.choice(["target", "nontarget", "spoof"], 300, p=[0.2, 0.3, 0.5])
    scores = np.round(rng.normal(size=300) + 2 * (labels == "target"), 1)
    table = pl.DataFrame({"label": labels})
    for at in (-9.0, 0.0, 0.7, 1.3, 9.0):
        want = brute(table, scores, at)
        assert hter(scores, labels, at) == pytest.approx((want["hter"], want["macro"]))
    fine = rng.normal(size=300) + 2 * (labels == "target")
    own = eer(fine[labels == "target"], fine[labels != "target"])
    assert hter(fine, labels, own.threshold).pooled == pytest.approx(own.value)


@pytest.mark.parametrize("name", ["same", "moved"])
def test_values_are_those_at_the_thresholds_of_the_source(run: Path, name: str) -> None:
    content = audited(run, name)
    dev, target = (read_table(run / f"to_{name}/scores/{s}.csv").frame for s in ("dev", "eval"))
    for system in ("B1", "L3"):
        column = f"sasv_{system}"
        word = dev["label"].cast(str).to_numpy()
        score = dev[column].to_numpy()
        at = {
            "eer": eer(score[word == "target"], score[word != "target"]).threshold,
            "a_dcf": a_dcf(score, word).threshold,
        }
        entry = content["systems"][system]  # type: ignore[index]
        assert entry["thresholds"] == pytest.approx(at)
        frame = target.with_columns(pl.col("label").cast(str))
        score = frame[column].to_numpy()
        want = [brute(frame, score, threshold) for threshold in at.values()]
        found = entry["target"]
        assert found["hter"] == pytest.approx(want[0]["hter"])
        assert found["hter_macro"] == pytest.approx(want[0]["macro"])
        assert found["dev_a_dcf"] == pytest.approx(want[1]["a_dcf"])
        assert entry["lost"]["hter"]["carried"] == pytest.approx(want[0]["hter"])
        assert entry["lost"]["a_dcf"]["carried"] == pytest.approx(want[1]["a_dcf"])
        assert found["min_a_dcf"] == pytest.approx(a_dcf(score, frame["label"].to_list()).min)
        assert ("policy_a_dcf" in found) == (system == "L3")
        said = entry["verdict"]
        assert said.startswith("nothing lost" if name == "same" else "lost: HTER")
    groups = content["by"]  # type: ignore[index]
    assert list(groups) == ["codec", "attack"]
    part = target.with_columns(pl.col("label").cast(str)).filter(pl.col("codec") == "b")
    at = content["systems"]["L3"]["thresholds"]["eer"]  # type: ignore[index]
    want = brute(part, part["sasv_L3"].to_numpy(), at)
    assert groups["codec"]["b"]["hter"] == pytest.approx(want["hter"])
    part = target.with_columns(pl.col("label").cast(str))
    part = part.filter((pl.col("attack") == "A1") | (pl.col("label") != "spoof"))
    want = brute(part, part["sasv_L3"].to_numpy(), at)
    assert groups["attack"]["A1"]["hter"] == pytest.approx(want["hter"])


def test_what_is_lost_is_measured_against_thresholds_of_other_speakers(run: Path) -> None:
    content = audited(run, "moved", systems="L3")
    frame = read_table(run / "to_moved/scores/eval.csv").frame
    frame = frame.with_columns(pl.col("label").cast(str))
    score, word = frame["sasv_L3"].to_numpy(), frame["label"].to_numpy()
    fold = np.unique(frame["speaker"].to_numpy(), return_inverse=True)[1] % 10
    own = np.empty(len(word))
    for number in range(10):
        train = fold != number
        found = eer(score[train & (word == "target")], score[train & (word != "target")])
        own[fold == number] = found.threshold
    want = brute(frame, score - own, 0.0)["hter"]
    lost = content["systems"]["L3"]["lost"]["hter"]  # type: ignore[index]
    assert lost["own"] == pytest.approx(want)
    assert 0 < lost["low"] < lost["lost"] < lost["high"]
    bad = np.stack([score - content["systems"]["L3"]["thresholds"]["eer"], score - own]) > 0  # type: ignore[index]
    bad, target = bad != (word == "target"), word == "target"
    drawn = []
    for weights in replicate_weights(len(word), frame["speaker"].to_numpy(), 1000):
        rates = [(bad * weights)[:, of].sum(1) / weights[of].sum() for of in (target, ~target)]
        drawn.append(np.subtract(*(rates[0] + rates[1]) / 2))
    assert [lost["low"], lost["high"]] == pytest.approx(percentile_ends(np.array(drawn)))


def test_costs_are_those_of_the_fit(run: Path) -> None:
    files = {name: str(run / f"{name}.csv") for name in ("dev", "eval")}
    evaluation.fuse(**files, systems="L3", out=str(run / "five"), costs="asvspoof5")
    how = {"trials": "", "speakers": "", "fitted": str(run / "five")}
    scores, out = str(run / "same.csv"), str(run / "y")
    found = evaluation.transfer(scores=scores, out=out, **how).content  # type: ignore[arg-type]
    assert found["costs"]["name"] == "asvspoof5"
    how |= {"costs": "equal", "overwrite": True}  # type: ignore[dict-item]
    found = evaluation.transfer(scores=scores, out=out, **how).content  # type: ignore[arg-type]
    assert found["costs"]["name"] == "equal"


def target_of(seed: int = 0, shift: float = 0.0) -> tuple[Target, pl.DataFrame]:
    table = frame(seed)
    score = (table["asv_score"] + table["cm_score"]).to_numpy() - 4.5 + shift
    codes = np.array([{"spoof": 0, "target": 1, "nontarget": 2}[one] for one in table["label"]])
    costs, speakers = PRESETS["a-dcf1"], table["speaker"].to_numpy()
    return Target(score, codes, costs, (0.0, 0.5), speakers), table


@pytest.mark.parametrize("method", ["threshold", "shift", "scale"])
def test_label_budget_is_measured_on_the_rest(method: str) -> None:
    target, table = target_of(3)
    rows = np.flatnonzero(np.isin(target.speakers, ["s3", "s7"]))
    found = target.find(method, rows)
    rest = np.setdiff1d(np.arange(len(table)), rows)
    part, score = table[rest], target.score[rest]
    values = target.measured(found, target.rest(rows))
    assert values[0] == pytest.approx(brute(part, score, found.thresholds[0])["hter"])
    assert values[1] == pytest.approx(brute(part, score, found.thresholds[1])["a_dcf"])
    labelled, codes = target.score[rows], target.labels[rows]
    positive, negative = labelled[codes == 1], labelled[codes != 1]
    if method == "threshold":
        want = eer(positive, negative).threshold, a_dcf(labelled, codes).threshold
        assert found.thresholds == pytest.approx(want)
        assert np.isnan(values[2])
        return
    slope, bias = found.affine or (0.0, 0.0)
    own = target.labels[rest] == 1
    llrs = slope * score + bias
    assert values[2] == pytest.approx(cllr(llrs[own], llrs[~own]))

    def loss(a: float, b: float) -> float:
        ridge = (a - 1) ** 2 / (2 * len(rows)) / np.log(2)
        return cllr(a * positive + b, a * negative + b) + ridge

    nearby = [(slope, bias + 0.01), (slope, bias - 0.01)]
    nearby += [(slope + 0.01, bias), (slope - 0.01, bias)] if method == "scale" else []
    assert all(loss(slope, bias) < loss(*one) for one in nearby)
    assert found.thresholds[0] == pytest.approx(-bias / slope)
    assert (method == "scale") == (slope != 1.0)


def test_a_new_fusion_is_fitted_to_the_labelled_alone(run: Path) -> None:
    seen = []

    def refit(rows: np.ndarray) -> np.ndarray:
        seen.append(rows)
        return np.where(target.labels == TrialClass.TARGET, 9.0, -9.0)

    target = replace(target_of(1)[0], refit=refit)
    rows = label_budget(target, (30,), (2,), draws=5)
    assert len(seen) == 10
    assert {len(one) for one in seen[:5]} == {30}
    assert all(len(np.unique(target.speakers[one])) == 2 for one in seen[5:])  # type: ignore[index]
    best = [row for row in rows if row.method == "fusion" and row.measure == "hter"]
    assert [row.median for row in best] == [0.0, 0.0]
    content = audited(run, "moved", systems="L3")
    found = [Row(**row) for row in content["budget"]]  # type: ignore[attr-defined]
    last = [one for one in found if (one.n, one.measure) == (200, "a_dcf")]
    assert {one.method for one in last} == {"threshold", "shift", "scale", "fusion"}
    assert all(one.median < one.carried for one in last)


def test_draws_without_targets_are_counted() -> None:
    target, _ = target_of()
    few = replace(target, labels=np.where(np.arange(1200) < 1150, 0, target.labels))
    rows = label_budget(few, (20,), (), draws=50)
    lost = {row.undefined for row in rows if row.measure == "hter"}
    want = 50 * (1 - np.count_nonzero(few.labels == 1) / 1200) ** 20
    assert len(lost) == 1
    assert abs(lost.pop() - want) < 15
    assert not any(row.unit == "speakers" for row in label_budget(target, (), (20, 30), draws=2))


def test_carried_is_that_of_the_same_trials_and_draws_repeat() -> None:
    target, table = target_of(5)
    rows = np.arange(100)
    rest = table[100:]
    values = target.measured(Found(target.thresholds, (1.0, 0.0)), target.rest(rows))
    assert values[0] == pytest.approx(brute(rest, target.score[100:], 0.0)["hter"])
    assert values[1] == pytest.approx(brute(rest, target.score[100:], 0.5)["a_dcf"])
    first, again, other = (label_budget(target, (50,), (3,), 9, seed) for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_affine_of_separated_scores_is_finite() -> None:
    slope, bias = affine(np.array([5.0, 6.0, -5.0, -6.0]), np.array([1, 1, 0, 2]), scale=True)
    assert 0 < slope < 10
    assert abs(bias) < 1


def test_the_command_writes_a_folder_that_the_report_shows(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run / "shown"
    words = ["transfer", "--fitted", run / "run", "--scores", run / "moved.csv", "--out", out]
    main([str(one) for one in [*words, "--draws", 10, "--trials", 20, "--speakers", "2,30"]])
    said = " ".join(capsys.readouterr().out.split())
    assert "lost: HTER" in said
    assert "Label budget of L3" in said
    content = json.loads((out / "transfer.json").read_text())
    assert {row["unit"] for row in content["budget"]} == {"trials", "speakers"}
    assert (out / "transfer.csv").read_text().count("\n") == 1 + len(content["budget"])
    results = read_results(out)
    figure = describe(Material.of(results, 0), ["label_budget"])[0]
    assert [panel.title for panel in figure.panels] == ["HTER", "a-DCF", "Cllr"]
    main(["report", str(out), "--replicates", "0", "--quiet"])
    page = (out / "report.html").read_text()
    assert "Transfer from" in page
    assert "lost: HTER" in page


def test_what_cannot_be_audited_is_said(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ["transfer", "--fitted", run / "run", "--scores"]
    few = run / "few.csv"
    frame(4).filter(pl.col("label") != "spoof").write_csv(few)
    assert "no spoof trial" in failure_of(capsys, *base, few, "--out", run / "x")
    frame(4).drop("label").write_csv(few)
    assert "label" in failure_of(capsys, *base, few, "--out", run / "x")
    frame(4).drop("cm_score").write_csv(few)
    assert "cm_score" in failure_of(capsys, *base, few, "--out", run / "x")
    same = run / "same.csv"
    assert "'L9'" in failure_of(capsys, *base, same, "--systems", "L9", "--out", run / "x")
    assert "expected numbers" in failure_of(
        capsys, *base, same, "--trials", "0", "--out", run / "x"
    )
    words = ["--methods", "magic", "--out", run / "x"]
    assert "magic" in failure_of(capsys, *base, same, *words)
    assert "no_such" in failure_of(capsys, *base, same, "--by", "no_such", "--out", run / "x")
    frame(4).drop("speaker").write_csv(few)
    found = audited(run, "few", systems="L3")
    assert found["systems"]["L3"]["verdict"].startswith("no verdict, speakers are not known")  # type: ignore[index]
