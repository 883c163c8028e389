"""Results say what they are of: version 2 of metrics.json, what is merged, parts, old files."""

from __future__ import annotations

import json
import math
import shutil
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightning_sasv.cli import main
from lightning_sasv.errors import InputError
from lightning_sasv.evaluation import evaluate
from lightning_sasv.fitted import read_fitted
from lightning_sasv.metrics.functional import Settings, all_metrics
from lightning_sasv.metrics_file import (
    Metrics,
    as_version_1,
    blocks,
    check_merge,
    merged,
    of_in,
    systems_of,
)
from lightning_sasv.record import FIELDS, NOT_RECORDED, Origin, Trials, set_entry, unrecorded
from lightning_sasv.report.table1 import check_seeds, mean_metrics
from lightning_sasv.results import merge_metrics, read_metrics, write_metrics
from lightning_sasv.scores import read_table, write_scores
from lightning_sasv.scores.table import from_scores
from tests.helpers import content, failure_of
from tests.scores.samples import toy_scores


@pytest.fixture(scope="module")
def fused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Toy scores and what `fuse` makes of them at the costs of ASVspoof 5."""
    folder = tmp_path_factory.mktemp("fused")
    write_scores(folder / "dev.csv", toy_scores(600, seed=1))
    write_scores(folder / "eval.csv", toy_scores(600, seed=2))
    fuse(folder, "--costs", "asvspoof5")
    return folder


def fuse(folder: Path, *args: str) -> None:
    files = ["--dev", str(folder / "dev.csv"), "--eval", str(folder / "eval.csv")]
    main(["fuse", *files, "--systems", "B1,L3", "--out", str(folder / "out"), *args])


def one_set(**changes: Any) -> dict[str, Any]:
    """A system on toy trials, with some fields of its block changed."""
    scores = toy_scores(60)
    values = all_metrics(scores.asv, scores.cm, scores.asv, scores.label)
    columns = {"asv": scores.asv, "cm": scores.cm, "sasv": scores.asv}
    trials, origin = Trials(from_scores(scores, Path("x"))), Origin("toy", seeds=(1,))
    entry = set_entry(columns, values, trials, origin, Settings())
    entry["of"] |= changes
    return entry


def system(**changes: Any) -> dict[str, Any]:
    sets = {split: one_set(**changes) for split in ("dev", "eval")}
    return {"sets": sets, "fitted": {}, "fitted_on": unrecorded(), "warnings": []}


@pytest.mark.parametrize(("split", "mark"), [("dev", "b10a91a5cc59"), ("eval", "2e5598f0761b")])
def test_fingerprints_of_the_real_trials(split: str, mark: str, shared: Path) -> None:
    table = read_table(shared / "data" / "sasv2022" / f"{split}_scores.csv")
    trials = Trials(table)
    assert trials.fingerprint.startswith(mark)
    rows = np.random.default_rng(0).permutation(len(table))
    other = Trials(table.take(rows))
    assert other.fingerprint == trials.fingerprint
    columns = {name: table.numbers(name) for name in ("asv_score", "cm_score")}
    digest = trials.digest(columns)
    assert other.digest({n: c[rows] for n, c in columns.items()}) == digest
    columns["cm_score"][0] += 1e-12
    assert trials.digest(columns) != digest
    assert Trials(table.take(rows[1:])).fingerprint != trials.fingerprint


def test_every_result_says_what_it_is_of(fused: Path) -> None:
    file = json.loads((fused / "out" / "metrics.json").read_text())
    assert (file["format"], file["version"]) == ("lightning_sasv.metrics", 2)
    found = list(blocks(file["systems"]))
    assert [(name, split) for name, split, _ in found] == [
        (name, split) for name in ("B1", "L3") for split in ("dev", "eval")
    ]
    for name, split, of in found:
        assert set(of) == set(FIELDS)
        assert of["trials"] == of["expected"] == {"target": 200, "nontarget": 200, "spoof": 200}
        assert (of["part"], of["cause"], of["checkpoint"], of["seeds"]) == (False, None, None, None)
        assert (of["speakers"], of["attacks"]) == (6, 2)
        assert 0 <= of["speakers_without_miss"] < 6
        assert 0 < of["largest_miss_share"] <= 1
        assert of["costs"]["name"] == of["tandem_costs"]["name"] == "asvspoof5"
        assert of["costs"]["p_target"] == 0.9405
        assert (of["eer_convention"], of["device"]) == ("asvspoof", "cpu")
        assert of["t_eer"].keys() == {"rule", "point", "rho", "residual"}
        assert set(of["t_dcf"]["rates"]) == {"miss", "fa_nontarget", "fa_spoof"}
        assert set(of["software"]) == {"lightning_sasv", "torch", "numpy", "python"}
        one = file["systems"][name]["sets"][split]
        nulls = {metric for metric, value in one["values"].items() if value is None}
        assert one["undefined"].keys() == nulls
        on = file["systems"][name]["fitted_on"]
        assert on["fingerprint"] == of_in(file["systems"][name], "dev")["fingerprint"]
    fingerprints = {split: of["fingerprint"] for _, split, of in found}
    assert len(set(fingerprints.values())) == 2
    assert (
        read_fitted(fused / "out" / "fitted" / "L3.safetensors").fitted_on
        == (file["systems"]["L3"]["fitted_on"])
    )


def test_a_reason_for_every_null() -> None:
    scores = replace(toy_scores(60), asv=-toy_scores(60).asv)  # a verifier worse than chance
    values = all_metrics(scores.asv, scores.cm, scores.cm, scores.label)
    columns = {"asv": scores.asv, "cm": scores.cm, "sasv": scores.cm}
    trials = Trials(from_scores(scores, Path("x")))
    found = set_entry(columns, values, trials, Origin("toy"), Settings())
    undefined = {name for name, value in values.items() if not np.isfinite(value)}
    assert undefined
    assert found["undefined"].keys() == undefined
    assert "t-DCF is undefined" in found["undefined"]["min_t_dcf"]
    assert found["of"]["t_eer"]["point"] in ("concurrent", "closest")


def test_costs_are_those_that_were_used(fused: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Page, print-out and file agree."""
    fuse(fused, "--costs", "asvspoof5")
    shown = " ".join(capsys.readouterr().out.split())
    assert "(costs asvspoof5)" in shown
    assert "convention asvspoof;" in shown
    assert "dev 600 trials of 6 speakers; eval 600 trials of 6 speakers" in shown
    main(["report", str(fused / "out")])
    page = (fused / "out" / "report.html").read_text()
    assert "a-DCF with the costs asvspoof5." in page
    assert 'best on these very trials, costs asvspoof5"' in page
    assert "min a-DCF (costs asvspoof5)" in page
    shown = page[: page.index("<section id=")] + page[page.index('<section id="results">') :]
    assert "costs a-dcf1" not in shown[: shown.index('id="report-data"')]


