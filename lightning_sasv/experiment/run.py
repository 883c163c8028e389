"""A whole experiment: which seeds and systems are missing, and computing just those."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import torch
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning import Callback, LightningDataModule, Trainer
from pytorch_lightning.callbacks import RichProgressBar
from pytorch_lightning.loggers import CSVLogger

from lightning_sasv import results
from lightning_sasv.callbacks import FitFusion, KeepBest, LeaveSignals, SaveLast, WriteResults
from lightning_sasv.callbacks.standard import usable
from lightning_sasv.callbacks.write_results import finish
from lightning_sasv.checkpoints import AtomicCheckpointIO, identity, read_checkpoint
from lightning_sasv.console import quiet
from lightning_sasv.data.corpus import Corpus
from lightning_sasv.errors import InputError, RunError
from lightning_sasv.experiment.recipe import (
    Recipe,
    check_recipe,
    damaged,
    digest,
    make_corpus,
    read_group,
    read_noted,
)
from lightning_sasv.experiment.workers import Workers, usable_processes
from lightning_sasv.files import ensure_directory, write_json, write_text
from lightning_sasv.fitted import read_fitted
from lightning_sasv.fusion import SYSTEMS, FusionSettings, build_system
from lightning_sasv.fusion.doubts import reason_of
from lightning_sasv.fusion.zoo import check_some_left
from lightning_sasv.locks import lock
from lightning_sasv.metrics_file import Metrics
from lightning_sasv.models import SASVModule
from lightning_sasv.models.restoring import restoring
from lightning_sasv.plain import fits
from lightning_sasv.report.draws import draw_seed
from lightning_sasv.signals import advising
from lightning_sasv.trials import SPLITS

GROUP_FILE = "group.json"
FAILED_FILE = "failed.json"
"""In the folder of a seed: keys of systems that could not be fitted there, and the reasons."""


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


@dataclass(frozen=True)
class SeedFolder:
    """The folder ``seed<N>`` of a table, laid out like any folder of results.

    Attributes:
        path: The folder.
        key: Key of the training; entries with another key are not ours. One without any was not
            finished.
        own: Settings of the systems that are not ours.
    """

    path: Path
    key: str
    own: Mapping[str, FusionSettings] = field(default_factory=dict)

    def metrics(self) -> Metrics:
        """What is finished; results of another configuration are an error, never mixed in."""
        file = self.path / results.METRICS_FILE
        found = results.read_metrics(file) if file.exists() else {}
        for name, entry in found.items():
            if entry.get("key", self.key) != self.key:
                raise InputError(
                    f"{self.path} holds results of another configuration, data set or version "
                    f"({name}); choose another --out, or add --overwrite to replace them"
                )
        return {name: entry for name, entry in found.items() if "key" in entry}

    def missing(self, systems: Iterable[str]) -> list[str]:
        """Systems without a finished result under their present configuration.

        Metrics are noted as finished last; where one of the other files has been removed since,
        every system is missing.
        """
        found = self.metrics()
        files = [results.scores_file(self.path, split) for split in SPLITS]
        files += [results.fitted_file(self.path, name) for name in found]
        files.append(results.checkpoint_file(self.path))
        if not all(file.is_file() for file in files):
            return list(systems)
        keys = {name: entry.get("system_key") for name, entry in {**found, **self.failed()}.items()}
        return [name for name in systems if keys.get(name) != self.system_key(name)]

    def failed(self) -> dict[str, dict[str, str]]:
        """Systems that could not be fitted: their ``system_key`` and ``reason``."""
        file = self.path / FAILED_FILE
        found = read_noted(file) if file.exists() else {}
        if not fits(found, dict[str, dict[str, str]]):
            raise damaged(file)
        return found

    def system_key(self, name: str) -> str:
        """Key of a fusion system's configuration."""
        return digest(build_system(name, self.own.get(name)).config)

    def with_earlier(self, systems: Sequence[str]) -> SeedFolder:
        """The same, with the settings of systems of others that an earlier command fitted here."""
        names = [name for name in self.metrics() if name not in (*SYSTEMS, *systems)]
        earlier = {name: read_fitted(results.fitted_file(self.path, name)).config for name in names}
        return replace(self, own={**self.own, **cast("Mapping[str, FusionSettings]", earlier)})


