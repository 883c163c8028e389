"""Blocks of training steps and slices of probes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lightning_sasv.data.corpus import Corpus
from lightning_sasv.data.loaders import IGNORE, BlockLoader, ProbeBatches, TrainBlock, TrainBlocks
from lightning_sasv.data.sampler import TrialSampler
from lightning_sasv.trials import TrialClass


def test_blocks_hold_the_sampled_trials_in_order(twin: Corpus) -> None:
    seeds = [3, 4]
    blocks = TrainBlocks(twin.train, seeds, batch_size=24)
    epoch = [blocks[2, first, first + 5] for first in range(0, len(blocks), 5)]
    labels = torch.cat([block.label for block in epoch])  # (steps, seeds, batch)
    vectors = torch.cat([block.vectors for block in epoch])
    size = len(twin.train.utterances)
    assert labels.shape[0] == -(-size // 24) == blocks.steps
    for row, seed in enumerate(seeds):
        drawn = TrialSampler(twin.train.utterances).epoch(seed, 2)
        kept = labels[:, row].flatten() != IGNORE
        assert kept[:size].all()
        assert not kept[size:].any()
        genuine = torch.from_numpy(drawn.label != TrialClass.SPOOF).long()
        assert torch.equal(labels[:, row].flatten()[:size], genuine)
        own = vectors[:, row].flatten(0, 1)[:size]
        assert torch.equal(own, twin.train.vectors[torch.from_numpy(drawn.probe)])
    counts = torch.cat([block.counts for block in epoch])
    assert torch.equal(counts.sum(-1)[:-1], torch.full_like(counts.sum(-1)[:-1], 24))
    assert int(counts.sum()) == size * len(seeds)


@pytest.mark.parametrize("world", [2, 3, 30])
def test_processes_share_each_batch(twin: Corpus, world: int) -> None:
    whole = TrainBlocks(twin.train, [1], 24)
    shares = [TrainBlocks(twin.train, [1], 24, rank, world) for rank in range(world)]
    for key in ((0, 0, 4), (0, len(whole) - 4, len(whole))):
        block, parts = whole[key], [share[key] for share in shares]
        assert torch.equal(torch.stack([p.counts for p in parts]).unique(dim=0)[0], block.counts)
        labels = torch.cat([part.label for part in parts], dim=-1)
        assert torch.equal(labels.sort(dim=-1).values, block.label.sort(dim=-1).values)


def same(one: TrainBlock, two: TrainBlock) -> bool:
    return all(map(torch.equal, one[:3], two[:3])) and one.last == two.last


def test_loader_resumes_in_the_middle_of_an_epoch(twin: Corpus) -> None:
    loader = BlockLoader(TrainBlocks(twin.train, [1], 24), 4)
    loader.sampler.set_epoch(3)
    whole = list(loader)
    assert [block.last for block in whole] == [*range(4, len(loader), 4), len(loader)]
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    state = loader.state_dict()
    assert state == {"steps": 12}
    for old in (state, {"served": 3}):  # in blocks until 0.1
        other = BlockLoader(TrainBlocks(twin.train, [1], 24), 4)
        other.load_state_dict(old)
        assert other.state_dict() == state
        other.sampler.set_epoch(3)
        assert all(map(same, whole[3:], rest := list(other)))
        assert len(rest) == len(whole) - 3
    assert len(list(other)) == len(whole)  # the next epoch is a whole one
    assert other.state_dict() == {"steps": 0}
    with pytest.raises(ValueError, match=f"{len(loader)} of {len(loader)} steps"):
        other.load_state_dict({"steps": len(loader)})


@pytest.mark.parametrize("world", [1, 2, 1000])
def test_every_probe_is_scored_once(twin: Corpus, world: int) -> None:
    parts = [ProbeBatches(twin.dev, 7, rank, world) for rank in range(world)]
    assert all(len(part) >= 1 for part in parts)
    batches = [part[number] for part in parts for number in range(len(part))]
    index = torch.cat([batch.rows for batch in batches])
    assert torch.equal(index.sort().values, torch.arange(len(twin.dev.probes)))
    vectors = torch.cat([batch.vectors for batch in batches])
    assert torch.equal(vectors, twin.dev.probe_vectors[index])


def test_asv_scores_are_the_cosines_of_the_trials(twin: Corpus) -> None:
    dev = twin.dev
    rows = np.random.default_rng(0).choice(len(dev.trials), 50)
    for row in rows:
        model = dev.models.select([dev.trials.speaker[row]])[0]
        probe = dev.asv.select([dev.trials.utterance[row]])[0]
        cosine = torch.dot(model, probe) / (model.norm() * probe.norm())
        assert float(dev.asv_scores[row]) == pytest.approx(float(cosine), abs=1e-5)
    assert torch.equal(
        dev.probe_vectors[dev.probe_of_trial[:50]],
        dev.cm.select(dev.trials.utterance[:50].tolist()),
    )