def test_version_1_is_read_and_says_so(fused: Path, tmp_path: Path) -> None:
    """A file as version 0.2 wrote it: what it did not say is not made up."""
    old = as_version_1(read_metrics(fused / "out" / "metrics.json"))
    assert set(old["L3"]) == {"corpus", "dev", "eval", "fitted", "warnings"}
    for part in ("scores", "fitted"):
        shutil.copytree(fused / "out" / part, tmp_path / part)
    (tmp_path / "metrics.json").write_text(json.dumps(old))
    found = read_metrics(tmp_path / "metrics.json")
    of = of_in(found["L3"], "eval")
    assert {name for name, value in of.items() if value != NOT_RECORDED} == {"corpus"}
    assert as_version_1(found) == old
    main(["report", str(tmp_path)])
    page = (tmp_path / "report.html").read_text()
    assert "is of version 1" in page
    assert "a-DCF with the costs not recorded." in page
    assert page.count(">not recorded</td>") > 10
    assert "Convention of the EERs: not recorded" in page


def test_the_way_back_to_version_1(
    fused: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["convert", str(fused / "out" / "metrics.json"), "--to", "metrics-v1"])
    written = json.loads((tmp_path / "metrics-v1.json").read_text())
    new = read_metrics(fused / "out" / "metrics.json")
    assert written["L3"]["eval"] == new["L3"]["sets"]["eval"]["values"]
    assert written["L3"]["corpus"] == of_in(new["L3"], "eval")["corpus"]
    main(["convert", str(fused / "out" / "metrics.json"), "--to", "metrics-v1"])  # the same again
    (tmp_path / "metrics-v1.json").write_text("{}")
    said = failure_of(capsys, "convert", fused / "out" / "metrics.json", "--to", "metrics-v1")
    assert "something else than what would be written" in said
    assert (tmp_path / "metrics-v1.json").read_text() == "{}"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("fingerprint", "0" * 64),
        ("costs", {"name": "equal"}),
        ("tandem_costs", {"name": "equal"}),
        ("eer_convention", "rocch"),
        ("corpus", "another"),
        ("scale", 0.5),
    ],
)
def test_what_does_not_belong_together_is_not_merged(
    field: str, value: Any, tmp_path: Path
) -> None:
    file = tmp_path / "metrics.json"
    write_metrics(file, {"A": system()})
    before = file.read_bytes()
    for name in ("A", "B"):
        new = {name: system()}
        new[name]["sets"].pop("dev")
        new[name]["sets"]["eval"]["of"][field] = value
        with pytest.raises(InputError, match=rf"{file.name} holds results of other .*{field} "):
            merge_metrics(file, new)
    assert file.read_bytes() == before
    assert set(merge_metrics(file, {"B": system()})) == {"A", "B"}
    new = {"C": system(**{field: value})}
    assert set(merge_metrics(file, new, overwrite=True)) == {"C"}


