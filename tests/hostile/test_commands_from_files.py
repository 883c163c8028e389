"""Sweep files and configurations of `table` start our own program, nothing of their author's."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import wandb
import yaml

from lightning_sasv import loggers
from lightning_sasv.cli import main
from lightning_sasv.experiment.sweep import run_offline
from lightning_sasv.experiment.sweep_file import expand
from lightning_sasv.program import FROM_FILE, HANDED_ON, SAFE_PATH
from tests.hostile import bombs
from tests.hostile.conftest import Attack
from tests.hostile.corpus import MARK

sweep_module = sys.modules[run_offline.__module__]

FIT = ["lightning", "fit"]
COMMANDS: dict[str, list[Any]] = {
    "another program": ["touch", MARK],
    "its path": ["/usr/bin/touch", MARK],
    "a shell": ["sh", "-c", f"touch {MARK}"],
    "a script of our name": ["./lightning", "fit"],
    "an interpreter": ["${interpreter}", "-c", f"open({MARK!r}, 'w')"],
    "a module": ["${interpreter}", "-m", "evil_module"],
    "the program of the file": ["${env}", "${interpreter}", "${program}", "${args}"],
    "another program behind env": ["${env}", "WANDB_MODE=offline", "touch", MARK],
    "options of env": ["${env}", "-S", f"touch {MARK}", *FIT],
    "env by its name": ["env", "PYTHONPATH=.", *FIT],
    "module path": ["${env}", "PYTHONPATH=.", *FIT, "${args}"],
    "library": ["${env}", "LD_PRELOAD=./x.so", *FIT],
    "search path": ["${env}", "PATH=.", *FIT],
    "server of W&B": ["${env}", "WANDB_BASE_URL=http://127.0.0.1:9", *FIT],
    "trust from the environment": ["${env}", f"{HANDED_ON}=--trust-config", *FIT],
    "not from a file": ["${env}", f"{FROM_FILE}=", *FIT],
    "trust": [*FIT, "--config", "x.yaml", "--trust-config", "${args}"],
    "trust before the command": ["lightning", "--trust-config", "fit"],
    "trust with underscore": [*FIT, "--trust_config"],
    "trust with a value": [*FIT, "--trust-config=true"],
    "trust in two words": [*FIT, "--trust-config", "true"],
    "trust abbreviated": [*FIT, "--trust"],
    "trust in capitals": [*FIT, "--Trust_Config"],
    "limits": [*FIT, "--limits=1e9"],
    "another command": ["lightning", "sweep", "x.yaml"],
    "no command": ["lightning"],
    "a secret": [*FIT, "--data.name=${envvar:WANDB_API_KEY}"],
    "a secret alone": [*FIT, "--data.name", "${envvar:SOME_TOKEN}"],
    "a secret handed on": ["${env}", "WANDB_NAME=${envvar:WANDB_API_KEY}", *FIT],
    "a secret of any name": [*FIT, "x${envvar:HOME}y"],
    "values as words of their own": [*FIT, "${args_no_equals}"],
    "a file of values": [*FIT, "--config", "${args_json_file}"],
    "a list": [*FIT, ["touch", MARK]],
    "a mapping": [{"touch": MARK}],
    "end of text": [*FIT, "--data.name=a\0b"],
    "line break": [*FIT, "--data.name=a\nb"],
    "escape": [*FIT, "--data.name=\x1b[2J"],
    "right to left": [*FIT, "--data.name=\u202efit"],
}
PARAMETERS: dict[str, Any] = {
    "trust": {"trust-config": {"value": True}},
    "trust with underscore": {"trust_config": {"values": ["true"]}},
    "limits": {"limits": {"value": 1e9}},
    "dashes": {"--data.scale": {"value": 1}},
    "several options": {"data.scale=1 --trust-config": {"value": 1}},
    "a value in the name": {"data.scale=1": {"value": 1}},
    "line break": {"data.scale\n": {"value": 1}},
    "no name": {"": {"value": 1}},
    "a number": {7: {"value": 1}},
    "a list": [1],
}
VALUES: dict[str, Any] = {
    "end of text": {"data.name": {"values": ["a\0b"]}},
    "deep": {"data.name": {"value": [[["x"]]]}},
    "too many": json.loads(bombs.grid())["parameters"],
}


def write(content: dict[str, Any]) -> str:
    whole = {
        "method": "grid",
        "program": "evil.py",
        "parameters": {"seed_everything": {"value": 1}},
    }
    Path("evil.py").write_text(f"open({MARK!r}, 'w')\n")
    Path("lightning").write_text(f"#!/bin/sh\ntouch {MARK}\n")
    Path("lightning").chmod(0o755)
    Path("x.yaml").write_text(yaml.safe_dump(whole | content))
    return "x.yaml"


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a process is started nor a sweep registered."""

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("a refused sweep went on")

    monkeypatch.setattr(sweep_module, "run_child", never)
    monkeypatch.setattr(wandb, "sweep", never)
    monkeypatch.setattr(loggers, "wandb_mode", lambda: "online")
    for name in ("WANDB_API_KEY", "SOME_TOKEN"):
        monkeypatch.setenv(name, "the secret")


Refuse = Callable[[dict[str, Any]], str]


