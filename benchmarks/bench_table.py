"""How much faster is `lightning table` than training every system of every seed plainly?

The plain way is the paper's: each of 8 systems × 6 seeds trains its own head, item by item. One
epoch, one dev pass and one eval pass of a plain per-item Lightning version are timed here (the
classes of bench_training.py) and multiplied: 48 × (10 × (epoch + dev pass) + eval pass); fusion and
metrics are not counted for it. Ours is the whole command, measured: making the twin, six seeds of
ten epochs, eight systems, every metric, and a 1,000-replicate interval for each system. Also shown:
the training time per seed, and how the time grows with seeds and with trials. All on the full-scale
twin (simulated data at the size of SASV 2022), one thread each, one after the other.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
from bench_training import Clock, PlainDev, PlainModule, PlainTrials, trainer
from torch.utils.data import DataLoader

from lightning_sasv.data import Corpus, make_twin
from lightning_sasv.data.corpus import TrialSet
from lightning_sasv.experiment.settings import Experiment
from lightning_sasv.experiment.training import make_datamodule, train_heads


def run_table(out: Path, *args: str) -> tuple[float, float]:
    """Seconds and peak memory (MB) of `lightning table` in a process of its own."""
    command = [sys.executable, "-m", "lightning_sasv.cli", "table", "--out", str(out), *args]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    start = time.perf_counter()
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return seconds, max(before, after) / 1024


def plain_seconds(corpus: Corpus) -> tuple[float, float, float]:
    """Seconds of one plain epoch, one dev pass and one eval pass."""
    clock, module = Clock(), PlainModule()
    runner = trainer(clock)
    runner.fit(module, DataLoader(PlainTrials(corpus), batch_size=24))
    for data in (corpus.dev, corpus.eval):
        runner.validate(module, DataLoader(PlainDev(_as_dev(corpus, data)), 24), verbose=False)
    return clock.seconds["train"][0], clock.seconds["dev"][0], clock.seconds["dev"][1]


def _as_dev(corpus: Corpus, data: TrialSet) -> Corpus:
    return Corpus(corpus.name, corpus.train, data, corpus.eval)


def training_seconds(seeds: int, scale: float, epochs: int = 2) -> float:
    """Seconds of a training epoch, dev pass included, of several seeds at once."""
    experiment = Experiment(epochs=epochs)
    data = make_datamodule(experiment, range(seeds))
    data.scale = scale
    _ = data.corpus
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        train_heads(experiment, data, Path(folder) / "run", progress=False)
        return (time.perf_counter() - start) / epochs


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        ours, peak = run_table(Path(folder) / "out")
        metrics = json.loads((Path(folder) / "out" / "metrics.json").read_text())
    assert len(metrics) == 8
    epoch, dev, evaluation = plain_seconds(make_twin())
    plain = 48 * (10 * (epoch + dev) + evaluation)
    print(f"plain, extrapolated: epoch {epoch:.2f} s, dev {dev:.2f} s, eval {evaluation:.2f} s")
    print(f"  48 trainings of 10 epochs: {plain / 60:.0f} min")
    print(f"ours, measured: {ours:.0f} s, peak {peak:.0f} MB: {plain / ours:.0f} times faster")
    six, twelve = training_seconds(6, 1.0), training_seconds(12, 1.0)
    print(f"six seeds at once: {six / 6:.2f} s per seed and epoch, dev pass included:")
    print(f"  {(epoch + dev) / (six / 6):.1f} times faster per seed")
    print(f"twelve seeds cost {twelve / six:.2f} times six seeds")
    print(f"twice the trials cost {training_seconds(6, 2.0) / six:.2f} times as much")


if __name__ == "__main__":
    main()
