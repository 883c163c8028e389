"""How much faster is `lightning table` than training every system of every seed plainly?

The plain way is the paper's: each of 8 systems × 6 seeds trains its own head, item by item, and is
scored on dev after each epoch. One epoch, one dev pass and one eval pass of a plain per-item
Lightning version are timed here (the classes of bench_training.py; medians over the rounds) and
multiplied: 48 × (10 × (epoch + dev pass) + eval pass). Fusion and metrics are not counted for it.
Ours is the whole command, measured: start of the program, making the twin, six seeds of ten epochs,
eight systems, every metric, score files, and a 1,000-replicate interval for each system. Then, each
next to a plain epoch: the training epoch of six seeds at once, of twelve, and of six on twice the
trials. All on the full-scale twin (simulated data at the size of SASV 2022), one thread each, one
after the other. Takes two to three minutes on two quiet cores; `--scale 0.05` only tries it out.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import pytorch_lightning as pl
import torch
from bench_training import PlainDev, PlainModule, PlainTrials
from torch.utils.data import DataLoader

from lightning_sasv.callbacks import KeepBest
from lightning_sasv.data import Corpus, SASVDataModule, make_twin
from lightning_sasv.data.corpus import TrialSet
from lightning_sasv.experiment.training import make_trainer
from lightning_sasv.models import SASVModule

SYSTEMS, SEEDS, EPOCHS = 8, 6, 10


class Clock(pl.Callback):
    """Seconds of each training epoch and of each scoring pass, the one inside the other or not."""

    def __init__(self) -> None:
        self.train: list[float] = []
        self.score: list[float] = []

    def on_train_epoch_start(self, *_: object) -> None:
        self.began, self.scoring = time.perf_counter(), 0.0

    def on_validation_start(self, *_: object) -> None:
        self.score_began = time.perf_counter()

    def on_validation_end(self, *_: object) -> None:
        self.score.append(time.perf_counter() - self.score_began)
        self.scoring = self.score[-1]

    def on_train_epoch_end(self, *_: object) -> None:
        self.train.append(time.perf_counter() - self.began - self.scoring)


def run_table(out: Path, scale: float) -> tuple[float, float]:
    """Seconds and peak memory (MB) of `lightning table` in a process of its own."""
    command = [sys.executable, "-m", "lightning_sasv.cli", "table", "--out", str(out)]
    start = time.perf_counter()
    subprocess.run(
        [*command, "--data.scale", str(scale)],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    seconds = time.perf_counter() - start
    metrics = json.loads((out / "metrics.json").read_text())
    assert len(metrics) == SYSTEMS
    assert all(len(m["seeds"]) == SEEDS and m["ci"]["replicates"] == 1000 for m in metrics.values())
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def plain_epoch(corpus: Corpus) -> tuple[pl.Trainer, PlainModule, float]:
    """One epoch of the plain version: its Trainer, module and seconds."""
    clock, module = Clock(), PlainModule()
    runner = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[clock],
    )
    runner.fit(module, DataLoader(PlainTrials(corpus), batch_size=24))
    return runner, module, clock.train[0]


def plain_pass(runner: pl.Trainer, module: PlainModule, corpus: Corpus, data: TrialSet) -> float:
    """Seconds of one pass of the plain version over the trials of a set."""
    (clock,) = (one for one in runner.callbacks if isinstance(one, Clock))
    trials = PlainDev(Corpus(corpus.name, corpus.train, data, corpus.eval))
    runner.validate(module, DataLoader(trials, batch_size=24), verbose=False)
    return clock.score[-1]


def stacked_epoch(corpus: Corpus, seeds: int, epochs: int = 2) -> tuple[float, float]:
    """Seconds of a training epoch and of a dev pass, of several seeds at once: the best of two."""
    data = SASVDataModule(seeds=tuple(range(seeds)))
    data.__dict__["corpus"] = corpus
    corpus.check()
    clock, module = Clock(), SASVModule(systems=(), seeds=data.seeds)
    with tempfile.TemporaryDirectory() as folder:
        runner = make_trainer(Path(folder) / "run", epochs, [KeepBest(), clock], progress=False)
        runner.fit(module, datamodule=data)
    return min(clock.train), min(clock.score)


def say(statement: str, holds: bool) -> None:
    """Print a claim with its verdict."""
    print(f"{'holds' if holds else 'FAILS'}: {statement}")


def compare_tables(corpus: Corpus, scale: float, rounds: int) -> None:
    """The whole table, measured, against the plain way, extrapolated."""
    times = []
    for _ in range(rounds):
        runner, module, epoch = plain_epoch(corpus)
        passes = [plain_pass(runner, module, corpus, data) for data in (corpus.dev, corpus.eval)]
        times.append((epoch, *passes))
    epoch, dev, evaluation = (statistics.median(column) for column in zip(*times, strict=True))
    plain = SYSTEMS * SEEDS * (EPOCHS * (epoch + dev) + evaluation)
    print(f"plain, timed: epoch {epoch:.2f} s, dev pass {dev:.2f} s, eval pass {evaluation:.2f} s")
    print(f"plain, extrapolated: 48 × (10 × (epoch + dev) + eval) = {plain / 60:.1f} min")
    with tempfile.TemporaryDirectory() as folder:
        ours, peak = run_table(Path(folder) / "out", scale)
    print(f"lightning table, measured: {ours:.1f} s, peak {peak:.0f} MB")
    say(f"the table takes {ours:.0f} s, under 90", ours < 90)
    say(f"its peak is {peak / 1024:.2f} GB, under 3", peak < 3 * 1024)
    say(
        f"it is {plain / ours:.1f} times faster than the plain way, at least 40", plain >= 40 * ours
    )


def compare_epochs(corpus: Corpus, twice: Corpus, rounds: int) -> None:
    """Stacked epochs against a plain one, and how they grow; medians of ratios side by side."""
    cases = {"six": (corpus, SEEDS), "twelve": (corpus, 2 * SEEDS), "twice": (twice, SEEDS)}
    speedups, seeds, trials = [], [], []
    for _ in range(rounds):
        _, _, epoch = plain_epoch(corpus)
        (six, dev), (twelve, dev12), (double, dev2) = (stacked_epoch(*c) for c in cases.values())
        print(f"epoch + dev pass: plain {epoch:.2f} s, six seeds {six:.2f} + {dev:.2f} s, ", end="")
        print(f"twelve {twelve:.2f} + {dev12:.2f} s, twice the trials {double:.2f} + {dev2:.2f} s")
        speedups.append(epoch / (six / SEEDS))
        seeds.append((twelve + dev12) / (six + dev))
        trials.append((double + dev2) / (six + dev))
    speedup, seed, trial = map(statistics.median, (speedups, seeds, trials))
    say(f"six at once: {speedup:.1f} times faster per seed and epoch, at least 8", speedup >= 8)
    say(f"twice the seeds cost {seed:.2f} times as much, less than 2", seed < 2)
    say(f"twice the trials cost {trial:.2f} times as much, at most 2.2", trial <= 2.2)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="size of the twin")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    if args.scale != 1:
        print("the claims are about scale 1: verdicts at another scale mean nothing")
    corpus = make_twin(args.scale)
    compare_tables(corpus, args.scale, args.rounds)
    compare_epochs(corpus, make_twin(2 * args.scale), args.rounds)


if __name__ == "__main__":
    main()
