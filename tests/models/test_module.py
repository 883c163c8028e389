"""Training: the loss, the recipe, determinism, resume, checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from lightning_sasv.data.corpus import Corpus
from lightning_sasv.data.loaders import IGNORE, TrainBlocks
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.functional import eer
from lightning_sasv.models import SASVModule
from tests.helpers import best_checkpoint, quiet_trainer, shared_data
from tests.models.test_cm_head import plain_copy


def weights(module: SASVModule) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in module.head.state_dict().items()}


def same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)


def test_trial_weights_are_the_normalised_class_weights() -> None:
    kind, counts = torch.tensor([[1, 0, 0, 2, IGNORE]]), torch.tensor([[2, 1, 1]])
    for given, nontarget in ((None, 0.9), ((0.1, 0.9, 0.4), 0.4)):
        [objective] = SASVModule(class_weights=given).parts  # type: ignore[arg-type]
        found = objective.batch(kind, counts, None, torch.float32).weight
        expected = torch.tensor([[0.9, 0.1, 0.1, nontarget, 0.0]])
        torch.testing.assert_close(found, expected / expected.sum())


def plain_losses(plain: nn.Module, corpus: Corpus, epoch: int) -> Iterator[torch.Tensor]:
    """The weighted cross-entropy of an epoch's steps of seed 3, by the weights of that time."""
    blocks = TrainBlocks(corpus.train, [3], 24)
    for step in range(blocks.steps):
        block = blocks[epoch, step, step + 1]
        yield cross_entropy(
            plain(block.vectors[0, 0].double()),
            block.label[0, 0],
            torch.tensor([0.1, 0.9], dtype=torch.float64),
            ignore_index=IGNORE,
        )


