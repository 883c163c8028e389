"""The Trainer leaves signals to the command, or to submitit inside of its jobs."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.trainer.connectors.signal_connector import _SignalConnector

from lightning_sasv import signals


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
