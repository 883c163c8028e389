"""How stacked heads are trained: blocks of steps, each copy for its objective."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lightning_sasv.data.loaders import TrainBlock
from lightning_sasv.models.objectives import Batch, Objective
from lightning_sasv.models.optimised import Optimised

OBJECTIVE_LR = 1e-2
"""Learning rate of what an objective learns beside the head."""


class Trained(Optimised):
    """A module whose stacked heads are trained for one objective or several.

    Attributes:
        objectives: What consecutive copies of the head are trained for, as many for each.
    """

    objectives: nn.ModuleList

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

    def objective_of(self, copy: int) -> Objective:
        """What a copy of the head is trained for."""
        return self.parts[copy // self._each]

    def parameter_groups(self) -> list[dict[str, Any]]:
        """The heads, and what objectives learn: in larger steps, without weight decay."""
        learnt = list(self.objectives.parameters())
        own = {"params": learnt, "lr": OBJECTIVE_LR, "weight_decay": 0.0}
        return [*super().parameter_groups(), *([own] if learnt else [])]

    def training_step(self, block: TrainBlock, batch_idx: int) -> None:
        """Make every optimiser step of the block.

        The backward pass starts with the derivative of the loss to the scores; the loss itself,
        which is only logged, is computed once for the block. Each process computes its share of the
        global loss; the gradients are averaged over processes, hence the factor ``world_size``. The
        heads share no parameter, so that the gradient of the summed loss is each head's own.
        """
        vectors, parts = block.vectors.to(self.head.dtype), self._batches(block)
        optimizer, backward, step = self.stepper()
        scores, made = [], self.trainer.global_step
        for number, x in enumerate(vectors):
            self._begin_step(optimizer.optimizer, made + number)
            score = self.head.score(x)
            scores.append(score.detach())
            optimizer.optimizer.zero_grad()
            backward(*self._start(score, scores[-1], [one.step(number) for one in parts]))
            step()
        self.count_steps(len(scores))
        with torch.no_grad():
            split = torch.split(torch.stack(scores), self._each, dim=1)
            whole = zip(self.parts, split, parts, strict=True)
            losses = [one.losses(score, batch) for one, score, batch in whole]
        self._train_loss.append(torch.stack([one.flatten(1).sum(1) for one in losses]).sum(0))

    def _begin_step(self, optimizer: Optimizer, step: int) -> None:
        """Set what depends on the number of a step alone: learning rate, and dropout."""
        if self.lr_decay:
            optimizer.param_groups[0]["lr"] = self.lr / (1 + self.lr_decay * step)
        if self.head.dropout:
            rank, world = self.global_rank, self.trainer.world_size
            batch: int = self.trainer.datamodule.batch_size  # type: ignore[attr-defined]
            self.head.begin_step(step, batch, slice(rank, None, world))

    @property
    def _each(self) -> int:
        """Copies of the head that an objective has."""
        return len(self.seeds) // len(self.objectives)

    def _batches(self, block: TrainBlock) -> list[Batch]:
        """The trials of a block, for each objective those of its copies."""
        found = []
        for number, objective in enumerate(self.parts):
            own = slice(number * self._each, (number + 1) * self._each)
            cosine = None if block.cosine is None else block.cosine[:, own]
            trials = block.kind[:, own], block.classes[:, own], cosine
            made = objective.batch(*trials, self.head.dtype)
            world = self.trainer.world_size
            found.append(made._replace(weight=made.weight * world, share=made.share * world))
        return found

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

    def on_train_epoch_end(self) -> None:
        """Log the mean loss of the epoch (logging every step would cost more than the step)."""
        if self._train_loss:  # none where a training goes on from the end of an epoch
            mean = torch.cat(self._train_loss).mean() / len(self.seeds)
            self._train_loss.clear()
            self.log("train/loss", mean, sync_dist=True)
        super().on_train_epoch_end()
