"""The callbacks that make results are there whatever a configuration lists."""

from __future__ import annotations

import pytest
from pytorch_lightning.accelerators import MPSAccelerator
from pytorch_lightning.callbacks import (
    Callback,
    EarlyStopping,
    ModelCheckpoint,
    RichProgressBar,
    TQDMProgressBar,
)
from pytorch_lightning.loggers import CSVLogger

from lightning_sasv.callbacks import FitFusion, KeepBest, LogFigures, SaveLast, WriteResults
from lightning_sasv.callbacks.standard import settle, usable, with_ours
from lightning_sasv.errors import InputError

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


def test_apples_gpu_is_never_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MPSAccelerator, "is_available", lambda: False)
    assert [usable(name) for name in ("auto", "gpu")] == ["auto", "gpu"]
    monkeypatch.setattr(MPSAccelerator, "is_available", lambda: True)
    assert usable("auto") == settle({})["accelerator"] == "cpu"
    for name in ("gpu", "mps"):
        with pytest.raises(InputError, match="no float64"):
            usable(name)
