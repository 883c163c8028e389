"""A whole experiment: which seeds and systems are missing, and computing just those."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning.callbacks import RichProgressBar
from pytorch_lightning.loggers import CSVLogger

from lightning_sasv import results
from lightning_sasv.callbacks import KeepBest, SaveLast
from lightning_sasv.checkpoints import read_checkpoint
from lightning_sasv.console import quiet
from lightning_sasv.data.corpus import Corpus
from lightning_sasv.data.datamodule import SASVDataModule
from lightning_sasv.errors import RunError
from lightning_sasv.experiment.recipe import Group, Recipe, check_recipe, make_corpus, read_group
from lightning_sasv.experiment.seed_folder import SeedFolder, device_settings, fill, make_trainer
from lightning_sasv.experiment.workers import Workers, usable_processes
from lightning_sasv.files import ensure_directory, write_text
from lightning_sasv.fusion import KNOWN, FusionSettings, build_system
from lightning_sasv.locks import lock
from lightning_sasv.models import SASVModule
from lightning_sasv.models.restoring import restoring
from lightning_sasv.program import program
from lightning_sasv.report.sure import draw_seed
from lightning_sasv.signals import advising

GROUP_FILE = "group.json"


@dataclass(frozen=True)
class Job:
    """Seeds to train, systems to evaluate on each, and where to write.

    Attributes:
        recipe: Training and corpus.
        seeds: Training seeds.
        systems: Fusion systems.
        out: Folder of the experiment.
        replicates: Bootstrap replicates of the intervals; 0 for none.
        stack: Seeds that are trained together, as one stacked model.
        progress: Show a progress bar.
        own: Settings of the systems that are not ours.
    """

    recipe: Recipe
    seeds: tuple[int, ...]
    systems: tuple[str, ...]
    out: Path
    replicates: int = 1000
    stack: int = 3
    progress: bool = True
    own: Mapping[str, FusionSettings] = field(default_factory=dict)


def begin(job: Job, overwrite: bool = False) -> tuple[Corpus, str, list[int]]:
    """Find every mistake that can be found before the work: in settings, data, and on disk.

    Args:
        job: What is to be run.
        overwrite: Remove the results in ``job.out``, once nothing else stands against the job.

    Returns:
        The corpus, the key of the results, and the seeds that lack some.
    """
    ensure_directory(job.out)
    for pattern in ("training", "training/*", "seed[0-9]*", "seed[0-9]*/*"):
        for place in filter(Path.is_dir, job.out.glob(pattern)):
            ensure_directory(place)
    corpus, used = examine(job)
    if overwrite:
        results.clear_seeds(job.out)
    key = check_recipe(job.out, job.recipe.content(corpus, used))
    for path in sorted(job.out.glob("seed[0-9]*")):
        SeedFolder(path, key).metrics()  # also of seeds that are not asked for now
    folders = {seed: seed_folder(job, seed, key, corpus) for seed in job.seeds}
    return corpus, key, [seed for seed, one in folders.items() if one.missing(job.systems)]


def examine(job: Job) -> tuple[Corpus, dict[str, Any]]:
    """Find every mistake in settings and data; the corpus, and what the devices are set to."""
    quiet()
    parts = job.recipe.together(job.recipe.networks(job.systems))
    modules = [job.recipe.module(job.seeds[:1], part) for part in parts]
    used = device_settings(job.recipe)
    for name in job.systems:
        build_system(name, job.own.get(name), **(job.recipe.model.get("fusion") or {}))
    corpus = make_corpus(job.recipe)
    corpus.check()
    for module in modules:
        module.check(corpus, training=True)
    return corpus, used


def seed_folder(job: Job, seed: int, key: str, corpus: Corpus) -> SeedFolder:
    """The folder of a seed; it knows which systems have networks of their own."""
    own = [name for name in job.systems if job.recipe.network_of(name) == name]
    marks = dict.fromkeys(own, corpus.train.asv_fingerprint) if own else {}  # others need no ASV
    return SeedFolder(job.out / f"seed{seed}", key, job.own, marks)


def run_job(
    job: Job,
    overwrite: bool = False,
    processes: int | None = 1,
    workers: Workers | None = None,
) -> str:
    """Compute what is missing of a job and return the key of its results.

    Which seeds are trained together does not depend on the number of processes, and seeds that
    were once begun together are finished together: a run that was killed and one that was not, on
    one process and on several, end with the same bits.

    Args:
        job: What to run.
        overwrite: Begin anew: remove the results that are in ``job.out``.
        processes: Processes that share the work; by default as many as there are cores.
        workers: Processes that are getting ready already.
    """
    corpus, key, missing = begin(job, overwrite)
    groups = _groups(job, key, missing, corpus)
    number = usable_processes(len(groups), processes, job.recipe.threads)
    silent = replace(job, progress=False)
    others = [(silent, groups[n::number], key) for n in range(1, number)]
    (workers or Workers(make_corpus, job.recipe)).run(
        lambda: _run_groups(job, groups[::number], key, corpus), _run_groups, others
    )
    return key


def _groups(job: Job, key: str, missing: Sequence[int], corpus: Corpus) -> list[list[Group]]:
    """What to train together: what was begun so before under this key, then the rest."""
    lacking = {
        seed: set(job.recipe.networks(seed_folder(job, seed, key, corpus).missing(job.systems)))
        for seed in missing
    }
    groups = []
    for file in sorted((job.out / "training").glob(f"*/{GROUP_FILE}")):
        begun = read_group(file, key)
        if any(lacking.get(seed, set()) & set(begun.networks) for seed in begun.seeds):
            groups.append(begun)
            for seed in set(begun.seeds) & lacking.keys():
                lacking[seed] -= set(begun.networks)
    left = [seed for seed in missing if lacking[seed]]
    for place in range(0, len(left), job.stack):
        seeds = left[place : place + job.stack]
        wanted = set[str]().union(*(lacking[seed] for seed in seeds))
        networks = [name for name in job.recipe.networks(job.systems) if name in wanted]
        groups += [Group(seeds, part) for part in job.recipe.together(networks)]
    return _by_seeds(groups)


def _by_seeds(groups: Sequence[Group]) -> list[list[Group]]:
    """Groups that share seeds together: they write to the same folders, one after the other."""
    found: list[list[Group]] = []
    for group in groups:
        same = [part for part in found if any(set(one.seeds) & set(group.seeds) for one in part)]
        found = [part for part in found if part not in same]
        found.append([*(one for part in same for one in part), group])
    return found


def _run_groups(
    job: Job, parts: Sequence[Sequence[Group]], key: str, corpus: Corpus | None = None
) -> None:
    """Train and evaluate groups of seeds one after the other."""
    quiet()
    torch.set_num_threads(job.recipe.threads)
    for part in parts:
        try:
            for seeds, networks in part:
                corpus = train_stack(job, seeds, networks, key, corpus)
            done = {seed for seeds, _ in part for seed in seeds}
            for seed in done & set(job.seeds) if job.replicates else ():
                folder = job.out / f"seed{seed}"
                failed = SeedFolder(folder, key).failed()
                names = [name for name in job.systems if name not in failed]
                draw_seed(folder, names, job.replicates)
        except OSError as error:
            raise RunError(
                f"cannot go on writing to {job.out}: {error.strerror or error}; what is finished "
                "is kept: the same command goes on when that is mended"
            ) from error


def train_stack(
    job: Job,
    seeds: Sequence[int],
    networks: Sequence[str],
    key: str,
    corpus: Corpus | None = None,
) -> Corpus:
    """Train the networks of several seeds together, then do with each what ``fit`` does with one.

    A training that was broken off goes on from its last finished epoch; a finished one is only
    loaded.

    Args:
        job: Recipe, systems, seeds that are asked for, and where to write.
        seeds: Those that are trained together.
        networks: Networks of each seed, trained together as well.
        key: Key of the results.
        corpus: The corpus, if it was made before.

    Returns:
        The corpus.
    """
    module, best = job.recipe.module(seeds, networks), KeepBest(save=False)
    data, group = job.recipe.datamodule(module.seeds, corpus), Group(seeds, networks)
    folder = job.out / "training" / group.name(key)
    shown = job.progress and not program().quiet
    bar = [RichProgressBar()] if shown else []
    trainer = make_trainer(
        [best, SaveLast(str(folder)), *bar],
        default_root_dir=folder,  # nothing outside of it is looked for
        **job.recipe.trainer,
        logger=CSVLogger(folder.parent, name=folder.name, version=""),
        enable_progress_bar=shown,
    )
    last = folder / "last.ckpt"
    again = advising("finished epochs and seeds are kept: the same command goes on")
    # a submitted job may outlive its command, and the lock of that
    with lock(folder), restoring(), again:
        if last.exists():
            read_checkpoint(last)  # a bad one is refused before anything is written
        write_text(folder / GROUP_FILE, json.dumps(group.noted(key)) + "\n")
        trainer.fit(module, datamodule=data, ckpt_path=last if last.exists() else None)
        for copy, (network, seed) in enumerate(product(networks, seeds)):
            if seed in job.seeds:
                target = seed_folder(job, seed, key, data.corpus)
                _fill_from(job, target, network, module, copy, data, int(best.epoch[copy]))
    return data.corpus


def _fill_from(
    job: Job,
    target: SeedFolder,
    network: str,
    module: SASVModule,
    copy: int,
    data: SASVDataModule,
    epoch: int,
) -> None:
    """Fill what a folder lacks of the systems of a network."""
    recipe = job.recipe
    missing = [name for name in target.missing(job.systems) if recipe.network_of(name) == network]
    if missing:
        target = target.with_earlier(job.systems)
        wanted = {*target.metrics(), *job.systems}
        known = [name for name in dict.fromkeys([*KNOWN, *target.own]) if name in wanted]
        names = [name for name in known if recipe.network_of(name) == network]
        own = {name: target.own[name] for name in names if name in target.own}
        head = module.alone(copy, names, own)
        fill(target, head, data, missing, epoch, recipe.trainer)
