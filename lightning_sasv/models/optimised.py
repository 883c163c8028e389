"""How the steps of a training are made: optimiser, schedule, clipping; and who counts them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from pytorch_lightning import Callback, Trainer
from pytorch_lightning import callbacks as lightning_callbacks
from pytorch_lightning.core.optimizer import LightningOptimizer
from pytorch_lightning.strategies import SingleDeviceStrategy
from torch import Tensor, optim
from torch.optim.lr_scheduler import ReduceLROnPlateau

from lightning_sasv.errors import InputError
from lightning_sasv.models.checkpointed import Checkpointed
from lightning_sasv.models.stacked import Head

_ELEMENTWISE = (
    *(optim.Adam, optim.AdamW, optim.NAdam, optim.RAdam, optim.Adamax, optim.Adagrad),
    *(optim.Adadelta, optim.SGD, optim.ASGD, optim.RMSprop, optim.Rprop),
)
"""Optimisers that treat each number by itself: of stacked heads each has its own."""

_REFUSED = {
    "StochasticWeightAveraging": "the head that counts is that of the best epoch, not an average",
    "WeightAveraging": "the head that counts is that of the best epoch, not an average",
    "GradientAccumulationScheduler": "each batch is a step here; set --data.batch_size instead",
}
"""Callbacks that cannot do what they are for, and why."""


@dataclass(frozen=True)
class Choice:
    """A class and its arguments; the object is made when what it works on is there.

    Example:
        >>> str(Choice(torch.optim.SGD, {"lr": 0.1}))
        'SGD(lr=0.1)'
    """

    kind: Callable[..., Any]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, subject: Any) -> Any:
        """Make the object."""
        return self.kind(subject, **self.settings)

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        return f"{self.kind.__name__}({given})"


def check_trainer(trainer: Trainer) -> None:
    """Refuse what has no meaning where each batch is a step and the best epoch counts."""
    if trainer.accumulate_grad_batches != 1:
        raise InputError(
            "trainer.accumulate_grad_batches: each batch is a step here; for larger ones set "
            "--data.batch_size"
        )
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        for name, why in _REFUSED.items():
            if isinstance(callback, getattr(lightning_callbacks, name, ())):
                raise InputError(f"trainer.callbacks: {type(callback).__name__} is refused: {why}")


class Optimised(Checkpointed):
    """A module that makes its optimiser steps itself, several in one Lightning step.

    Attributes:
        head: Stacked heads; every parameter begins with the axis of the seeds.
        lr: Learning rate of Adam.
        weight_decay: L2 penalty in Adam.
        lr_decay: How the learning rate falls from step to step.
        optimizer: Another optimiser.
        lr_scheduler: A schedule of the learning rate.
    """

    head: Head
    lr: float
    weight_decay: float
    lr_decay: float = 0.0
    optimizer: Choice | None = None
    lr_scheduler: Choice | None = None
    _clip: Any = None

    def configure_callbacks(self) -> list[Callback]:
        """Take over the clipping of gradients: Lightning refuses to clip where it does not step."""
        check_trainer(self.trainer)
        self._clip, self.trainer.gradient_clip_val = self.trainer.gradient_clip_val, None
        return []

    def setup(self, stage: str) -> None:
        """The Trainer says again what it was told."""
        self.trainer.gradient_clip_val = self._clip

    def configure_optimizers(self) -> Any:
        """Adam over all stacked heads, or what was chosen; elementwise, so each has its own."""
        groups = self.parameter_groups()
        if self.lr_decay and (self.optimizer or self.lr_scheduler):
            raise InputError(
                "model.lr_decay is of our own Adam; leave it out (--model.lr_decay 0), or another "
                "optimiser and schedule"
            )
        if self.optimizer is None:
            fused = self.device.type in ("cpu", "cuda")
            made: optim.Optimizer = optim.Adam(
                groups, lr=self.lr, weight_decay=self.weight_decay, fused=fused
            )
        else:
            made = self.optimizer(groups)
        if isinstance(made, optim.LBFGS):
            raise InputError(
                "optimizer: LBFGS computes the loss several times in a step; take another"
            )
        if len(self.seeds) > 1 and type(made) not in _ELEMENTWISE:
            raise InputError(
                f"optimizer: {type(made).__name__} would mix the {len(self.seeds)} seeds that are "
                "trained together; train one seed, or take one that works number by number"
            )
        schedules = [] if self.lr_scheduler is None else [self.lr_scheduler(made)]
        return [made], schedules

    def parameter_groups(self) -> list[dict[str, Any]]:
        """What is to be learnt, by settings of the optimiser."""
        return [{"params": list(self.head.parameters())}]

    def stepper(self) -> tuple[LightningOptimizer, Callable[..., Any], Callable[[], Any]]:
        """The optimiser, how to go backward from a score, and how to make a step."""
        optimizer = cast("LightningOptimizer", self.optimizers())
        plain = self.is_plain()
        backward = Tensor.backward if plain else self.manual_backward
        step = optimizer.optimizer.step if plain else optimizer.step
        if not self._clip:
            return optimizer, backward, step

        def clipped() -> None:
            self._clip_gradients(optimizer.optimizer)
            step()

        return optimizer, backward, clipped

    def is_plain(self) -> bool:
        """Whether PyTorch's own steps, a fifth quicker than Lightning's, do the same.

        That is so on one device in full precision: nothing is scaled or shared between processes.
        """
        one = isinstance(self.trainer.strategy, SingleDeviceStrategy)
        return one and self.trainer.precision in ("32-true", "64-true")

    def _clip_gradients(self, optimizer: optim.Optimizer) -> None:
        """Clip by value, or the norm of each seed's gradient: the seeds know nothing of another."""
        scaler = getattr(self.trainer.precision_plugin, "scaler", None)
        if scaler is not None:
            scaler.unscale_(optimizer)
        if self.trainer.gradient_clip_algorithm == "value":
            torch.nn.utils.clip_grad_value_(self.head.parameters(), self._clip)
            return
        found = [one.grad for one in self.head.parameters() if one.grad is not None]
        norms = torch.stack([one.flatten(1).norm(dim=1) for one in found]).norm(dim=0)
        scale = (self._clip / (norms + 1e-6)).clamp(max=1)
        for one in found:
            one.mul_(scale.view(-1, *(1 for _ in one.shape[1:])))

    def count_steps(self, steps: int) -> None:
        """Tell the Trainer of the steps that it has not seen; logs and checkpoints go by them."""
        loop = self.trainer.fit_loop.epoch_loop
        made = loop.manual_optimization.optim_step_progress
        for counter in (made.total, made.current) if self.is_plain() else ():
            counter.ready += steps
            counter.completed += steps
        loop._batches_that_stepped = self.trainer.global_step
        if self.trainer.global_step == self.trainer.max_steps:
            self.trainer.should_stop = True  # and validate what there is

    def on_train_epoch_end(self) -> None:
        """Step the schedules: Lightning leaves it to those who make the steps."""
        for one in self.trainer.lr_scheduler_configs if self.trainer.is_last_batch else ():
            logged, value = self.trainer.callback_metrics, None
            if isinstance(one.scheduler, ReduceLROnPlateau):
                followed = getattr(one.scheduler, "monitor", "val/cm_eer")  # Lightning's has one
                if followed not in logged:
                    raise InputError(
                        f"lr_scheduler: nothing is logged as {followed}; monitor one of "
                        f"{', '.join(sorted(logged))}"
                    )
                value = logged[followed]
            self.lr_scheduler_step(one.scheduler, value)

    def on_fit_end(self) -> None:
        """What is logged after the training belongs to its last step."""
        self.trainer.fit_loop.epoch_loop._batches_that_stepped = self.trainer.global_step
