"""``lightning fuse`` with any number of scores: files joined by trial, columns chosen by name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lightning_sasv.cli import main
from lightning_sasv.errors import InputError
from lightning_sasv.fitted import read_fitted
from lightning_sasv.fusion import FusionSystem
from lightning_sasv.metrics.functional import all_metrics
from lightning_sasv.report.curves import Material
from lightning_sasv.report.figures import describe
from lightning_sasv.results import read_metrics, read_results
from lightning_sasv.scores import read_table
from lightning_sasv.scores.columns import read_columns, score_names
from tests.helpers import failure_of

NAMES = ["asv_ecapa", "asv_x", "cm_aasist", "cm_oc"]
TRIALS = 240


def frame(seed: int = 0) -> pl.DataFrame:
    """Trials of ten speakers with two verifiers and two countermeasures."""
    rng = np.random.default_rng(seed)
    label = np.arange(TRIALS) % 3  # spoof, target, nontarget
    same, live = label != 2, label != 0
    scores = [rng.normal(1.5 * side) for side in (same, same, 2 * live, 2 * live)]
    words = np.array(["spoof", "target", "nontarget"])[label]
    columns = {
        "speaker": [f"s{n // 3 % 10}" for n in range(TRIALS)],
        "utterance": [f"u{n}" for n in range(TRIALS)],
        "attack": np.where(live, "-", "A1"),
        "label": words,
    }
    return pl.DataFrame(columns | dict(zip(NAMES, scores, strict=True)))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files with all four columns, and for each set a file for each column."""
    monkeypatch.chdir(tmp_path)
    for split, seed in (("dev", 0), ("eval", 1)):
        table = frame(seed)
        table.write_csv(f"{split}.csv")
        for name in NAMES[:2]:
            own = table.select("speaker", "utterance", "label", pl.col(name).alias("asv_score"))
            own.sample(fraction=1, shuffle=True, seed=1).write_csv(f"{split}_{name}.csv")
        for name in NAMES[2:]:
            own = table.select("utterance", pl.col(name).alias("cm_score"))
            own.reverse().write_csv(f"{split}_{name}.csv")
    return tmp_path


def files(split: str, *, named: bool = True, order: tuple[int, ...] = (0, 1, 2, 3)) -> str:
    wanted = [NAMES[place] for place in order]
    kinds = wanted if named else [name.partition("_")[0] for name in wanted]
    return ",".join(f"{k}={split}_{n}.csv" for k, n in zip(kinds, wanted, strict=True))


def fuse(dev: str, evaluation: str, *words: str, out: str = "out") -> None:
    main(["fuse", "--dev", dev, "--eval", evaluation, "--out", out, "--quiet", *words])


def fused(out: str, split: str = "eval", system: str = "Q3") -> np.ndarray:
    table = read_table(Path(out) / "scores" / f"{split}.csv")
    trials = table.frame.sort("utterance")
    return trials[f"sasv_{system}"].to_numpy()


def expected(system: str = "Q3", names: list[str] = NAMES) -> np.ndarray:
    dev, other = frame(0), frame(1).sort("utterance")
    sides = [[name for name in names if name.startswith(kind)] for kind in ("asv", "cm")]
    given = [dev.select(side).to_numpy() for side in sides]
    made = FusionSystem(calibration="multinomial", order="squares", rule="nonlinear")
    made.fit(*given, dev["label"].to_list())
    return np.asarray(made(*(other.select(side).to_numpy() for side in sides)).sasv)


def test_one_file_with_columns_is_taken_as_it_is(here: Path) -> None:
    fuse("dev.csv", "eval.csv", "--systems", "Q3,B1")
    assert fused("out") == pytest.approx(expected(), rel=1e-9)
    table, other = read_table(here / "out/scores/eval.csv"), frame(1)
    assert score_names(table) == NAMES
    assert table.frame["asv_ecapa"].cast(pl.Float64).to_list() == other["asv_ecapa"].to_list()
    mean = [other.select(NAMES[n : n + 2]).mean_horizontal() for n in (0, 2)]
    assert fused("out", system="B1") == pytest.approx(
        (mean[0] + mean[1]).gather(other["utterance"].arg_sort()).to_numpy()
    )
    system = read_fitted(here / "out/fitted/Q3.safetensors")
    assert system.columns.names == tuple(NAMES)


