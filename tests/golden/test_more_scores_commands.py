"""Four real scores through the commands: fused, reported, decided, evaluated, exported."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lightning_sasv.cli import main
from lightning_sasv.deploy import load
from lightning_sasv.errors import InputError
from lightning_sasv.results import METRICS_FILE, read_metrics
from tests.helpers import failure_of


@pytest.fixture(scope="module")
def fused(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of two systems on all four columns."""
    out, data = tmp_path_factory.mktemp("four") / "out", shared / "data/sasv2022_more"
    sets = [f"--{split}={data}/{split}_scores.csv" for split in ("dev", "eval")]
    main(["fuse", *sets, "--systems", "Q3,Q3cv,L3t", "--out", str(out), "--quiet"])
    return out


def test_metrics_are_golden_and_the_system_that_fails_is_left_out(
    shared: Path, fused: Path
) -> None:
    golden = json.loads((shared / "golden/more_scores.json").read_text())
    found, limits = read_metrics(fused / METRICS_FILE), golden["tolerance"]
    assert found.keys() == {"Q3", "Q3cv"}  # L3t is nearly singular on the raw columns
    for name, entry in found.items():
        wanted = golden["systems"][name]
        for split in ("dev", "eval"):
            got = entry["sets"][split]["values"]
            for metric in ("sasv_eer", "sv_eer", "spf_eer"):
                expected = wanted[split][metric]
                assert 100 * got[metric] == pytest.approx(expected, abs=limits["eer"])
            assert got["cllr"] == pytest.approx(wanted[split]["cllr"], abs=limits["cllr"])
        cost = entry["sets"]["eval"]["values"]["policy_a_dcf"]
        expected = wanted["a_dcf_eval"]["a-dcf1"]["policy"]
        assert cost == pytest.approx(expected, abs=limits["a_dcf"])


def test_what_follows_takes_any_number_of_scores(
    shared: Path, fused: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    data = shared / "data/sasv2022_more/eval_scores.csv"
    main(["decide", str(data), "--fitted", str(fused), "--system", "Q3", "--out", "d.csv"])
    golden = json.loads((shared / "golden/more_scores.json").read_text())
    expected = golden["systems"]["Q3"]["a_dcf_eval"]["a-dcf1"]["policy"]
    assert f"{expected:.4f}" in capsys.readouterr().out
    main(["evaluate", str(fused / "scores/eval.csv"), "--llrs", "--ci", "none"])
    assert "0.6164" in capsys.readouterr().out
    main(["export", "--fitted", str(fused), "--system", "Q3cv", "--out", "bundle"])
    scorer, frame = load("bundle"), pl.read_csv(data, n_rows=50)
    columns = {name: frame[name].to_numpy() for name in golden["columns"]}
    fused_scores = pl.read_csv(fused / "scores/eval.csv", n_rows=50)["sasv_Q3cv"].to_numpy()
    assert scorer.system(*scorer.system.columns.take(columns)).sasv == pytest.approx(fused_scores)
    assert np.shape(scorer(columns).accepted) == (50,)
    with pytest.raises(InputError, match="no cm_aasist"):
        scorer({name: 1.0 for name in columns if name != "cm_aasist"})
    with pytest.raises(InputError, match="unknown cm_other"):
        scorer({**dict.fromkeys(columns, 1.0), "cm_other": 1.0})
    lacking = failure_of(
        capsys, "decide", str(shared / "data/sasv2022/eval_scores.csv"), "--fitted", str(fused)
    )
    assert "asv_ecapa" in lacking
