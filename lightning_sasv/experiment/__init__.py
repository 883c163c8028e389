"""Experiments of several seeds and systems: training, evaluation, launching.

The processes that share the work of a table start before anything heavy is imported here. So
nothing is, not even for types: the command line would import what their annotations name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import ceil, comb
from pathlib import Path
from typing import Any, Literal, NamedTuple

from lightning_sasv.console import print_notes
from lightning_sasv.errors import InputError
from lightning_sasv.experiment.recipe import Recipe, make_corpus, parse_seeds
from lightning_sasv.experiment.sweep import sweep
from lightning_sasv.experiment.workers import Workers, usable_processes
from lightning_sasv.locks import lock
from lightning_sasv.metrics_file import twin_words
from lightning_sasv.places import TABLE, check_folder
from lightning_sasv.results import METRICS_FILE, link_scores, read_metrics

__all__ = ["CorpusSettings", "ModelSettings", "TableResults", "TrainerSettings", "sweep", "table"]

Launcher = Literal["here", "local", "slurm"]
"""Where an experiment runs."""

Setting = str | int | bool | float
LauncherOptions = dict[str, Setting | list[Setting] | dict[str, Setting]]
"""Parameters for submitit: what they are called there, and values."""


@dataclass(frozen=True)
class CorpusSettings:
    """Which corpus to use, and in which portions.

    Attributes:
        root: Folder of a real corpus; without it the embedded twin is made.
        protocols: Folder of the protocols when they are not below ``root``.
        name: Name of the corpus in tables; by default the name of the folder.
        scale: Size of the twin.
        twin_seed: Seed of the twin (not of the training).
        batch_size: Trials of an optimiser step.
        steps_per_block: Optimiser steps inside one Lightning step; does not change the result.
        score_batch_size: Probes that are scored at once.
        more_scores: Files of further scores of the dev and eval trials, {dev: FILE, eval: FILE} (or
            asv_x=FILE,cm_y=FILE for each), which systems fuse beside the table's own pair.
        corpus: Whose lists ``root`` has: sasv2022, asvspoof5, spoofceleb, manifest, or a YAML file
            (docs/corpora.md); by default the corpus whose lists are there.
        dev_corpus: Another corpus whose dev trials systems are fitted on: its folder, or
            NAME=FOLDER, or a name where it is below ``root``.
        eval_corpus: Another corpus whose eval trials are evaluated, the same.
    """

    root: str | None = None
    protocols: str | None = None
    name: str | None = None
    scale: float = 1.0
    twin_seed: int = 0
    batch_size: int = 24
    steps_per_block: int = 32
    score_batch_size: int = 1024
    more_scores: dict[str, str] | None = None
    corpus: str | None = None
    dev_corpus: str | None = None
    eval_corpus: str | None = None


@dataclass(frozen=True)
class ModelSettings:
    """The CM head, its training, and settings of the fusion systems.

    Attributes:
        in_dim: Size of the CM embedding; by default that of the corpus.
        hidden_dims: Widths of the CM head; 256,128,64 has the 82.5 k parameters of the paper.
        negative_slope: Slope of the LeakyReLU.
        lr: Learning rate of Adam.
        weight_decay: L2 penalty in Adam.
        objective: What networks are trained for; auto trains one for the CM label, and those of
            Post and B1v2 for their own scores.
        class_weights: Weights of spoof and bona fide in the loss, or of spoof, target and
            nontarget; by default 0.1 and 0.9 for the CM label, else all alike.
        fusion: Settings that replace those of every system, e.g. {rho: 0.5}; {trim: 3} leaves dev
            scores out of the fits that lie more than 3 interquartile ranges beyond the quartiles of
            their class.
        monitor: What the best epoch is chosen by: val/cm_eer, or val/sasv_eer or val/a_dcf of
            networks that are one system's own; by default what fits the objective.
        head: cm, or one that sees both embeddings, concat or film: then its systems are E2, E3, F2
            or F3. These train networks of their own (`lightning configs F3`), in which settings
            that are not the defaults take the place of theirs.
        dropout: Share of the hidden units that are left out of a training step.
        asv_dim: Size of the ASV embedding, for such a head; by default that of the corpus.
        lr_decay: The learning rate of a step is lr / (1 + lr_decay · steps before it).
    """

    in_dim: int | None = None
    hidden_dims: tuple[int, ...] = (258, 128, 64)
    negative_slope: float = 0.3
    lr: float = 5e-5
    weight_decay: float = 1e-3
    objective: str = "auto"
    class_weights: tuple[float, float] | tuple[float, float, float] | None = None
    fusion: dict[str, Setting | None] | None = None
    monitor: str | None = None
    head: str = "cm"
    dropout: float = 0.0
    asv_dim: int | None = None
    lr_decay: float = 0.0


@dataclass(frozen=True)
class TrainerSettings:
    """How long, and on what.

    Attributes:
        max_epochs: Training epochs.
        accelerator: cpu, gpu, or auto: a GPU where there is one.
        devices: The one device of each process: 1, or the number of a GPU as [2].
        precision: 32-true, 64-true, 16-mixed or bf16-mixed.
    """

    max_epochs: int = 10
    accelerator: str = "auto"
    devices: int | list[int] = 1
    precision: str | int = "32-true"


EMBEDDED, HEAD, TRAINER = CorpusSettings(), ModelSettings(), TrainerSettings()
"""By default: the embedded twin at full scale, the paper's head, ten epochs."""