def test_what_may_give_way() -> None:
    whole, part = {"A": system()}, {"A": system(part=True, fingerprint="0")}
    old: Metrics = systems_of(as_version_1({"A": system()}), "old")
    for there, new in ((part, whole), (whole, part), (old, whole)):
        check_merge(there, new, "x")
    for there in (part, old):
        with pytest.raises(InputError, match="fingerprint"):  # A would stay beside it
            check_merge(there, {"B": system()}, "x")
    added = {"A": {"sets": {"eval": {"intervals": {"sasv_eer": {"low": 0}}}}}}
    found = merged(whole, deepcopy(added))
    assert found["A"]["sets"]["eval"]["intervals"] == {"sasv_eer": {"low": 0}}
    assert found["A"]["sets"]["eval"]["values"] == whole["A"]["sets"]["eval"]["values"]
    again = merged(found, whole)  # an interval of values that are no more goes with them
    assert "intervals" not in again["A"]["sets"]["eval"]


def test_a_table_mixes_nothing() -> None:
    def seeds(**changes: Any) -> list[Metrics]:
        return [{"A": system(seeds=[1])}, {"A": system(seeds=[2], **changes)}]

    check_seeds(seeds(), ["A"])
    with pytest.raises(InputError, match="seed 2 has part of dev: 60 of 60 trials"):
        check_seeds(seeds(part=True), ["A"])
    for field, value in (("device", "cuda:X"), ("precision", "16-mixed"), ("costs", {})):
        with pytest.raises(InputError, match=rf"seed 2, A, dev: {field} "):
            check_seeds(seeds(**{field: value}), ["A"])


def test_means_over_seeds_keep_every_seed() -> None:
    seeds = [{"A": system(seeds=[k], scores=str(k))} for k in (1, 2)]
    values = [metrics["A"]["sets"]["eval"]["values"] for metrics in seeds]
    values[0]["sasv_eer"], values[1]["sasv_eer"] = 0.1, 0.3
    values[1]["t_eer"] = None
    seeds[1]["A"]["sets"]["eval"]["undefined"] = {"t_eer": "no concurrent point"}
    found = mean_metrics(seeds, ["A"])["A"]["sets"]["eval"]
    assert found["values"]["sasv_eer"] == pytest.approx(0.2)
    assert found["spread"]["sasv_eer"] == pytest.approx(0.1 * 2**0.5)
    assert found["per_seed"] == {"1": values[0], "2": values[1]}
    assert found["undefined"] == {"t_eer": "seed 2: no concurrent point"}
    of = found["of"]
    assert (of["seeds"], of["scores"], of["device"]) == ([1, 2], {"1": "1", "2": "2"}, "cpu")


