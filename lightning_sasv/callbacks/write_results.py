"""Writing per-trial scores and metrics of dev and eval."""

from __future__ import annotations

import math
from pathlib import Path

from pytorch_lightning import Callback, LightningDataModule, Trainer
from pytorch_lightning.trainer.states import TrainerFn
from pytorch_lightning.utilities import rank_zero_warn

from lightning_sasv.files import ensure_directory
from lightning_sasv.models import SASVModule
from lightning_sasv.models.scoring import has_every_class, score_table
from lightning_sasv.results import (
    METRICS_FILE,
    Metrics,
    fit_entry,
    fused_metrics,
    merge_metrics,
    write_set,
    write_systems,
)


class WriteResults(Callback):
    """Writes ``scores/{dev,eval}.csv`` and ``metrics.json`` in ``validate`` and ``test``.

    While training nothing is written (the weights of that epoch may not be the best ones): a
    training ends with a ``validate`` and a ``test`` of the best epoch. Every file appears whole or
    not at all, metrics last, and what ``metrics.json`` says of the other set is kept. Of several
    seeds each has a folder of its own, ``seed<N>``.

    Args:
        folder: Where to write; by default the folder of the first logger.
        logs: Log the metrics as well.
    """

    def __init__(self, folder: str | None = None, logs: bool = True) -> None:
        self.folder, self.logs = folder, logs

    def folder_of(self, trainer: Trainer) -> Path:
        """The folder of a run's results."""
        return Path(self.folder or trainer.log_dir or trainer.default_root_dir)

    def setup(self, trainer: Trainer, pl_module: SASVModule, stage: str) -> None:  # type: ignore[override]
        """Make sure before any work that the results can be written."""
        folder = self.folder_of(trainer)
        if trainer.is_global_zero and not is_dry_run(trainer):
            ensure_directory(folder)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: SASVModule) -> None:  # type: ignore[override]
        """Write the dev results of a standalone ``validate``."""
        if trainer.state.fn == TrainerFn.VALIDATING:
            self._write(trainer, pl_module)

    def on_test_epoch_end(self, trainer: Trainer, pl_module: SASVModule) -> None:  # type: ignore[override]
        """Write the eval results."""
        self._write(trainer, pl_module)

    def on_predict_epoch_end(self, trainer: Trainer, pl_module: SASVModule) -> None:  # type: ignore[override]
        """Write the eval scores, without metrics: a prediction does not look at the labels."""
        self._write(trainer, pl_module, metrics=False)

    def _write(self, trainer: Trainer, pl_module: SASVModule, metrics: bool = True) -> None:
        scored, data = pl_module.scored_trials(), pl_module.trial_set()
        if metrics and not has_every_class(scored.label):
            rank_zero_warn(f"{data.name} was scored in part and lacks a class: no metrics")
            metrics = False
        main, seeds = self.folder_of(trainer), pl_module.seeds
        writes = trainer.is_global_zero and not is_dry_run(trainer)
        for seed, cm, systems in zip(seeds, scored.cm, pl_module.systems, strict=True):
            fused = {name: system(scored.asv, cm) for name, system in systems.items()}
            folder = main if len(seeds) == 1 else main / f"seed{seed}"
            if writes:
                write_set(folder, data.name, score_table(data, scored._replace(cm=cm), fused))
            if not metrics:
                continue
            about = {"corpus": pl_module.corpus.name, "seed": seed}
            found: Metrics = {
                name: about | {data.name: values, **fit_entry(systems[name])}
                for name, values in fused_metrics(fused, scored.label).items()
            }
            if self.logs:
                _log(pl_module, data.name, found)
            if writes:
                write_systems(folder, systems, about)
                merge_metrics(folder / METRICS_FILE, found)


def _log(pl_module: SASVModule, split: str, found: Metrics) -> None:
    """Log metrics as ``eval/<system>/<metric>``, those of the first as ``eval/<metric>`` too."""
    for number, (name, entry) in enumerate(found.items()):
        values = {key: value for key, value in entry[split].items() if math.isfinite(value)}
        pl_module.log_dict({f"{split}/{name}/{key}": value for key, value in values.items()})
        if number == 0:
            pl_module.log_dict({f"{split}/{key}": value for key, value in values.items()})


def is_dry_run(trainer: Trainer) -> bool:
    """Whether the Trainer only tries out a few batches and keeps nothing (``fast_dev_run``)."""
    return bool(trainer.fast_dev_run)  # type: ignore[attr-defined]


def written_folder(trainer: Trainer) -> Path | None:
    """Where the results of a run are written, if they are."""
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    return next((c.folder_of(trainer) for c in callbacks if isinstance(c, WriteResults)), None)


def finish(trainer: Trainer, module: SASVModule, data: LightningDataModule) -> None:
    """The end of every training: score dev and eval with the best epoch, and write the results."""
    for stage in (trainer.validate, trainer.test):
        stage(module, datamodule=data, verbose=False)
