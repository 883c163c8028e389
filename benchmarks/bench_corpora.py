"""Does the largest labelled corpus load, train and evaluate as the smallest does, per trial?

The twin (simulated) with the numbers of ASVspoof 5, written in its layout with memory-mapped
stores, beside the twin of SASV 2022 written the same way; each is measured in a process of its own,
one thread; ratios are of processor time. Claims: loaded in under 60 s and 4 GB, an epoch of `fit`
per utterance at most 1.3 times that of SASV 2022, evaluation of all trials with 1,000 replicates by
speaker of every metric in under 90 s, and everything grows at most 1.2 times as fast as the trials.

Run: ``python benchmarks/bench_corpora.py [--scale 1] [--replicates 1000]``.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

LIMITS = {"load": 60.0, "memory": 4.0, "epoch": 1.3, "evaluate": 90.0, "growth": 1.2}
ROUNDS = 3


def plans(scale: float) -> dict[str, Any]:
    """The numbers of ASVspoof 5: 182,357 and 680,774 utterances, 282,456 and 834,536 trials."""
    from lightning_sasv.data.twin_layout import KNOWN_ATTACKS, UNSEEN_ATTACKS, Cohort, SetPlan

    train = Cohort(200, 47, 68), Cohort(200, 47, 69)
    dev = Cohort(199, 40, 46, 75, 100, 4), Cohort(199, 40, 46, 75, 100, 4)
    evaluation = Cohort(184, 102, 114, 222, 230, 3), Cohort(183, 102, 114, 222, 230, 3)
    found = {
        "train": SetPlan("T", KNOWN_ATTACKS, train),
        "dev": SetPlan("D", KNOWN_ATTACKS, dev),
        "eval": SetPlan("E", UNSEEN_ATTACKS, evaluation),
    }
    return {name: plan.scaled(scale) for name, plan in found.items()}


def write(folder: Path, scale: float) -> None:
    """Both twins, in the layout of ASVspoof 5."""
    from lightning_sasv.data.challenge import save_corpus
    from lightning_sasv.data.twin import make_twin
    from lightning_sasv.data.twin_layout import PLANS

    for name in ("sasv2022", "asvspoof5"):
        if name == "asvspoof5":
            PLANS.update(plans(scale))
        twin = make_twin(scale if name == "sasv2022" else 1.0)
        twin = replace(twin, train=replace(twin.train, find_asv=None))
        save_corpus(twin, folder / name, layout="asvspoof5")
        print(f"{name}: {twin.sizes}")


def load(folder: Path) -> dict[str, float]:
    """Seconds until every embedding is found, and what the process then has taken."""
    from lightning_sasv.data import SASVDataModule

    start, busy = time.perf_counter(), time.process_time()
    data = SASVDataModule(str(folder), corpus="asvspoof5")
    data.setup("fit")
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    corpus = data.corpus
    sizes = len(corpus.train.utterances), len(corpus.dev.trials), len(corpus.eval.trials)
    return {"seconds": seconds, "busy": busy, "size": sum(sizes)} | epochs(data)


def epochs(data: Any) -> dict[str, float]:
    """Median seconds of an epoch, per utterance; and of scoring the trials of eval."""
    import pytorch_lightning as pl
    from pytorch_lightning.loggers import CSVLogger

    from lightning_sasv.models import SASVModule

    class Clock(pl.Callback):
        def __init__(self) -> None:
            self.seconds: list[float] = []

        def on_train_epoch_start(self, *_: object) -> None:
            self.start = time.process_time()

        def on_train_epoch_end(self, *_: object) -> None:
            self.seconds.append(time.process_time() - self.start)

    clock, model = Clock(), SASVModule(seeds=tuple(data.seeds))
    with tempfile.TemporaryDirectory() as folder:
        trainer = pl.Trainer(
            max_epochs=ROUNDS,
            accelerator="cpu",
            logger=CSVLogger(folder),
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            limit_val_batches=0,
            callbacks=[clock],
        )
        trainer.fit(model, datamodule=data)
        start = time.perf_counter()
        trainer.test(model, datamodule=data, verbose=False)
        scoring = time.perf_counter() - start
    size = len(data.corpus.train.utterances)
    return {"epoch": statistics.median(clock.seconds) / size, "scoring": scoring}


def scores(folder: Path) -> Path:
    """A score file of the eval trials of a folder: a fused score, and the pair."""
    import polars as pl

    from lightning_sasv.data.challenge import profile_of, trials_of

    path = folder / "scores.parquet"
    rows = trials_of(profile_of("asvspoof5", folder), "eval", folder)
    rng, label = np.random.default_rng(0), rows.label
    asv = rng.normal(size=len(rows)) + 4.6 * (label == 1) + 2.0 * (label == 0) - 2.3
    cm = rng.normal(size=len(rows)) + 5.0 * (label > 0) - 2.5
    words = np.array(["spoof", "target", "nontarget"])[label]
    columns = {"speaker": rows.speaker, "utterance": rows.utterance, "label": words}
    columns |= {"asv_score": 4.6 * asv, "cm_score": 5 * cm}
    frame = pl.DataFrame({name: column.tolist() for name, column in columns.items()})
    frame.with_columns(sasv_score=pl.Series(-np.logaddexp(-4.6 * asv, -5 * cm))).write_parquet(path)
    return path


def evaluate(folder: Path, replicates: int) -> dict[str, float]:
    """Seconds of an evaluation with intervals by speaker of every metric."""
    from lightning_sasv.evaluation import evaluate as run

    path = scores(folder)
    start, busy = time.perf_counter(), time.process_time()
    found = run([str(path)], ci="speaker", replicates=replicates, exact=True)
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    metrics = len(next(iter(found.intervals.values())))
    size = sum(found.counts.values())
    return {"seconds": seconds, "busy": busy, "size": size, "metrics": metrics}


def measured(what: str, folder: Path, replicates: int) -> dict[str, float]:
    """What a process of its own finds, and its peak in GB."""
    words = [sys.executable, __file__, "--what", what, "--of", str(folder)]
    done = subprocess.run(
        [*words, "--replicates", str(replicates)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def judge(text: str, value: float, limit: float) -> None:
    """Print a value beside what was claimed."""
    print(f"{text}: {value:.2f}, {'as' if value <= limit else 'NOT as'} claimed ({limit:g})")


def main() -> None:
    """Measure and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="size of both twins")
    parser.add_argument("--replicates", type=int, default=1000)
    parser.add_argument("--what", choices=("load", "evaluate"), help="measure one thing here")
    parser.add_argument("--of", type=Path, help="folder of a corpus")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    if args.what:
        import torch

        torch.set_num_threads(1)
        done = load(args.of) if args.what == "load" else evaluate(args.of, args.replicates)
        status = Path("/proc/self/status").read_text()  # getrusage knows the parent's peak, too
        peak = float(status.partition("VmHWM:")[2].split()[0]) / 2**20
        print(json.dumps(done | {"memory": peak}))
        return
    with tempfile.TemporaryDirectory() as place:
        write(Path(place), args.scale)
        names = ("sasv2022", "asvspoof5")
        small, large = (measured("load", Path(place) / name, 0) for name in names)
        print(f"load: {small}, {large}")
        judge("seconds to load", large["seconds"], LIMITS["load"])
        judge("GB with an epoch and the scoring of eval", large["memory"], LIMITS["memory"])
        judge("epoch per utterance, ratio", large["epoch"] / small["epoch"], LIMITS["epoch"])
        _growth("load", small, large)
        small, large = (measured("evaluate", Path(place) / n, args.replicates) for n in names)
        print(f"evaluate: {small}, {large}")
        judge("seconds to evaluate", large["seconds"], LIMITS["evaluate"])
        _growth("evaluate", small, large)


def _growth(what: str, small: dict[str, float], large: dict[str, float]) -> None:
    ratio = (large["busy"] / small["busy"]) / (large["size"] / small["size"])
    judge(f"{what}: processor time grows by trials times", ratio, LIMITS["growth"])


if __name__ == "__main__":
    main()
