"""The best epoch: lowest dev CM EER, the earliest of equals, never one without a number."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from lightning_sasv.callbacks import KeepBest, checkpoint_in_use
from lightning_sasv.data.corpus import Corpus
from lightning_sasv.files import sha256
from lightning_sasv.models import SASVModule
from tests.helpers import best_checkpoint, plain_trainer, quiet_trainer, shared_data


class Scripted(SASVModule):
    """A module whose dev CM EERs are given: one list per seed, one rate per epoch."""

    def __init__(self, rates: list[list[float]], **kwargs: Any) -> None:
        super().__init__(seeds=tuple(range(len(rates))), **kwargs)
        self.rates = rates
        self.heads: list[torch.Tensor] = []

    def on_validation_epoch_end(self) -> None:
        self.dev_rates = [rates[self.current_epoch] for rates in self.rates]
        self.log("val/cm_eer", self.dev_rates[0])
        self.heads.append(self.head.get_parameter("weight_0").detach().clone())


CASES = {
    "tie in the middle": ([0.3, 0.1, 0.2, 0.1], 1),
    "all alike": ([0.2, 0.2, 0.2, 0.2], 0),
    "tie at the end": ([0.3, 0.2, 0.1, 0.1], 2),
    "best in the end": ([0.4, 0.3, 0.2, 0.1], 3),
    "no number at first": ([math.nan, 0.2, 0.2, 0.3], 1),
}


@pytest.mark.parametrize("name", CASES)
def test_checkpoint_of_one_seed(name: str, twin: Corpus, tmp_path: Path) -> None:
    rates, epoch = CASES[name]
    module, trainer = Scripted([rates]), quiet_trainer(tmp_path, epochs=4)
    trainer.fit(module, shared_data(twin, seeds=(0,)))
    best = torch.load(best_checkpoint(trainer), weights_only=True)
    assert best["epoch"] == epoch
    assert torch.equal(best["state_dict"]["head.weight_0"], module.heads[epoch])
    digest, steps = sha256(best_checkpoint(trainer)), best["global_step"]
    named = {"file": "best.ckpt", "epoch": epoch, "step": steps, "sha256": digest}
    assert checkpoint_in_use(trainer) == named
    torch.save(best | {"epoch": 7}, best_checkpoint(trainer))  # not the one that is in use
    assert checkpoint_in_use(trainer) is None


def test_the_checkpoint_that_was_loaded_is_named(twin: Corpus, tmp_path: Path) -> None:
    module, trainer = SASVModule(hidden_dims=(4,)), quiet_trainer(tmp_path, epochs=1)
    assert checkpoint_in_use(trainer) is None
    trainer.fit(module, shared_data(twin))
    last = best_checkpoint(trainer).with_name("last.ckpt")
    trainer.validate(module, shared_data(twin), ckpt_path=last, verbose=False)
    found = checkpoint_in_use(trainer)
    assert found is not None
    assert (found["file"], found["epoch"], found["sha256"]) == ("last.ckpt", 0, sha256(last))


def test_each_of_several_seeds_keeps_its_own(twin: Corpus) -> None:
    scripts, epochs = zip(*CASES.values(), strict=True)
    module, best = Scripted(list(scripts)), KeepBest(save=False)
    trainer = plain_trainer(4, [best], enable_checkpointing=False)
    trainer.fit(module, shared_data(twin, seeds=module.seeds))
    assert best.epoch.tolist() == list(epochs)
    for copy, epoch in enumerate(epochs):
        assert torch.equal(best.head["weight_0"][copy], module.heads[epoch][copy])
