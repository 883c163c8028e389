"""What a run notes of itself, written when it has begun: one that is refused changes nothing."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from jsonargparse import Namespace
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.cli import LightningArgumentParser, SaveConfigCallback
from pytorch_lightning.loggers.csv_logs import ExperimentWriter


class PatientWriter(ExperimentWriter):
    """Writes ``metrics.csv`` and ``hparams.yaml`` when the run has begun, and no sooner.

    Lightning's own deletes an earlier ``metrics.csv`` while the run is still being checked.

    Args:
        log_dir: Folder of the run.
        goes_on: Add to what is there, since the run goes on.
    """

    def __init__(self, log_dir: str, goes_on: bool) -> None:
        self.goes_on, self.begun = goes_on, False
        super().__init__(log_dir)

    def _check_log_dir_exists(self) -> None:
        """Leave everything as it is."""

    def begin(self) -> None:
        """Nothing stands against the run any more."""
        if self.begun:
            return
        self.begun, file = True, Path(self.metrics_file_path)
        if not self.goes_on:
            file.unlink(missing_ok=True)
        elif file.is_file():
            with file.open(newline="") as opened:
                self.metrics_keys = next(csv.reader(opened), [])
        if self.hparams:
            super().log_hparams({})

    def log_hparams(self, params: dict[str, Any]) -> None:
        """Note settings, and write them if the run has begun."""
        self.hparams.update(params)
        if self.begun:
            super().log_hparams({})

    def save(self) -> None:
        """Write the metrics if the run has begun."""
        if self.begun:
            super().save()


class ConfigOfBegun(SaveConfigCallback):
    """Saves the configuration when the run has begun: one that is refused changes nothing.

    That something was to be replaced belongs to the command, not to the run.
    """

    def __init__(self, parser: LightningArgumentParser, config: Namespace, **options: Any) -> None:
        super().__init__(parser, config.clone(), **options)
        self.config.overwrite = False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Too early: a checkpoint that does not fit is found after this."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The checkpoint, if any, has been restored."""
        for logger in trainer.loggers if trainer.is_global_zero else []:
            writer = getattr(logger, "_experiment", None)
            if isinstance(writer, PatientWriter):
                writer.begin()
        if not self.already_saved:
            super().setup(trainer, pl_module, "")

    on_sanity_check_start = on_validation_start = on_train_start
    on_test_start = on_predict_start = on_train_start
