"""Claims of papers and tools against the files of other people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from lightning_sasv.cli import main
from lightning_sasv.evaluation import Verdict, referee
from lightning_sasv.files import sha256
from lightning_sasv.scores import write_scores
from tests.helpers import failure_of
from tests.scores.samples import toy_scores


def judged(folder: Path, *claims: dict[str, Any]) -> list[Verdict]:
    file = folder / "claims.yaml"
    file.write_text(json.dumps({"claims": claims}))
    return referee(str(file), replicates=199)


def claim(metric: str, published: str, *files: Path, **more: Any) -> dict[str, Any]:
    listed = [{"path": str(path), "sha256": sha256(path)} for path in files]
    return {"system": "x", "metric": metric, "published": published, "files": listed, **more}


def test_claims_on_files_of_other_people(shared: Path, tmp_path: Path) -> None:
    foreign = shared / "data/foreign"
    cm, asv = foreign / "jspaw/L3_CM.txt", foreign / "jspaw/L3_ASV.txt"
    air = foreign / "air/ocsoftmax_checkpoint_cm_score.txt"
    scores, key = (foreign / f"voxsrc/VoxSRC2023_val{end}.txt" for end in ("_score", ""))
    vox = claim("asv_eer", "4.347", scores, key)
    vox["files"][1]["role"] = "key"
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
        "differs",
        "equal",
        "equal under another convention (rocch; 4 tried)",
        "equal",
    ]
    shown = [one.cells[4] for one in found]
    assert shown[:6] == ["14.7500", "14.4771", "14.7500", "1.9207", "98.2549", "1.74511"]


def test_costs_are_conventions_too(shared: Path, tmp_path: Path) -> None:
    fused = shared / "data/foreign/a5fusion/eval_scores_fused.csv"
    key = shared / "data/foreign/relaid/a5_track2_key.tsv"
    track2 = claim("min_a_dcf", ".00057", shared / "data/foreign/relaid/a5_track2_score.tsv", key)
    track2["files"][1]["role"] = "key"
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
    claims = [
        {**first, "system": "A"},
        {**first, "system": "A", "published": "28.1"},
        {**first, "system": "A", "published": "1.0"},
        {**first, "files": wrong},
        {**first, "files": []},
        {**first, "files": [{"path": "no.csv", "sha256": "0"}]},
        {**first, "metric": "sasv_err"},
    ]
    for number, words in enumerate((
        "equal", "differs, inside the interval by speaker (", "differs; interval by speaker (",
        "eval.csv has another SHA-256)", "(no score files)", "(no file no.csv)",
        "did you mean sasv_eer?)",
    )):  # fmt: skip
        (found,) = judged(tmp_path, claims[number])
        assert words in found.status, found
    judged(tmp_path, claims[0])
    main(["referee", str(tmp_path / "claims.yaml")])
    shown = " ".join(capsys.readouterr().out.split())
    assert "28.5" in shown
    assert "equal" in shown
    assert "A, sasv_eer: Table 1; one seed" in shown


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
    relaid = shared / "data/foreign/relaid"
    track2 = claim(
        "min_t_dcf", ".0909", relaid / "a5_track2_score.tsv", relaid / "a5_track2_key.tsv"
    )
    track2["files"][1]["role"] = "key"
    ours, fixed = judged(tmp_path, track2, {**track2, "options": {"asv_rates": "asvspoof5"}})
    assert ours.status.startswith("differs")
    assert f"{ours.value:.4f}" == "0.0162"
    assert fixed.status == "equal"
