"""A block of steps is one batch to Lightning; what counts steps counts those of the optimiser."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint

from lightning_sasv.callbacks import KeepBest
from lightning_sasv.data.corpus import Corpus
from lightning_sasv.models import SASVModule
from tests.helpers import quiet_trainer, shared_data
from tests.models.test_module import same, weights


class Note(pl.Callback):
    """Notes after how many steps something happens."""

    def __init__(self) -> None:
        self.validated: list[int] = []
        self.epochs: list[int] = []

    def on_validation_end(self, trainer: pl.Trainer, *_: Any) -> None:
        self.validated.append(trainer.global_step)

    def on_train_epoch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        self.epochs.append(trainer.global_step)


def fit(
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
    module, trainer, note = fit(twin, tmp_path / "blocks", max_steps=steps, callbacks=[best])
    assert trainer.global_step == note.validated[-1] == steps
    assert best.head
    single, *_ = fit(twin, tmp_path / "1", 1, max_steps=steps, callbacks=[KeepBest()])
    assert same(weights(module), weights(single))
    with (Path(trainer.log_dir or "") / "metrics.csv").open() as file:
        logged = [int(row["step"]) for row in csv.DictReader(file)]
    assert set(logged) == {*range(34, steps, 34), steps}


def test_a_training_that_stopped_within_an_epoch_goes_on_there(
    twin: Corpus, tmp_path: Path
) -> None:
    whole, *_ = fit(twin, tmp_path / "whole", max_steps=60)
    _, first, _ = fit(twin, tmp_path / "part", max_steps=43)
    last = Path(first.log_dir or "") / "checkpoints" / "last.ckpt"
    assert torch.load(last, weights_only=True)["global_step"] == 43
    rest, trainer, _ = fit(twin, tmp_path / "rest", ckpt=last, max_steps=60)
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
    *_, note = fit(twin, tmp_path, epochs=2, **settings)
    assert (note.validated, note.epochs) == (validated, epochs)


def test_limited_epochs_resume_at_their_beginning(twin: Corpus, tmp_path: Path) -> None:
    whole, *_ = fit(twin, tmp_path / "whole", limit_train_batches=10)
    _, first, _ = fit(twin, tmp_path / "part", limit_train_batches=10, epochs=2)
    last = Path(first.log_dir or "") / "checkpoints" / "last.ckpt"
    rest, trainer, _ = fit(twin, tmp_path / "rest", ckpt=last, limit_train_batches=10)
    assert trainer.global_step == 30
    assert same(weights(whole), weights(rest))


def test_checkpoints_of_every_so_many_steps(twin: Corpus, tmp_path: Path) -> None:
    saves = ModelCheckpoint(tmp_path / "all", "{step}", save_top_k=-1, every_n_train_steps=9)
    fit(twin, tmp_path, epochs=2, callbacks=[saves])
    found = {path.name for path in (tmp_path / "all").iterdir()}
    assert found == {f"step={step}.ckpt" for step in range(9, 68, 9)}
