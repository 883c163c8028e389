"""Fusing and deciding on tables."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from lightning_sasv.cli import main
from lightning_sasv.decisions import PRESETS, CostModel, accept, compare_policies
from lightning_sasv.errors import InputError
from lightning_sasv.evaluation import decide, evaluate, fuse
from lightning_sasv.evaluation.deciding import PolicyResult, choose_system, decide_trials
from lightning_sasv.evaluation.fusing import fuse_tables, write_results
from lightning_sasv.fitted import read_fitted_systems
from lightning_sasv.fusion import SYSTEMS, FusionSystem, build_system
from lightning_sasv.metrics.functional import Settings, a_dcf
from lightning_sasv.metrics_file import values_in
from lightning_sasv.scores import ScoreTable, read_scores, read_table, write_scores
from lightning_sasv.scores.sources import read_costs
from tests.helpers import metrics_in
from tests.scores.samples import toy_scores

NAMES = ["B1", "L3", "L3t"]
Pair = tuple[ScoreTable, ScoreTable]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("toy")
    for split, seed in (("dev", 0), ("eval", 1)):
        write_scores(folder / f"{split}.csv", toy_scores(seed=seed))
    return read_table(folder / "dev.csv"), read_table(folder / "eval.csv")


def test_nothing_is_fitted_on_eval(pair: Pair) -> None:
    dev, evaluation = pair
    wrong = np.random.default_rng(0).permutation(len(evaluation))
    shuffled = evaluation.frame.with_columns(evaluation.frame["label"][wrong])
    results = [
        fuse_tables(dev, table, list(SYSTEMS), "toy", Settings())
        for table in (
            evaluation,
            replace(evaluation, frame=shuffled),
            replace(evaluation, frame=evaluation.frame.drop("label")),
        )
    ]
    for other in results[1:]:
        for name in SYSTEMS:
            one, two = results[0].systems[name].state_dict(), other.systems[name].state_dict()
            assert all(torch.equal(one[key], two[key]) for key in one)
            scores = [r.tables["eval"].numbers(f"sasv_{name}") for r in (results[0], other)]
            np.testing.assert_array_equal(*scores)
            mine, theirs = (values_in(r.metrics[name], "dev") for r in (results[0], other))
            assert mine == theirs
    one, two, none = (values_in(r.metrics["L3"], "eval") for r in results)
    assert one != two
    assert not none


def test_folder_of_results(pair: Pair, tmp_path: Path) -> None:
    results = fuse_tables(*pair, NAMES, "toy", Settings())
    write_results(tmp_path, results)
    metrics = metrics_in(tmp_path)
    assert set(metrics) == set(NAMES)
    assert metrics["L3"]["corpus"] == "toy"
    assert 0 <= metrics["L3"]["fitted"]["rho"] <= 1
    systems = read_fitted_systems(tmp_path)
    for split, table in zip(("dev", "eval"), pair, strict=True):
        scores = read_scores(tmp_path / "scores" / f"{split}.csv")
        np.testing.assert_array_equal(scores.asv, table.numbers("asv_score"))
        for name, system in systems.items():
            fused = system(scores.asv, scores.cm).sasv
            np.testing.assert_allclose(scores.extra[f"sasv_{name}"], fused, rtol=1e-12)
    write_results(tmp_path, fuse_tables(*pair, ["L3"], "toy", Settings()))
    assert list(read_fitted_systems(tmp_path)) == ["L3"]


def test_fused_scores_of_an_earlier_run_are_replaced(pair: Pair) -> None:
    once = fuse_tables(*pair, ["B1", "L3"], "toy", Settings())
    again = fuse_tables(once.tables["dev"], once.tables["eval"], ["L3"], "toy", Settings())
    assert again.tables["eval"].score_columns == ["asv_score", "cm_score", "sasv_L3"]


def test_tables_that_cannot_be_fused(pair: Pair) -> None:
    dev, evaluation = pair
    with pytest.raises(InputError, match=r"dev.csv, line 1: no column 'label' .*fusing \(--dev\)"):
        fuse_tables(replace(dev, frame=dev.frame.drop("label")), evaluation, NAMES, "", Settings())
    lacking = replace(evaluation, frame=evaluation.frame.drop("cm_score"))
    with pytest.raises(InputError, match=r"eval.csv, line 1: no column 'cm_score'"):
        fuse_tables(dev, lacking, NAMES, "toy", Settings())
    bonafide = dev.take(np.flatnonzero(dev.labels() != 0))
    with pytest.raises(InputError, match=r"dev.csv, line \d+: no spoof trial up to the end"):
        fuse_tables(bonafide, evaluation, NAMES, "toy", Settings())


@pytest.fixture(scope="module")
def system(pair: Pair) -> FusionSystem:
    return fuse_tables(*pair, ["L3"], "toy", Settings()).systems["L3"]


def bayes_result(table: ScoreTable, system: FusionSystem, costs: CostModel) -> PolicyResult:
    return decide_trials(table, {"L3": system}, costs).results["L3"]["bayes"]


@pytest.mark.parametrize("policy", ["bayes", "linear", "utility"])
@pytest.mark.parametrize("costs", [*PRESETS.values(), CostModel(c_fa_spoof=0), CostModel(c_miss=0)])
def test_decisions_say_why(
    pair: Pair, system: FusionSystem, policy: str, costs: CostModel, tmp_path: Path
) -> None:
    evaluation = pair[1]
    decisions = decide_trials(evaluation, {"L3": system}, costs, policy)
    result = decisions.results["L3"][policy]
    fused = system(evaluation.numbers("asv_score"), evaluation.numbers("cm_score"))
    decisions.write(tmp_path / "d.csv")
    frame = pl.read_csv(tmp_path / "d.csv")
    explained = ["asv_llr", "cm_llr", "score", "threshold", "decision", "reason"]
    assert frame.columns == [*evaluation.frame.columns, *explained]
    wanted = accept(fused, costs, policy).numpy()
    np.testing.assert_array_equal(frame["decision"] == "accept", wanted)
    np.testing.assert_array_equal(frame["score"] > frame["threshold"], wanted)
    np.testing.assert_array_equal(frame["asv_llr"], fused.asv_llr)
    assert set(frame.filter(pl.col("decision") == "accept")["reason"]) <= {"target"}
    assert set(frame.filter(pl.col("decision") == "reject")["reason"]) <= {"nontarget", "spoof"}
    judge = compare_policies(fused, evaluation.labels(), costs)[policy]
    assert result.expected == pytest.approx(float(judge.expected), rel=1e-12)
    assert result.actual is not None
    assert result.actual.cost == judge.empirical.cost
    assert result.accepted == pytest.approx(float(judge.accepted))


def test_reason_is_the_class_that_weighs_more(pair: Pair, system: FusionSystem) -> None:
    evaluation = pair[1]
    frame = decide_trials(evaluation, {"L3": system}, PRESETS["a-dcf1"]).frame
    rejected = frame.filter(pl.col("decision") == "reject")
    spoof = 2 * np.exp(-rejected["cm_llr"].to_numpy())
    nontarget = np.exp(-rejected["asv_llr"].to_numpy())
    np.testing.assert_array_equal(rejected["reason"] == "spoof", spoof > nontarget)


def test_expected_cost_at_priors_weights_classes(pair: Pair, system: FusionSystem) -> None:
    evaluation = pair[1]
    balanced = bayes_result(evaluation, system, PRESETS["equal"])
    assert balanced.expected_at_priors == pytest.approx(balanced.expected)  # 200 of each class
    unlabelled = replace(evaluation, frame=evaluation.frame.drop("label"))
    result = bayes_result(unlabelled, system, PRESETS["equal"])
    assert result.expected == balanced.expected
    assert result.actual is None
    assert result.expected_at_priors is None


def test_trials_of_two_classes_are_decided_where_the_costs_need_no_third(
    pair: Pair, system: FusionSystem
) -> None:
    evaluation = pair[1]
    bonafide = evaluation.take(np.flatnonzero(evaluation.labels() != 0))
    plain = CostModel(1.0, 2.0, 9.0, 0.4, 0.6, 0.0)
    result = bayes_result(bonafide, system, plain)
    fused = system(bonafide.numbers("asv_score"), bonafide.numbers("cm_score"))
    accepted = (fused.asv_llr > -plain.log_beta).numpy()  # plain speaker verification
    miss = 1 - accepted[bonafide.labels() == 1].mean()
    false = accepted[bonafide.labels() == 2].mean()
    assert result.actual is not None
    assert float(result.actual.cost) == pytest.approx(0.4 * miss + 1.2 * false)
    assert result.expected_at_priors is not None
    unpriced = bayes_result(bonafide, system, CostModel(c_fa_spoof=0.0))
    assert unpriced.actual is not None
    assert unpriced.expected_at_priors is None  # spoofs have a prior, but no trials
    with pytest.raises(InputError, match=r"eval.csv: labels hold no spoof trial .*give some, or"):
        bayes_result(bonafide, system, PRESETS["a-dcf1"])


def test_choice_of_the_system(pair: Pair) -> None:
    systems = fuse_tables(*pair, [*NAMES, "B1c"], "toy", Settings()).systems
    assert choose_system(systems, None) == "L3t"
    assert choose_system({"B1": systems["B1"], "B1c": systems["B1c"]}, None) == "B1c"
    assert choose_system(systems, "L3") == "L3"
    with pytest.raises(InputError, match="no fitted system 'L4'; there are B1, L3"):
        choose_system(systems, "L4")
    with pytest.raises(InputError, match="B1 fuses scores that are no log-likelihood ratios"):
        choose_system(systems, "B1")
    with pytest.raises(InputError, match=r"none of the fitted systems \(B1\) gives LLRs"):
        choose_system({"B1": systems["B1"]}, None)
    assert {n for n in SYSTEMS if not build_system(n).gives_llrs} == {"B1", "B1v2", "Post"}


def test_comparison_of_policies(pair: Pair) -> None:
    results = fuse_tables(*pair, ["L3", "L3t"], "toy", Settings())
    found = decide_trials(pair[1], results.systems, PRESETS["asvspoof5"], compare=True).results
    assert list(found) == ["L3", "L3t"]
    for policies in found.values():
        assert list(policies) == ["bayes", "linear", "utility"]
        assert policies["bayes"].expected <= min(p.expected for p in policies.values()) + 1e-15
        assert all(math.isfinite(p.expected) for p in policies.values())


def test_functions_do_what_the_commands_do(pair: Pair, tmp_path: Path) -> None:
    dev, file = (str(table.path) for table in pair)
    said: list[str] = []
    fused = fuse(dev=dev, eval=file, systems="L3", out=str(tmp_path / "out"), tell=said.extend)
    again = fuse_tables(*pair, ["L3"], fused.corpus, Settings()).metrics
    assert values_in(fused.metrics["L3"], "eval") == values_in(again["L3"], "eval")
    found = decide(file, str(tmp_path / "out"), out=str(tmp_path / "d.csv"), tell=said.extend)
    assert (found.system, found.policy, list(found.results)) == ("L3", "bayes", ["L3"])
    assert pl.read_csv(tmp_path / "d.csv")["decision"].equals(found.frame["decision"])
    scores = str(tmp_path / "out" / "scores" / "eval.csv")
    result = evaluate([scores], ci="none", json=str(tmp_path / "e.json"), tell=said.extend)
    assert result.metrics["L3"]["sasv_eer"] == values_in(fused.metrics["L3"], "eval")["sasv_eer"]
    assert json.loads((tmp_path / "e.json").read_text())["systems"].keys() == result.metrics.keys()
    assert [Path(note.partition(":")[0]).name for note in said] == (
        ["dev.csv", "eval.csv", "eval.csv", "eval.csv"]
    )


def test_costs_of_fused_systems_have_their_names(pair: Pair) -> None:
    found = fuse_tables(*pair, ["B1", "L2", "L3"], "toy", Settings()).metrics
    sets = {name: own["sets"] for name, own in found.items()}
    assert sets["B1"]["eval"]["undefined"]["act_a_dcf"] == "no LLR"
    assert "policy_a_dcf" not in sets["B1"]["eval"]["values"]
    policy = [sets[name]["eval"]["values"]["policy_a_dcf"] for name in ("L2", "L3")]
    assert policy[0] == policy[1], "it belongs to the pair"
    for own in sets.values():
        assert "dev_a_dcf" not in own["dev"]["values"]
        assert own["eval"]["values"]["dev_a_dcf"] >= own["eval"]["values"]["min_a_dcf"]
    fused = fuse_tables(*pair, ["L3"], "toy", Settings())
    score = fused.tables["eval"].numbers("sasv_L3")
    at = fused.metrics["L3"]["sets"]["dev"]["values"]["a_dcf_threshold"]
    wanted = a_dcf(score, pair[1].labels(), threshold=at).actual
    assert fused.metrics["L3"]["sets"]["eval"]["values"]["dev_a_dcf"] == pytest.approx(wanted)


def test_unsure_by_a_price_and_outside_of_dev(pair: Pair, tmp_path: Path) -> None:
    dev, evaluation = (str(table.path) for table in pair)
    fuse(dev=dev, eval=evaluation, systems="L3t", out=str(tmp_path / "out"))
    price = tmp_path / "price.yaml"
    price.write_text("c_abstain: 0.1\n")
    where = {"fitted": str(tmp_path / "out"), "out": str(tmp_path / "d.csv"), "overwrite": True}
    plain = decide(evaluation, **where, costs="equal")
    never = decide(evaluation, **where, costs="equal", compare=True)
    assert plain.results["L3t"]["bayes"] == never.results["L3t"]["bayes"]
    found = decide(evaluation, **where, costs=str(price))
    llrs = found.frame["asv_llr"].to_numpy(), found.frame["cm_llr"].to_numpy()
    parts = np.exp(-llrs[0]), np.exp(-llrs[1])
    risks = np.stack([parts[0] + parts[1], np.ones(len(parts[0])), 0.1 * (1 + parts[0] + parts[1])])
    words = np.array(["accept", "reject", "unsure"])[risks.argmin(axis=0)]
    assert found.frame["decision"].to_list() == words.tolist()
    one = found.results["L3t"]["bayes"]
    assert one.unsure == (words == "unsure").mean() > 0
    assert one.actual is not None
    labels = pair[1].labels()
    assert one.actual.unsure == tuple(
        (words[labels == code] == "unsure").mean() for code in (1, 2, 0)
    )
    told: list[str] = []
    price.write_text("c_abstain: 0.7\n")
    idle = decide(evaluation, **where, costs=str(price), tell=told.extend)
    assert idle.frame["decision"].to_list() == plain.frame["decision"].to_list()
    assert any("c_abstain 0.7 never acts" in line for line in told)
    far = decide(evaluation, **where, costs="equal", level=0.2).frame["decision"].to_numpy()
    before = plain.frame["decision"].to_numpy()
    assert (far[before == "reject"] == "reject").all()
    assert 0 < (far == "unsure").sum() < (before == "accept").sum()
    with pytest.raises(InputError, match=r"--level must lie in \[.*least possible"):
        decide(evaluation, **where, level=1e-6)


def test_costs_that_say_little_name_the_defaults_and_a_template_says_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "some.yaml").write_text("c_miss: 2\n")
    told: list[str] = []
    assert read_costs(str(tmp_path / "some.yaml"), told.extend) == CostModel(c_miss=2.0)
    assert "the defaults c_fa_nontarget 1, c_fa_spoof 1, p_target 0.3333" in told[0]
    main(["decide", "--print", "costs"])
    (tmp_path / "all.yaml").write_text(capsys.readouterr().out)
    told.clear()
    assert read_costs(str(tmp_path / "all.yaml"), told.extend) == PRESETS["a-dcf1"]
    assert not told
