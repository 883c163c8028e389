"""Writing per-trial scores and metrics of dev and eval, and figures of them to Weights & Biases."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback, LightningDataModule, LightningModule, Trainer
from pytorch_lightning.loggers import WandbLogger
from pytorch_lightning.trainer.states import TrainerFn
from pytorch_lightning.utilities import rank_zero_warn

from lightning_sasv.callbacks.keep_best import KeepBest, checkpoint_in_use
from lightning_sasv.callbacks.run_folder import folder_of_run, is_dry_run, take_folder
from lightning_sasv.console import print_notes
from lightning_sasv.data.corpus import TrialSet
from lightning_sasv.decisions.costs import as_cost_model
from lightning_sasv.errors import InputError
from lightning_sasv.files import ensure_directory
from lightning_sasv.fusion import KNOWN
from lightning_sasv.fusion.doubts import reason_of
from lightning_sasv.fusion.zoo import check_some_left
from lightning_sasv.metrics.registry import Settings
from lightning_sasv.metrics_file import Metrics
from lightning_sasv.models import SASVModule
from lightning_sasv.models.scoring import ScoredTrials, has_every_class, score_table
from lightning_sasv.record import Origin, Trials
from lightning_sasv.results import (
    METRICS_FILE,
    PREFIX,
    check_metrics,
    dev_thresholds,
    fit_entry,
    merge_metrics,
    scores_file,
    set_entries,
    thresholds_in,
    write_set,
    write_systems,
)
from lightning_sasv.scores import read_table
from lightning_sasv.trials import OWN_ASV, OWN_CM, TWIN, FusedScores

SHOWN = ("distributions", "boundaries", "det", "operating_points", "forest", "speakers")
"""Figures that are logged."""


class WriteResults(Callback):
    """Writes ``scores/{dev,eval}.csv`` and ``metrics.json`` in ``validate`` and ``test``.

    While training nothing is written (the weights of that epoch may not be the best ones): a
    training ends with a ``validate`` and a ``test`` of the best epoch. Every file appears whole or
    not at all, metrics last, and what ``metrics.json`` says of the other set is kept. Of several
    seeds each has a folder of its own, ``seed<N>``.

    Args:
        folder: Where to write; by default the folder of the run.
        logs: Log the metrics as well.
        beside: Keep the columns that score files have of other systems.
        own: The network is that of its systems alone: its scores stand in columns of their own.

    Attributes:
        overwrite: Whether results that do not belong beside the new ones give way.
    """

    def __init__(
        self,
        folder: str | None = None,
        logs: bool = True,
        beside: bool = False,
        own: bool = False,
    ) -> None:
        self.folder, self.logs = folder, logs
        self.beside, self.own = beside, own
        self.overwrite = False
        self._dev: dict[int, dict[str, float]] = {}  # thresholds of dev, by seed and system

    def folder_of(self, trainer: Trainer) -> Path:
        """The folder of a run's results."""
        return Path(self.folder) if self.folder else folder_of_run(trainer)

    def setup(self, trainer: Trainer, pl_module: SASVModule, stage: str) -> None:  # type: ignore[override]
        """Make sure before any work that the results can be written."""
        if self.folder is None and trainer.is_global_zero and not is_dry_run(trainer):
            take_folder(trainer, next(iter(pl_module.names), "run"))
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
        main, checkpoint = self.folder_of(trainer), checkpoint_in_use(trainer)
        writes, seeds = trainer.is_global_zero and not is_dry_run(trainer), pl_module.seeds
        for seed, cm, every in zip(seeds, scored.cm, pl_module.systems, strict=True):
            failed = {name: why for name, one in every.items() if (why := reason_of(one.warnings))}
            check_some_left(every, failed)
            systems = {name: one for name, one in every.items() if name not in failed}
            fused = {name: system(*scored.sides(cm)) for name, system in systems.items()}
            folder = main if len(seeds) == 1 else main / f"seed{seed}"
            found: Metrics = {}
            if metrics:
                origin = origin_of(trainer, pl_module, seed, checkpoint)
                at = self._dev.get(seed) or dev_thresholds(folder / METRICS_FILE, checkpoint)
                known = None if data.name == "dev" else at
                trials = trials_of(trainer, pl_module)
                how = Settings(costs=as_cost_model(pl_module.corpus.eval.costs))
                entries = set_entries(fused, trials, origin, how, systems, known)
                if data.name == "dev":
                    self._dev[seed] = thresholds_in(entries)
                found = {
                    name: {"sets": {data.name: entry}, **fit_entry(systems[name])}
                    for name, entry in entries.items()
                }
            if writes:
                check_metrics(folder / METRICS_FILE, found, self.overwrite)
                self._write_scores(folder, data, scored._replace(cm=cm), fused)
            if self.logs and metrics:
                _log(pl_module, data.name, found)
            if writes and metrics:
                write_systems(folder, systems, {"corpus": pl_module.corpus.name, "seed": seed})
                merge_metrics(folder / METRICS_FILE, found, self.overwrite)

    def _write_scores(
        self, folder: Path, data: TrialSet, scored: ScoredTrials, fused: Mapping[str, FusedScores]
    ) -> None:
        """Write the scores of a set, beside those of other networks."""
        new, path = score_table(data, scored, fused), scores_file(folder, data.name)
        if self.own:
            new.extra.update({f"{OWN_CM}{name}": new.cm for name in fused})
            if scored.raw is not None:
                new.extra.update({f"{OWN_ASV}{name}": new.asv for name in fused})
            new.extra.pop("cm_score", None)  # that of the shared network stays
        if self.beside and path.is_file():
            there = read_table(path).to_scores()
            kept = {n: column for n, column in there.extra.items() if n not in new.extra}
            extra = dict(sorted((kept | new.extra).items(), key=lambda item: _place(item[0])))
            main = there if self.own else new
            new = replace(new, asv=main.asv, cm=main.cm, extra=extra)
        write_set(folder, data.name, new)


