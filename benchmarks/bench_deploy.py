"""The scorer of a bundle against the torch path in the same run: one trial, arrays, and loading.

``python benchmarks/bench_deploy.py [SYSTEM …]``; with the real SASV 2022 scores where they are at
hand, else with simulated ones.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lightning_sasv.decisions import PRESETS, compared, simulate
from lightning_sasv.deploy import Scorer, load, write_bundle
from lightning_sasv.fusion import FusionSystem, fit_systems
from lightning_sasv.fusion.rules import fuse
from lightning_sasv.scores import read_scores
from lightning_sasv.trials import FusedScores, Scores

COSTS = PRESETS["a-dcf1"]
DATA = Path(os.environ.get("SASV_SHARED", Path(__file__).parents[2] / "shared")) / "data/sasv2022"
TRIALS = 400
START = """import time; began = time.perf_counter()
from lightning_sasv.deploy import load
verdict = load({folder!r})(0.5, 2.0)
import sys; assert "torch" not in sys.modules
print(verdict.decision, time.perf_counter() - began)"""


def sets() -> tuple[Scores, Scores]:
    """Dev and eval scores."""
    if (DATA / "dev_scores.csv").is_file():
        dev, evaluation = (read_scores(DATA / f"{split}_scores.csv") for split in ("dev", "eval"))
        return dev, evaluation
    drawn = (simulate(size, seed=seed)[:3] for seed, size in enumerate((30_000, 100_000)))
    dev, evaluation = (Scores(*one) for one in drawn)
    return dev, evaluation


def torch_path(system: FusionSystem, scorer: Scorer, asv: Any, cm: Any) -> Any:
    """The same by the module and by decisions on tensors: bounds, score, margin, decision."""
    far: Any = False
    if scorer.measured is not None:
        scores = torch.stack([torch.as_tensor(side, dtype=torch.float64) for side in (asv, cm)])
        far = scorer.measured.outside(scores, scorer.level)
    first, second, score = system(asv, cm)
    if scorer.rule.bounds is not None:
        first = first.clamp(*scorer.rule.bounds.asv_llr)
        second = second.clamp(*scorer.rule.bounds.cm_llr)
        score = fuse(system.rule, system.rho, first, second)
    risk, threshold = compared(FusedScores(first, second, score), scorer.costs)
    return risk > threshold, score, risk - threshold, first, second, far


def seconds(work: Callable[[], Any], rounds: int) -> float:
    """Least processor time of some rounds: what others do on the machine hardly shows in it."""
    found = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def main() -> None:
    """Print a line for each system, and the time from a process's start to its first score."""
    torch.set_num_threads(1)
    dev, evaluation = sets()
    names = sys.argv[1:] or ["L3t", "L3c", "M3", "M3d"]
    systems = fit_systems(dev.asv, dev.cm, dev.label, names)
    pairs = [*zip(evaluation.asv[:TRIALS].tolist(), evaluation.cm[:TRIALS].tolist(), strict=True)]
    both, count = (evaluation.asv, evaluation.cm), len(evaluation)
    with tempfile.TemporaryDirectory() as place:
        for name, system in systems.items():
            folder = write_bundle(Path(place) / name, system, dev, COSTS, name=name)
            whole = load(folder)
            plain = Scorer(system, whole.rule, COSTS, {})
            for scorer, what in ((whole, "with unsure"), (plain, "without")):
                single = seconds(lambda s=scorer: [s(a, c) for a, c in pairs], 15) / TRIALS
                slow = seconds(
                    lambda s=scorer, t=system: [torch_path(t, s, [a], [c]) for a, c in pairs], 3
                )
                many = count / seconds(lambda s=scorer: s(*both), 9)
                tensors = count / seconds(lambda s=scorer, t=system: torch_path(t, s, *both), 5)
                print(
                    f"{name}, {what}: one trial {1e6 * single:.1f} µs, torch "
                    f"{1e6 * slow / TRIALS:.0f} µs, {slow / TRIALS / single:.0f} times; arrays "
                    f"{many / 1e6:.1f} million/s, torch {tensors / 1e6:.1f}"
                )
        code = START.format(folder=str(Path(place) / names[0]))
        starts, loads, used = [], [], []
        for _ in range(7):
            began, before = time.perf_counter(), os.times()
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True
            )
            starts.append(time.perf_counter() - began)
            loads.append(float(done.stdout.split()[1]))
            after = os.times()
            used.append(sum(after[2:4]) - sum(before[2:4]))  # of children
        print(
            f"start of a process to its first score: {min(starts):.2f} s (median "
            f"{statistics.median(starts):.2f}), of it ours {min(loads):.2f} s; processor time "
            f"{min(used):.2f} s"
        )
        differ = np.count_nonzero(
            plain(*both).accepted != torch_path(system, plain, *both)[0].numpy()
        )
        print(f"decisions that differ from torch: {differ} of {count:,}")


if __name__ == "__main__":
    main()
