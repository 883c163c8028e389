"""A whole experiment: which seeds and systems are missing, and computing just those."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from lightning_sasv.console import quiet
from lightning_sasv.data.corpus import Corpus
from lightning_sasv.data.datamodule import SASVDataModule
from lightning_sasv.errors import InputError
from lightning_sasv.experiment.processes import Helpers, usable_processes
from lightning_sasv.experiment.ready import make_corpus
from lightning_sasv.experiment.room import needed_bytes, require_room, require_writable
from lightning_sasv.experiment.seeds import SeedFolder, SeedScores, add_intervals, fill
from lightning_sasv.experiment.settings import Experiment, check_recipe, digest
from lightning_sasv.experiment.training import make_datamodule, train_heads
from lightning_sasv.files import write_text
from lightning_sasv.results import METRICS_FILE

GROUP_FILE = "group.json"


@dataclass(frozen=True)
class Job:
    """Seeds to train, systems to evaluate on each, and where to write.

    Attributes:
        experiment: Recipe and corpus.
        seeds: Training seeds.
        systems: Fusion systems.
        out: Folder of the experiment.
        interval_seed: Seed for which intervals are computed, if it is among ``seeds``.
        replicates: Bootstrap replicates of an interval.
        stack: Seeds that are trained together, as one stacked model.
        progress: Show a progress bar.
    """

    experiment: Experiment
    seeds: tuple[int, ...]
    systems: tuple[str, ...]
    out: Path
    interval_seed: int | None = None
    replicates: int = 1000
    stack: int = 3
    progress: bool = True


def seed_folder(out: Path, seed: int, key: str) -> SeedFolder:
    """Folder of one seed's results."""
    return SeedFolder(out / f"seed{seed}", seed, key)


def run_job(
    job: Job,
    overwrite: bool = False,
    processes: int | None = 1,
    helpers: Helpers | None = None,
) -> str:
    """Compute what is missing of a job and return the key of its results.

    Which seeds are trained together does not depend on the number of processes, and seeds that
    were once begun together are finished together: a run that was killed and one that was not, on
    one process and on several, end with the same bits.

    Args:
        job: What to run.
        overwrite: Begin anew: remove the results that are in ``job.out``.
        processes: Processes that share the work; by default as many as there are cores.
        helpers: Processes that are getting ready already.
    """
    corpus, key, missing = begin(job, overwrite)
    groups = _groups(job, key, missing)
    number = usable_processes(len(groups), processes, job.experiment.threads)
    silent = replace(job, progress=False)
    others = [(silent, groups[n::number], key, missing) for n in range(1, number)]
    (helpers or Helpers(make_corpus, job.experiment)).run(
        lambda: _run_groups(job, groups[::number], key, missing, corpus), _run_groups, others
    )
    return key


def _run_groups(
    job: Job,
    groups: Sequence[Sequence[int]],
    key: str,
    missing: Sequence[int],
    corpus: Corpus | None = None,
) -> None:
    """Train and evaluate groups of seeds one after the other."""
    quiet()
    torch.set_num_threads(job.experiment.threads)
    for group in groups:
        data = make_datamodule(job.experiment, group)
        if corpus is not None:
            data.__dict__["corpus"] = corpus
        corpus = data.corpus
        try:
            _run_group(replace(job, seeds=tuple(group)), data, key, missing)
        except OSError as error:
            raise InputError(
                f"cannot go on writing to {job.out}: {error.strerror or error}; what is finished "
                "is kept: the same command goes on when that is mended"
            ) from error


def begin(job: Job, overwrite: bool = False) -> tuple[Corpus, str, list[int]]:
    """Find every mistake that can be found before the work: in settings, data, and on disk.

    Args:
        job: What is to be run.
        overwrite: Remove the results in ``job.out``, once nothing else stands against the job.

    Returns:
        The corpus, the key of the results, and the seeds that lack some.
    """
    require_writable(job.out)
    corpus = make_corpus(job.experiment)
    corpus.check()
    recipe = job.experiment.recipe(corpus)
    if overwrite:
        clear(job.out)
    key = check_recipe(job.out, recipe)
    for path in sorted(job.out.glob("seed[0-9]*")):
        SeedFolder(path, 0, key).metrics()  # also of seeds that are not asked for now
    missing = [s for s in job.seeds if _unfinished(job, seed_folder(job.out, s, key))]
    sizes = (len(missing), len(job.systems), job.experiment.hidden_dims)
    require_room(job.out, needed_bytes(corpus, *sizes))
    return corpus, key, missing


def _unfinished(job: Job, folder: SeedFolder) -> bool:
    if folder.missing(job.systems):
        return True
    wants = folder.seed == job.interval_seed and job.replicates > 0
    return wants and bool(folder.lacks_interval(job.systems, job.replicates))


def _group_folder(out: Path, key: str, seeds: Sequence[int]) -> Path:
    return out / "training" / digest([key, list(seeds)])


def _groups(job: Job, key: str, missing: Sequence[int]) -> list[list[int]]:
    """Groups of seeds to train together: those begun before under this key, then the rest."""
    groups = []
    left = list(missing)
    for file in sorted((job.out / "training").glob(f"*/{GROUP_FILE}")):
        begun = json.loads(file.read_text())
        if begun["key"] == key and set(begun["seeds"]) & set(left):
            groups.append(begun["seeds"])
            left = [seed for seed in left if seed not in begun["seeds"]]
    return groups + [left[n : n + job.stack] for n in range(0, len(left), job.stack)]


def _run_group(job: Job, data: SASVDataModule, key: str, missing: Sequence[int]) -> None:
    folder = _group_folder(job.out, key, job.seeds)
    group = {"key": key, "seeds": list(job.seeds)}
    write_text(folder / GROUP_FILE, json.dumps(group) + "\n")
    trainer, module, best = train_heads(job.experiment, data, folder, job.progress)
    trainer.validate(module, datamodule=data, verbose=False)
    dev = module.scored_trials()
    trainer.test(module, datamodule=data, verbose=False)
    evaluation = module.scored_trials()
    for copy, seed in enumerate(job.seeds):
        if seed not in missing:
            continue
        target = seed_folder(job.out, seed, key)
        scores = SeedScores(module, copy, data.corpus, dev, evaluation)
        fill(target, scores, job.systems, int(best.epoch[copy]))
        if seed == job.interval_seed and job.replicates > 0:
            add_intervals(target, scores, job.systems, job.replicates)


def link_scores(out: Path, seeds: Sequence[int]) -> None:
    """Make ``scores/seed<N>`` lead to the score files of each seed, where links can be made."""
    for seed in seeds:
        link = out / "scores" / f"seed{seed}"
        with contextlib.suppress(OSError):
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(Path("..") / link.name / "scores", target_is_directory=True)


def clear(out: Path) -> None:
    """Remove the results of an earlier experiment, and nothing else, from ``out``."""
    for place in [out / "training", *out.glob("seed[0-9]*"), *out.glob("scores/seed[0-9]*")]:
        try:
            if place.is_symlink():
                place.unlink()
            elif place.is_dir():  # metrics first: what has none counts as unfinished
                (place / METRICS_FILE).unlink(missing_ok=True)
                shutil.rmtree(place)
        except OSError as error:
            raise InputError(f"cannot remove {place}: {error.strerror}") from None