def test_t_eer_is_that_of_the_llr_pair(here: Path) -> None:
    fuse("dev.csv", "eval.csv", "--systems", "Q3")
    system, other = read_fitted(here / "out/fitted/Q3.safetensors"), frame(1)
    pair = system(other.select(NAMES[:2]).to_numpy(), other.select(NAMES[2:]).to_numpy())
    value = read_metrics(here / "out/metrics.json")["Q3"]["sets"]["eval"]["values"]["t_eer"]
    codes = [["spoof", "target", "nontarget"].index(word) for word in other["label"]]
    assert value == pytest.approx(all_metrics(pair.asv_llr, pair.cm_llr, None, codes)["t_eer"])


def test_files_are_joined_by_trial_and_countermeasures_by_utterance(here: Path) -> None:
    fuse(files("dev"), files("eval", order=(2, 1, 3, 0)), "--systems", "Q3")
    assert fused("out") == pytest.approx(expected(), rel=1e-9)
    assert read_fitted(here / "out/fitted/Q3.safetensors").columns.names == tuple(NAMES)


def test_columns_without_a_name_are_numbered_in_order(here: Path) -> None:
    fuse(files("dev", named=False), files("eval", named=False), "--systems", "Q3")
    assert fused("out") == pytest.approx(expected(), rel=1e-9)
    names = read_fitted(here / "out/fitted/Q3.safetensors").columns.names
    assert names == ("asv_1", "asv_2", "cm_1", "cm_2")
    mixed = read_columns("asv_mine=dev_asv_x.csv,asv=dev_asv_ecapa.csv,cm=dev_cm_oc.csv")
    assert score_names(mixed) == ["asv_mine", "asv_1", "cm_1"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--scores", "asv_ecapa,cm_*"], ["asv_ecapa", "cm_aasist", "cm_oc"]),
        (["--drop", "cm_oc"], NAMES[:3]),
        (["--scores", "*", "--drop", "asv_x,cm_o*"], ["asv_ecapa", "cm_aasist"]),
    ],
)
def test_scores_and_drop_choose(here: Path, words: list[str], names: list[str]) -> None:
    fuse("dev.csv", "eval.csv", "--systems", "Q3", *words)
    assert fused("out") == pytest.approx(expected(names=names), rel=1e-9)
    assert score_names(read_table(here / "out/scores/dev.csv")) == names


def test_transforms_are_one_word_or_one_of_each_column(here: Path) -> None:
    settings = "calibration: multinomial, order: squares, rule: nonlinear"
    text = f"One: {{{settings}, transform: rank}}, Some: {{{settings}, transform: {{asv_x: rank}}}}"
    Path("my.yaml").write_text(f"systems: {{{text}}}")
    fuse("dev.csv", "eval.csv", "--systems", "my.yaml,Q3")
    one, some, none = (fused("out", system=name) for name in ("One", "Some", "Q3"))
    assert not np.allclose(one, some)
    assert not np.allclose(some, none)
    assert read_fitted(here / "out/fitted/Some.safetensors").config["transform"] == {
        "asv_x": "rank"
    }


def test_quality_is_a_further_feature(here: Path) -> None:
    for split, seed in (("dev", 0), ("eval", 1)):
        table = frame(seed)
        table.with_columns(quality_snr=pl.Series(np.sin(np.arange(TRIALS)))).write_csv(
            f"{split}.csv"
        )
    fuse("dev.csv", "eval.csv", "--systems", "Q3,L3")
    assert read_fitted(here / "out/fitted/Q3.safetensors").columns.names == (*NAMES, "quality_snr")
    assert read_fitted(here / "out/fitted/L3.safetensors").columns.names == tuple(NAMES)


