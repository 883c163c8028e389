"""A run folder of version 0.1 goes through today's commands, and they find what it found."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import polars
import pytest

from lightning_sasv.cli import main
from lightning_sasv.deploy import load
from tests.helpers import metrics_in

OLD = Path(__file__).parent / "run_of_0_1"
FOUND = json.loads((OLD / "metrics.json").read_text())["L3c"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(OLD, tmp_path / "version_0"))


def test_report(run: Path) -> None:
    main(["report", str(run), "--replicates=0"])
    page = (run / "report.html").read_text()
    assert "simulated" in page
    assert f"{100 * FOUND['eval']['sasv_eer']:.2f}" in page


def test_test(run: Path) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    main(["test", str(run)])
    (folder,) = (run / "tests").iterdir()
    found = metrics_in(folder)["L3c"]["eval"]
    for name in ("sasv_eer", "sv_eer", "spf_eer", "cllr", "min_a_dcf"):
        assert found[name] == pytest.approx(FOUND["eval"][name], rel=1e-6), name
    assert {path: path.read_bytes() for path in before} == before


def test_decide(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = str(run / "scores" / "eval.csv")
    main(["decide", scores, f"--fitted={run}", "--costs=a-dcf1", "--out=decisions.csv"])
    said = " ".join(capsys.readouterr().out.split())
    assert "Decisions at costs a-dcf1; L3c was fitted on the twin" in said
    decided = polars.read_csv("decisions.csv", comment_prefix="#")
    assert len(decided) == len(polars.read_csv(scores))


def test_export(run: Path) -> None:
    main(["export", f"--fitted={run}", "--system=L3c", "--out=bundle"])
    table = polars.read_csv(run / "scores" / "eval.csv")
    asv, cm = table["asv_score"].to_numpy(), table["cm_score"].to_numpy()
    scored = load("bundle").score(asv, cm, bounds=False)
    np.testing.assert_allclose(scored.score, table["sasv_L3c"], rtol=1e-9)


def test_back_to_the_old_shape(run: Path) -> None:
    """``convert --to metrics-v1`` gives scripts of 0.1 what they knew."""
    main(["test", str(run)])
    (folder,) = (run / "tests").iterdir()
    main(["convert", str(folder / "metrics.json"), "--to=metrics-v1", "--out=old.json"])
    old = json.loads(Path("old.json").read_text())
    assert old["L3c"]["eval"]["sasv_eer"] == pytest.approx(FOUND["eval"]["sasv_eer"], rel=1e-6)
