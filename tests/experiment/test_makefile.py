"""The Makefile: every target has its line in `make help`, and does what the line says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lightning_sasv.fusion import JOINT_SYSTEMS, KNOWN, PAPER_SYSTEMS

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


def make(repository: Path, *words: str) -> str:
    inherited = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")  # of the make that runs the tests
    environment = {name: value for name, value in os.environ.items() if name not in inherited}
    done = subprocess.run(
        ["make", *words],
        cwd=repository,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_options_of_a_make_do_not_reach_the_one_that_a_test_starts(
    repository: Path, tmp_path: Path
) -> None:
    safe = f"VENV={tmp_path / 'none'}"  # nothing is to be made, but if so, not our environment
    inner = f"inner: ; @$(MAKE) --no-print-directory --dry-run --file Makefile table {safe}"
    words = ["ARGS=-k leaked", "DATA=leaked", "SEED=leaked"]
    shown = make(repository, "--eval", inner, "inner", safe, *words)
    assert shown.split()[-1] == "table"
    assert "leaked" not in shown


def test_every_target_has_its_line(repository: Path) -> None:
    text = make(repository, "help")
    listed = dict(re.findall(r"^  (\S+) +(\S.*)$", text, re.MULTILINE))
    makefile = (repository / "Makefile").read_text()
    named = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert named
    targets = {name for name in named[1].split() if "$" not in name}
    assert targets | set(KNOWN) <= listed.keys()
    assert {"table", "sweep", "L3t", *PAPER_SYSTEMS} <= listed.keys()


@pytest.mark.parametrize("system", [*PAPER_SYSTEMS, "L3t", *JOINT_SYSTEMS])
def test_a_system_is_trained_with_its_configuration(repository: Path, system: str) -> None:
    command = make(repository, "-n", system, "SEED=3", "DATA=d", "ARGS=--x 1").splitlines()[-1]
    words = f"fit --config configs/{system}.yaml --seed_everything 3 --data.root d --x 1"
    assert command.endswith(f"/lightning {words}")
    assert (repository / f"configs/{system}.yaml").is_file()


def test_table_and_sweep(repository: Path) -> None:
    table = make(repository, "-n", "table", "DATA=d").splitlines()[-1]
    assert table.split()[1:] == ["table", "--data.root", "d"]
    sweep = make(repository, "-n", "sweep", "DATA=d").splitlines()[-1]
    assert sweep.split()[1:] == ["sweep", "experiments/table1/sweep.yaml", "--data.root", "d"]
