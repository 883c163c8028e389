"""A checkpoint after every epoch, to resume from."""

from __future__ import annotations

from pathlib import Path

from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import Checkpoint


class SaveLast(Checkpoint):
    """Saves ``last.ckpt`` at the end of each training epoch, for ``--ckpt_path last``.

    ``ModelCheckpoint(save_last=True)`` saves one only when it saves a best one too, so that a
    killed training would go back to its best epoch instead of its last.

    Args:
        folder: Where to save; by default ``checkpoints`` in the folder of the first logger, where
            ``ModelCheckpoint`` saves as well.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.folder = folder

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save."""
        folder = self.folder or Path(trainer.log_dir or trainer.default_root_dir) / "checkpoints"
        if not trainer.fast_dev_run:  # type: ignore[attr-defined]
            trainer.save_checkpoint(Path(folder) / "last.ckpt")
