"""Steps: other optimisers, schedules, clipping, what is refused; and who counts them.

A block of steps is one batch to Lightning; what counts steps counts those of the optimiser.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint, StochasticWeightAveraging
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.optim.lr_scheduler import ExponentialLR, ReduceLROnPlateau

from lightning_sasv.callbacks import KeepBest
from lightning_sasv.data.corpus import Corpus
from lightning_sasv.errors import InputError
from lightning_sasv.models import SASVModule
from lightning_sasv.models.training import Choice
from tests.helpers import failure_of, quiet_trainer, shared_data
from tests.models.test_cm_head import plain_copy
from tests.models.test_module import plain_losses, same, weights

SGD = Choice(torch.optim.SGD, {"lr": 0.5, "momentum": 0.5})


def fit(
    twin: Corpus, folder: Path, *seeds: int, ckpt: Path | None = None, **settings: Any
) -> tuple[SASVModule, pl.Trainer]:
    module = SASVModule(seeds=seeds or (3,)).double()
    module.optimizer = settings.pop("optimizer", SGD)
    module.lr_scheduler = settings.pop("lr_scheduler", None)
    settings = {"epochs": 2, "precision": "64-true", "best": False} | settings
    trainer = quiet_trainer(folder, **settings)
    trainer.fit(module, shared_data(twin, steps_per_block=7, seeds=module.seeds), ckpt_path=ckpt)
    return module, trainer


@pytest.mark.parametrize(
    ("algorithm", "clip"), [("norm", clip_grad_norm_), ("value", clip_grad_value_)]
)
def test_a_plain_loop_of_the_same_optimiser_schedule_and_clipping(
    twin: Corpus, tmp_path: Path, algorithm: str, clip: Any
) -> None:
    limit = {"norm": 0.02, "value": 0.002}[algorithm]
    plain = plain_copy(SASVModule(seeds=(3,)).double().head)
    module, trainer = fit(
        twin,
        tmp_path,
        lr_scheduler=Choice(ExponentialLR, {"gamma": 0.1}),
        gradient_clip_val=limit,
        gradient_clip_algorithm=algorithm,
    )
    assert trainer.gradient_clip_val == limit  # said as it was given
    optimizer = torch.optim.SGD(plain.parameters(), **SGD.settings)
    schedule = ExponentialLR(optimizer, 0.1)
    clipped = 0
    for epoch in range(2):
        for loss in plain_losses(plain, twin, epoch):
            optimizer.zero_grad()
            loss.backward()
            norm = clip(plain.parameters(), limit)
            clipped += norm is None or bool(norm > limit)
            optimizer.step()
        schedule.step()
    assert clipped, "nothing to clip: the test shows nothing"
    for mine, theirs in zip(plain_copy(module.head).parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


def test_stacked_seeds_are_clipped_each_by_itself(twin: Corpus, tmp_path: Path) -> None:
    together, _ = fit(twin, tmp_path / "all", 11, 12, epochs=1, gradient_clip_val=0.02)
    for copy, seed in enumerate((11, 12)):
        alone, _ = fit(twin, tmp_path / str(seed), seed, epochs=1, gradient_clip_val=0.02)
        for name, value in weights(alone).items():
            torch.testing.assert_close(weights(together)[name][[copy]], value, rtol=0, atol=1e-9)


def test_a_schedule_goes_on_where_it_was(twin: Corpus, tmp_path: Path) -> None:
    schedule = Choice(ExponentialLR, {"gamma": 0.5})
    whole, _ = fit(twin, tmp_path / "whole", lr_scheduler=schedule, epochs=3)
    _, first = fit(twin, tmp_path / "part", lr_scheduler=schedule, epochs=2)
    last = Path(first.log_dir or "") / "checkpoints" / "last.ckpt"
    rest, _ = fit(twin, tmp_path / "rest", lr_scheduler=schedule, epochs=3, ckpt=last)
    assert same(weights(whole), weights(rest))


def test_a_plateau_follows_a_logged_value(twin: Corpus, tmp_path: Path) -> None:
    never_better = {"patience": 0, "factor": 0.1, "threshold": 1e9, "threshold_mode": "abs"}
    plateau = Choice(ReduceLROnPlateau, never_better)
    _, trainer = fit(twin, tmp_path, lr_scheduler=plateau, epochs=3)
    assert trainer.optimizers[0].param_groups[0]["lr"] == pytest.approx(0.5 * 0.01)


@pytest.mark.parametrize(
    ("kind", "seeds", "reason"),
    [
        (torch.optim.LBFGS, (3,), "LBFGS computes the loss several times"),
        (torch.optim.Adafactor, (3, 4), "Adafactor would mix the 2 seeds"),
    ],
)
def test_optimisers_that_cannot_be_used(kind: Any, seeds: tuple[int, ...], reason: str) -> None:
    module = SASVModule(seeds=seeds)
    module.optimizer = Choice(kind)
    with pytest.raises(InputError, match=reason):
        module.configure_optimizers()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"accumulate_grad_batches": 2}, r"set --data\.batch_size"),
        ({"callbacks": [StochasticWeightAveraging(0.1)]}, "best epoch, not an average"),
    ],
)
def test_what_has_no_meaning_is_refused(
    twin: Corpus, tmp_path: Path, settings: Any, reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        fit(twin, tmp_path, **settings)


def test_our_settings_beside_another_optimiser_are_refused_with_a_way_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["fit", "--config", "E2", "--data.scale=0.01", "--optimizer", "torch.optim.SGD"]
    words += ["--optimizer.lr=0.1", "--check"]
    assert "by --model.lr 5e-05" in failure_of(capsys, *words)
    module = SASVModule(lr_decay=1e-4)
    module.optimizer = SGD
    with pytest.raises(InputError, match=r"--model\.lr_decay 0"):
        module.configure_optimizers()


class Note(pl.Callback):
    """Notes after how many steps something happens."""

    def __init__(self) -> None:
        self.validated: list[int] = []
        self.epochs: list[int] = []

    def on_validation_end(self, trainer: pl.Trainer, *_: Any) -> None:
        self.validated.append(trainer.global_step)

    def on_train_epoch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        self.epochs.append(trainer.global_step)


def fit_blocks(
    twin: Corpus, folder: Path, block: int = 8, ckpt: Path | None = None, **settings: Any
) -> tuple[SASVModule, pl.Trainer, Note]:
    """A training in blocks of so many steps; 34 are an epoch."""
    module, note = SASVModule(), Note()
    callbacks = [note, *settings.pop("callbacks", [])]
    settings = {"epochs": 3, "callbacks": callbacks, "best": False} | settings
    trainer = quiet_trainer(folder, **settings)
    data = shared_data(twin, steps_per_block=block)
    trainer.fit(module, data, ckpt_path=ckpt)
    return module, trainer, note


@pytest.mark.parametrize("steps", [5, 34, 43])
def test_so_many_steps_are_made_and_the_last_is_validated(
    twin: Corpus, tmp_path: Path, steps: int
) -> None:
    best = KeepBest()
    module, trainer, note = fit_blocks(twin, tmp_path / "blocks", max_steps=steps, callbacks=[best])
    assert trainer.global_step == note.validated[-1] == steps
    assert best.head
    single, *_ = fit_blocks(twin, tmp_path / "1", 1, max_steps=steps, callbacks=[KeepBest()])
    assert same(weights(module), weights(single))
    with (Path(trainer.log_dir or "") / "metrics.csv").open() as file:
        logged = [int(row["step"]) for row in csv.DictReader(file)]
    assert set(logged) == {*range(34, steps, 34), steps}


def test_a_training_that_stopped_within_an_epoch_goes_on_there(
    twin: Corpus, tmp_path: Path
) -> None:
    whole, *_ = fit_blocks(twin, tmp_path / "whole", max_steps=60)
    _, first, _ = fit_blocks(twin, tmp_path / "part", max_steps=43)
    last = Path(first.log_dir or "") / "checkpoints" / "last.ckpt"
    assert torch.load(last, weights_only=True)["global_step"] == 43
    rest, trainer, _ = fit_blocks(twin, tmp_path / "rest", ckpt=last, max_steps=60)
    assert trainer.global_step == 60
    assert same(weights(whole), weights(rest))


@pytest.mark.parametrize(
    ("settings", "validated", "epochs"),
    [
        ({"val_check_interval": 10}, [10, 20, 30, 44, 54, 64], [34, 68]),
        ({"val_check_interval": 0.5}, [17, 34, 51, 68], [34, 68]),
        ({"val_check_interval": 30, "check_val_every_n_epoch": None}, [30, 60], [34, 68]),
        ({"limit_train_batches": 10}, [10, 20], [10, 20]),
        ({"limit_train_batches": 0.5}, [17, 34], [17, 34]),
        ({"overfit_batches": 3}, [3, 6], [3, 6]),
    ],
)
def test_batches_of_the_trainer_are_steps(
    twin: Corpus, tmp_path: Path, settings: Any, validated: list[int], epochs: list[int]
) -> None:
    *_, note = fit_blocks(twin, tmp_path, epochs=2, **settings)
    assert (note.validated, note.epochs) == (validated, epochs)


def test_limited_epochs_resume_at_their_beginning(twin: Corpus, tmp_path: Path) -> None:
    whole, *_ = fit_blocks(twin, tmp_path / "whole", limit_train_batches=10)
    _, first, _ = fit_blocks(twin, tmp_path / "part", limit_train_batches=10, epochs=2)
    last = Path(first.log_dir or "") / "checkpoints" / "last.ckpt"
    rest, trainer, _ = fit_blocks(twin, tmp_path / "rest", ckpt=last, limit_train_batches=10)
    assert trainer.global_step == 30
    assert same(weights(whole), weights(rest))


def test_checkpoints_of_every_so_many_steps(twin: Corpus, tmp_path: Path) -> None:
    saves = ModelCheckpoint(tmp_path / "all", "{step}", save_top_k=-1, every_n_train_steps=9)
    fit_blocks(twin, tmp_path, epochs=2, callbacks=[saves])
    found = {path.name for path in (tmp_path / "all").iterdir()}
    assert found == {f"step={step}.ckpt" for step in range(9, 68, 9)}
