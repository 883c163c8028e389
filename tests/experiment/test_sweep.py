"""Sweep files: accepted by W&B, and expanded as its agent expands them."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml
from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args

from lightning_sasv.errors import InputError
from lightning_sasv.experiment.sweep import Sweep, expand, grid, read_sweep, run_offline

SWEEPS = ("table1", "head_width")


@pytest.mark.parametrize("name", SWEEPS)
def test_wandb_accepts_the_sweep_file(repository: Path, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sweeps.config import schema_violations_from_proposed_config

    content = yaml.safe_load((repository / "experiments" / name / "sweep.yaml").read_text())
    assert schema_violations_from_proposed_config(content) == []


@pytest.mark.parametrize("name", SWEEPS)
def test_local_commands_are_those_of_the_agent(repository: Path, name: str) -> None:
    sweep = read_sweep(repository / "experiments" / name / "sweep.yaml")
    assert sweep.name == name
    for point in (sweep.points[0], sweep.points[-1]):
        theirs = create_sweep_command(sweep.command)
        flags = create_sweep_command_args({"args": {k: {"value": v} for k, v in point.items()}})
        expected: list[str] = []
        for word in theirs:
            expected += {"${args}": flags["args"], "${env}": ["/usr/bin/env"]}.get(word, [word])
        assert expand(sweep.command, point) == expected


def test_grid_of_table1_is_every_system_and_seed(repository: Path) -> None:
    points = read_sweep(repository / "experiments/table1/sweep.yaml").points
    assert len(points) == 48
    assert len({json.dumps(point) for point in points}) == 48


def test_interpreter_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SEED", "7")
    found = expand(["${interpreter}", "-x", "${envvar:SOME_SEED}", "${args}"], {"a": 1})
    assert found == [sys.executable, "-x", "7", "--a=1"]


def test_offline_run_reports_failures(tmp_path: Path) -> None:
    code = (
        "import os, sys; sys.exit(sys.argv[1] == '--n=2' or os.environ['WANDB_RUN_GROUP'] != 's')"
    )
    sweep = Sweep(
        tmp_path, "s", grid({"n": {"values": [1, 2]}}), ["${interpreter}", "-c", code, "${args}"]
    )
    assert run_offline(sweep, tmp_path) == [{"n": 2}]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"method": "bayes", "parameters": {}, "command": []}, "only method: grid"),
        ({"method": "grid", "parameters": {"a": {"min": 1}}, "command": []}, "'a' of a grid needs"),
        ({"method": "grid", "command": []}, "needs the key 'parameters'"),
        ([], "needs the key 'method'"),
    ],
)
def test_wrong_sweep_files(tmp_path: Path, content: Any, words: str) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(InputError, match=words):
        read_sweep(path)
    with pytest.raises(InputError, match="cannot read sweep file"):
        read_sweep(tmp_path / "absent.yaml")
    path.write_text("a: [")
    with pytest.raises(InputError, match="not valid YAML"):
        read_sweep(path)
