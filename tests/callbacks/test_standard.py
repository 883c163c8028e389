"""The callbacks that make results are there whatever a configuration lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pytorch_lightning import Trainer
from pytorch_lightning.accelerators import MPSAccelerator
from pytorch_lightning.callbacks import (
    Callback,
    EarlyStopping,
    ModelCheckpoint,
    RichProgressBar,
    TQDMProgressBar,
)
from pytorch_lightning.loggers import CSVLogger

from lightning_sasv.callbacks import (
    FitFusion,
    KeepBest,
    LogFigures,
    SaveLast,
    StopEarly,
    WriteResults,
)
from lightning_sasv.callbacks.standard import settle, usable, with_ours
from lightning_sasv.callbacks.write_results import check_results
from lightning_sasv.data.corpus import Corpus
from lightning_sasv.errors import InputError
from lightning_sasv.models import SASVModule
from tests.helpers import quiet_trainer, shared_data

OURS = [FitFusion, WriteResults, LogFigures, KeepBest, SaveLast, RichProgressBar]


def kinds(callbacks: list[Callback]) -> list[type]:
    return [type(one) for one in callbacks]


def test_callbacks_of_the_user_are_added() -> None:
    stops, saves = EarlyStopping("val/cm_eer"), ModelCheckpoint(save_top_k=-1)
    assert with_ours([stops, saves])[-2:] == [stops, saves]
    assert kinds(with_ours([stops])) == [*OURS, EarlyStopping]
    assert kinds(settle({"callbacks": stops})["callbacks"]) == [*OURS, EarlyStopping]


def test_one_of_our_classes_sets_the_options_of_ours() -> None:
    """As the config.yaml of every older run lists them."""
    last = ModelCheckpoint(dirpath="elsewhere", filename="last", save_top_k=1, every_n_epochs=1)
    writes = WriteResults("results")
    found = with_ours([FitFusion(), WriteResults("first"), writes, LogFigures(), last])
    assert kinds(found) == OURS
    assert found[1] is writes
    saves = found[4]
    assert isinstance(saves, SaveLast)
    assert str(saves.dirpath).endswith("elsewhere")


def test_bars_and_checkpoints_can_be_left_out() -> None:
    listed = [RichProgressBar(), SaveLast()]
    found = settle({"callbacks": listed, "enable_progress_bar": False})
    assert kinds(found["callbacks"]) == OURS[:-1]
    assert kinds(settle({"callbacks": None}, quiet=True)["callbacks"]) == OURS[:-1]
    found = settle({"callbacks": listed, "enable_checkpointing": False})
    assert kinds(found["callbacks"]) == [*OURS[:4], RichProgressBar]
    assert not found["callbacks"][3].save
    other = TQDMProgressBar()
    assert with_ours([other])[-1] is other
    assert len(with_ours([other])) == len(OURS)


def test_missing_tensorboard_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lightning_sasv.callbacks.standard.find_spec", lambda name: None)
    with pytest.warns(UserWarning, match="TensorBoard is not installed: .* to metrics.csv"):
        assert isinstance(settle({"logger": True})["logger"], CSVLogger)
    assert settle({"logger": False})["logger"] is False


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_epochs": 0}, "max_epochs 0: nothing would be trained"),
        ({"max_steps": 0}, "max_steps 0: nothing would be trained"),
        ({"limit_train_batches": 0}, "limit_train_batches 0: nothing would be trained"),
        ({"limit_val_batches": 0}, "limit_val_batches 0: systems are fitted"),
        ({"check_val_every_n_epoch": 3}, "check_val_every_n_epoch 3: none of 2 epochs"),
    ],
)
def test_a_training_without_results_is_refused_before_it(settings: Any, words: str) -> None:
    plain = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False, "max_epochs": 2}
    with pytest.raises(InputError, match=words):
        check_results(Trainer(**plain | settings), "fit")
    for sound in ({}, {"max_epochs": -1, "max_steps": 5}, {"check_val_every_n_epoch": 2}):
        check_results(Trainer(**plain | sound), "fit")


@pytest.mark.parametrize("stage", ["validate", "test", "predict"])
def test_scoring_nothing_is_refused(stage: str) -> None:
    limit = {"validate": "limit_val_batches"}.get(stage, f"limit_{stage}_batches")
    plain = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False}
    with pytest.raises(InputError, match=f"{limit} 0: nothing would be scored"):
        check_results(Trainer(**plain, **{limit: 0}), stage)
    check_results(Trainer(**plain, max_epochs=0), stage)


@pytest.mark.parametrize(
    ("settings", "monitor"),
    [
        ({}, "val/cm_eer"),
        ({"systems": ("Post",)}, "val/sasv_eer"),
        ({"objective": "a_dcf"}, "val/a_dcf"),
        ({"monitor": "val/a_dcf"}, "val/a_dcf"),
    ],
)
def test_stopping_follows_what_the_best_epoch_is_chosen_by(settings: Any, monitor: str) -> None:
    plain = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False}
    stops, own = StopEarly(), StopEarly("val/loss", patience=1)
    for one in (stops, own):
        one.setup(Trainer(**plain), SASVModule(**settings), "fit")
    assert (stops.monitor, own.monitor) == (monitor, "val/loss")
    assert (stops.patience, stops.mode) == (3, "min")


def test_a_training_that_does_not_improve_is_ended(twin: Corpus, tmp_path: Path) -> None:
    stops = StopEarly(patience=1, min_delta=1.0)
    trainer = quiet_trainer(tmp_path, epochs=9, callbacks=[stops])
    trainer.fit(SASVModule(hidden_dims=(4,)), shared_data(twin))
    assert trainer.current_epoch == stops.stopped_epoch + 1 == 2


def test_apples_gpu_is_never_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MPSAccelerator, "is_available", lambda: False)
    assert [usable(name) for name in ("auto", "gpu")] == ["auto", "gpu"]
    monkeypatch.setattr(MPSAccelerator, "is_available", lambda: True)
    assert usable("auto") == settle({})["accelerator"] == "cpu"
    for name in ("gpu", "mps"):
        with pytest.raises(InputError, match="no float64"):
            usable(name)
