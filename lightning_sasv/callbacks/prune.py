"""Telling a search how a training goes, and ending one that is not worth going on with."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.trainer.states import TrainerFn

from lightning_sasv.errors import InputError, RunError
from lightning_sasv.files import inside, unshare

if TYPE_CHECKING:
    from optuna import Study
    from optuna.pruners import BasePruner

SEARCH = "LIGHTNING_SASV_SEARCH"
"""Variable by which a search tells a training which of its trials it is."""

PRUNED, REACHED = "pruned", "reached"
"""Mark of a trial that was ended early, and what the best epoch of one that was not reached."""

STARTUP = 5
"""Trials that are never ended early: there is nothing to compare them with."""


def open_study(journal: str, name: str, direction: str, sampler: Any = None) -> Study:
    """A search that is kept in a file, new or gone on with; Optuna's median rule ends trials.

    Args:
        journal: The file: lines of JSON.
        name: Name of the search.
        direction: ``minimize`` or ``maximize``.
        sampler: Chooses the next point.

    Raises:
        InputError: Optuna is missing, or the file is damaged or a link that leads elsewhere.
    """
    unshare(inside(Path(journal).parent, journal))
    try:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
    except ImportError:
        raise InputError(
            "--search optuna needs Optuna: pip install 'lightning-sasv[search]'"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    pruner: BasePruner = optuna.pruners.MedianPruner(n_startup_trials=STARTUP)
    try:
        return optuna.create_study(
            study_name=name,
            storage=JournalStorage(JournalFileBackend(journal)),
            sampler=sampler,
            pruner=pruner,
            direction=direction,  # type: ignore[arg-type]  # checked by who read it
            load_if_exists=True,
        )
    except OSError:
        raise
    except Exception as error:  # a damaged file can raise nearly anything
        said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise InputError(f"{journal} is damaged ({said}); remove it to begin anew") from None


class Prune(Callback):
    """Reports the dev metric of each epoch to the search that started this training.

    Where the search says so, the training ends there: every process does. The ``validate`` after a
    training tells what its best epoch reached.
    """

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Report, and ask whether to go on."""
        if trainer.sanity_checking:
            return
        fitting = trainer.state.fn == TrainerFn.FITTING
        said = self._ask(trainer, fitting) if trainer.is_global_zero else ""
        if said := trainer.strategy.broadcast(said):
            raise RunError(said)

    @staticmethod
    def _ask(trainer: Trainer, fitting: bool) -> str:
        """Why to end, or nothing."""
        import optuna

        told = json.loads(os.environ[SEARCH])
        metric, epoch = told["metric"], trainer.current_epoch
        if metric not in trainer.callback_metrics:
            known = ", ".join(sorted(trainer.callback_metrics))
            raise InputError(f"metric.name: nothing is logged as {metric}; there are {known}")
        study = open_study(told["journal"], told["study"], told["direction"])
        trial, value = optuna.Trial(study, told["trial"]), float(trainer.callback_metrics[metric])
        if not fitting:
            trial.set_user_attr(REACHED, value)
            return ""
        trial.report(value, epoch)
        if not trial.should_prune():
            return ""
        trial.set_user_attr(PRUNED, True)
        return f"{PRUNED} after epoch {epoch}: {metric} is {value:.4g}, worse than the median"