class TableResults(NamedTuple):
    """Table 1 as it was written.

    Attributes:
        folder: Where.
        rows: A ``report.table1.Row`` for each system.
        remarks: What its reader must know; of a check, what was checked.
        checks: Whether they come out in the paper's order (``report.table1.Check``), on a whole
            run on the twin.
        warnings: What makes fits doubtful.
        pairs: t-EER of each pair of scores: systems that fuse it, value, and the paper's.
    """

    folder: Path
    rows: list[Any]
    remarks: list[str]
    checks: list[Any]
    warnings: Sequence[str] = ()
    pairs: Sequence[tuple[str, str, str]] = ()


def table(
    seeds: str = "1986-1991",
    systems: str = "paper",
    data: CorpusSettings = EMBEDDED,
    model: ModelSettings = HEAD,
    trainer: TrainerSettings = TRAINER,
    out: str = "results/table1",
    replicates: int = 1000,
    paper: bool = True,
    threads: int = 1,
    overwrite: bool = False,
    one_network: bool = False,
    processes: int | None = None,
    launcher: Launcher = "here",
    seeds_per_job: int = 3,
    launcher_options: LauncherOptions | None = None,
    check: bool = False,
) -> TableResults:
    """Table 1 of the paper: train the networks of each seed, fit and evaluate every system.

    Works on the embedded twin, a simulated corpus, unless --data.root names a real one. What is
    finished is kept: run again, and only what is missing is computed. Results of another
    configuration or device are never mixed in. Options have the names that they have in `lightning
    fit`, and its configurations serve here too, as far as they say nothing that a table cannot use.
    Short forms: --lr, --weight_decay, --hidden_dims, --class_weights, --epochs, --trim.

    Args:
        seeds: Training seeds, as 1986-1991 or 1986,1988.
        systems: Systems: paper (the eight of the paper), ours, all (both), joint (E2, E3, F2, F3),
            or a list as B1,L3c,F3, with YAML files of systems of your own among them.
        data: The corpus.
        model: The CM head and the fusion.
        trainer: The Trainer.
        out: Folder for the results: table.md, table.csv, table.tex, metrics.json, and for each
            seed a folder with its scores, fitted systems, metrics and checkpoint, for `lightning
            report`; scores/ leads to the score files of every seed.
        replicates: Bootstrap replicates of the intervals, which draw speakers in all seeds alike;
            more where comparing all pairs of systems takes more, unless fewer than 400 are wanted.
            0 for none.
        paper: Show the paper's numbers, where results are of SASV 2022 or of its twin.
        threads: CPU threads; the last bits of a result depend on it.
        overwrite: Begin anew: remove the results that are in OUT, whatever they were made with, and
            write there though it holds other files.
        one_network: Train one network for each seed, for the CM label, and apply the formulas of
            Post and B1v2 to it as well.
        processes: Processes that share the work on this machine; by default one for each core, up
            to four, and one on a GPU. The results do not depend on it.
        launcher: Where to run: here, or as submitted jobs: local (on this machine) or slurm.
        seeds_per_job: Seeds that are trained together, as one stacked model; with local and slurm
            those of one job. The last bits of a result depend on it.
        launcher_options: Parameters for submitit, e.g. {slurm_partition: gpu, timeout_min: 60};
            those that give commands, as {slurm_setup: [module load cuda]}, are taken from the
            command line alone, or from a trusted file.
        check: Check settings, systems and data, say what was checked, and stop: nothing is written.
    """
    from lightning_sasv.systems import own_systems, read_systems

    folder, wanted, numbers = Path(out), read_systems(systems), parse_seeds(seeds)
    # a mistake before anything is trained
    replicates, stack = _replicates(replicates, len(wanted)), _stack(seeds_per_job)
    shared = {"objective": "cm"} if one_network else {}
    recipe = Recipe(asdict(model) | shared, asdict(data), asdict(trainer), threads)
    if check:
        return _checked(recipe, _usable(recipe, wanted), numbers, folder, overwrite)
    files = [folder / f"seed{seed}" / METRICS_FILE for seed in numbers]
    with lock(folder), Workers(make_corpus, recipe) as workers:
        check_folder(folder, TABLE, overwrite)
        pieces = ceil(sum(not file.exists() for file in files) / stack)
        here = processes if launcher == "here" else 1
        workers.keep(usable_processes(pieces, here, threads) - 1)  # they import meanwhile
        from lightning_sasv.experiment.run import Job, run_job

        wanted = _usable(recipe, wanted)
        chosen = (tuple(numbers), tuple(wanted), folder, replicates, stack)
        job = Job(recipe, *chosen, own=own_systems(wanted))
        if launcher == "here":
            run_job(job, overwrite, processes, workers)
        else:
            from lightning_sasv.experiment.launch import launch

            launch(job, launcher, launcher_options, overwrite)
        return _written(job, files, paper)