def test_training_is_the_plain_recipe(twin: Corpus, tmp_path: Path) -> None:
    """Two epochs equal a plain loop of Adam steps on weighted cross-entropy, in float64."""
    data = shared_data(twin, steps_per_block=7, seeds=(3,))
    module = SASVModule(seeds=(3,), lr=1e-3).double()
    plain = plain_copy(module.head)
    quiet_trainer(tmp_path, epochs=2, precision="64-true", best=False).fit(module, data)
    optimizer = torch.optim.Adam(plain.parameters(), lr=1e-3, weight_decay=1e-3)
    for epoch in range(2):
        for loss in plain_losses(plain, twin, epoch):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    expected = plain_copy(module.head)
    for mine, theirs in zip(expected.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


def train(twin: Corpus, folder: Path, epochs: int, *seeds: int, **kwargs: Any) -> SASVModule:
    """A module after so many epochs."""
    module, data = SASVModule(seeds=seeds), shared_data(twin, seeds=seeds, **kwargs.pop("data", {}))
    trainer = quiet_trainer(folder, epochs=epochs, best=False, **kwargs)
    trainer.fit(module, data)
    assert trainer.global_step == epochs * -(-len(twin.train.utterances) // 24)
    return module


def test_same_seed_same_bits(twin: Corpus, tmp_path: Path) -> None:
    runs = []
    for run, seed in enumerate((1986, 1986, 1987)):
        pl.seed_everything(run)  # the global state plays no part
        runs.append(weights(train(twin, tmp_path / str(run), 2, seed)))
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


def test_inner_steps_do_not_change_the_result(twin: Corpus, tmp_path: Path) -> None:
    runs = [train(twin, tmp_path / str(n), 1, 1986, data={"steps_per_block": n}) for n in (1, 32)]
    assert same(*map(weights, runs))


class KilledError(Exception):
    pass


class StopAt(pl.Callback):
    """Breaks off the training, as a killed process would, after saving a checkpoint there."""

    def __init__(self, epoch: int, step: int, path: Path) -> None:
        self.at, self.path = (epoch, step), path

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if (trainer.current_epoch, trainer.fit_loop.epoch_loop.batch_idx) == self.at:
            trainer.save_checkpoint(self.path)
            raise KilledError


@pytest.mark.parametrize("at", [(0, 11), (1, 3), (1, 19)])
def test_resume_is_bit_identical(twin: Corpus, tmp_path: Path, at: tuple[int, int]) -> None:
    def fit(name: str, ckpt: Path | None = None, **kwargs: Any) -> dict[str, torch.Tensor]:
        module = SASVModule(systems=("B1",))
        data = shared_data(twin, steps_per_block=4)
        quiet_trainer(tmp_path / name, epochs=3, **kwargs, best=False).fit(
            module, data, ckpt_path=ckpt
        )
        return weights(module)

    whole = fit("whole")
    path = tmp_path / "broken.ckpt"
    with pytest.raises(KilledError):
        fit("broken", callbacks=[StopAt(*at, path)])
    assert same(whole, fit("resumed", path))


def test_best_checkpoint_is_the_earliest_of_equals(twin: Corpus, tmp_path: Path) -> None:
    class Spy(pl.Callback):
        def __init__(self) -> None:
            self.rates: list[float] = []

        def on_validation_end(self, trainer: pl.Trainer, *_: Any) -> None:
            self.rates.append(float(trainer.callback_metrics["val/cm_eer"]))

    spy = Spy()
    module = SASVModule(lr=1e-3)
    trainer = quiet_trainer(tmp_path, epochs=6, callbacks=[spy])
    trainer.fit(module, shared_data(twin))
    best = torch.load(best_checkpoint(trainer), weights_only=True)
    assert spy.rates.count(min(spy.rates)) > 1, "no tie of the best: the test shows nothing"
    assert best["epoch"] == spy.rates.index(min(spy.rates))


def test_logged_values(twin: Corpus, tmp_path: Path) -> None:
    module = SASVModule()
    trainer = quiet_trainer(tmp_path, epochs=1, best=False)
    trainer.fit(module, shared_data(twin))
    logged = trainer.callback_metrics
    dev = twin.dev
    with torch.no_grad():
        logits = module.head(dev.probe_vectors)[dev.probe_of_trial]
    cm = logits[:, 1] - logits[:, 0]
    rate = eer(cm[dev.label == 1], cm[dev.label == 0]).value
    assert float(logged["val/cm_eer"]) == pytest.approx(rate, abs=1e-7)
    rate = eer(cm[dev.label != 0], cm[dev.label == 0]).value
    assert float(logged["val/cm_eer_bonafide"]) == pytest.approx(rate, abs=1e-7)
    loss = nn.CrossEntropyLoss(torch.tensor([0.1, 0.9]))(logits, (dev.label != 0).long())
    assert float(logged["val/loss"]) == pytest.approx(float(loss), rel=1e-4)
    assert 0 < float(logged["train/loss"]) < 1
    fused = dev.asv_scores.double() + cm.double()
    rate = eer(fused[dev.label == 1], fused[dev.label != 1]).value
    assert float(logged["val/sasv_eer"]) == pytest.approx(rate, abs=1e-7)
    assert float(logged["val/B1/sasv_eer"]) == pytest.approx(rate, abs=1e-7)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"lr": float("inf")}, r"model\.lr must be positive and finite, got inf"),
        ({"weight_decay": float("nan")}, r"model\.weight_decay must be finite and not negative"),
        ({"lr_decay": -1.0}, r"model\.lr_decay must be finite and not negative, got -1"),
        ({"class_weights": (0.9, float("nan"))}, r"class_weights .*finite, got \[0\.9, nan\]"),
        ({"negative_slope": float("nan")}, r"model\.negative_slope must be finite, got nan"),
        ({"in_dim": 0}, r"at least 1, got 0 \(CM\), 192 \(ASV\)"),
        ({"head": "film", "systems": ("F3",), "asv_dim": 0}, r"160 \(CM\), 0 \(ASV\)"),
    ],
)
def test_numbers_with_which_nothing_can_be_trained(settings: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        SASVModule(**settings)


def test_a_training_that_diverges_is_named(twin: Corpus, tmp_path: Path) -> None:
    module = SASVModule(lr=1e30, seeds=(3, 4))
    with pytest.raises(InputError, match=r"^seed3, seed4: .*diverged; make model\.lr smaller"):
        quiet_trainer(tmp_path, epochs=1).fit(module, shared_data(twin, seeds=(3, 4)))


def test_wrong_embedding_size_is_named(twin: Corpus, tmp_path: Path) -> None:
    module = SASVModule(in_dim=100)
    with pytest.raises(ValueError, match=r"160 dimensions where 100 were expected"):
        quiet_trainer(tmp_path).fit(module, shared_data(twin))