def _place(column: str) -> tuple[bool, int, str]:
    """Where a column stands: scores of systems in the order of their list, then of networks."""
    own, names = column.startswith((OWN_CM, OWN_ASV)), list(KNOWN)
    name = column.removeprefix(PREFIX).removeprefix(OWN_CM).removeprefix(OWN_ASV)
    return own, names.index(name) if name in names else len(names), name


def _log(pl_module: SASVModule, split: str, found: Metrics) -> None:
    """Log metrics as ``eval/<system>/<metric>``, those of the first as ``eval/<metric>`` too."""
    for number, (name, entry) in enumerate(found.items()):
        known = entry["sets"][split]["values"]
        values = {key: value for key, value in known.items() if math.isfinite(value)}
        pl_module.log_dict({f"{split}/{name}/{key}": value for key, value in values.items()})
        if number == 0:
            pl_module.log_dict({f"{split}/{key}": value for key, value in values.items()})


def trials_of(trainer: Trainer, pl_module: SASVModule) -> Trials:
    """The trials that the Trainer has scored, how many there are, and why some were left out."""
    data, kept = pl_module.trial_set(), pl_module.scored_trials().kept.numpy()
    table = data.trials.table(data.name)
    if kept.all():
        return Trials(table)
    limit = {"dev": "limit_val_batches"}.get(data.name, "limit_test_batches")
    cause = "fast_dev_run" if is_dry_run(trainer) else f"{limit} {getattr(trainer, limit)}"
    return Trials(table.take(kept.nonzero()[0]).part_of(table, cause))


def origin_of(
    trainer: Trainer,
    pl_module: SASVModule,
    seed: int,
    checkpoint: Mapping[str, Any] | None = None,
) -> Origin:
    """Where the scores of a seed come from."""
    data = pl_module.trial_set()
    corpus = data.corpus or pl_module.corpus.name
    twin = corpus == TWIN
    scale, twin_seed = data.twin if twin and data.twin else (None, None)
    device = trainer.strategy.root_device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    return Origin(
        corpus,
        twin or None,
        scale,
        twin_seed,
        (seed,),
        checkpoint,
        f"{device.type}:{name}".rstrip(":"),
        torch.get_num_threads(),
        str(trainer.precision),
        trained_on=pl_module.corpus.name if pl_module.corpus.others else None,
    )


def written_folder(trainer: Trainer) -> Path | None:
    """Where the results of a run are written, if they are."""
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    return next((c.folder_of(trainer) for c in callbacks if isinstance(c, WriteResults)), None)


class LogFigures(Callback):
    """Logs the figures ``SHOWN`` after ``test``.

    Does nothing without a W&B logger or without matplotlib (extra ``report``). The figures are
    drawn from the files that ``WriteResults`` has written, as ``lightning report`` draws them.
    """

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Draw and log."""
        loggers = [one for one in trainer.loggers if isinstance(one, WandbLogger)]
        folder = written_folder(trainer)  # every process takes part in finding it
        if folder is None or not loggers or is_dry_run(trainer):
            return
        if not trainer.is_global_zero or find_spec("matplotlib") is None:
            return
        from lightning_sasv.report.curves import Material
        from lightning_sasv.report.drawing import draw, look
        from lightning_sasv.report.figures import describe
        from lightning_sasv.results import read_results

        for figure in describe(Material.of(read_results(folder)), SHOWN):
            with look():
                drawing = draw(figure)
            for logger in loggers if drawing is not None else []:
                logger.log_image(f"figures/{figure.name}", [drawing])


def check_results(trainer: Trainer, stage: str) -> None:
    """Refuse before any work what would leave a command without results, or a training without dev.

    Args:
        trainer: The Trainer.
        stage: ``fit`` (with :func:`finish`), ``validate``, ``test`` or ``predict``.

    Raises:
        InputError: Nothing would be scored or trained, or no epoch validated.
    """
    limit = f"limit_{stage.replace('validate', 'val')}_batches"
    if stage != "fit" and getattr(trainer, limit) == 0:
        raise InputError(f"trainer.{limit} 0: nothing would be scored; leave it out")
    if stage != "fit":
        return
    for name in ("max_epochs", "max_steps", "limit_train_batches"):
        if getattr(trainer, name) == 0:
            raise InputError(
                f"trainer.{name} 0: nothing would be trained, and the results be those of a random "
                "head; leave it out"
            )
    if trainer.limit_val_batches == 0:
        raise InputError(
            "trainer.limit_val_batches 0: systems are fitted and the best epoch is chosen on dev; "
            "leave it out, or add --evaluate false to train alone"
        )
    every, epochs = trainer.check_val_every_n_epoch or 1, trainer.max_epochs or -1
    if 0 < epochs < every:
        raise InputError(
            f"trainer.check_val_every_n_epoch {every}: none of {epochs} epochs would be validated, "
            "and the best is one that is; make it smaller"
        )


def finish(trainer: Trainer, module: SASVModule, data: LightningDataModule) -> None:
    """The end of every training: score dev and eval with the best epoch, and write the results."""
    kept = [one.head for one in trainer.callbacks if isinstance(one, KeepBest)]  # type: ignore[attr-defined]
    if kept and not any(kept) and trainer.is_global_zero:
        print_notes(["no epoch was validated: results are of the last; there is no best.ckpt"])
    for stage in (trainer.validate, trainer.test):
        stage(module, datamodule=data, verbose=False)
