"""Getting ready for an experiment: quick to import itself, it imports what the work needs."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path

from lightning_sasv.console import quiet
from lightning_sasv.data.corpus import Corpus
from lightning_sasv.experiment.processes import Helpers, usable_processes
from lightning_sasv.experiment.settings import Experiment
from lightning_sasv.results import METRICS_FILE


def make_corpus(experiment: Experiment) -> Corpus:
    """The corpus of an experiment, with everything imported that a training needs."""
    quiet()
    from lightning_sasv.experiment import run  # noqa: F401  # imports Lightning
    from lightning_sasv.experiment.training import make_datamodule

    return make_datamodule(experiment, ()).corpus


def early_helpers(
    experiment: Experiment, seeds: Sequence[int], out: Path, stack: int, processes: int | None
) -> Helpers:
    """Processes for the seeds that seem to be missing, which start to import at once.

    Args:
        experiment: Recipe and corpus.
        seeds: Training seeds.
        out: Folder of the experiment.
        stack: Seeds that are trained together.
        processes: As for :func:`run_job`.
    """
    helpers = Helpers(make_corpus, experiment)
    missing = [seed for seed in seeds if not (out / f"seed{seed}" / METRICS_FILE).exists()]
    pieces = ceil(len(missing) / max(stack, 1))
    helpers.start(usable_processes(pieces, processes, experiment.threads) - 1)
    return helpers
