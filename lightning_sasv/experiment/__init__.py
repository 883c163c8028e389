"""Experiments of several seeds and systems: training, evaluation, launching.

The processes that share the work of a table start before anything heavy is imported here. So
nothing is, not even for types: the command line would import what their annotations name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path
from typing import Any, Literal, NamedTuple

from lightning_sasv.checks import positive
from lightning_sasv.errors import InputError
from lightning_sasv.experiment.launch import LauncherOptions
from lightning_sasv.experiment.recipe import Recipe, make_corpus, parse_seeds
from lightning_sasv.experiment.sweep import sweep
from lightning_sasv.experiment.workers import Workers, usable_processes
from lightning_sasv.locks import lock
from lightning_sasv.places import TABLE, check_folder
from lightning_sasv.results import METRICS_FILE, link_scores, read_metrics
from lightning_sasv.trials import TWIN

__all__ = ["CorpusSettings", "TableResults", "sweep", "table"]

Launcher = Literal["here", "local", "slurm"]
"""Where an experiment runs."""


@dataclass(frozen=True)
class CorpusSettings:
    """Which corpus to use.

    Attributes:
        root: Folder of a real corpus; without it the embedded twin is made.
        protocols: Folder of the protocols when they are not below ``root``.
        name: Name of the corpus in tables; by default the name of the folder.
        scale: Size of the twin.
        twin_seed: Seed of the twin (not of the training).
    """

    root: str | None = None
    protocols: str | None = None
    name: str | None = None
    scale: float = 1.0
    twin_seed: int = 0


EMBEDDED = CorpusSettings()
"""The default corpus: the embedded twin at full scale."""


class TableResults(NamedTuple):
    """Table 1 as it was written.

    Attributes:
        folder: Where.
        rows: A ``report.table1.Row`` for each system.
        remarks: What its reader must know.
        checks: Whether they come out in the paper's order (``report.table1.Check``), on a whole
            run on the twin.
        warnings: What makes fits doubtful.
    """

    folder: Path
    rows: list[Any]
    remarks: list[str]
    checks: list[Any]
    warnings: Sequence[str] = ()


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
    trim: float | None = None,
    threads: int = 1,
    overwrite: bool = False,
    processes: int | None = None,
    launcher: Launcher = "here",
    seeds_per_job: int = 3,
    launcher_options: LauncherOptions | None = None,
) -> TableResults:
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
        trim: Leave dev scores out of the fits that lie more than this many interquartile ranges
            beyond the quartiles of their class.
        threads: CPU threads; the last bits of a result depend on it.
        overwrite: Begin anew: remove the results that are in OUT, whatever they were made with, and
            write there though it holds other files.
        processes: Processes that share the work on this machine; by default one for each core, up
            to four, and one on a GPU. The results do not depend on it.
        launcher: Where to run: here, or as submitted jobs: local (on this machine) or slurm.
        seeds_per_job: Seeds that are trained together, as one stacked model; with local and slurm
            those of one job. The last bits of a result depend on it.
        launcher_options: Parameters for submitit, e.g. {slurm_partition: gpu, timeout_min: 60};
            those that give commands, as {slurm_setup: [module load cuda]}, are taken from the
            command line alone, or from a trusted file.
    """
    from lightning_sasv.fusion import system_names

    folder, names, numbers = Path(out), system_names(systems), parse_seeds(seeds)
    if replicates < 0:
        raise InputError(f"--replicates must be at least 0, got {replicates}")
    model: dict[str, Any] = {
        "hidden_dims": tuple(hidden_dims),
        "lr": lr,
        "weight_decay": weight_decay,
    }
    model |= {} if trim is None else {"fusion": {"trim": positive("--trim", trim)}}
    recipe = Recipe(model | {"class_weights": class_weights}, asdict(data), epochs, threads)
    files = [folder / f"seed{seed}" / METRICS_FILE for seed in numbers]
    with lock(folder), Workers(make_corpus, recipe) as workers:
        check_folder(folder, TABLE, overwrite)
        pieces = ceil(sum(not file.exists() for file in files) / max(seeds_per_job, 1))
        here = processes if launcher == "here" else 1
        workers.keep(usable_processes(pieces, here, threads) - 1)  # they import meanwhile
        from lightning_sasv.experiment.launch import launch
        from lightning_sasv.experiment.run import Job

        chosen = (tuple(numbers), tuple(names), folder, numbers[0], replicates, seeds_per_job)
        job = Job(recipe, *chosen)
        launch(job, launcher, processes, launcher_options, overwrite, workers)
        from lightning_sasv.report.table1 import order_checks
        from lightning_sasv.report.table1_text import write_table

        found = [read_metrics(file) for file in files]
        link_scores(folder, numbers)
        rows, remarks, warnings = write_table(folder, found, names)
    whole = found[0][names[0]]["corpus"] == TWIN and data.scale == 1 and epochs >= 10
    return TableResults(folder, rows, remarks, order_checks(rows) if whole else [], warnings)
