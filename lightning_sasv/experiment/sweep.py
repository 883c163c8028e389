"""W&B sweep files: run by W&B when logged in, else the same grid point by point, offline."""

from __future__ import annotations

import itertools
import math
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightning_sasv.console import print_line
from lightning_sasv.errors import InputError, RunError
from lightning_sasv.experiment.sweep_command import (
    check_command,
    check_parameters,
    check_texts,
    check_value,
    expand,
)
from lightning_sasv.experiment.workers import run_child
from lightning_sasv.files import read_yaml
from lightning_sasv.limits import GRID_POINTS
from lightning_sasv.program import handed_on
from lightning_sasv.signals import advise

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
        return self._text("name", self.path.resolve().parent.name)

    @property
    def project(self) -> str:
        """W&B project."""
        return self._text("project", PROJECT)

    def _text(self, key: str, default: str) -> str:
        found = self.content.get(key) or default
        if not isinstance(found, str | int):
            raise InputError(f"{self.path}: {key} must be a text")
        with self._naming():
            check_texts(key, [found])
        return str(found)

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Name the file in a message about it."""
        try:
            yield
        except InputError as error:
            raise InputError(f"{self.path}: {error}") from None

    def points(self) -> list[dict[str, Any]]:
        """Options of each run, for a sweep of method ``grid``; W&B chooses those of others."""
        method = self._text("method", "none")
        if method != "grid":
            raise InputError(
                f"{self.path}: only method: grid runs without a W&B server, got {method!r}; log in "
                "with `wandb login`"
            )
        with self._naming():
            return grid(self.content["parameters"])

    def command(self) -> list[str]:
        """The command, with W&B's macros ``${env}`` and ``${args}``, if it may be run.

        The names of the parameters, which become its options, are checked with it.
        """
        words = self.content.get("command")
        if not isinstance(words, list) or not words:
            raise InputError(f"{self.path}: needs the key 'command', a list of words")
        command = [str(word) for word in words if isinstance(word, str | int | float)]
        with self._naming():
            if len(command) < len(words):
                raise InputError("a command is a list of words, not of lists or mappings")
            check_command(command)
            check_parameters(self.content["parameters"])
        return command


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
    axes = {}
    for name, settings in check_parameters(parameters).items():
        settings = settings if isinstance(settings, dict) else {}
        if isinstance(settings.get("values"), list) and settings["values"]:
            axes[name] = settings["values"]
        elif "value" in settings:
            axes[name] = [settings["value"]]
        else:
            raise InputError(f"parameter {name!r} of a grid needs a list `values`, or `value`")
        for value in axes[name]:
            check_value(name, value)
    GRID_POINTS.check("parameters", math.prod(len(values) for values in axes.values()))
    return [dict(zip(axes, point, strict=True)) for point in itertools.product(*axes.values())]


def _environment(sweep: Sweep, **more: str) -> dict[str, str]:
    """Environment of what a sweep starts: our own program is found, and knows who started it."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, **handed_on(), "PATH": path, "WANDB_RUN_GROUP": sweep.name, **more}


def run_offline(sweep: Sweep, folder: Path, first: int = 1) -> tuple[int, list[dict[str, Any]]]:
    """Run every point in a process of its own, W&B offline.

    Args:
        sweep: What to run.
        folder: Working directory of each run.
        first: Number of the run to begin with.

    Returns:
        How many runs were tried, and the points of those that failed.
    """
    environment = _environment(sweep, WANDB_MODE="offline")
    command, failed = sweep.command(), []
    points = sweep.points()
    for tried, point in enumerate(points[first - 1 :], 1):
        words, number = expand(command, point), first - 1 + tried
        print_line(f"run {number} of {len(points)}: {shlex.join(words)}")
        kept = f"run {number - 1} and those before it are kept: " if number > 1 else ""
        advise(f"{kept}go on with --first {number}")
        try:
            code = run_child(words, environment, folder)
        except OSError as error:
            raise InputError(f"{sweep.path}: cannot run {words[0]!r}: {error.strerror}") from None
        if code:
            failed.append(point)
        if len(failed) == tried == FIRST_FAILURES:
            return tried, failed
    return len(points[first - 1 :]), failed


def run_online(sweep: Sweep, project: str) -> str:
    """Register the sweep with W&B and run an agent here; other machines can join it by its id."""
    import wandb

    print_line(f"{sweep.name}: each run is {shlex.join(sweep.command())}")
    try:
        number = wandb.sweep(sweep.content, project=project)
    except (wandb.errors.Error, ValueError, OSError) as error:
        reason = " ".join(str(error).split())
        raise RunError(
            f"W&B does not take the sweep {sweep.path}: {reason}; --offline runs it here"
        ) from None
    agent = [sys.executable, "-P", "-m", "wandb", "agent", "--", f"{project}/{number}"]
    again = f"go on with: wandb agent {project}/{number}"
    advise(f"finished runs are kept: {again}")
    code = run_child(agent, _environment(sweep), Path.cwd())
    if code:
        raise RunError(f"the W&B agent ended with code {code}; {again}")
    return number


def sweep(file: str, project: str | None = None, offline: bool = False, first: int = 1) -> None:
    """Run a W&B sweep file.

    When logged in to W&B, the sweep is registered there and an agent runs here; agents on other
    machines can join it. When not, or without network, the grid of the same file runs here point
    by point with offline W&B runs, which `wandb sync` sends later.

    Args:
        file: Sweep file, e.g. experiments/table1/sweep.yaml.
        project: W&B project; by default the one that the file names.
        offline: Run offline even when logged in.
        first: Number of the run to begin with, offline: those before it are done.
    """
    from lightning_sasv.loggers import wandb_mode

    plan = read_sweep(file)
    if not offline and wandb_mode() == "online":
        number = run_online(plan, project or plan.project)
        print_line(f"sweep {number} of {plan.name} has ended")
        return
    plan.command()
    count = len(plan.points())
    if not 1 <= first <= count:
        raise InputError(f"--first must lie in 1 to {count}, the number of runs, got {first}")
    print_line(f"{plan.name}: {count} runs, W&B offline")
    tried, failed = run_offline(plan, Path.cwd(), first)
    if failed:
        listed = "; ".join(str(point) for point in failed[:10])
        left = count - first + 1 - tried
        rest = f"; {left} were not tried" if left else ""
        raise RunError(f"{len(failed)} of {tried} runs failed{rest}: {listed}")
    print_line("send the runs with: wandb sync runs/wandb/offline-run-*")