@pytest.fixture(params=["--offline", "--offline=false"])
def refuse(request: pytest.FixtureRequest, no_process: None, attack: Attack) -> Refuse:
    """Run a sweep file, here or by agents of W&B, and see it refused; returns the message."""

    def run(content: dict[str, Any]) -> str:
        said = attack("sweep", write(content), request.param)
        assert "x.yaml: " in said
        assert "the secret" not in said
        return said

    return run


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_of_sweep_files(name: str, refuse: Refuse) -> None:
    said = refuse({"command": COMMANDS[name]})
    assert "command" in said or "cannot be given by a sweep file" in said


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_of_sweep_files(name: str, refuse: Refuse) -> None:
    refuse({"command": [*FIT, "${args}"], "parameters": PARAMETERS[name]})


def test_a_sweep_file_without_a_command(refuse: Refuse) -> None:
    assert "needs the key 'command'" in refuse({})


@pytest.mark.usefixtures("no_process")
@pytest.mark.parametrize("name", VALUES)
def test_values_of_a_grid(name: str, here: Path, attack: Attack) -> None:
    content = {"command": [*FIT, "${args}"], "parameters": VALUES[name]}
    start = time.process_time()
    said = attack("sweep", write(content), "--offline")
    assert "x.yaml: " in said
    assert name != "too many" or "points of a grid" in said
    assert time.process_time() - start < 5


@pytest.mark.usefixtures("no_process")
@pytest.mark.parametrize("place", ["parameters: {x: {values: *a9}}", "name: *a9", "method: *a9"])
def test_a_bomb_of_aliases(place: str, here: Path, attack: Attack) -> None:
    rest = ["command: [lightning, fit, '${args}']", "method: grid", "parameters: {x: {value: 1}}"]
    rest = [line for line in rest if line.split(":")[0] != place.split(":")[0]]
    Path("x.yaml").write_text(bombs.YAML["aliases"] + "\n".join([*rest, place]))
    start = time.process_time()
    attack("sweep", "x.yaml", "--offline")
    assert time.process_time() - start < 5


def test_a_value_stays_one_word() -> None:
    for value in ("--trust-config", "x --trust-config", "=", "-c", "${args}"):
        words = expand([*FIT, "${args}"], {"data.name": value})
        assert words == [*FIT, f"--data.name={value}"]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, str]]]:
    """Words and environment of what a sweep starts."""
    found: list[tuple[list[str], dict[str, str]]] = []

    def run(words: list[str], environment: dict[str, str], _: Path) -> int:
        found.append((words, environment))
        return 0

    monkeypatch.setattr(sweep_module, "run_child", run)
    monkeypatch.setattr(wandb, "sweep", lambda *_, **__: "abc")
    monkeypatch.setattr(loggers, "wandb_mode", lambda: "online")
    return found


@pytest.mark.parametrize("mode", ["--offline", "--offline=false"])
@pytest.mark.parametrize("given", [[], ["--trust-config", "--limits=2.0"]])
def test_trust_is_given_to_the_sweep_and_handed_on(
    mode: str,
    given: list[str],
    here: Path,
    started: list[tuple[list[str], dict[str, str]]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["sweep", write({"command": [*FIT, "${args}"]}), mode, *given])
    [(words, environment)] = started
    assert environment[HANDED_ON].split() == given
    assert environment[FROM_FILE] == environment[SAFE_PATH] == "1"
    assert words[:2] == FIT or words[1:5] == ["-P", "-m", "wandb", "agent"]
    assert "lightning fit" in capsys.readouterr().out


CHILDREN = {
    "a class": ["--trainer.callbacks=evil_module.Evil"],
    "a class with its settings": ['--trainer.callbacks=[{"class_path": "evil_module.Evil"}]'],
    "in two words": ["--trainer.logger", "evil_module.run"],
    "by its key": ["--trainer.callbacks.class_path=evil_module.Evil"],
    "a file": ["--config", "evil.yaml"],
    "a secret": ["--data.name=${oc.env:SOME_TOKEN}"],
}


@pytest.mark.usefixtures("evil")
@pytest.mark.parametrize("variable", [FROM_FILE, "WANDB_SWEEP_ID"])
@pytest.mark.parametrize("name", CHILDREN)
def test_what_a_sweep_writes_is_the_content_of_a_file(
    name: str, variable: str, here: Path, attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A13."""
    (here / "evil.yaml").write_text("trainer: {callbacks: [{class_path: evil_module.Evil}]}\n")
    monkeypatch.setenv("SOME_TOKEN", "the secret")
    monkeypatch.setenv(variable, "1")
    args = ["--data.scale=0.02", "--trainer.fast_dev_run=true", "--trainer.accelerator=cpu"]
    said = attack("fit", *args, *CHILDREN[name])
    assert "the secret" not in said
    assert "asks for evil_module.Evil" in said or name != "a class"


def test_a_trusted_sweep_runs_any_command_and_shows_it(
    here: Path, started: list[tuple[list[str], dict[str, str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["${env}", "PYTHONPATH=.", "python", "my.py", "--trust-config", "${args}"]
    main(["sweep", write({"command": command}), "--offline", "--trust-config"])
    assert started[0][0] == ["/usr/bin/env", *command[1:-1], "--seed_everything=1"]
    assert "run 1 of 1: /usr/bin/env PYTHONPATH=. python my.py" in capsys.readouterr().out


def test_no_class_in_the_place_of_a_section_of_table(configured: Attack) -> None:
    said = configured("data: {class_path: evil_module.Evil}\n", "table", "--out=out")
    assert "cannot use 'data.class_path'" in said