def test_a_part_of_score_files_says_so(
    fused: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = fused / "eval.csv", tmp_path / "e.json"
    main(["evaluate", str(file), "--where", "attack=-", "--json", str(out)])
    assert "part of these: 400 of 600 trials" in " ".join(capsys.readouterr().out.split())
    of = of_in(read_metrics(out)["eval"], "eval")
    assert (of["part"], of["cause"]) == (True, "--where attack=-")
    assert of["expected"]["spoof"] == 200
    assert of["trials"]["spoof"] == 0
    lines = (fused / "dev.csv").read_text().splitlines(keepends=True)
    (tmp_path / "dev.csv").write_text("".join(lines[:-30]))
    files = ["--dev", tmp_path / "dev.csv", "--dev-key", fused / "dev.csv", "--eval", file]
    main(["fuse", *map(str, files), "--allow-missing", "--systems", "L3",
          "--out", str(tmp_path / "out")])  # fmt: skip
    shown = " ".join(capsys.readouterr().out.split())
    assert "part of dev: 570 of 600 trials" in shown
    found = read_metrics(tmp_path / "out" / "metrics.json")["L3"]
    assert (found["fitted_on"]["part"], of_in(found, "eval")["part"]) == (True, False)
    scores = tmp_path / "out" / "scores" / "dev.csv"  # which say nothing of it themselves
    again = evaluate(scores, systems="L3", ci="none")
    assert ", part of dev: 570 of 600 trials (" in again.title
    assert (again.of["L3"]["part"], again.of["L3"]["cause"]) == (True, "--allow-missing")
    main(["fuse", "--dev", str(scores), "--eval", str(file), "--systems=L3", "--out",
          str(tmp_path / "again")])  # fmt: skip
    assert "part of dev: 570 of 600 trials" in " ".join(capsys.readouterr().out.split())
    said = failure_of(capsys, "report", tmp_path / "out")
    assert "part of dev: 570 of 600 trials" in said
    assert "--allow-part" in said
    main(["report", str(tmp_path / "out"), "--allow-part"])
    page = (tmp_path / "out" / "report.html").read_text()
    assert "The systems were fitted on part of dev: 570 of 600 trials." in page
    assert 'class="heat best"' not in page
    assert '<div class="card">' not in page


def test_a_page_older_than_the_scores_says_so(fused: Path, tmp_path: Path) -> None:
    for name in ("dev.csv", "eval.csv"):
        (tmp_path / name).write_bytes((fused / name).read_bytes())
    fuse(tmp_path)
    page, older = tmp_path / "out" / "report.html", "Older than the scores beside it"
    main(["report", str(tmp_path / "out")])
    fuse(tmp_path)  # the same scores
    assert older not in page.read_text()
    write_scores(tmp_path / "eval.csv", toy_scores(600, seed=3))
    fuse(tmp_path, "--overwrite")
    assert page.read_text().count(older) == 1
    fuse(tmp_path, "--overwrite")
    assert page.read_text().count(older) == 1
    main(["report", str(tmp_path / "out")])
    assert older not in page.read_text()
    mine = "<html>mine</html>"
    page.write_text(mine)
    write_scores(tmp_path / "eval.csv", toy_scores(600, seed=4))
    fuse(tmp_path, "--overwrite")
    assert page.read_text() == mine


def test_the_same_trials_twice_are_told(fused: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(fused / "eval.csv")
    main(["fuse", "--dev", file, "--eval", file, "--systems=L3", "--out", str(fused / "same")])
    assert "dev and eval are the same trials" in capsys.readouterr().err
    fuse(fused, "--costs", "asvspoof5")
    assert "the same trials" not in capsys.readouterr().err


def test_decisions_of_a_simulated_fit_say_so(
    fused: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    warning = "L3 was fitted on the twin, which is simulated"
    out = str(tmp_path / "d.csv")
    main(["decide", str(fused / "eval.csv"), "--fitted", str(fused / "out"), "--out", out])
    assert "the twin" not in "".join(capsys.readouterr())
    assert not Path(out).read_text().startswith("#")
    files = ["--dev", str(fused / "dev.csv"), "--eval", str(fused / "eval.csv")]
    main(["fuse", *files, "--systems", "L3", "--name", "twin", "--out", str(tmp_path / "out")])
    chosen = ["--fitted", str(tmp_path / "out"), "--out", str(tmp_path / "twin.csv")]
    for _ in range(2):  # the second time in place of the first
        capsys.readouterr()
        main(["decide", str(fused / "eval.csv"), *chosen])
        shown = capsys.readouterr()
        assert warning in " ".join(shown.err.split())
        assert warning in " ".join(shown.out.split())
    assert (tmp_path / "twin.csv").read_text().startswith(f"# {warning}")
    again = ["--dev", str(tmp_path / "out/scores/dev.csv")]
    again += ["--eval", str(tmp_path / "out/scores/eval.csv")]
    main(["fuse", *again, "--systems", "L3", "--name", "other", "--out", str(tmp_path / "b")])
    of = of_in(read_metrics(tmp_path / "b" / "metrics.json")["L3"], "eval")
    assert (of["corpus"], of["simulated"]) == ("other", True)  # whatever it is called
    title = evaluate(tmp_path / "b" / "scores" / "eval.csv", ci="none").title
    assert title.startswith("other, simulated, scale not recorded, eval: 200 ")
    alone = shutil.copy(tmp_path / "b" / "scores" / "eval.csv", tmp_path / "alone.csv")
    assert evaluate(alone, ci="none").title.startswith("200 ")  # nothing beside it knows it


def test_only_dates_differ_between_equal_runs(fused: Path) -> None:
    before = content(fused / "out" / "metrics.json")
    fuse(fused, "--costs", "asvspoof5")
    assert content(fused / "out" / "metrics.json") == before
    fuse(fused)
    assert content(fused / "out" / "metrics.json") != before
    fuse(fused, "--costs", "asvspoof5")


def test_scores_of_a_folder_of_results_are_compared_with_the_best_on_dev(tmp_path: Path) -> None:
    for split, seed in (("dev", 1), ("eval", 2)):
        write_scores(tmp_path / f"{split}.csv", toy_scores(600, seed=seed, speakers=12))
    files = ["--dev", str(tmp_path / "dev.csv"), "--eval", str(tmp_path / "eval.csv")]
    main(["fuse", *files, "--systems", "B1,L2,L3", "--out", str(tmp_path / "out")])
    noted = read_metrics(tmp_path / "out/metrics.json")
    on_dev = {name: own["sets"]["dev"]["values"]["sasv_eer"] for name, own in noted.items()}
    best = min(sorted(on_dev), key=on_dev.__getitem__)
    options: dict[str, Any] = {"compare": True, "replicates": 39}
    found = evaluate(tmp_path / "out/scores/eval.csv", **options).compare("sasv_eer")
    assert {one.family for one in found} == {f"2 against {best}, holm"}
    every = evaluate(tmp_path / "out/scores/eval.csv", pairs="all", **options).compare("sasv_eer")
    assert {one.family for one in every} == {"3 pairs, holm"}
    shutil.copy(tmp_path / "out/scores/eval.csv", tmp_path / "alone.csv")
    alone = evaluate(tmp_path / "alone.csv", **options).compare("sasv_eer")
    assert {one.family for one in alone} == {"3 pairs, holm"}


def test_scores_of_a_folder_of_results_that_are_no_llrs_have_no_actual_cost(tmp_path: Path) -> None:
    for split, seed in (("dev", 1), ("eval", 2)):
        write_scores(tmp_path / f"{split}.csv", toy_scores(600, seed=seed, speakers=12))
    files = ["--dev", str(tmp_path / "dev.csv"), "--eval", str(tmp_path / "eval.csv")]
    main(["fuse", *files, "--systems", "B1,L3", "--out", str(tmp_path / "out")])
    shutil.copy(tmp_path / "out/scores/eval.csv", tmp_path / "alone.csv")
    for file, known in (("out/scores/eval.csv", True), ("alone.csv", False)):
        found = evaluate(tmp_path / file, replicates=39, by="attack")
        assert math.isnan(found.value("B1", "act_a_dcf")) == known
        assert (found.interval("B1", "act_a_dcf") is None) == known
        assert all(
            math.isnan(own["act_a_dcf"]) == known for own in found.groups["attack"]["B1"].values()
        )
        entry = found.to_dict()["systems"]["B1"]["sets"][found.set_name]
        assert entry["undefined"].get("act_a_dcf") == ("no LLR" if known else None)
        assert found.interval("L3", "act_a_dcf") is not None
