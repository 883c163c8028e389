"""Keeping the best epoch of each of several seeds that are trained together."""

from __future__ import annotations

import math
from typing import Any

import torch
from pytorch_lightning import Callback, Trainer
from pytorch_lightning.trainer.states import TrainerFn
from torch import Tensor

from lightning_sasv.models import SASVModule


class KeepBest(Callback):
    """Keeps, for each stacked seed, the head of its best dev CM EER, the earliest epoch on ties.

    ``ModelCheckpoint`` follows one number; here every seed has its own. The kept heads are part of
    a checkpoint, so that a resumed training keeps them.
    """

    def __init__(self) -> None:
        self.rate: Tensor = torch.empty(0)
        self.epoch: Tensor = torch.empty(0)
        self.head: dict[str, Tensor] = {}

    def on_validation_end(self, trainer: Trainer, pl_module: SASVModule) -> None:  # type: ignore[override]
        """Take over the heads that are better than before."""
        if trainer.sanity_checking or trainer.state.fn != TrainerFn.FITTING:
            return
        if not self.head:
            self.rate = torch.full((len(pl_module.seeds),), math.inf)
            self.epoch = torch.zeros(len(pl_module.seeds), dtype=torch.long)
            now = pl_module.head.state_dict()
            self.head = {name: value.detach().cpu().clone() for name, value in now.items()}
        rate = torch.tensor(pl_module.dev_rates)
        better = rate < self.rate
        self.rate[better], self.epoch[better] = rate[better], trainer.current_epoch
        for name, value in pl_module.head.state_dict().items():
            self.head[name][better] = value.detach().cpu()[better]

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"rate": self.rate, "epoch": self.epoch, "head": self.head}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what a checkpoint kept."""
        self.rate, self.epoch = state_dict["rate"], state_dict["epoch"]
        self.head = state_dict["head"]
