"""What the Trainer iterates over: blocks of training steps, and slices of probes to score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, DistributedSampler, SequentialSampler

from lightning_sasv.data.corpus import TrainingSet, TrialSet
from lightning_sasv.data.sampler import TrialSampler
from lightning_sasv.errors import InputError
from lightning_sasv.trials import TrialClass

IGNORE = -100
"""CM label of the padding in the last step of an epoch (PyTorch's ``ignore_index``)."""


class TrainBlock(NamedTuple):
    """Several optimiser steps for all seeds at once.

    Attributes:
        vectors: CM embeddings of the probes, (steps, seeds, batch, dim).
        label: 1 bona fide, 0 spoof, ``IGNORE`` padding, (steps, seeds, batch).
        counts: Spoof and bona fide probes in the whole batch over all processes,
            (steps, seeds, 2).
    """

    vectors: Tensor
    label: Tensor
    counts: Tensor


class ProbeBatch(NamedTuple):
    """Distinct probes of a trial set: their numbers and CM embeddings (batch, dim)."""

    rows: Tensor
    vectors: Tensor


class TrainBlocks(Dataset[TrainBlock]):
    """Block ``(epoch, number)`` of the training; a pure function of seeds, epoch and number.

    An epoch of N trials is cut into batches of ``batch_size``, the last one smaller, and
    ``steps_per_block`` consecutive batches make a block. With several processes each takes its
    share of every batch, so that the global batch stays the same.

    Args:
        data: Training utterances and embeddings.
        seeds: One training per seed, all with the same schedule.
        batch_size: Trials of an optimiser step, over all processes.
        steps_per_block: Optimiser steps of a block.
        rank: Number of this process.
        world_size: Number of processes.
    """

    def __init__(
        self,
        data: TrainingSet,
        seeds: Sequence[int],
        batch_size: int,
        steps_per_block: int,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self.vectors = data.vectors
        self.sampler = TrialSampler(data.utterances)
        self.seeds = list(seeds)
        self.batch_size = batch_size
        self.steps_per_block = steps_per_block
        self.rank, self.world_size = rank, world_size
        self.steps = -(-self.sampler.size // batch_size)
        self._epoch: int | None = None

    def __len__(self) -> int:
        return -(-self.steps // self.steps_per_block)

    def _draw(self, epoch: int) -> None:
        """Probes and CM labels of an epoch, (steps, seeds, batch), padded at the end."""
        drawn = [self.sampler.epoch(seed, epoch) for seed in self.seeds]
        shape = (len(self.seeds), self.steps * self.batch_size)
        probe, label = np.zeros(shape, np.int64), np.full(shape, IGNORE, np.int64)
        for row, trials in enumerate(drawn):
            probe[row, : len(trials.probe)] = trials.probe
            label[row, : len(trials.probe)] = trials.label != TrialClass.SPOOF
        by_step = (len(self.seeds), self.steps, self.batch_size)
        self._probe = torch.from_numpy(probe).view(by_step).transpose(0, 1)
        self._label = torch.from_numpy(label).view(by_step).transpose(0, 1)
        self._count = torch.stack([(self._label == k).sum(-1) for k in (0, 1)], dim=-1)
        self._epoch = epoch

    def __getitem__(self, key: tuple[int, int]) -> TrainBlock:
        epoch, number = key
        if epoch != self._epoch:
            self._draw(epoch)
        steps = slice(number * self.steps_per_block, (number + 1) * self.steps_per_block)
        share = slice(self.rank, None, self.world_size)
        probe, label = self._probe[steps, :, share], self._label[steps, :, share]
        vectors = self.vectors[probe]
        return TrainBlock(vectors, label, self._count[steps])


class InOrder(DistributedSampler[int], SequentialSampler):
    """Everything in order: what a data set holds is the share of this process already.

    Lightning would share it out once more, or put it in order, but for these base classes.
    """

    def __init__(self, data: Dataset[Any]) -> None:
        super().__init__(data, num_replicas=1, rank=0, shuffle=False)


class EpochSampler(InOrder):
    """Keys ``(epoch, block)`` in order; the Trainer tells it the epoch, a checkpoint the start.

    Args:
        data: The blocks.
        same: Every epoch is the first one again, as ``trainer.overfit_batches`` wants it.
    """

    start = 0

    def __init__(self, data: Dataset[Any], same: bool = False) -> None:
        super().__init__(data)
        self.same = same

    def set_epoch(self, epoch: int) -> None:
        """Take the number of the epoch."""
        super().set_epoch(0 if self.same else epoch)

    def __iter__(self) -> Iterator[Any]:
        start, self.start = self.start, 0
        return iter([(self.epoch, block) for block in range(start, len(self))])


class BlockLoader(DataLoader[TrainBlock]):
    """Loader of training blocks that a checkpoint can put back to the middle of an epoch."""

    def __init__(self, dataset: TrainBlocks, same: bool = False) -> None:
        self._blocks = EpochSampler(dataset, same)
        self._served = 0
        super().__init__(dataset, batch_size=None, sampler=self._blocks)

    def __iter__(self) -> Any:
        self._served = self._blocks.start
        for block in super().__iter__():
            self._served += 1
            yield block

    def state_dict(self) -> dict[str, int]:
        """How many blocks of the epoch have been handed out."""
        return {"served": self._served % len(self)}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Start the next epoch after the blocks that were handed out."""
        served = state.get("served")
        if not isinstance(served, int) or not 0 <= served < len(self):
            raise InputError(
                f"--ckpt_path: the checkpoint does not fit this run: {str(served)[:50]} of "
                f"{len(self)} blocks of an epoch were served; resume with the same data settings"
            )
        self._blocks.start = served


class ProbeBatches(Dataset[ProbeBatch]):
    """Slices of the distinct probes of a trial set; each process scores every n-th slice."""

    def __init__(self, data: TrialSet, batch_size: int, rank: int = 0, world_size: int = 1) -> None:
        self.vectors = data.probe_vectors
        slices = torch.split(torch.arange(len(self.vectors)), batch_size)
        nothing = torch.arange(0)  # a process without a slice still takes part in validation
        self.slices = slices[rank::world_size] or (nothing,)

    def __len__(self) -> int:
        return len(self.slices)

    def __getitem__(self, number: int) -> ProbeBatch:
        rows = self.slices[number]
        return ProbeBatch(rows, self.vectors[rows])
