"""Keeping the best epoch of each seed, and the last one; ending where none is better."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.trainer.states import TrainerFn
from torch import Tensor

from lightning_sasv.callbacks.run_folder import folder_of_run
from lightning_sasv.checkpoints import identity, read_checkpoint
from lightning_sasv.files import inside
from lightning_sasv.models import SASVModule
from lightning_sasv.models.restoring import check_best
from lightning_sasv.results import checkpoint_file


class KeepBest(Callback):
    """Keeps, for each seed, the head of its lowest ``model.monitor``, the earliest epoch on ties.

    ``ModelCheckpoint`` follows one number; here every seed has its own, compared in float32. With
    a head go the systems that were fitted to its scores. At the end of the training the best ones
    are put back into the module. They are part of a checkpoint, so that a resumed training keeps
    them.

    Args:
        save: Save ``checkpoints/best.ckpt`` in the folder of the run when a seed improves.
    """

    def __init__(self, save: bool = True) -> None:
        self.save = save
        self.rate: Tensor = torch.empty(0)
        self.epoch: Tensor = torch.empty(0)
        self.head: dict[str, Tensor] = {}
        self.fusion: dict[str, Tensor] = {}

    def on_validation_end(self, trainer: Trainer, pl_module: SASVModule) -> None:  # type: ignore[override]
        """Take over the heads that are better than before, and at first all."""
        if trainer.sanity_checking or trainer.state.fn != TrainerFn.FITTING:
            return
        now = {n: value.detach().cpu() for n, value in pl_module.head.state_dict().items()}
        rate = torch.tensor(pl_module.dev_rates).nan_to_num(nan=math.inf)
        if not self.head:
            self.rate, self.epoch = rate.clone(), torch.full_like(rate, -1, dtype=torch.long)
            self.head = {name: torch.empty_like(value) for name, value in now.items()}
        better = (rate < self.rate) | (self.epoch < 0)
        self.rate[better], self.epoch[better] = rate[better], trainer.current_epoch
        for name, value in now.items():
            self.head[name][better] = value[better]
        for name, value in pl_module.fusion.state_dict().items():
            if better[pl_module.copy_of(name)]:
                self.fusion[name] = value.detach().cpu().clone()
        if self.save and better.any() and not trainer.fast_dev_run:  # type: ignore[attr-defined]
            trainer.save_checkpoint(checkpoint_file(folder_of_run(trainer)))

    def on_fit_end(self, trainer: Trainer, pl_module: SASVModule) -> None:  # type: ignore[override]
        """Put the best heads back, and the systems that belong to them."""
        if self.head:
            pl_module.head.load_state_dict(self.head)
        if self.fusion:
            pl_module.fusion.load_state_dict(self.fusion)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {name: getattr(self, name) for name in ("rate", "epoch", "head", "fusion")}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what a checkpoint kept."""
        self.rate, self.epoch = state_dict["rate"], state_dict["epoch"]
        self.head, self.fusion = state_dict["head"], state_dict.get("fusion", {})

    def on_load_checkpoint(  # type: ignore[override]
        self,
        trainer: Trainer,
        pl_module: SASVModule,
        checkpoint: dict[str, Any],
    ) -> None:
        """Check what was kept; of version 0.1 it is in ``best.ckpt`` beside a ``last.ckpt``."""
        states = checkpoint["callbacks"]
        old = [state for state in states.values() if state.get("monitor") == "val/cm_eer"]
        file = Path(trainer.ckpt_path or "").with_name("best.ckpt")
        if self.state_key in states:
            check_best(states[self.state_key], pl_module)
        elif old and file.is_file():
            best = read_checkpoint(inside(file.parent, file))
            rate, epoch = torch.as_tensor(old[0]["best_model_score"]), torch.tensor(best["epoch"])
            kept = {"rate": rate.reshape(-1), "epoch": epoch.reshape(-1)}
            kept |= {part: _part(best["state_dict"], part) for part in ("head", "fusion")}
            check_best(kept, pl_module)
            self.load_state_dict(kept)


def checkpoint_in_use(trainer: Trainer) -> dict[str, Any] | None:
    """Which checkpoint the weights of a Trainer are of: the one it loaded, or the best of its fit.

    Every process takes part in finding it.

    Returns:
        ``file``, ``epoch``, ``step`` and ``sha256``, as ``checkpoints.identity``
        has them; nothing where there is no such file.
    """
    path, folder = trainer.ckpt_path, folder_of_run(trainer)
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    best = next((one for one in callbacks if isinstance(one, KeepBest) and one.head), None)
    if path is not None or best is None:
        return identity(path) if path is not None and Path(path).is_file() else None
    if not checkpoint_file(folder).is_file():
        return None  # e.g. a fit that went on elsewhere and found nothing better
    found = identity(checkpoint_file(folder))
    return found if best.save and best.epoch.tolist() == [found["epoch"]] else None


def _part(state: dict[str, Tensor], part: str) -> Any:
    """State of a part of the module."""
    own = [name for name in state if name.startswith(f"{part}.")]
    return {name.removeprefix(f"{part}."): state[name] for name in own}


class SaveLast(ModelCheckpoint):
    """Saves ``last.ckpt`` after each epoch, for ``--ckpt_path last``.

    A training that stops within an epoch (``max_steps``, ``max_time``) saves it before that epoch
    counts as finished, and goes on in the midst of it.

    Args:
        folder: Where to save; by default ``checkpoints`` in the folder of the run.
    """

    def __init__(self, folder: str | None = None) -> None:
        super().__init__(
            dirpath=folder,
            filename="last",
            save_top_k=1,
            every_n_epochs=1,
            enable_version_counter=False,
            save_on_train_epoch_end=True,
        )

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save where the training stops within an epoch."""
        if trainer.should_stop and not trainer.is_last_batch:
            self.on_train_epoch_end(trainer, pl_module)


class StopEarly(EarlyStopping):
    """Ends a training whose epochs have stopped to improve, by what the best one is chosen by.

    Args:
        monitor: What is to fall; by default ``model.monitor``, and without one what fits the
            objective.
        patience: Validations without a lower value after which it ends.
        min_delta: What does not count as lower.
    """

    def __init__(
        self, monitor: str | None = None, patience: int = 3, min_delta: float = 0.0
    ) -> None:
        super().__init__(monitor or "", min_delta, patience)

    def setup(self, trainer: Trainer, pl_module: SASVModule, stage: str) -> None:  # type: ignore[override]
        """Take what the module says."""
        self.monitor = self.monitor or pl_module.monitor
        super().setup(trainer, pl_module, stage)
