"""Writing per-trial scores and metrics of dev and eval."""

from __future__ import annotations

import math
from pathlib import Path

from pytorch_lightning import Callback, Trainer
from pytorch_lightning.trainer.states import TrainerFn
from pytorch_lightning.utilities import rank_zero_warn

from lightning_sasv.files import ensure_directory
from lightning_sasv.fitted import FOLDER, SUFFIX, save_system
from lightning_sasv.metrics.functional import all_metrics
from lightning_sasv.models import SASVModule
from lightning_sasv.models.scoring import ScoredTrials, has_every_class, score_table
from lightning_sasv.results import METRICS_FILE, Metrics, fitted_values, merge_metrics
from lightning_sasv.scores import write_scores
from lightning_sasv.trials import FusedScores


class WriteResults(Callback):
    """Writes ``scores/{dev,eval}.csv`` and ``metrics.json`` in ``validate`` and ``test``.

    While training nothing is written (the weights of that epoch may not be the best ones): the
    command ``fit`` ends with a ``validate`` and a ``test`` of the best checkpoint. Every file
    appears whole or not at all, and what ``metrics.json`` says of the other set is kept.

    Args:
        folder: Where to write; by default the folder of the first logger.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.folder = folder

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
        writes = trainer.is_global_zero and not is_dry_run(trainer)
        for copy, seed in enumerate(pl_module.seeds):
            one = scored._replace(cm=scored.cm[copy])
            fused = {n: s.select(copy)(one.asv, one.cm) for n, s in pl_module.systems.items()}
            folder = self.folder_of(trainer)
            folder = folder if len(pl_module.seeds) == 1 else folder / f"seed{seed}"
            if writes:
                write_scores(folder / "scores" / f"{data.name}.csv", score_table(data, one, fused))
            if metrics:
                found = _evaluate(trainer, pl_module, copy, one, fused)
                _log(pl_module, data.name, found)
                if writes:
                    merge_metrics(folder / METRICS_FILE, found)
                    _save_systems(folder, pl_module, copy, found)


def _save_systems(folder: Path, pl_module: SASVModule, copy: int, found: Metrics) -> None:
    """Write the fitted systems of one seed, for ``lightning decide`` and ``report``."""
    for name, system in pl_module.systems.items():
        about = {key: found[name][key] for key in ("corpus", "seed")}
        save_system(folder / FOLDER / f"{name}{SUFFIX}", system.select(copy), about)


def _evaluate(
    trainer: Trainer,
    pl_module: SASVModule,
    copy: int,
    one: ScoredTrials,
    fused: dict[str, FusedScores],
) -> Metrics:
    """Entries of ``metrics.json`` for one seed and set."""
    data = pl_module.trial_set()
    corpus = pl_module.corpus.name
    return {
        name: {
            "corpus": corpus,
            "seed": pl_module.seeds[copy],
            data.name: all_metrics(scores.asv_llr, scores.cm_llr, scores.sasv, one.label),
            "fitted": fitted_values(pl_module.systems[name].select(copy)),
        }
        for name, scores in fused.items()
    }


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
