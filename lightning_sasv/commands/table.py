"""``lightning table``: every system, every seed, Table 1 beside the paper's."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console

from lightning_sasv.console import print_written, quiet
from lightning_sasv.errors import InputError
from lightning_sasv.experiment.ready import early_helpers
from lightning_sasv.experiment.settings import CorpusSettings, Experiment, Launcher, parse_seeds
from lightning_sasv.fusion import system_names
from lightning_sasv.report.table1 import TWIN, order_checks
from lightning_sasv.report.table1_text import print_checks, print_table1, write_table

EMBEDDED = CorpusSettings()
"""The default corpus: the embedded twin at full scale."""


def table(
    seeds: str = "1986-1991",
    systems: str = "paper",
    data: CorpusSettings = EMBEDDED,
    epochs: int = 10,
    out: str = "results/table1",
    replicates: int = 1000,
    hidden_dims: tuple[int, ...] = (258, 128, 64),
    lr: float = 5e-5,
    weight_decay: float = 1e-3,
    class_weights: tuple[float, float] = (0.1, 0.9),
    threads: int = 1,
    overwrite: bool = False,
    processes: int | None = None,
    launcher: Launcher = "here",
    seeds_per_job: int = 3,
    launcher_options: dict[str, str | int] | None = None,
) -> None:
    """Table 1 of the paper: train one CM head per seed, fit and evaluate every system on it.

    Works on the embedded twin, a simulated corpus, unless --data.root names a real one. What is
    finished is kept: run again, and only what is missing is computed. Results of another
    configuration are never mixed in.

    Args:
        seeds: Training seeds, as 1986-1991 or 1986,1988.
        systems: Systems: paper (the eight of the paper), ours, all, or a list as B1,L3c,L3t.
        data: The corpus.
        epochs: Training epochs.
        out: Folder for the results: table.md, table.csv, table.tex, metrics.json, and for each
            seed a folder with its scores, fitted systems, metrics and checkpoint, for `lightning
            report`; scores/ leads to the score files of every seed.
        replicates: Bootstrap replicates of the first seed's intervals; 0 for none.
        hidden_dims: Widths of the CM head; 256,128,64 has the 82.5 k parameters of the paper.
        lr: Learning rate of Adam.
        weight_decay: L2 penalty in Adam.
        class_weights: Weights of spoof and bona fide in the loss.
        threads: CPU threads; the last bits of a result depend on it.
        overwrite: Begin anew: remove the results that are in OUT, whatever they were made with.
        processes: Processes that share the work on this machine; by default one for each core, up
            to four, and one on a GPU. The results do not depend on it.
        launcher: Where to run: here, or as submitted jobs: local (on this machine) or slurm.
        seeds_per_job: Seeds that are trained together, as one stacked model; with local and slurm
            those of one job. The last bits of a result depend on it.
        launcher_options: Parameters for submitit, e.g. {slurm_partition: gpu, timeout_min: 60}.
    """
    quiet()
    start = time.perf_counter()
    folder, names, numbers = Path(out), system_names(systems), parse_seeds(seeds)
    if replicates < 0:
        raise InputError(f"--replicates must be at least 0, got {replicates}")
    recipe = (tuple(hidden_dims), threads, lr, weight_decay, class_weights)
    experiment = Experiment(data, epochs, *recipe)
    chosen = (tuple(numbers), tuple(names), folder, numbers[0], replicates)
    here = processes if launcher == "here" else 1
    with early_helpers(experiment, numbers, folder, seeds_per_job, here) as helpers:
        from lightning_sasv.experiment.launch import launch  # these import Lightning
        from lightning_sasv.experiment.run import Job, link_scores, seed_folder

        job = Job(experiment, *chosen, stack=seeds_per_job)
        key = launch(job, launcher, processes, launcher_options, overwrite, helpers)
    found = [seed_folder(folder, seed, key).metrics() for seed in numbers]
    link_scores(folder, numbers)
    rows, remarks = write_table(folder, found, names)
    print_table1(rows, remarks)
    if found[0][names[0]]["corpus"] == TWIN and data.scale == 1 and epochs >= 10:
        print_checks(order_checks(rows))
    print_written(folder)
    Console(highlight=False).print(f"took {time.perf_counter() - start:.0f} s")
