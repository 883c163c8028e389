"""Claims of papers and tools against the files of other people."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from lightning_sasv.cli import main
from lightning_sasv.evaluation import Verdict, evaluate, fuse, referee
from lightning_sasv.files import sha256
from lightning_sasv.fusion import fit_systems
from lightning_sasv.scores import read_scores, write_scores
from tests.helpers import failure_of
from tests.scores.samples import toy_scores


def judged(folder: Path, *claims: dict[str, Any]) -> list[Verdict]:
    file = folder / "claims.yaml"
    file.write_text(json.dumps({"claims": claims}))
    return referee(str(file), replicates=199)


def claim(
    metric: str, published: str, *files: Path, key: Path | None = None, **more: Any
) -> dict[str, Any]:
    listed = [{"path": str(path), "sha256": sha256(path)} for path in files]
    listed += [{"path": str(key), "sha256": sha256(key), "role": "key"}] if key else []
    return {"system": "x", "metric": metric, "published": published, "files": listed, **more}


def test_claims_on_files_of_other_people(shared: Path, tmp_path: Path) -> None:
    foreign = shared / "data/foreign"
    cm, asv = foreign / "jspaw/L3_CM.txt", foreign / "jspaw/L3_ASV.txt"
    air = foreign / "air/ocsoftmax_checkpoint_cm_score.txt"
    scores, key = (foreign / f"voxsrc/VoxSRC2023_val{end}.txt" for end in ("_score", ""))
    vox = claim("asv_eer", "4.347", scores, key=key)
    found = judged(
        tmp_path,
        claim("cm_eer", "14.75", cm),
        claim("cm_eer", "14.48", cm),
        claim("cm_eer", "14.48", cm, options={"convention": "asvspoof"}),
        claim("asv_eer", "1.69", asv),
        claim("cm_eer", "2.19", air),
        claim("cm_eer", "1.745", air, options={"negate": "cm"}),
        vox,
        {**vox, "published": "4.501"},
    )
    assert [one.status for one in found] == [
        "equal",
        "equal under another convention (rocch; 4 tried)",
        "differs",
        "differs",
        "differs; negated 1.7451",
        "equal",
        "equal under another convention (rocch; 4 tried)",
        "equal",
    ]
    shown = [one.cells[4] for one in found]
    assert shown[:6] == ["14.7500", "14.4771", "14.7500", "1.9207", "98.2549", "1.74511"]


def test_costs_are_conventions_too(shared: Path, tmp_path: Path) -> None:
    fused = shared / "data/foreign/a5fusion/eval_scores_fused.csv"
    key = shared / "data/foreign/relaid/a5_track2_key.tsv"
    scores = shared / "data/foreign/relaid/a5_track2_score.tsv"
    track2 = claim("min_a_dcf", ".00057", scores, key=key)
    one, two = judged(tmp_path, track2, claim("min_a_dcf", "0.0303", fused))
    assert one.status == "equal under another convention (costs asvspoof5; 3 tried)"
    assert two.status.startswith("cannot be recomputed (")  # no labels


def test_differences_and_what_cannot_be_recomputed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = toy_scores(speakers=12)
    scores.extra["sasv_A"] = scores.asv * 4 + scores.cm
    file = write_scores(tmp_path / "eval.csv", scores)
    first = claim("sasv_eer", "28.5", file, source="Table 1", note="one seed")
    wrong = [{"path": str(file), "sha256": "0" * 64}]
    pl.read_csv(file).drop("asv_score", "cm_score").write_csv(tmp_path / "one.csv")
    alone = [{"path": "one.csv", "sha256": sha256(tmp_path / "one.csv")}]
    claims = [
        {**first, "system": "A"},
        {**first, "system": "A", "published": "28.1"},
        {**first, "system": "A", "published": "1.0"},
        {**first, "files": wrong},
        {**first, "files": []},
        {**first, "files": [{"path": "no.csv", "sha256": "0"}]},
        {**first, "metric": "sasv_err"},
        {**first, "metric": "policy_a_dcf", "files": alone},
        {**first, "system": "A", "files": [{"path": str(file)}]},
        {**first, "system": "A", "files": ["eval.csv"]},
    ]
    for number, words in enumerate((
        "equal", "differs, inside the interval by speaker (", "differs; interval by speaker (",
        "eval.csv has another SHA-256)", "(no score files)", "(no file no.csv)",
        "did you mean sasv_eer?)", "policy_a_dcf needs asv and cm scores, which the files lack)",
        "equal", "each of files needs a path",
    )):  # fmt: skip
        (found,) = judged(tmp_path, claims[number])
        assert words in found.status, found
    judged(tmp_path, claims[0])
    main(["referee", str(tmp_path / "claims.yaml")])
    shown = " ".join(capsys.readouterr().out.split())
    assert "28.5" in shown
    assert "equal" in shown
    assert "A, sasv_eer: Table 1; one seed" in shown


def test_long_names_leave_room_for_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    file = write_scores(tmp_path / "eval.csv", toy_scores(60))
    long = {"system": "a system with a name of forty-one letters", "set": "eval, costs asvspoof5"}
    judged(tmp_path, claim("cm_eer", "12.3456", file) | long)
    main(["referee", str(tmp_path / "claims.yaml"), "--replicates", "39"])
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert "12.3456" in shown
    assert "differs" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("claims: []", "expected a list `claims`"),
        ("claims: [7]", "claim 1: expected system"),
        ("claims: [{system: x, metric: cm_eer, published: 1.40}]", "published must be text"),
        ("claims: [{system: x, metric: cm_eer, published: 'one'}]", "'one' is no number"),
        ("claims: [{system: x, metric: m, published: '1e-99'}]", "'1e-99' is no number"),
        ("claims: [{system: x, metric: m, published: '1', options: {ids: [1]}}]", "option 'ids'"),
        ("claims: [{system: x, metrik: cm_eer}]", "did you mean metric?"),
        ("claims: [{system: x, metric: m, published: '1', options: {json: a}}]", "option 'json'"),
    ],
)
def test_claims_that_are_none(
    tmp_path: Path, content: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.yaml").write_text(content)
    assert words in failure_of(capsys, "referee", tmp_path / "c.yaml")


def test_a_paper_with_the_mean_of_six_seeds_against_one(shared: Path, tmp_path: Path) -> None:
    frame = pl.read_csv(shared / "data/sasv2022/eval_scores.csv")
    file = tmp_path / "B1.csv"
    frame.with_columns(sasv_B1=pl.col("asv_score") + pl.col("cm_score")).write_csv(file)
    (found,) = judged(tmp_path, {**claim("sasv_eer", "20.46", file), "system": "B1"})
    assert found.cells[4] == "20.6144"
    assert found.status.startswith("differs, inside the interval by speaker (19.")
    scores, key = (shared / f"data/foreign/relaid/a5_track2_{n}.tsv" for n in ("score", "key"))
    track2 = claim("min_t_dcf", ".0909", scores, key=key)
    fixed, own = ({"asv_rates": rates} for rates in ("asvspoof5", "0.1,0.1,0.5"))
    ours, fixed, own, legacy = judged(
        *(tmp_path, track2, {**track2, "options": fixed}, {**track2, "options": own}),
        {**track2, "published": "0.0141"},
    )
    assert ours.status == "equal under another convention (ASV rates asvspoof5; 5 tried)"
    assert fixed.status == "equal"
    assert own.status.startswith("differs")
    assert legacy.status.startswith("equal under another convention (version min_t_dcf_legacy")


def test_points_of_costs_are_conventions_too(shared: Path, tmp_path: Path) -> None:
    """Only what a metric depends on is tried."""
    scores, key = (shared / f"data/foreign/voxsrc/VoxSRC2023_val{e}.txt" for e in ("_score", ""))
    found = evaluate([str(scores)], key=str(key), dcf="sre", ci="none")
    (values,) = found.metrics.values()
    vox = claim("asv_min_dcf", f"{values['asv_min_dcf']:.4f}", scores, key=key)
    named = {"options": {"dcf": "voxsrc"}}
    cm = claim("cm_min_dcf", "0.5", shared / "data/foreign/jspaw/L3_CM.txt")
    equal = evaluate(cm["files"][0]["path"], cm_dcf="equal", ci="none").metrics["L3_CM"]
    cm["published"] = f"{equal['cm_min_dcf']:.5f}"
    listed = vox, {**vox, **named}, cm, {**cm, "options": {"cm_dcf": "0.2,1,1"}}
    assert [one.status.split("; interval")[0] for one in judged(tmp_path, *listed)] == [
        "equal under another convention (point sre; 3 tried)",
        "differs",
        "equal under another convention (point equal; 4 tried)",
        "differs",
    ]


PAPER = {
    **{"B1": ("20.46", "20.61"), "B1c": ("2.73", "2.78"), "L2": ("3.31", "3.72")},
    **{"L2c": ("1.56", "1.58"), "L3": ("1.44", "1.43"), "L3c": ("1.43", "1.42")},
    **{"B1v2": ("1.60", "2.00"), "Post": ("1.55", "1.47")},
}


def test_the_papers_rows_on_the_real_scores(shared: Path, tmp_path: Path) -> None:
    """Means of six seeds against one seed, its interval, the point of its t-EER."""
    data = shared / "data/sasv2022"
    dev, scores = (read_scores(data / f"{split}_scores.csv") for split in ("dev", "eval"))
    systems = fit_systems(dev.asv, dev.cm, dev.label, list(PAPER))
    fused = {name: one(scores.asv, scores.cm) for name, one in systems.items()}
    columns = {f"sasv_{name}": np.asarray(one.sasv) for name, one in fused.items()}
    file = write_scores(tmp_path / "all.csv", replace(scores, extra=columns))
    pair = [np.asarray(side) for side in fused["L2"][:2]]
    llrs = write_scores(tmp_path / "L2.csv", replace(scores, asv=pair[0], cm=pair[1]))
    claims = [
        {**claim("sasv_eer", text, file), "system": name} for name, (text, _) in PAPER.items()
    ]
    half, *points = (
        {**claim("sasv_eer", "± 0.23", file), "system": "L3c"},
        claim("t_eer", "1.68", llrs),
        claim("t_eer", "1.33", llrs),
        claim("t_eer", "1.99", llrs),
    )
    found = judged(tmp_path, *claims, half, *points)
    for one, (name, (_, ours)) in zip(found, PAPER.items(), strict=False):
        assert one.claim["system"] == name
        if name == "L2c":  # by chance: what is tried is said
            assert one.status == "equal under another convention (rocch; 4 tried)"
            continue
        assert f"{one.value:.2f}" == ours
        assert one.status.startswith("differs, inside the interval by speaker (")
    drawn, closest, ratio, none = found[8:]
    assert drawn.status.startswith("equal (by trial; by speaker 0.")
    assert closest.status == "equal under another convention (closest point; 3 tried)"
    assert f"{closest.value:.3f}" == "1.676"
    assert ratio.status == "equal under another convention (reference rule; 3 tried)"
    assert none.status == (
        "cannot be recomputed (no concurrent point; reference rule 1.3266, closest point 1.6760)"
    )


def test_the_fusion_tool_of_asvspoof_5(shared: Path, tmp_path: Path) -> None:
    fused = shared / "data/foreign/a5fusion/eval_scores_fused.csv"
    key = shared / "data/sasv2022/protocols/ASVspoof2019.LA.asv.eval.gi.trl.txt"
    eer = claim("sasv_eer", "1.41539", fused, key=key, options={"ids": "none"})
    cost = {**eer, "metric": "min_a_dcf", "published": ".030589"}
    others = {**eer, "published": "1.41527"}, {**cost, "published": ".030267"}
    assert [one.status for one in judged(tmp_path, eer, cost, *others)] == [
        "equal",
        "equal",
        "equal under another convention (interpolated; 4 tried)",
        "equal under another convention (costs asvspoof5; 3 tried)",
    ]


def test_the_set_of_a_claim_selects_files_and_trials(tmp_path: Path) -> None:
    parts = [toy_scores(60, seed=seed) for seed in (1, 2)]
    files = [write_scores(tmp_path / f"{k}.csv", part) for k, part in enumerate(parts)]
    dev, test = (pl.read_csv(file) for file in files)
    both = tmp_path / "both.csv"
    named = [
        one.with_columns(utterance=pl.col("utterance") + name, subset=pl.lit(name))
        for one, name in ((dev, "dev"), (test, "test"))
    ]
    pl.concat(named).write_csv(both)
    wanted = [evaluate(file, ci="none").metrics for file in files]
    values = [100 * next(iter(one.values()))["cm_eer"] for one in wanted]
    listed = claim("cm_eer", "1.0", *files)
    for one, name in zip(listed["files"], ("dev", "test"), strict=True):
        one["set"] = name
    for claimed in (listed, claim("cm_eer", "1.0", both)):
        found = judged(tmp_path, *({**claimed, "set": name} for name in ("dev", "test", "none")))
        assert [one.value for one in found[:2]] == pytest.approx(values)
        assert found[2].status.startswith("cannot be recomputed (no ")


def test_systems_are_fitted_on_dev(tmp_path: Path) -> None:
    """What ``fuse`` gives on the same files, read in another folder."""
    data = tmp_path / "data"
    data.mkdir()
    sets = {name: toy_scores(300, seed=k) for k, name in enumerate(("dev", "eval"))}
    for name, scores in sets.items():
        write_scores(data / f"{name}.csv", scores)
    options = {"dev": str(data / "dev.csv"), "eval": str(data / "eval.csv")}
    fused = fuse(**options, systems="L2c,L3c", out=str(tmp_path / "out"))
    values = {name: own["sets"]["eval"]["values"] for name, own in fused.metrics.items()}
    listed = {n: [{"path": f"{n}.csv", "sha256": sha256(data / f"{n}.csv")}] for n in sets}
    both = {"metric": "sasv_eer", "dev": listed["dev"], "files": listed["eval"]}
    claims = [
        {**both, "system": name, "metric": metric, "published": f"{scale * own[metric]:.6f}"}
        for name, own in values.items()
        for metric, scale in (("sasv_eer", 100), ("cllr", 1), ("min_a_dcf", 1))
    ]
    wrong = {**both, "system": "L3cc", "published": "1"}
    (tmp_path / "claims.yaml").write_text(json.dumps({"claims": [*claims, {**wrong}]}))
    found = referee(str(tmp_path / "claims.yaml"), files=str(data), replicates=39)
    assert "no system 'L3cc' to fit; did you mean L3c?" in found[-1].status
    (tmp_path / "claims.yaml").write_text(json.dumps({"claims": claims}))
    found = referee(str(tmp_path / "claims.yaml"), files=str(data), replicates=39)
    assert [one.status for one in found] == ["equal"] * 6


def test_a_page_of_verdicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_scores(tmp_path / "eval.csv", toy_scores(speakers=12))
    claims = [
        claim("cm_eer", "1.0", file, source="A paper | page 2", note="two\nlines"),
        claim("cm_eer", "1.0", source="A paper | page 2"),
    ]
    content = {"title": "My claims", "about": "What they are.", "claims": claims}
    (tmp_path / "claims.yaml").write_text(json.dumps(content))
    page = tmp_path / "page.md"
    command = ["referee", str(tmp_path / "claims.yaml"), "--markdown", str(page)]
    for _ in range(2):  # the second replaces the first
        main([*command, "--replicates", "39"])
    assert f"Written to {page}" in " ".join(capsys.readouterr().out.split())
    lines = page.read_text().splitlines()
    assert lines[:3] == ["# My claims", "", "What they are."]
    first, second = (line for line in lines if line.startswith("| x |"))
    assert first.startswith("| x | `cm_eer` % | – | 1.0 | ")
    assert first.endswith("| two lines |")
    assert second.endswith("| – | cannot be recomputed (no score files) |  |")
    assert lines.index("## Recomputed") < lines.index("## Not recomputed here")
    assert lines[-1] == "- A paper \\| page 2"
    page.write_text("my own notes")
    assert "something else than published" in failure_of(capsys, *command)
    assert page.read_text() == "my own notes"
    main([*command, "--replicates", "39", "--overwrite"])
    assert page.read_text().splitlines() == lines