MISTAKES = {
    "a column missing in eval": (
        ["dev.csv", "lacking.csv"],
        "no column cm_oc (it has asv_ecapa, asv_x, cm_aasist), which dev.csv has",
    ),
    "the same file twice": (
        [f"{files('dev')},asv_again=dev_asv_x.csv", files("eval")],
        "dev_asv_x.csv is given twice, as asv_x and as asv_again",
    ),
    "a name twice": (
        [f"{files('dev')},asv_x=dev_cm_oc.csv", files("eval")],
        "asv_x is given twice, as dev_asv_x.csv and as dev_cm_oc.csv",
    ),
    "different trials": (
        [files("dev").replace("dev_asv_x", "part"), files("eval")],
        "part.csv: no score for 200 of 240 trials of",
    ),
    "nan": (["nan.csv", "eval.csv"], "nan.csv, line 6, column asv_x: 'nan' is not a finite number"),
    "nan of one file": (
        [files("dev").replace("dev_cm_oc", "nan_cm"), files("eval")],
        "nan_cm.csv, line 4, column cm_score: 'nan' is not a finite number",
    ),
    "unknown column": (["dev.csv", "eval.csv", "--scores", "asv_ecap"], "did you mean asv_ecapa?"),
    "unknown drop": (["dev.csv", "eval.csv", "--drop", "x*"], "--drop x*: no such column; there"),
    "no countermeasure": (
        ["dev.csv", "eval.csv", "--scores", "asv_*"],
        "CM scores are missing among asv_ecapa, asv_x; fusing needs asv_… and cm_…",
    ),
    "unknown transform": (
        ["dev.csv", "eval.csv", "--systems", "bad.yaml"],
        "bad.yaml, line 1, systems.My.transform: ",
    ),
    "transform of no column": (
        ["dev.csv", "eval.csv", "--systems", "other.yaml"],
        "cm_nowhere",
    ),
    "more columns than trials of a class": (["few.csv", "few.csv", "--systems", "L3"], "spoof"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_one_line(here: Path, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = frame()
    table.drop("cm_oc").write_csv("lacking.csv")
    pl.read_csv("dev_asv_x.csv")[:40].write_csv("part.csv")
    holes = table.with_columns(
        asv_x=pl.when(pl.arange(TRIALS) == 4).then(np.nan).otherwise("asv_x")
    )
    holes.write_csv("nan.csv")
    cm = pl.read_csv("dev_cm_oc.csv")
    cm.with_columns(
        cm_score=pl.when(pl.arange(TRIALS) == 2).then(np.nan).otherwise("cm_score")
    ).write_csv("nan_cm.csv")
    pl.concat([table[:9], table.filter(pl.col("label") != "spoof")[9:]]).write_csv("few.csv")
    Path("bad.yaml").write_text("systems: {My: {density: gaussian, transform: lgit}}")
    Path("other.yaml").write_text(
        "systems: {My: {density: gaussian, transform: {cm_nowhere: rank}}}"
    )
    (dev, evaluation, *words), said = MISTAKES[case]
    shown = failure_of(capsys, "fuse", "--dev", dev, "--eval", evaluation, *words)
    assert said in shown
    assert shown.splitlines()[-1].startswith("lightning: error:")


def test_a_pair_with_names_of_its_own_is_fused_as_the_pair_is(here: Path) -> None:
    fuse("dev.csv", "eval.csv", "--systems", "L3c", "--scores", "asv_x,cm_oc")
    for split, seed in (("a", 0), ("b", 1)):
        table = frame(seed).rename({"asv_x": "asv_score", "cm_oc": "cm_score"})
        table.drop("asv_ecapa", "cm_aasist").write_csv(f"{split}.csv")
    fuse("a.csv", "b.csv", "--systems", "L3c", out="pair")
    assert fused("out", system="L3c") == pytest.approx(fused("pair", system="L3c"), rel=1e-12)


def test_words_under_such_a_name_are_no_scores(here: Path) -> None:
    frame().with_columns(asv_model=pl.lit("ecapa")).write_csv("dev.csv")
    assert score_names(read_columns("dev.csv")) == NAMES


def test_python_raises_the_same(here: Path) -> None:
    with pytest.raises(InputError, match="given twice"):
        read_columns("asv=dev_asv_x.csv,asv=dev_asv_x.csv,cm=dev_cm_oc.csv")


# What each score is worth


def test_worth_leaves_out_each_column_and_writes_what_was_found(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--systems", "B1,Q3", "--worth", "--replicates", "39")
    fuse("dev.csv", "eval.csv", *words)
    found = json.loads((here / "out/worth.json").read_text())
    assert found["system"] == "Q3"
    assert [row["column"] for row in found["rows"]] == ["", *NAMES]
    whole, *others = found["rows"]
    value = read_metrics(here / "out/metrics.json")["Q3"]["sets"]["eval"]["values"]
    for metric in ("sasv_eer", "cllr", "policy_a_dcf"):
        assert whole["sets"]["eval"][metric] == {"value": pytest.approx(value[metric], rel=1e-9)}
        for row in others:
            entry = row["sets"]["eval"][metric]
            gap = entry["value"] - whole["sets"]["eval"][metric]["value"]
            assert entry["difference"] == pytest.approx(gap)
            assert entry["low"] <= entry["high"]
    shown = capsys.readouterr().out
    assert "What each score is worth to Q3" in shown
    assert "dev, held out by speaker" in shown
    main(["report", "out", "--quiet", "--replicates", "0"])
    page = (here / "out/report.html").read_text()
    assert "What each score is worth to Q3" in page
    assert "The scores that are fused" in page
    fuse("dev.csv", "eval.csv", "--systems", "Q3")  # the same place: what is not asked for goes
    assert not (here / "out/worth.json").exists()


def test_dev_values_are_of_trials_whose_speaker_was_left_out(here: Path) -> None:
    fuse("dev.csv", "eval.csv", "--systems", "Q3", "--worth", "--replicates", "0")
    whole = json.loads((here / "out/worth.json").read_text())["rows"][0]["sets"]["dev"]
    rho = float(read_fitted(here / "out/fitted/Q3.safetensors").rho or 0)
    table, scores = frame(), np.empty(TRIALS)
    for speaker in table["speaker"].unique():
        held = (table["speaker"] == speaker).to_numpy()
        made = FusionSystem(calibration="multinomial", order="squares", rule="nonlinear", rho=rho)
        parts = [[table.filter(m).select(NAMES[n : n + 2]).to_numpy() for n in (0, 2)]
                 for m in (~held, held)]  # fmt: skip
        made.fit(*parts[0], table.filter(~held)["label"].to_list())
        scores[held] = np.asarray(made(*parts[1]).sasv)
    codes = [["spoof", "target", "nontarget"].index(word) for word in table["label"]]
    expected = all_metrics(None, None, scores, codes)
    assert whole["cllr"]["value"] == pytest.approx(expected["cllr"], rel=1e-6)
    assert whole["sasv_eer"]["value"] == pytest.approx(expected["sasv_eer"])


def test_a_column_that_helps_on_dev_and_harms_on_eval_is_called_out(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for split, seed, sign in (("dev", 0, 1), ("eval", 1, -1)):
        table = frame(seed)
        live = (table["label"] != "spoof").cast(pl.Float64)
        noise = np.random.default_rng(seed).normal(size=TRIALS)
        table.with_columns(cm_turned=sign * 3 * live + noise).write_csv(f"{split}.csv")
    fuse("dev.csv", "eval.csv", "--systems", "M3", "--worth", "--replicates", "39")
    said = json.loads((here / "out/worth.json").read_text())["remarks"]
    assert any(
        one.startswith("cm_turned helps on dev and harms on eval: without it") for one in said
    )
    assert "cm_turned helps on dev and harms on eval" in " ".join(capsys.readouterr().out.split())


def test_the_only_score_of_a_kind_stays_and_raw_scores_have_no_worth(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--scores", "asv_*,cm_oc", "--worth", "--replicates", "0")
    fuse("dev.csv", "eval.csv", "--systems", "Q3", *words)
    found = json.loads((here / "out/worth.json").read_text())
    assert [row["column"] for row in found["rows"]] == ["", "asv_ecapa", "asv_x"]
    assert "cm_oc is the only CM score and cannot be left out" in found["remarks"]
    other = ("fuse", "--dev", "dev.csv", "--eval", "eval.csv", "--systems", "B1,Post", "--worth")
    assert "none of the systems gives LLRs" in failure_of(capsys, *other, "--out", "no")


# What is made of the results


def test_results_are_reported_decided_and_evaluated(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fuse("dev.csv", "eval.csv", "--systems", "Q3,L3,B1")
    results = read_results("out")
    assert results.notes == []
    matrix, boundaries = describe(Material.of(results, 0), ["score_matrix", "boundaries"])
    assert [panel.title for panel in matrix.panels][:2] == ["asv_ecapa and asv_x",
                                                            "asv_ecapa and cm_aasist"]  # fmt: skip
    assert len(matrix.panels) == 6
    levels = {p.title: [s for s in p.series if s.kind == "level"] for p in boundaries.panels}
    assert not any(levels.values())  # a line in the plane of two scores would be of no more
    decide = ["decide", "eval.csv", "--fitted", "out", "--system", "Q3", "--compare", "--quiet"]
    main([*decide, "--out", "decided.csv"])
    decided = pl.read_csv("decided.csv")
    assert decided.columns[:8] == ["speaker", "utterance", "attack", "label", *NAMES]
    files_too = files("eval")
    main(["decide", files_too, "--fitted", "out", "--system", "Q3", "--out", "two.csv", "--quiet"])
    one, two = (pl.read_csv(f).sort("utterance") for f in ("decided.csv", "two.csv"))
    assert two["score"].to_list() == pytest.approx(one["score"].to_list())
    capsys.readouterr()
    main(["evaluate", "out/scores/eval.csv", "--llrs", "--ci", "none", "--quiet"])
    assert "Q3" in capsys.readouterr().out
    lacking = failure_of(capsys, "decide", "dev_cm_oc.csv", "--fitted", "out", "--system", "Q3")
    assert "no column 'asv_ecapa', 'asv_x', 'cm_aasist', 'cm_oc'" in lacking
