"""Pickles, checkpoints and weights that would run code are refused, and run nothing."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

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
    words = {"fit": ("--data.root=data",), "import": ("data", "--out=out")}
    assert "cm_embd_trn.pk is refused: it asks for" in attack(command, *words[command])


@pytest.mark.parametrize("command", ["fit", "test"])
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints_run_nothing(command: str, name: str, here: Path, attack: Attack) -> None:
    CHECKPOINTS[name](here / "x.ckpt")
    assert "x.ckpt" in attack(command, "--ckpt_path", "x.ckpt", *SMALL)


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
