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

from lightning_sasv.console import print_line
from lightning_sasv.errors import InputError, RunError
from lightning_sasv.files import read_yaml

PROJECT = "lightning_sasv"
FIRST_FAILURES = 3
"""When so many runs fail before any succeeds, the rest is not tried (as with W&B's agent)."""


@dataclass(frozen=True)
class Sweep:
    """A W&B sweep file.

    Attributes:
        path: The file.
        content: What it says.
    """

    path: Path
    content: dict[str, Any]

    @property
    def name(self) -> str:
        """Name of the experiment; groups its runs."""
        return str(self.content.get("name") or self.path.resolve().parent.name)

    @property
    def project(self) -> str:
        """W&B project."""
        return str(self.content.get("project") or PROJECT)

    def points(self) -> list[dict[str, Any]]:
        """Options of each run, for a sweep of method ``grid``; W&B chooses those of others."""
        if self.content["method"] != "grid":
            raise InputError(
                f"{self.path}: only method: grid runs without a W&B server, got "
                f"{self.content['method']!r}; log in with `wandb login`"
            )
        try:
            return grid(self.content["parameters"])
        except InputError as error:
            raise InputError(f"{self.path}: {error}") from None

    def command(self) -> list[str]:
        """The command, with W&B's macros ``${env}``, ``${interpreter}``, ``${args}``."""
        words = self.content.get("command")
        if not isinstance(words, list) or not words:
            raise InputError(f"{self.path}: needs the key 'command', a list of words")
        return [str(word) for word in words]


def read_sweep(path: str | Path) -> Sweep:
    """Read a W&B sweep file."""
    path = Path(path)
    content = read_yaml(path, "sweep file")
    content = content if isinstance(content, dict) else {}
    for key in ("method", "parameters"):
        if key not in content:
            raise InputError(f"{path}: a sweep file needs the key {key!r}")
    return Sweep(path, content)


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
        if isinstance(settings.get("values"), list) and settings["values"]:
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


def run_offline(sweep: Sweep, folder: Path) -> tuple[int, list[dict[str, Any]]]:
    """Run every point in a process of its own, W&B offline.

    Returns:
        How many runs were tried, and the points of those that failed.
    """
    environment = {**os.environ, "WANDB_MODE": "offline", "WANDB_RUN_GROUP": sweep.name}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    command, failed = sweep.command(), []
    for tried, point in enumerate(points := sweep.points(), 1):
        words = expand(command, point)
        try:
            code = subprocess.run(words, env=environment, cwd=folder, check=False).returncode
        except OSError as error:
            raise InputError(f"{sweep.path}: cannot run {words[0]!r}: {error.strerror}") from None
        if code:
            failed.append(point)
        if len(failed) == tried == FIRST_FAILURES:
            return tried, failed
    return len(points), failed


def run_online(sweep: Sweep, project: str) -> str:
    """Register the sweep with W&B and run an agent here; other machines can join it by its id."""
    import wandb

    try:
        number = wandb.sweep(sweep.content, project=project)
    except (wandb.errors.Error, ValueError, OSError) as error:
        reason = " ".join(str(error).split())
        raise RunError(
            f"W&B does not take the sweep {sweep.path}: {reason}; --offline runs it here"
        ) from None
    environment = {**os.environ, "WANDB_RUN_GROUP": sweep.name}
    agent = [sys.executable, "-m", "wandb", "agent", f"{project}/{number}"]
    code = subprocess.run(agent, env=environment, check=False).returncode
    if code:
        raise RunError(
            f"the W&B agent ended with code {code}; go on with: wandb agent {project}/{number}"
        )
    return number


def sweep(file: str, project: str | None = None, offline: bool = False) -> None:
    """Run a W&B sweep file.

    When logged in to W&B, the sweep is registered there and an agent runs here; agents on other
    machines can join it. When not, or without network, the grid of the same file runs here point
    by point with offline W&B runs, which `wandb sync` sends later.

    Args:
        file: Sweep file, e.g. experiments/table1/sweep.yaml.
        project: W&B project; by default the one that the file names.
        offline: Run offline even when logged in.
    """
    from lightning_sasv.loggers import wandb_mode

    plan = read_sweep(file)
    if not offline and wandb_mode() == "online":
        number = run_online(plan, project or plan.project)
        print_line(f"sweep {number} of {plan.name} has ended")
        return
    plan.command()
    count = len(plan.points())
    print_line(f"{plan.name}: {count} runs, W&B offline")
    tried, failed = run_offline(plan, Path.cwd())
    if failed:
        listed = "; ".join(str(point) for point in failed[:10])
        rest = f"; {count - tried} were not tried" if tried < count else ""
        raise RunError(f"{len(failed)} of {tried} runs failed{rest}: {listed}")
    print_line("send the runs with: wandb sync runs/wandb/offline-run-*")
