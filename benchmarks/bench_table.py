"""How much faster is `lightning table` than training every system of every seed plainly?

The plain way is the paper's: each of 8 systems × 6 seeds trains its own head, item by item, and is
scored on dev after each epoch. One epoch, one dev pass and one eval pass of a plain per-item
Lightning version are timed here (the classes of bench_training.py; medians over the rounds) and
multiplied: 48 × (10 × (epoch + dev pass) + eval pass). Fusion and metrics are not counted for it.
It logs nothing.
Ours is the whole command, measured: start of the program, making the twin, six seeds of ten epochs,
eight systems, every metric, score files, and intervals of three metrics over seeds × speakers.
Then, next to a plain epoch: the training epoch of six seeds as the command trains them, in stacks
of three on two cores, and how the whole command grows with networks, seeds and trials. The plain
version runs in one process; for ours the figures with one process stand beside those with two. All
on the full-scale twin (simulated data at the size of SASV 2022), one thread for each process. Takes
about seven minutes on two quiet cores; `--scale 0.05` only tries it out.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
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
from pytorch_lightning.loggers import CSVLogger
from torch.utils.data import DataLoader

from lightning_sasv.callbacks import KeepBest, SaveLast
from lightning_sasv.data import Corpus, SASVDataModule, make_twin
from lightning_sasv.data.corpus import TrialSet
from lightning_sasv.experiment.seed_folder import make_trainer
from lightning_sasv.models import SASVModule
from lightning_sasv.results import read_metrics

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


def memory_of(process: int) -> float:
    """Resident memory of a process and of all that it has started, in MB (Linux)."""
    total, waiting = 0.0, [process]
    while waiting:
        one = Path(f"/proc/{waiting.pop()}")
        with contextlib.suppress(OSError):
            pages = int((one / "statm").read_text().split()[1])
            total += pages * os.sysconf("SC_PAGE_SIZE") / 2**20
            for task in (one / "task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
    return total


def run_table(*options: str) -> tuple[float, float]:
    """Seconds and peak memory (MB, all processes together) of `lightning table`."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "lightning_sasv.cli", "table", f"--out={folder}/out"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        start, peak = time.perf_counter(), 0.0
        with subprocess.Popen(
            [*command, *options], stdout=subprocess.DEVNULL, env=environment
        ) as process:
            while process.poll() is None:
                peak = max(peak, memory_of(process.pid))
                time.sleep(0.1)
        assert process.returncode == 0
        seconds = time.perf_counter() - start
        metrics = read_metrics(Path(folder) / "out" / "metrics.json")
    assert len(metrics) == SYSTEMS
    intervals = [entry["sets"]["eval"]["intervals"]["sasv_eer"] for entry in metrics.values()]
    assert all(one["replicates"] >= 1000 for one in intervals)
    return seconds, peak


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


def stacked_epoch(corpus: Corpus, seeds: int, epochs: int = 5) -> float:
    """Seconds of a training epoch of several seeds in one stack: the median."""
    data = SASVDataModule(seeds=tuple(range(seeds)))
    data.__dict__["corpus"] = corpus
    corpus.check()
    clock, module = Clock(), SASVModule(systems=(), seeds=tuple(range(seeds)))
    with tempfile.TemporaryDirectory() as folder:
        runner = make_trainer(
            [KeepBest(save=False), clock, SaveLast(f"{folder}/run")],
            max_epochs=epochs,
            logger=CSVLogger(folder, name="run", version=""),
            enable_progress_bar=False,
        )
        runner.fit(module, datamodule=data)
    return statistics.median(clock.train)


def stacks_at_once(scale: float, stacks: int) -> float:
    """Seconds of a training epoch of ``stacks`` stacks at once, each in a process: the slowest."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--scale", str(scale), "--epoch-of", str(SEEDS // stacks)]
    started = [
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        for _ in range(stacks)
    ]
    return max(float(process.communicate()[0]) for process in started)


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
    epoch, dev, last = (statistics.median(column) for column in zip(*times, strict=True))
    plain = SYSTEMS * SEEDS * (EPOCHS * (epoch + dev) + last)
    print(f"plain, timed: epoch {epoch:.2f} s, dev pass {dev:.2f} s, eval pass {last:.2f} s")
    print(f"plain, extrapolated: 48 × (10 × (epoch + dev) + eval) = {plain / 60:.1f} min")
    size = f"--data.scale={scale}"
    runs = [run_table(size) for _ in range(rounds)]
    ours, peak = statistics.median(run[0] for run in runs), max(run[1] for run in runs)
    alone, _ = run_table(size, "--processes=1")
    print(f"lightning table, measured: {ours:.1f} s, peak {peak:.0f} MB of all its processes")
    print(f"  on one core (--processes 1): {alone:.1f} s, {plain / alone:.1f} times faster")
    say(f"the table takes {ours:.0f} s, under 90", ours < 90)
    say(f"its peak is {peak / 1024:.2f} GB, under 3", peak < 3 * 1024)
    say(
        f"it is {plain / ours:.1f} times faster than the plain way, at least 40", plain >= 40 * ours
    )
    shared, _ = run_table(size, "--processes=1", "--one-network")
    say(
        f"own networks of Post and B1v2 cost {alone / shared:.2f} times one for all, at most 2.2",
        alone <= 2.2 * shared,
    )
    twelve, _ = run_table(size, "--seeds=1986-1997")
    double, _ = run_table(f"--data.scale={2 * scale}")
    say(f"twice the seeds cost {twelve / ours:.2f} times as much, less than 2", twelve < 2 * ours)
    say(
        f"twice the trials cost {double / ours:.2f} times as much, at most 2.2",
        double <= 2.2 * ours,
    )


def compare_epochs(corpus: Corpus, scale: float, rounds: int) -> None:
    """Training epochs of six seeds against plain ones; medians of ratios side by side."""
    ratios = []
    for _ in range(rounds):
        epoch = plain_epoch(corpus)[2]
        two, one = stacks_at_once(scale, 2), stacks_at_once(scale, 1)
        print(f"epoch: plain {epoch:.2f} s, six seeds {two:.2f} s, on one core {one:.2f} s")
        ratios.append((epoch / two, epoch / one))
    both, alone = (SEEDS * statistics.median(x) for x in zip(*ratios, strict=True))
    print(f"  per seed and epoch, on one core: {alone:.1f} times faster")
    say(f"six at once: {both:.1f} times faster per seed and epoch, at least 7", both >= 7)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="size of the twin")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epoch-of", type=int, help="only time an epoch of one stack of N seeds")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    if args.epoch_of:
        print(stacked_epoch(make_twin(args.scale), args.epoch_of))
        return
    if args.scale != 1:
        print("the claims are about scale 1: verdicts at another scale mean nothing")
    corpus = make_twin(args.scale)
    compare_tables(corpus, args.scale, args.rounds)
    compare_epochs(corpus, args.scale, args.rounds)


if __name__ == "__main__":
    main()
