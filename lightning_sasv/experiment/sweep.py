"""W&B sweep files: run by W&B when logged in, else the same grid point by point, offline."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from lightning_sasv import __version__
from lightning_sasv.console import print_line
from lightning_sasv.errors import InputError, RunError
from lightning_sasv.experiment.recipe import digest
from lightning_sasv.experiment.sweep_file import Sweep, expand, read_sweep
from lightning_sasv.experiment.workers import run_child
from lightning_sasv.files import ensure_directory, read_json, read_text, sha256, write_json
from lightning_sasv.program import WRITTEN, handed_on, shipped_configs, with_shipped
from lightning_sasv.results import METRICS_FILE
from lightning_sasv.signals import advise

NOTES = Path("runs") / "sweeps"
"""Where finished runs are noted, below the folder in which they run."""

FIRST_FAILURES = 3
"""When so many runs fail before any succeeds, the rest is not tried (as with W&B's agent)."""


def _environment(sweep: Sweep, **more: str) -> dict[str, str]:
    """Environment of what a sweep starts: our own program is found, and knows who started it."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, **handed_on(), "PATH": path, "WANDB_RUN_GROUP": sweep.name, **more}


@dataclass(frozen=True)
class SweepRun:
    """A finished run of a sweep.

    Attributes:
        point: Its options.
        folder: Where its results are, if it said so.
    """

    point: dict[str, Any]
    folder: Path | None


@dataclass
class SweepOutcome:
    """What became of a sweep.

    Attributes:
        tried: How many runs were started.
        failed: Points of those that failed.
        runs: Those that are finished, now or earlier.
        left: How many were not tried after so many failures.
    """

    tried: int = 0
    failed: list[dict[str, Any]] = field(default_factory=list)
    runs: list[SweepRun] = field(default_factory=list)
    left: int = 0

    def add(self, point: dict[str, Any], run: SweepRun | None, failed: bool) -> None:
        """Note a run that was tried."""
        self.tried += 1
        self.failed += [point] if failed else []
        self.runs += [] if run is None else [run]

    def check(self) -> None:
        """Name the failures, if there are any."""
        if self.failed:
            listed = "; ".join(str(point) for point in self.failed[:10])
            rest = f"; {self.left} were not tried" if self.left else ""
            raise RunError(f"{len(self.failed)} of {self.tried} runs failed{rest}: {listed}")


def note_of(sweep: Sweep, words: Sequence[str], folder: Path) -> Path:
    """File that notes the end of a run: one for each command, configuration and version."""
    values = [word.partition("=")[2] if word[:1] == "-" else word for word in with_shipped(words)]
    named = [folder / value for value in values if value.endswith((".yaml", ".yml"))]
    files = [shipped_configs()["base"], *(path for path in named if path.is_file())]
    content = [sha256(path) for path in files]
    key = digest([list(words), content, __version__, os.environ.get("SASV2022_ROOT")])
    return folder / NOTES / re.sub(r"[^\w-]", "_", sweep.name) / f"{key}.json"


def _finished(note: Path, point: dict[str, Any]) -> SweepRun | None:
    """The run of a point if it has been finished, and its results are still there."""
    with suppress(InputError):  # damaged, or not ours: it is run again
        found = read_json(note) if note.is_file() else None
        folder = found.get("folder") if isinstance(found, dict) else None
        if folder is not None and (Path(str(folder)) / METRICS_FILE).is_file():
            return SweepRun(point, Path(str(folder)))
    return None


def run_offline(
    sweep: Sweep,
    folder: Path,
    first: int = 1,
    options: Sequence[str] = (),
    overwrite: bool = False,
) -> SweepOutcome:
    """Run every point that is not finished in a process of its own, W&B offline.

    Args:
        sweep: What to run.
        folder: Working directory of each run.
        first: Number of the run to begin with.
        options: Further options of each run.
        overwrite: Run the finished points again.
    """
    command, points = [*sweep.command(), *options], sweep.points()
    done = SweepOutcome()
    for number, point in enumerate(points[first - 1 :], first):
        words = expand(command, point)
        note = note_of(sweep, words, folder)
        run = None if overwrite else _finished(note, point)
        if run is not None:
            print_line(f"run {number} of {len(points)} is finished: {run.folder}")
            done.runs.append(run)
            continue
        print_line(f"run {number} of {len(points)}: {shlex.join(words)}")
        run = run_point(sweep, words, point, note, folder)
        done.add(point, run, failed=run is None)
        if not done.runs and len(done.failed) == FIRST_FAILURES:
            break
    done.left = len(points) - first + 1 - len(done.failed) - len(done.runs)
    return done


def run_point(
    sweep: Sweep,
    words: list[str],
    point: dict[str, Any],
    note: Path,
    folder: Path,
    more: Mapping[str, str] | None = None,
) -> SweepRun | None:
    """Run a point, and note that it is finished; nothing if it fails.

    Args:
        sweep: The sweep.
        words: The command of the point.
        point: Its options.
        note: File that notes its end.
        folder: Working directory.
        more: Further variables of its environment.
    """
    place = note.with_suffix(".folder")
    known = {WRITTEN: str(place), **(more or {})}
    environment = _environment(sweep, WANDB_MODE="offline", **known)
    ensure_directory(note.parent)
    for file in (note, place):
        file.unlink(missing_ok=True)
    try:
        code = run_child(words, environment, folder)
    except OSError as error:
        raise InputError(f"{sweep.path}: cannot run {words[0]!r}: {error.strerror}") from None
    written = Path(read_text(place)) if place.is_file() else None
    place.unlink(missing_ok=True)
    if code:
        return None
    told = None if written is None else str(written)
    write_json(note, {"point": point, "command": words, "folder": told})
    return SweepRun(point, written)


def run_online(sweep: Sweep, project: str, options: Sequence[str] = ()) -> str:
    """Register the sweep with W&B and run an agent here; other machines can join it by its id."""
    import wandb

    command = [*sweep.command(), *options]
    print_line(f"{sweep.name}: each run is {shlex.join(command)}")
    try:
        number = wandb.sweep({**sweep.content, "command": command}, project=project)
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


def _check_passed(sweep: Sweep, options: Sequence[str]) -> None:
    """Refuse an option for every run that would undo what the sweep is about."""
    for option in options:
        name = option.removeprefix("--").partition("=")[0]
        if name in sweep.content["parameters"]:
            raise InputError(f"--{name} is what {sweep.path} varies; change it there")


def sweep(
    file: str,
    project: str | None = None,
    offline: bool = False,
    first: int = 1,
    overwrite: bool = False,
    search: Literal["optuna"] | None = None,
    runs: int = 20,
    options: list[str] | None = None,
    tell: Callable[[list[SweepRun]], None] = lambda runs: None,
) -> None:
    """Run a W&B sweep file.

    When logged in to W&B, the sweep is registered there and an agent runs here; agents on other
    machines can join it. When not, or without network, the grid of the same file runs here point
    by point with offline W&B runs, which `wandb sync` sends later. What is finished is noted in
    runs/sweeps: started again, the same command goes on with the other runs.

    Args:
        file: Sweep file, e.g. experiments/table1/sweep.yaml.
        project: W&B project; by default the one that the file names.
        offline: Run offline even when logged in.
        first: Number of the run to begin with, offline.
        overwrite: Run finished runs again, offline.
        search: optuna: let Optuna's TPE choose the points by the dev metric that the file names, in
            place of its method, and end runs early that are worse than the median.
        runs: Runs of a search.
        options: Options for every run, after those of the file; simply type them as they are, e.g.
            --data.root DIR --trainer.max_epochs 2.
        tell: Is given the finished runs of an offline sweep.
    """
    from lightning_sasv.loggers import wandb_mode

    plan, passed = read_sweep(file), list(options or ())
    plan.command()
    _check_passed(plan, passed)
    if search is None and not offline and wandb_mode() == "online":
        number = run_online(plan, project or plan.project, passed)
        print_line(f"sweep {number} of {plan.name} has ended")
        return
    done = _run_here(plan, first, overwrite, None if search is None else runs, passed)
    tell(done.runs)
    done.check()
    if search is None:
        print_line("send the runs with: wandb sync runs/wandb/offline-run-*")


def _run_here(
    plan: Sweep, first: int, overwrite: bool, searched: int | None, passed: Sequence[str]
) -> SweepOutcome:
    """Run the grid, or so many points of a search, on this machine and offline."""
    kept = "finished runs are kept: the same command goes on"
    if searched is None:
        count = len(plan.points())
        if not 1 <= first <= count:
            raise InputError(f"--first must lie in 1 to {count}, the number of runs, got {first}")
        print_line(f"{plan.name}: {count} runs, W&B offline")
        advise(kept)
        return run_offline(plan, Path.cwd(), first, passed, overwrite)
    if searched < 1:
        raise InputError(f"--runs must be at least 1, got {searched}")
    from lightning_sasv.experiment.search import run_search

    print_line(f"{plan.name}: a search of {searched} runs, W&B offline")
    advise(kept)
    return run_search(plan, Path.cwd(), searched, passed)
