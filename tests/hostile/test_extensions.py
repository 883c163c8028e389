"""Classes of others are names in a checkpoint: imported where registered or trusted alone."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from lightning_sasv.checkpoints import GROUP
from lightning_sasv.cli import main
from lightning_sasv.data import make_twin
from lightning_sasv.errors import InputError
from lightning_sasv.models import SASVModule
from lightning_sasv.program import Program, using
from tests.helpers import plain_trainer, shared_data
from tests.hostile.conftest import Attack
from tests.hostile.corpus import MARK

SOURCE = """
from pathlib import Path
from pytorch_lightning import Callback
from lightning_sasv.data import SASVDataModule
from lightning_sasv.models import SASVModule
Path("mark").touch()

class Shifted(SASVModule):
    def __init__(self, shift: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.shift = shift

class Named(SASVDataModule):
    def __init__(self, word: str = "", **kwargs):
        super().__init__(**kwargs)
        self.word = word

class Counts(Callback):
    def __init__(self, by: int = 1):
        self.by, self.seen = by, 0
    def on_train_epoch_end(self, trainer, pl_module):
        self.seen += self.by
    def state_dict(self):
        return {"seen": self.seen}
    def load_state_dict(self, state_dict):
        self.seen = state_dict["seen"]
"""
TINY = ("--data.scale=0.01", "--trainer.accelerator=cpu")


@pytest.fixture
def saved(here: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A checkpoint that was made with classes of ``others``, which has not been imported since."""
    (here / "lib").mkdir()
    (here / "lib" / "others.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(here / "lib"))
    others = importlib.import_module("others")
    data = others.Named("word", scale=0.01)
    data.__dict__["corpus"] = make_twin(0.01)
    module = others.Shifted(0.5, hidden_dims=(4,), systems=("B1",))
    trainer = plain_trainer(1, [others.Counts(7)], enable_checkpointing=False)
    trainer.fit(module, data)
    trainer.save_checkpoint(here / "x.ckpt")
    del sys.modules["others"]
    Path(MARK).unlink()
    yield here / "x.ckpt"
    sys.modules.pop("others", None)


def register(here: Path, *names: str) -> None:
    """Install a package that registers classes."""
    folder = here / "lib" / "others-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1\n")
    lines = "".join(f"{name} = others:{name}\n" for name in names)
    (folder / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}")
    importlib.invalidate_caches()


def test_a_checkpoint_names_classes_and_plain_settings(saved: Path) -> None:
    found = torch.load(saved, weights_only=True)["extensions"]
    assert found["model"]["class"] == "others.Shifted"
    assert found["model"]["settings"]["shift"] == 0.5
    assert found["data"]["settings"]["word"] == "word"
    assert found["callbacks/Counts"] == {"class": "others.Counts", "settings": {"by": 7}}


@pytest.mark.parametrize("command", ["fit", "test"])
def test_a_class_is_named_and_not_imported(command: str, saved: Path, attack: Attack) -> None:
    said = attack(command, "--ckpt_path=x.ckpt", *TINY)
    assert "made with the class others.Shifted" in said
    assert "--trust-config" in said
    assert GROUP in said
    assert "others" not in sys.modules


@pytest.mark.parametrize("way", ["trusted", "registered"])
def test_a_class_is_used(way: str, saved: Path, here: Path) -> None:
    if way == "registered":
        register(here, "Shifted", "Named")
    trust = ["--trust-config"] if way == "trusted" else []
    main(["test", "--ckpt_path=x.ckpt", "--trainer.accelerator=cpu", *trust])
    assert Path(MARK).exists()  # and the corpus was made at the scale of the checkpoint
    assert list(here.rglob("metrics.json"))


def test_only_the_registered_class_is_imported(saved: Path, here: Path, attack: Attack) -> None:
    register(here, "Named")
    assert "made with the class others.Shifted" in attack("test", "--ckpt_path=x.ckpt", *TINY)


def go_on(path: Path) -> Any:
    data = shared_data(make_twin(0.01))
    trainer = plain_trainer(2, [], enable_checkpointing=False)
    trainer.fit(SASVModule(hidden_dims=(4,), systems=("B1",)), datamodule=data, ckpt_path=path)
    return trainer


def test_callbacks_with_a_state_are_not_lost(saved: Path, here: Path) -> None:
    content = torch.load(saved, weights_only=True)
    del content["extensions"]["model"]
    torch.save(content, saved)
    with pytest.raises(InputError, match=r"made with the class others\.Counts"):
        go_on(saved)
    assert not Path(MARK).exists()
    with using(Program(trust_config=True)):
        (counts,) = [c for c in go_on(saved).callbacks if type(c).__name__ == "Counts"]
    assert counts.seen == 14


RECORDS: dict[str, Any] = {
    "no class": "os.system",
    "no mapping": {"model": "os.system"},
    "other words": {"model": {"class_path": "os.system", "init_args": {}}},
    "a class in the settings": {
        "model": {"class": "x.Y", "settings": {"fusion": {"class_path": "os.system"}}}
    },
    "a variable": {"model": {"class": "x.Y", "settings": {"shift": "${oc.env:HOME}"}}},
    "tensors": {"model": {"class": "x.Y", "settings": {"shift": torch.ones(2)}}},
}


@pytest.mark.parametrize("name", RECORDS)
def test_hostile_records(name: str, saved: Path, attack: Attack) -> None:
    content = torch.load(saved, weights_only=True)
    torch.save(content | {"extensions": RECORDS[name]}, saved)
    assert "x.ckpt is" in attack("test", "--ckpt_path=x.ckpt", *TINY)


def test_a_trusted_name_is_that_of_a_module(saved: Path, attack: Attack) -> None:
    content = torch.load(saved, weights_only=True)
    content["extensions"] = {"model": {"class": "os.system", "settings": {"command": "touch mark"}}}
    torch.save(content, saved)
    assert "os.system" in attack("test", "--ckpt_path=x.ckpt", "--trust-config", *TINY)