def _written(job: Any, files: Sequence[Path], paper: bool) -> TableResults:
    """The table of a job that has been run, once it is written."""
    from lightning_sasv.experiment.seed_folder import failures
    from lightning_sasv.fusion import failure_lines
    from lightning_sasv.report.sure import draw_seed
    from lightning_sasv.report.table1 import order_checks
    from lightning_sasv.report.table1_text import write_table

    found, failed, draws = [read_metrics(file) for file in files], failures(job), []
    names = [name for name in job.systems if name not in failed]
    link_scores(job.out, job.seeds)
    if job.replicates:
        draws = [draw_seed(file.parent, names, job.replicates) for file in files]
    shown = write_table(job.out, found, names, draws, paper, failure_lines(failed))
    epochs = job.recipe.trainer["max_epochs"]
    whole = twin_words(found[0]) == ["simulated, scale 1"] and epochs >= 10
    checks = order_checks(shown.rows) if whole else []
    return TableResults(job.out, shown.rows, shown.remarks, checks, shown.warnings, shown.pairs)


def _checked(
    recipe: Recipe, systems: dict[str, Any], seeds: Sequence[int], folder: Path, overwrite: bool
) -> TableResults:
    """What was checked of a table that is not made."""
    check_folder(folder, TABLE, overwrite)
    from lightning_sasv.experiment.run import Job, examine
    from lightning_sasv.systems import own_systems

    job = Job(recipe, tuple(seeds), tuple(systems), folder, own=own_systems(systems))
    corpus, _ = examine(job)
    said = [
        f"settings of table; systems {', '.join(systems)}; seeds: {len(seeds)}",
        f"networks: {', '.join(recipe.networks(list(systems)))}",
        f"corpus {corpus.name}: {corpus.sizes}",
    ]
    return TableResults(folder, [], said, [])


def _usable(recipe: Recipe, systems: dict[str, Any]) -> dict[str, Any]:
    """The systems that the head has scores for; the others are named."""
    found, left_out = recipe.usable(systems)
    print_notes(left_out)
    return found


def _stack(seeds: int) -> int:
    """Seeds that are trained together, at least one."""
    if seeds < 1:
        raise InputError(f"--seeds_per_job must be at least 1, got {seeds}")
    return seeds


def _replicates(wanted: int, systems: int) -> int:
    """How many replicates are drawn: unless few are wanted, enough for Holm over all pairs."""
    from lightning_sasv.metrics.families import replicates_needed
    from lightning_sasv.metrics.intervals import FEW_REPLICATES, check_replicates

    if wanted < 0:
        raise InputError(f"--replicates must be at least 0, got {wanted}")
    if wanted == 0:
        return 0
    check_replicates(wanted)
    needed = replicates_needed(comb(systems, 2))
    return wanted if wanted < FEW_REPLICATES else max(wanted, needed)