def begin(job: Job, overwrite: bool = False) -> tuple[Corpus, str, list[int]]:
    """Find every mistake that can be found before the work: in settings, data, and on disk.

    Args:
        job: What is to be run.
        overwrite: Remove the results in ``job.out``, once nothing else stands against the job.

    Returns:
        The corpus, the key of the results, and the seeds that lack some.
    """
    places = [job.out / "training", *job.out.glob("training/*"), *job.out.glob("seed[0-9]*")]
    places += job.out.glob("seed[0-9]*/*")
    for place in [job.out, *places]:
        if place == job.out or place.is_dir():
            ensure_directory(place)
    quiet()
    module, used = job.recipe.module(job.seeds[:1]), device_settings(job.recipe)
    for name in job.systems:
        build_system(name, job.own.get(name), **(job.recipe.model.get("fusion") or {}))
    corpus = make_corpus(job.recipe)
    corpus.check()
    module.check(corpus)
    if overwrite:
        results.clear_seeds(job.out)
    key = check_recipe(job.out, job.recipe.content(corpus, used))
    for path in sorted(job.out.glob("seed[0-9]*")):
        SeedFolder(path, key).metrics()  # also of seeds that are not asked for now
    folders = {seed: SeedFolder(job.out / f"seed{seed}", key, job.own) for seed in job.seeds}
    return corpus, key, [seed for seed, one in folders.items() if one.missing(job.systems)]


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
    groups = _groups(job, key, missing)
    number = usable_processes(len(groups), processes, job.recipe.threads)
    silent = replace(job, progress=False)
    others = [(silent, groups[n::number], key) for n in range(1, number)]
    (workers or Workers(make_corpus, job.recipe)).run(
        lambda: _run_groups(job, groups[::number], key, corpus), _run_groups, others
    )
    return key


def _groups(job: Job, key: str, missing: Sequence[int]) -> list[list[int]]:
    """Groups of seeds to train together: those begun before under this key, then the rest."""
    groups = []
    left = list(missing)
    for file in sorted((job.out / "training").glob(f"*/{GROUP_FILE}")):
        seeds = read_group(file, key)
        if set(seeds) & set(left):
            groups.append(seeds)
            left = [seed for seed in left if seed not in seeds]
    return groups + [left[n : n + job.stack] for n in range(0, len(left), job.stack)]


def _run_groups(
    job: Job, groups: Sequence[Sequence[int]], key: str, corpus: Corpus | None = None
) -> None:
    """Train and evaluate groups of seeds one after the other."""
    quiet()
    torch.set_num_threads(job.recipe.threads)
    for seeds in groups:
        try:
            corpus = train_stack(job, seeds, key, corpus)
            for seed in set(seeds) & set(job.seeds) if job.replicates else ():
                folder = job.out / f"seed{seed}"
                failed = SeedFolder(folder, key).failed()
                names = [name for name in job.systems if name not in failed]
                draw_seed(folder, names, job.replicates)
        except OSError as error:
            raise RunError(
                f"cannot go on writing to {job.out}: {error.strerror or error}; what is finished "
                "is kept: the same command goes on when that is mended"
            ) from error


def make_trainer(callbacks: Sequence[Callback], **settings: Any) -> Trainer:
    """A Trainer as in ``configs/base.yaml``."""
    return Trainer(
        **{"devices": 1, **settings, "accelerator": usable(settings.get("accelerator", "auto"))},
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        deterministic=True,
        callbacks=[*callbacks, LeaveSignals()],
        plugins=[AtomicCheckpointIO()],
        enable_model_summary=False,
    )


def device_settings(recipe: Recipe) -> dict[str, str]:
    """Device and precision that a Trainer takes on this machine, by their plain names."""
    try:
        made = make_trainer([], logger=False, enable_checkpointing=False, **recipe.trainer)
    except (MisconfigurationException, ValueError, TypeError, ImportError) as error:
        said = " ".join(str(error).split())
        raise InputError(f"the Trainer refuses its settings: {said}") from None
    return {"accelerator": made.strategy.root_device.type, "precision": str(made.precision)}


