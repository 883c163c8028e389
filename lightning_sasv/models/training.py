"""How stacked heads are trained: blocks of steps, each copy for its objective.

Here are the steps, with optimiser, schedule and clipping, and who counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from pytorch_lightning import Callback, Trainer
from pytorch_lightning import callbacks as lightning_callbacks
from pytorch_lightning.core.optimizer import LightningOptimizer
from pytorch_lightning.strategies import SingleDeviceStrategy
from torch import Tensor, nn, optim
from torch.optim.lr_scheduler import ReduceLROnPlateau

from lightning_sasv.data.loaders import TrainBlock
from lightning_sasv.errors import InputError
from lightning_sasv.models.checkpointed import Checkpointed
from lightning_sasv.models.objectives import Batch, Objective
from lightning_sasv.models.stacked import Head

OBJECTIVE_LR = 1e-2
"""Learning rate of what an objective learns beside the head."""

_ELEMENTWISE = (
    *(optim.Adam, optim.AdamW, optim.NAdam, optim.RAdam, optim.Adamax, optim.Adagrad),
    *(optim.Adadelta, optim.SGD, optim.ASGD, optim.RMSprop, optim.Rprop),
)
"""Optimisers that treat each number by itself: of stacked heads each has its own."""

_AVERAGE = "the head that counts is that of the best epoch, not an average"
_REFUSED = {
    "StochasticWeightAveraging": _AVERAGE,
    "WeightAveraging": _AVERAGE,
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


class Trained(Checkpointed):
    """A module whose stacked heads are trained for one objective or several.

    It makes its optimiser steps itself, several in one Lightning step.

    Attributes:
        head: Stacked heads; every parameter begins with the axis of the seeds.
        objectives: What consecutive copies of the head are trained for, as many for each.
        lr: Learning rate of Adam.
        weight_decay: L2 penalty in Adam.
        lr_decay: How the learning rate falls from step to step.
        optimizer: Another optimiser.
        lr_scheduler: A schedule of the learning rate.
    """

    head: Head
    objectives: nn.ModuleList
    lr: float
    weight_decay: float
    lr_decay: float
    optimizer: Choice | None = None
    lr_scheduler: Choice | None = None
    _clip: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self._train_loss: list[Tensor] = []

    @property
    def parts(self) -> list[Objective]:
        """The objectives."""
        return cast("list[Objective]", list(self.objectives))

    @property
    def compares(self) -> bool:
        """Whether an objective looks at the cosines of its trials."""
        return any(one.needs_asv for one in self.parts)

    @property
    def joint(self) -> bool:
        """Whether the head sees ASV embeddings, and gives the scores of a trial itself."""
        return self.head.joint

    @property
    def _each(self) -> int:
        """Copies of the head that an objective has."""
        return len(self.seeds) // len(self.objectives)

    def objective_of(self, copy: int) -> Objective:
        """What a copy of the head is trained for."""
        return self.parts[copy // self._each]

    # What makes a step

    def configure_callbacks(self) -> list[Callback]:
        """Take over the clipping of gradients: Lightning refuses to clip where it does not step."""
        check_trainer(self.trainer)
        self._clip, self.trainer.gradient_clip_val = self.trainer.gradient_clip_val, None
        return []

    def setup(self, stage: str) -> None:
        """The Trainer says again what it was told."""
        self.trainer.gradient_clip_val = self._clip

    def configure_optimizers(self) -> Any:
        """Adam over all stacked heads, or what was chosen; elementwise, so each has its own.

        What objectives learn, they learn in larger steps, without weight decay.
        """
        groups: list[dict[str, Any]] = [{"params": list(self.head.parameters())}]
        if learnt := list(self.objectives.parameters()):
            groups.append({"params": learnt, "lr": OBJECTIVE_LR, "weight_decay": 0.0})
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

    def _stepper(self) -> tuple[optim.Optimizer, Callable[..., Any], Callable[[], Any]]:
        """The optimiser, how to go backward from a score, and how to make a step."""
        lightnings = cast("LightningOptimizer", self.optimizers())
        optimizer, plain = lightnings.optimizer, self._is_plain
        backward = Tensor.backward if plain else self.manual_backward
        step = optimizer.step if plain else lightnings.step
        if not self._clip:
            return optimizer, backward, step

        def clipped() -> None:
            self._clip_gradients(optimizer)
            step()

        return optimizer, backward, clipped

    @property
    def _is_plain(self) -> bool:
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
            nn.utils.clip_grad_value_(self.head.parameters(), self._clip)
            return
        found = [one.grad for one in self.head.parameters() if one.grad is not None]
        norms = torch.stack([one.flatten(1).norm(dim=1) for one in found]).norm(dim=0)
        scale = (self._clip / (norms + 1e-6)).clamp(max=1)
        for one in found:
            one.mul_(scale.view(-1, *(1 for _ in one.shape[1:])))

    # The steps

    def training_step(self, block: TrainBlock, batch_idx: int) -> None:
        """Make every optimiser step of the block.

        The backward pass starts with the derivative of the loss to the scores; the loss itself,
        which is only logged, is computed once for the block. Each process computes its share of the
        global loss; the gradients are averaged over processes, hence the factor ``world_size``. The
        heads share no parameter, so that the gradient of the summed loss is each head's own.
        """
        vectors, parts = block.vectors.to(self.head.dtype), self._batches(block)
        optimizer, backward, step = self._stepper()
        scores, made = [], self.trainer.global_step
        for number, x in enumerate(vectors):
            self._begin_step(optimizer, made + number)
            score = self.head.score(x)
            scores.append(score.detach())
            optimizer.zero_grad()
            backward(*self._start(score, scores[-1], [one.step(number) for one in parts]))
            step()
        self._count_steps(len(scores))
        with torch.no_grad():
            split = torch.split(torch.stack(scores), self._each, dim=1)
            whole = zip(self.parts, split, parts, strict=True)
            losses = [one.losses(score, batch) for one, score, batch in whole]
        self._train_loss.append(torch.stack([one.flatten(1).sum(1) for one in losses]).sum(0))

    def _batches(self, block: TrainBlock) -> list[Batch]:
        """The trials of a block, for each objective those of its copies."""
        found, world = [], self.trainer.world_size
        for number, objective in enumerate(self.parts):
            own = slice(number * self._each, (number + 1) * self._each)
            cosine = None if block.cosine is None else block.cosine[:, own]
            trials = block.kind[:, own], block.classes[:, own], cosine
            made = objective.batch(*trials, self.head.dtype)
            found.append(made._replace(weight=made.weight * world, share=made.share * world))
        return found

    def _begin_step(self, optimizer: optim.Optimizer, step: int) -> None:
        """Set what depends on the number of a step alone: learning rate, and dropout."""
        if self.lr_decay:
            optimizer.param_groups[0]["lr"] = self.lr / (1 + self.lr_decay * step)
        if self.head.dropout:
            rank, world = self.global_rank, self.trainer.world_size
            batch: int = self.trainer.datamodule.batch_size  # type: ignore[attr-defined]
            self.head.begin_step(step, batch, slice(rank, None, world))

    def _start(self, score: Tensor, known: Tensor, parts: Sequence[Batch]) -> tuple[Tensor, Tensor]:
        """Where the backward pass starts, and with which gradient.

        Args:
            score: Scores of the heads.
            known: The same without their history.
            parts: The trials, for each objective those of its copies.
        """
        split = torch.split(known, self._each) if len(parts) > 1 else (known,)
        whole = zip(self.parts, split, parts, strict=True)
        found = [one.derivative(own, batch) for one, own, batch in whole]
        gradient = torch.cat([one[0] for one in found]) if len(found) > 1 else found[0][0]
        others = [value.flatten() for one in found for value in one[1:]]
        if not others:
            return score, gradient
        learnt = [one.flatten() for one in self.objectives.parameters()]
        return torch.cat([score.flatten(), *learnt]), torch.cat([gradient.flatten(), *others])

    def _count_steps(self, steps: int) -> None:
        """Tell the Trainer of the steps that it has not seen; logs and checkpoints go by them."""
        loop = self.trainer.fit_loop.epoch_loop
        made = loop.manual_optimization.optim_step_progress
        for counter in (made.total, made.current) if self._is_plain else ():
            counter.ready += steps
            counter.completed += steps
        loop._batches_that_stepped = self.trainer.global_step
        if self.trainer.global_step == self.trainer.max_steps:
            self.trainer.should_stop = True  # and validate what there is

    def on_train_epoch_end(self) -> None:
        """Log the mean loss of the epoch (every step's would cost more than the step); schedules.

        These Lightning leaves to those who make the steps.
        """
        if self._train_loss:  # none where a training goes on from the end of an epoch
            mean = torch.cat(self._train_loss).mean() / len(self.seeds)
            self._train_loss.clear()
            self.log("train/loss", mean, sync_dist=True)
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
