"""What every training has: the callbacks that make results, whatever else it is given.

The Trainer leaves signals to the command, or to submitit inside of its jobs.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.accelerators import MPSAccelerator
from pytorch_lightning.callbacks import ModelCheckpoint, ProgressBar, RichProgressBar
from pytorch_lightning.loggers import CSVLogger
from pytorch_lightning.trainer.connectors.signal_connector import _SignalConnector
from pytorch_lightning.utilities import rank_zero_warn

from lightning_sasv import signals
from lightning_sasv.callbacks.fit_fusion import FitFusion
from lightning_sasv.callbacks.keep_best import KeepBest, SaveLast
from lightning_sasv.callbacks.write_results import LogFigures, WriteResults
from lightning_sasv.errors import InputError


def settle(settings: Mapping[str, Any], quiet: bool = False) -> dict[str, Any]:
    """Settings of a Trainer, with the callbacks that make results, on a device that can.

    Args:
        settings: As the user gave them.
        quiet: Without a progress bar.
    """
    given = settings.get("callbacks") or []
    bar = settings.get("enable_progress_bar") is not False and not quiet
    saves = settings.get("enable_checkpointing") is not False
    listed = given if isinstance(given, Sequence) else [given]
    logger = settings.get("logger")
    if logger is True and not any(map(find_spec, ("tensorboard", "tensorboardX"))):
        rank_zero_warn("TensorBoard is not installed: metrics are logged to metrics.csv instead")
        logger = CSVLogger(settings.get("default_root_dir") or ".")
    return {
        **settings,
        "logger": logger,
        "callbacks": with_ours(listed, bar, saves),
        "accelerator": usable(settings.get("accelerator") or "auto"),
        **({} if bar else {"enable_progress_bar": False}),
    }


def with_ours(given: Sequence[Callback], bar: bool = True, saves: bool = True) -> list[Callback]:
    """Our callbacks and then the given ones; a given one of a class of ours takes its place.

    Args:
        given: Callbacks of the user. The last one of a class counts where we have one of it.
        bar: Whether progress is shown.
        saves: Whether checkpoints are saved.
    """
    given = [_as_ours(one) for one in given]
    ours: list[Callback] = [FitFusion(), WriteResults(), LogFigures(), KeepBest(save=saves)]
    ours += [SaveLast()] if saves else []
    ours += [RichProgressBar()] if bar else []
    kinds = [ProgressBar if isinstance(one, ProgressBar) else type(one) for one in ours]
    chosen = [
        next((one for one in reversed(given) if isinstance(one, kind)), own)
        for own, kind in zip(ours, kinds, strict=True)
    ]
    known = (*kinds, ProgressBar) if saves else (*kinds, ProgressBar, SaveLast)
    return chosen + [one for one in given if not isinstance(one, known)]


def _as_ours(given: Callback) -> Callback:
    """Configurations of older runs list what saves ``last.ckpt`` as a callback of Lightning's."""
    if type(given) is ModelCheckpoint and given.filename == "last":
        return SaveLast(None if given.dirpath is None else str(given.dirpath))
    return given


def usable(accelerator: Any) -> Any:
    """The accelerator that is meant: ``auto`` is never Apple's GPU, which has no float64.

    Raises:
        InputError: Apple's GPU was asked for.
    """
    if accelerator in ("auto", "gpu", "mps") and MPSAccelerator.is_available():
        if accelerator != "auto":
            raise InputError(
                f"trainer.accelerator={accelerator}: Apple's GPU has no float64, which scores are "
                "summed in; take cpu"
            )
        return "cpu"
    return accelerator


def end_ranks(trainer: Trainer) -> None:
    """End the processes that the Trainer has started, before one that dies alone is noticed."""
    launcher = trainer.strategy.launcher
    started = getattr(launcher, "procs", [])
    if launcher is not None:
        launcher.kill(signal.SIGKILL)
    ended, started[:] = list(started), []
    for process in ended:
        (process.wait if isinstance(process, subprocess.Popen) else process.join)(2)


class _NoHandlers(_SignalConnector):
    """Lightning's own would end a training after SIGTERM as if it had finished.

    Under SLURM it would also save ``hpc_ckpt_1.ckpt`` in the working directory after SIGUSR1, and
    every later training there would go on from it.
    """

    def register_signal_handlers(self) -> None:
        """Take none."""


class LeaveSignals(Callback):
    """Has the Trainer take no signals.

    Args:
        advice: What to say when the training is stopped once there is a checkpoint to go on from.
    """

    def __init__(self, advice: str | None = None) -> None:
        self.advice = advice

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Called before the Trainer would take them."""
        trainer._signal_connector = _NoHandlers(trainer)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The epoch before is kept by now."""
        self._advise(trainer)

    on_train_end = on_train_epoch_start

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Hear Ctrl-C again: after a first one the Trainer ignores it."""
        signals.take_back()
        self._advise(trainer)

    def _advise(self, trainer: Trainer) -> None:
        kept = [getattr(one, "best_model_path", "") for one in trainer.checkpoint_callbacks]
        if self.advice and any(path and Path(path).exists() for path in kept):
            signals.advise(self.advice)
