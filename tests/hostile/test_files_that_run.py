"""Pickles, checkpoints and configurations that would run code are refused, and run nothing."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

from lightning_sasv.cli import main
from lightning_sasv.commands.train import base_config
from lightning_sasv.data.pickles import load_pickle
from lightning_sasv.data.protocols import TRAIN_PROTOCOL
from lightning_sasv.errors import InputError
from tests.hostile.conftest import Attack
from tests.hostile.corpus import MARK, checkpoints, pickles

PICKLES = pickles()
CHECKPOINTS = checkpoints()
SMALL = ("--data.scale=0.02", "--trainer.accelerator=cpu")


def test_the_corpus_is_hostile(here: Path) -> None:
    """Without our reader the marks would be there."""
    pickle.loads(PICKLES["value"])
    assert Path(MARK).exists()


@pytest.mark.parametrize("name", PICKLES)
def test_pickles_run_nothing(name: str, here: Path) -> None:
    Path("x.pk").write_bytes(PICKLES[name])
    with pytest.raises(InputError, match=r"x\.pk is (refused|damaged)"):
        load_pickle("x.pk")
    assert not Path(MARK).exists()


@pytest.mark.parametrize("command", ["fit", "import"])
@pytest.mark.parametrize("name", ["system", "nested", "object array", "getattr", "stack global"])
def test_corpora_of_hostile_pickles(command: str, name: str, here: Path, attack: Attack) -> None:
    Path("data").mkdir()
    (here / "data" / TRAIN_PROTOCOL).write_text("S1 U1 - - bonafide\n")
    (here / "data" / "cm_embd_trn.pk").write_bytes(PICKLES[name])
    args = (
        ["fit", "--data.root", "data"] if command == "fit" else ["import", "data", "--out", "out"]
    )
    assert "cm_embd_trn.pk is refused: it asks for" in attack(*args)


@pytest.mark.parametrize("command", ["fit", "test"])
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints_run_nothing(command: str, name: str, here: Path, attack: Attack) -> None:
    CHECKPOINTS[name](here / "x.ckpt")
    assert "x.ckpt" in attack(command, "--ckpt_path", "x.ckpt", *SMALL)


def test_resuming_from_a_hostile_checkpoint(here: Path, attack: Attack) -> None:
    folder = here / "runs" / "B1" / "version_0" / "checkpoints"
    folder.mkdir(parents=True)
    CHECKPOINTS["system"](folder / "last.ckpt")
    config = str(base_config().parent / "B1.yaml")
    said = attack("fit", "--config", config, "--ckpt_path", "last", *SMALL)
    assert "last.ckpt is refused: it asks for" in said


EVIL = "from pathlib import Path\nPath('mark').touch()\nfrom pytorch_lightning import Callback\n"
EVIL += "class Evil(Callback):\n    pass\ndef run(*args, **kwargs):\n    pass\n"
LAMBDA = "trainer: {callbacks: [{class_path: pytorch_lightning.callbacks.LambdaCallback, "
LAMBDA += "init_args: {on_fit_start: NAME}}]}\n"
CONFIGS = {
    "tag": "data: {root: !!python/object/apply:os.system ['touch mark']}\n",
    "new tag": "data: {root: !!python/object/new:os.system ['touch mark']}\n",
    "module tag": "data: !!python/module:evil_module x\n",
    "class": "trainer: {callbacks: [{class_path: evil_module.Evil}]}\n",
    "class as text": "trainer: {callbacks: [evil_module.Evil]}\n",
    "class under a dotted key": "trainer.callbacks: [{class_path: evil_module.Evil}]\n",
    "class by alias": "x: &x evil_module.Evil\ntrainer: {callbacks: [{class_path: *x}]}\n",
    "class put together": "data: {name: Evil}\n"
    "trainer: {callbacks: [{class_path: 'evil_module.${data.name}'}]}\n",
    "function": LAMBDA.replace("NAME", "evil_module.run"),
    "function put together": "data: {name: evil_module}\n"
    + LAMBDA.replace("NAME", "'${data.name}.run'"),
    "function of another module": LAMBDA.replace("NAME", "torch.os.abort"),
    "subprocess": "trainer: {logger: {class_path: subprocess.Popen, init_args: {args: [touch, "
    "mark]}}}\n",
    "deep": "data: " + "[" * 5000 + "]" * 5000 + "\n",
}


@pytest.fixture
def evil(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that leaves a mark when it is imported."""
    (here / "evil_module.py").write_text(EVIL)
    monkeypatch.syspath_prepend(str(here))
    monkeypatch.delitem(sys.modules, "evil_module", raising=False)