def train_stack(job: Job, seeds: Sequence[int], key: str, corpus: Corpus | None = None) -> Corpus:
    """Train the heads of several seeds together, then do with each what ``fit`` does with one.

    A training that was broken off goes on from its last finished epoch; a finished one is only
    loaded.

    Args:
        job: Recipe, systems, seeds that are asked for, and where to write.
        seeds: Those that are trained together.
        key: Key of the results.
        corpus: The corpus, if it was made before.

    Returns:
        The corpus.
    """
    data = job.recipe.datamodule(seeds, corpus)
    folder = job.out / "training" / digest([key, list(seeds)])
    module, best = job.recipe.module(seeds), KeepBest(save=False)
    bar = [RichProgressBar()] if job.progress else []
    trainer = make_trainer(
        [best, SaveLast(str(folder)), *bar],
        default_root_dir=folder,  # nothing outside of it is looked for
        **job.recipe.trainer,
        logger=CSVLogger(folder.parent, name=folder.name, version=""),
        enable_progress_bar=job.progress,
    )
    last = folder / "last.ckpt"
    again = advising("finished epochs and seeds are kept: the same command goes on")
    # a submitted job may outlive its command, and the lock of that
    with lock(folder), restoring(), again:
        if last.exists():
            read_checkpoint(last)  # a bad one is refused before anything is written
        write_text(folder / GROUP_FILE, json.dumps({"key": key, "seeds": list(seeds)}) + "\n")
        trainer.fit(module, datamodule=data, ckpt_path=last if last.exists() else None)
        for copy, seed in enumerate(seeds):
            target = SeedFolder(job.out / f"seed{seed}", key, job.own)
            if seed in job.seeds and (missing := target.missing(job.systems)):
                target = target.with_earlier(job.systems)
                wanted = {*target.metrics(), *job.systems}
                names = [name for name in dict.fromkeys([*SYSTEMS, *target.own]) if name in wanted]
                head = module.alone(copy, names, dict(target.own))
                fill(target, head, data, missing, int(best.epoch[copy]), job.recipe.trainer)
    return data.corpus


def fill(
    folder: SeedFolder,
    module: SASVModule,
    data: LightningDataModule,
    missing: Sequence[str],
    epoch: int,
    device: Mapping[str, Any],
) -> None:
    """Fit and evaluate the systems of one seed and write everything.

    Args:
        folder: Where to write.
        module: The head of the seed, and its systems.
        data: The corpus.
        missing: Systems whose results, if there are any, are of no use.
        epoch: The best epoch.
        device: Settings of the Trainer that trained it.
    """
    file, done = folder.path / results.METRICS_FILE, folder.metrics()
    if done.keys() & set(missing):
        results.write_metrics(file, {name: done[name] for name in done if name not in missing})
    fit = FitFusion(each_epoch=False, says=False)  # said at the end, of all seeds together
    callbacks = [fit, WriteResults(str(folder.path), logs=False)]
    settings = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = make_trainer(callbacks, default_root_dir=folder.path, **settings, **device)
    finish(trainer, module, data)
    checkpoint = results.checkpoint_file(folder.path)
    trainer.save_checkpoint(checkpoint, weights_only=True)
    found = results.read_metrics(file)
    _note_failed(folder, module)
    weights = identity(checkpoint) | {"epoch": epoch, "step": None}
    for name in [name for name in module.names if name in found]:
        own = {"key": folder.key, "best_epoch": epoch, "system_key": folder.system_key(name)}
        found[name] |= own
        for one in found[name]["sets"].values():
            one["of"]["checkpoint"] = weights
    results.write_metrics(file, found)


def failures(job: Job) -> dict[str, str]:
    """Systems of a job that could not be fitted for a seed, each with its reason.

    Raises:
        InputError: There is no other.
    """
    found: dict[str, str] = {}
    for seed in reversed(job.seeds):
        failed = SeedFolder(job.out / f"seed{seed}", "").failed()
        found |= {n: f"{one['reason']} (seed {seed})" for n, one in failed.items()}
    found = {name: found[name] for name in job.systems if name in found}
    check_some_left(job.systems, found)
    return found


def _note_failed(folder: SeedFolder, module: SASVModule) -> None:
    """Note which systems of a seed could not be fitted, and why."""
    why = {name: reason_of(one.warnings) for name, one in module.systems[0].items()}
    failed = {
        name: {"system_key": folder.system_key(name), "reason": reason}
        for name, reason in why.items()
        if reason is not None
    }
    if failed:
        write_json(folder.path / FAILED_FILE, failed)
    else:
        (folder.path / FAILED_FILE).unlink(missing_ok=True)
