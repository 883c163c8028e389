"""The experiment on several scores runs on the twin, and says what it leaves out."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from lightning_sasv.fitted import read_fitted_systems


def test_the_experiment_runs_on_the_twin_alone(
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--scale", "0.02", "--data", "nowhere", "--out", "out"]
    monkeypatch.setattr(sys, "argv", ["run.py", *words])
    runpy.run_path(str(repository / "experiments/more_scores/run.py"), run_name="__main__")
    text = capsys.readouterr().out
    assert "| Q3cv | four |" in text
    assert "SASV 2022 is left out: no dev_scores.csv and eval_scores.csv in nowhere" in text
    names = ("asv_first", "asv_second", "cm_first", "cm_second")
    assert read_fitted_systems(tmp_path / "out/twin/four")["Q3cv"].columns.names == names
    assert read_fitted_systems(tmp_path / "out/twin/pair")["M3"].columns.names == names[::2]
