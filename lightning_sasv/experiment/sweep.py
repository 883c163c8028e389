"""W&B sweep files: run by W&B when logged in, else the same grid point by point, offline."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lightning_sasv.errors import InputError


@dataclass(frozen=True)
class Sweep:
    """A grid of runs.

    Attributes:
        path: The sweep file.
        name: Name of the experiment; groups its runs.
        points: Options of each run.
        command: Command with W&B's macros ``${env}``, ``${interpreter}``, ``${args}``.
    """

    path: Path
    name: str
    points: list[dict[str, Any]]
    command: list[str]


def read_sweep(path: str | Path) -> Sweep:
    """Read a W&B sweep file of method ``grid``."""
    path = Path(path)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read sweep file {path}: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    content = content if isinstance(content, dict) else {}
    for key in ("method", "parameters", "command"):
        if key not in content:
            raise InputError(f"{path}: a sweep file needs the key {key!r}")
    if content["method"] != "grid":
        raise InputError(
            f"{path}: only method: grid runs without a W&B server, got {content['method']!r}; "
            "log in with `wandb login`"
        )
    if not isinstance(content["command"], list):
        raise InputError(f"{path}: command must be a list of words, got {content['command']!r}")
    return Sweep(
        path,
        str(content.get("name", path.parent.name)),
        grid(content["parameters"]),
        [str(word) for word in content["command"]],
    )


def grid(parameters: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every combination of the parameters' values, the last parameter changing fastest.

    Example:
        >>> grid({"a": {"values": [1, 2]}, "b": {"value": 3}})
        [{'a': 1, 'b': 3}, {'a': 2, 'b': 3}]
    """
    if not isinstance(parameters, dict):
        raise InputError(f"parameters of a grid must be names with values, got {parameters!r}")
    axes = {}
    for name, settings in parameters.items():
        settings = settings if isinstance(settings, dict) else {}
        if isinstance(settings.get("values"), list):
            axes[name] = settings["values"]
        elif "value" in settings:
            axes[name] = [settings["value"]]
        else:
            raise InputError(f"parameter {name!r} of a grid needs a list `values`, or `value`")
    return [dict(zip(axes, point, strict=True)) for point in itertools.product(*axes.values())]


def expand(command: Sequence[str], point: Mapping[str, Any]) -> list[str]:
    """The command of one point, its macros replaced as W&B's agent replaces them."""
    args = [f"--{name}={value}" for name, value in point.items()]
    macros = {"${env}": ["/usr/bin/env"], "${interpreter}": [sys.executable], "${args}": args}
    words: list[str] = []
    for part in command:
        words += macros.get(part, [re.sub(r"\$\{envvar:(\w+)\}", _environment, part)])
    return words


def _environment(found: re.Match[str]) -> str:
    return os.environ.get(found[1], "")


def run_offline(sweep: Sweep, folder: Path) -> list[dict[str, Any]]:
    """Run every point in a process of its own, W&B offline; return the points that failed."""
    environment = {**os.environ, "WANDB_MODE": "offline", "WANDB_RUN_GROUP": sweep.name}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    failed = []
    for point in sweep.points:
        done = subprocess.run(
            expand(sweep.command, point), env=environment, cwd=folder, check=False
        )
        if done.returncode:
            failed.append(point)
    return failed


def run_online(sweep: Sweep, project: str) -> str:
    """Register the sweep with W&B and run an agent here; other machines can join it by its id."""
    import wandb

    content = yaml.safe_load(sweep.path.read_text(encoding="utf-8"))
    number = wandb.sweep(content, project=project)
    os.environ["WANDB_RUN_GROUP"] = sweep.name
    subprocess.run([sys.executable, "-m", "wandb", "agent", f"{project}/{number}"], check=True)
    return number
