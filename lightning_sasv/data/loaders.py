"""What the Trainer iterates over: blocks of training steps, and slices of probes to score."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize
from torch.utils.data import DataLoader, Dataset, DistributedSampler, SequentialSampler

from lightning_sasv.data.corpus import TrainingSet, TrialSet
from lightning_sasv.data.sampler import TrialSampler
from lightning_sasv.errors import InputError
from lightning_sasv.trials import TrialClass

IGNORE = -100
"""Label of the padding in the last step of an epoch (PyTorch's ``ignore_index``)."""


class TrainBlock(NamedTuple):
    """Several optimiser steps for all seeds at once.

    Attributes:
        vectors: CM embeddings of the probes, (steps, seeds, batch, dim); for joint heads after the
            ASV embeddings of enrolment and probe, in a row.
        kind: ``TrialClass`` codes, ``IGNORE`` for padding, (steps, seeds, batch).
        classes: Trials of each code in the whole batch over all processes, (steps, seeds, 3).
        last: Steps of the epoch that have been made when these are.
        cosine: ASV score of each trial, where it is needed, (steps, seeds, batch).
    """

    vectors: Tensor
    kind: Tensor
    classes: Tensor
    last: int
    cosine: Tensor | None = None

    @property
    def label(self) -> Tensor:
        """CM label of each trial: 1 bona fide, 0 spoof, ``IGNORE`` padding."""
        return self.kind.clamp(max=1)

    @property
    def counts(self) -> Tensor:
        """Spoof and bona fide probes in the whole batch over all processes, (steps, seeds, 2)."""
        return torch.stack([self.classes[..., 0], self.classes[..., 1:].sum(-1)], -1)


class ProbeBatch(NamedTuple):
    """Distinct probes of a trial set: their numbers and CM embeddings (batch, dim).

    For joint heads trials: their numbers, and the embeddings of each in a row.
    """

    rows: Tensor
    vectors: Tensor


class TrainBlocks(Dataset[TrainBlock]):
    """Steps ``(epoch, first, last)`` of the training; a pure function of seeds, epoch and steps.

    An epoch of N trials is cut into batches of ``batch_size``, the last one smaller; each is a
    step, and consecutive ones make a block. With several processes each takes its share of every
    batch, so that the global batch stays the same.

    Args:
        data: Training utterances and embeddings.
        seeds: One training per seed, all with the same schedule.
        batch_size: Trials of an optimiser step, over all processes.
        rank: Number of this process.
        world_size: Number of processes.
        compared: Compare the speakers of each trial.
        joint: Give the ASV embeddings of each trial, too.
    """

    def __init__(
        self,
        data: TrainingSet,
        seeds: Sequence[int],
        batch_size: int,
        rank: int = 0,
        world_size: int = 1,
        compared: bool = False,
        joint: bool = False,
    ) -> None:
        self.vectors = data.vectors
        self.asv = data.asv_vectors if joint else None
        self.speakers = normalize(data.asv_vectors, dim=1) if compared else None
        self.sampler = TrialSampler(data.utterances)
        self.seeds = list(dict.fromkeys(seeds))
        self.copies = [self.seeds.index(seed) for seed in seeds]
        self.batch_size = batch_size
        self.rank, self.world_size = rank, world_size
        self.steps = -(-self.sampler.size // batch_size)
        self._epoch: int | None = None

    def __len__(self) -> int:
        return self.steps

    def _draw(self, epoch: int) -> None:
        """Trials of an epoch, (steps, seeds, batch), padded at the end."""
        shape = (len(self.seeds), self.steps * self.batch_size)
        enrol, probe = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        kind = np.full(shape, IGNORE, np.int64)
        for row, seed in enumerate(self.seeds):
            trials = self.sampler.epoch(seed, epoch)
            for drawn, column in zip(trials, (enrol, probe, kind), strict=True):
                column[row, : len(drawn)] = drawn
        by_step = (len(self.seeds), self.steps, self.batch_size)
        self._enrol, self._probe, self._kind = (
            torch.from_numpy(column).view(by_step).transpose(0, 1)
            for column in (enrol, probe, kind)
        )
        classes = sorted(TrialClass)
        self._classes = torch.stack([(self._kind == k).sum(-1) for k in classes], dim=-1)
        self._epoch = epoch

    def __getitem__(self, key: tuple[int, int, int]) -> TrainBlock:
        epoch, first, last = key
        if epoch != self._epoch:
            self._draw(epoch)
        share = slice(self.rank, None, self.world_size)
        drawn = (self._enrol, self._probe, self._kind)
        enrol, probe, kind = (part[first:last, :, share] for part in drawn)
        classes, copies, cosine = self._classes[first:last], self.copies, None
        if self.speakers is not None:
            rows = (part.reshape(-1) for part in (enrol, probe))
            pair = (self.speakers.index_select(0, row) for row in rows)
            cosine = torch.linalg.vecdot(*pair).view(enrol.shape)
        if len(copies) > len(self.seeds):  # several networks of each seed
            of_copies = (enrol, probe, kind, classes)
            enrol, probe, kind, classes = (part[:, copies] for part in of_copies)
            cosine = None if cosine is None else cosine[:, copies]
        vectors = self.vectors[probe]
        if self.asv is not None:
            vectors = torch.cat([self.asv[enrol], self.asv[probe], vectors], -1)
        return TrainBlock(vectors, kind, classes, last, cosine)


class InOrder(DistributedSampler[int], SequentialSampler):
    """Everything in order: what a data set holds is the share of this process already.

    But for its base classes Lightning would share it out once more, whatever the sampler, and put
    another one in its place for ``overfit_batches``.
    """

    def __init__(self, data: Dataset[Any]) -> None:
        super().__init__(data, num_replicas=1, rank=0, shuffle=False)


class EpochSampler(InOrder):
    """Keys ``(epoch, first, last)`` in order; the Trainer says the epoch, a checkpoint the start.

    Args:
        data: Steps of an epoch.
        stop: Last step of the block that begins with a step.
        repeats: Whether all epochs are the first one again.
    """

    start = 0

    def __init__(self, data: Dataset[Any], stop: Callable[[int], int], repeats: bool) -> None:
        super().__init__(data)
        self.stop, self.repeats = stop, repeats

    def __iter__(self) -> Iterator[Any]:
        first, self.start = self.start, 0
        while first < len(self):
            last = self.stop(first)
            yield 0 if self.repeats else self.epoch, first, last
            first = last


class BlockLoader(DataLoader[TrainBlock]):
    """Loader of training blocks that a checkpoint can put back to the middle of an epoch.

    Its length is the number of steps, which the Trainer counts; it hands out several at once, but
    never steps over a place where the Trainer has something to do.

    Args:
        dataset: Steps of an epoch.
        steps_per_block: Optimiser steps of a block, at most.
        trainer: The Trainer.
    """

    def __init__(self, dataset: TrainBlocks, steps_per_block: int, trainer: Any = None) -> None:
        self.steps_per_block, self.trainer = steps_per_block, trainer
        repeats = trainer is not None and bool(trainer.overfit_batches)
        self._blocks = EpochSampler(dataset, self._stop, repeats)
        self._served = 0
        super().__init__(dataset, batch_size=None, sampler=self._blocks)

    def _stop(self, first: int) -> int:
        """Where the block that begins with a step ends."""
        room = [self.steps_per_block, len(self) - first]
        if self.trainer is not None:
            room += _until_pause(self.trainer, first)
        return first + max(min(room), 1)

    def __iter__(self) -> Any:
        for block in super().__iter__():
            self._served = block.last
            if self.trainer is not None:
                _count(self.trainer, len(block.classes), block.last)
            yield block

    def state_dict(self) -> dict[str, int]:
        """How many steps of the epoch have been handed out."""
        limit = len(self) if self.trainer is None else self.trainer.num_training_batches
        return {"steps": self._served % min(len(self), limit)}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Start the next epoch after the steps that were handed out."""
        blocks = state.get("served")  # until 0.1 only whole blocks were
        steps = state.get("steps", blocks)
        if not isinstance(steps, int) or not 0 <= steps < len(self):
            raise InputError(
                f"--ckpt_path: the checkpoint does not fit this run: {str(steps)[:50]} of "
                f"{len(self)} steps of an epoch were made; resume with the same data settings"
            )
        self._blocks.start = self._served = (
            steps if blocks is None else steps * self.steps_per_block
        )


def _count(trainer: Any, steps: int, last: int) -> None:
    """Have the Trainer, to which a block is one batch, count all of its steps.

    Limits, validation within an epoch and progress bars go by these numbers.

    Args:
        trainer: The Trainer, which will add the last step itself.
        steps: Steps of the block.
        last: Steps of the epoch with these.
    """
    trainer.fit_loop._data_fetcher.fetched += steps - 1
    batches = trainer.fit_loop.epoch_loop.batch_progress
    for name in ("ready", "started", "processed", "completed"):
        setattr(batches.total, name, getattr(batches.total, name) + steps - 1)
        setattr(batches.current, name, last - 1)


def _until_pause(trainer: Any, done: int) -> Iterator[int]:
    """Steps until the Trainer ends an epoch or the training, validates, or saves a checkpoint.

    Args:
        trainer: The Trainer.
        done: Steps that were made in this epoch.
    """
    made, check = trainer.global_step, trainer.val_check_batch
    yield trainer.num_training_batches - done
    if trainer.max_steps >= 0:
        yield trainer.max_steps - made
    if isinstance(check, int):  # else by time, or at the end of an epoch
        each_epoch = trainer.check_val_every_n_epoch is not None
        yield (
            check
            - (done if each_epoch else trainer.fit_loop.epoch_loop.total_batch_idx + 1) % check
        )
    for callback in trainer.checkpoint_callbacks:
        if every := getattr(callback, "_every_n_train_steps", 0):
            yield every - made % every


class ProbeBatches(Dataset[ProbeBatch]):
    """Slices of the distinct probes of a trial set; each process scores every n-th slice.

    Args:
        data: The trials.
        batch_size: Probes of a slice.
        rank: Number of this process.
        world_size: Number of processes.
        joint: Trials, with all of their embeddings, in place of probes.
    """

    def __init__(
        self,
        data: TrialSet,
        batch_size: int,
        rank: int = 0,
        world_size: int = 1,
        joint: bool = False,
    ) -> None:
        self.vectors_of = data.trial_vectors if joint else data.probe_vectors.__getitem__
        items = len(data.trials) if joint else len(data.probes)
        slices = torch.split(torch.arange(items), batch_size)
        nothing = torch.arange(0)  # a process without a slice still takes part in validation
        self.slices = slices[rank::world_size] or (nothing,)

    def __len__(self) -> int:
        return len(self.slices)

    def __getitem__(self, number: int) -> ProbeBatch:
        rows = self.slices[number]
        return ProbeBatch(rows, self.vectors_of(rows))