@pytest.mark.usefixtures("evil")
@pytest.mark.parametrize("suffix", [".yaml", ".txt", ""])
@pytest.mark.parametrize("name", CONFIGS)
def test_configurations_run_nothing(name: str, suffix: str, here: Path, attack: Attack) -> None:
    (here / f"x{suffix}").write_text(CONFIGS[name])
    said = attack("fit", "--config", f"x{suffix}", "--trainer.fast_dev_run=true", *SMALL)
    assert "tag" not in name or f"x{suffix}, line 1: not valid YAML" in said
    if name == "class":
        assert f"x{suffix} asks for evil_module.Evil" in said
        assert "--trust-config" in said


@pytest.mark.usefixtures("evil")
@pytest.mark.parametrize("option", ["--config=outer.yaml", "--trainer=inner.yaml"])
def test_included_files_are_checked_too(option: str, here: Path, attack: Attack) -> None:
    (here / "inner.yaml").write_text("callbacks:\n  - class_path: evil_module.Evil\n")
    (here / "outer.yaml").write_text("trainer: inner.yaml\n")
    assert "asks for evil_module.Evil" in attack("fit", option, *SMALL)


@pytest.mark.usefixtures("evil")
def test_a_configuration_is_trusted_on_demand(here: Path) -> None:
    (here / "x.yaml").write_text(CONFIGS["class"])
    args = ["fit", "--config", "x.yaml", "--trust-config", "--data.scale=0.02"]
    main([*args, "--trainer.fast_dev_run=true", "--config", str(base_config().parent / "B1.yaml")])
    assert Path(MARK).exists()


NETWORK = "{class_path: evil_module.Evil}"
NETWORKS = {
    "config": (f"audio: .\nout: out\nonly: cm\ncm: {NETWORK}\n", ["--config=x.yaml"]),
    "option": (NETWORK, ["--audio=.", "--out=out", "--only=cm", "--cm=x.yaml"]),
}


@pytest.mark.usefixtures("evil")
@pytest.mark.parametrize("name", NETWORKS)
def test_configurations_of_extract_run_nothing(name: str, here: Path, attack: Attack) -> None:
    (here / "a.wav").write_bytes(b"RIFF")
    text, args = NETWORKS[name]
    (here / "x.yaml").write_text(text)
    said = attack("extract", *args)
    assert name == "option" or "asks for evil_module.Evil" in said


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_weights_run_nothing(name: str, here: Path, attack: Attack) -> None:
    CHECKPOINTS[name](here / "x.pth")
    (here / "a.wav").write_bytes(b"RIFF")
    args = ("--audio=.", "--out=out", "--only=cm", "--cm=x.pth")
    assert "x.pth" in attack("extract", *args)


@pytest.mark.parametrize("text", ["c_miss: !!python/name:os.system", "!!python/object/new:int []"])
def test_other_yaml_files_run_nothing(text: str, here: Path, attack: Attack) -> None:
    (here / "x.yaml").write_text(text + "\n")
    (here / "x.csv").write_text("speaker,utterance,label,asv_score,cm_score\nS,U,target,1,2\n")
    attack("evaluate", "x.csv", "--costs", "x.yaml")
    attack("sweep", "x.yaml", "--offline")
