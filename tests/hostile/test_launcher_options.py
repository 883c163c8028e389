"""Batch scripts hold no commands of a file's author."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from lightning_sasv import gate
from lightning_sasv.experiment import launch as launch_module
from lightning_sasv.experiment import run as run_module
from lightning_sasv.experiment.launch import FROM_FILES
from lightning_sasv.experiment.recipe import Recipe
from lightning_sasv.experiment.run import Job
from lightning_sasv.program import FROM_FILE, Program, using
from tests.hostile.conftest import Attack
from tests.hostile.corpus import MARK, pickles

SLURM = ["table", "--seeds=1", "--systems=B1", "--data.scale=0.02", "--epochs=1", "--replicates=0"]
SCRIPT = "#!/bin/sh\nsh $1 >/dev/null 2>&1\necho Submitted batch job 7\n"
TOUCH = f"touch {MARK}"
OPTIONS: dict[str, Any] = {
    "line break": {"slurm_comment": f"x\n{TOUCH} #"},
    "return": {"slurm_comment": f"x\r{TOUCH} #"},
    "other line ends": {"slurm_partition": f"x\u2028{TOUCH}"},
    "line break in a key": {f"slurm_comment\n{TOUCH}\n": "x"},
    "end of text": {"slurm_account": "a\0b"},
    "escape": {"name": "\x1b[2J"},
    "quotes": {"slurm_comment": "x\\' --output=elsewhere '"},
    "a comment": {"slurm_qos": "x #"},
    "setup": {"slurm_setup": [TOUCH]},
    "setup without its prefix": {"setup": [TOUCH]},
    "teardown": {"slurm_teardown": [TOUCH]},
    "teardown without its prefix": {"teardown": [TOUCH]},
    "srun": {"slurm_srun_args": [f"--prolog={TOUCH}"]},
    "python": {"slurm_python": f"{TOUCH}; python"},
    "other options": {"slurm_additional_parameters": {"export": "NONE", "prolog": TOUCH}},
    "mail": {"slurm_mail_user": "somebody@example.org"},
    "another launcher": {"local_setup": [TOUCH]},
    "unknown": {"slurm_moon": 1},
    "unknown launcher": {"moon_setup": [TOUCH]},
}
"""Options of the launcher that a file must not give; those of the second half a user may type."""
TYPED = ("setup", "teardown", "srun", "python", "other options", "mail")


@pytest.fixture
def cluster(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of SLURM; what is submitted is run at once."""
    pytest.importorskip("submitit")
    programs = here / "bin"
    programs.mkdir()
    for name, text in {"sbatch": SCRIPT, "srun": "#!/bin/sh\n", "sacct": "#!/bin/sh\n"}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(launch_module, "_wait", submitted)


def submitted(*_: Any) -> None:
    raise AssertionError("a refused job was submitted")


def configuration(options: Any, **others: Any) -> str:
    content = {"launcher": "slurm", "launcher_options": options, "out": "out", **others}
    Path("x.yaml").write_text(yaml.safe_dump(content))
    return "--config=x.yaml"


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("launcher", ["slurm", "local"])
@pytest.mark.parametrize("name", OPTIONS)
def test_launcher_options_of_files(name: str, launcher: str, here: Path, attack: Attack) -> None:
    config = configuration(OPTIONS[name], launcher=launcher)
    assert "launcher" in attack(*SLURM, config)
    assert "launcher" in attack(*SLURM, "--launcher_options.slurm_partition=x", config)


@pytest.mark.usefixtures("cluster")
def test_launcher_options_of_a_sweep(
    here: Path, attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its words count as a file's."""
    monkeypatch.setenv(FROM_FILE, "1")
    typed = json.dumps(OPTIONS["setup"])
    args = ["--launcher=slurm", f"--launcher_options={typed}", "--out=out"]
    assert "'slurm_setup' from a file" in attack(*SLURM, *args)


@pytest.mark.usefixtures("cluster")
def test_a_key_that_was_typed_does_not_let_another_value_in(here: Path, attack: Attack) -> None:
    config = configuration(OPTIONS["setup"])
    said = attack(*SLURM, "--launcher_options.slurm_setup=[module load x]", config)
    assert "'slurm_setup' from a file" in said


@pytest.mark.usefixtures("cluster")
def test_results_of_jobs_that_lie_in_the_folder_already_are_not_read(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are pickles, and the numbers of jobs can be guessed."""
    (here / "out" / "jobs").mkdir(parents=True)
    for file in ("7_0_result.pkl", "7_result.pkl", "7_submitted.pkl"):
        (here / "out" / "jobs" / file).write_bytes(pickles()["system"])
    waited: list[Any] = []
    monkeypatch.setattr(run_module, "begin", lambda *_: (None, "key", [1]))
    monkeypatch.setattr(
        launch_module, "_wait", lambda jobs, *_: waited.extend(one.job for one in jobs)
    )
    launch_module.launch(Job(Recipe(), (1,), ("B1",), here / "out"), "slurm")
    assert [job.job_id for job in waited] == ["7"]
    assert not any(job.paths.result_pickle.exists() for job in waited)


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("out", [f"out\n{TOUCH} #", "out\\' --output=elsewhere '"])
def test_the_folder_stands_in_the_batch_script_too(out: str, here: Path, attack: Attack) -> None:
    config = configuration({}, out=out)
    assert "line break" in attack(*SLURM, config)


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("name", TYPED)
@pytest.mark.parametrize("way", ["typed", "key by key", "trusted"])
def test_the_user_may_give_commands(name: str, way: str, here: Path) -> None:
    [(option, value)] = OPTIONS[name].items()
    words = {
        "typed": [f"--launcher-options={json.dumps(OPTIONS[name])}"],
        "key by key": [f"--launcher_options.{option}", json.dumps(value)],
        "trusted": [],
    }
    with using(Program(trust_config=way == "trusted")), gate.command(words[way]):
        executor = launch_module._executor("slurm", here / "jobs", {option: value})._executor
    script = executor._make_submission_file_text(executor._submitit_command_str, "x")
    assert (TOUCH if name != "mail" else value) in script
    assert name == "python" or f"{sys.executable} -P -u -m submitit" in script


def test_every_option_that_files_may_give_is_one_of_submitit() -> None:
    auto, slurm = pytest.importorskip("submitit").AutoExecutor, pytest.importorskip("submitit")
    shared, own = auto._valid_parameters(), slurm.SlurmExecutor._valid_parameters()
    commands = {"setup", "teardown", "srun_args", "additional_parameters", "mail_user"}
    rest = {"mail_type", "use_srun", "stderr_to_stdout"}
    wanted = shared | {f"slurm_{name}" for name in shared | own - commands - rest}
    assert wanted == FROM_FILES
