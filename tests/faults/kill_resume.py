"""Stop a run by a signal at random moments, resume it, and compare with an undisturbed run.

`python -m tests.faults.kill_resume --points 200` (or `make faults`) does it at 200 moments for
`lightning fit` and for `lightning table`, and at some when that works in two processes; the tests
do it at 10. Half of the signals are SIGKILL, the others those that a command hears; each has its
exit code. A resumed run must end with the same bits: weights, scores and metrics.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from lightning_sasv.cli import main as run_command
from lightning_sasv.commands.train import base_config
from lightning_sasv.signals import ALL, exit_code
from tests.faults.forks import finish
from tests.helpers import content, results_in

FIT = ["fit", "--config", str(base_config().parent / "L3c.yaml"), "--data.scale=0.02"]
FIT += ["--data.steps_per_block=4", "--trainer.max_epochs=6", "--trainer.accelerator=cpu"]
TABLE = ["table", "--out=out", "--seeds=1-3", "--systems=B1,L3c", "--data.scale=0.02"]
TABLE += ["--epochs=6", "--replicates=50", "--processes=1"]
SIGNALS = [*[signal.SIGKILL] * len(ALL), *ALL]
SHARED = [*TABLE[:-1], "--processes=2", "--seeds_per_job=2"]


def _child(args: Sequence[str], folder: Path) -> None:
    """Run a command in ``folder`` without a word; the exit code tells how it went."""
    os.chdir(folder)
    torch.set_num_threads(1)
    with (folder / "log.txt").open("a") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        run_command(list(args))


def run(
    args: Sequence[str],
    folder: Path,
    kill_after: float | None = None,
    number: int = signal.SIGKILL,
) -> bool:
    """Run a command in a process of its own; whether a signal ended it, after some seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    code = finish(_child, args, folder, kill_after=kill_after, number=number)
    if code not in (0, -number, exit_code(number)):  # the second: before anybody could hear it
        raise RuntimeError(f"{args} failed:\n{(folder / 'log.txt').read_text()[-2000:]}")
    return code != 0


def fit_outcome(folder: Path) -> dict[str, object]:
    """Weights, fitted systems, scores and metrics of the newest run of ``fit``."""
    runs = sorted((folder / "runs" / "L3c").iterdir(), key=lambda p: int(p.name.split("_")[1]))
    last = torch.load(runs[-1] / "checkpoints" / "last.ckpt", weights_only=True)
    best = torch.load(runs[-1] / "checkpoints" / "best.ckpt", weights_only=True)
    outcome: dict[str, object] = {
        name: content(runs[-1] / name)
        for name in ("metrics.json", "scores/dev.csv", "scores/eval.csv")
    }
    for label, checkpoint in (("last", last), ("best", best)):
        outcome[f"{label} epoch"] = checkpoint["epoch"]
        for name, tensor in checkpoint["state_dict"].items():
            outcome[f"{label} {name}"] = tensor.numpy().tobytes()
    return outcome


def table_outcome(folder: Path) -> dict[str, bytes]:
    """Every result of ``table``, without logs and checkpoints of the training."""
    return results_in(folder / "out", ".json", ".csv", ".md", ".tex", ".safetensors")


CASES: dict[str, tuple[list[str], list[str], Callable[[Path], Mapping[str, object]]]] = {
    "fit": (FIT, [*FIT, "--ckpt_path=last"], fit_outcome),
    "table": (TABLE, TABLE, table_outcome),
    "table in two processes": (SHARED, SHARED, table_outcome),
}
"""Command, how it is resumed, and what is compared."""


def share(case: str, points: int) -> int:
    """How many of ``points`` kills a case gets; starting a second process takes its time."""
    return max(1, points // 5) if "two processes" in case else points


def attack(case: str, points: int, seed: int, folder: Path) -> list[str]:
    """Kill and resume ``points`` times; return a description of each difference."""
    command, resume, outcome = CASES[case]
    run(command, folder / "first")  # the server of the processes starts with it
    start = time.perf_counter()
    run(command, folder / "whole")
    seconds = time.perf_counter() - start
    expected = outcome(folder / "whole")
    moments = random.Random(seed)
    problems, killed = [], 0
    for point in range(points):
        place = folder / f"{case}{point}"
        moment, number = moments.uniform(0, seconds), moments.choice(SIGNALS)
        start = time.perf_counter()
        if run(command, place, kill_after=moment, number=number):
            killed += 1
        else:  # the machine has become faster
            seconds = min(seconds, time.perf_counter() - start)
        run(resume, place)
        found = outcome(place)
        differing = [key for key in expected if found.get(key) != expected[key]]
        if differing or found.keys() != expected.keys():
            problems.append(
                f"{case}, {number.name} after {moment:.2f} s, differs in {differing[:5]}"
            )
        shutil.rmtree(place)
    if killed < points / 3:
        problems.append(f"{case}: only {killed} of {points} runs were killed before their end")
    return problems


def main() -> int:
    """Attack both commands and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            points = share(case, args.points)
            problems = attack(case, points, args.seed, Path(folder) / case)
            sys.stdout.write(f"{case}: {points} kills, {len(problems)} differences\n")
            sys.stdout.write("".join(f"  {problem}\n" for problem in problems))
            failed += len(problems)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
