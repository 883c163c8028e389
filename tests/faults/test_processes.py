"""Two processes give what one gives: every trial once, the same metrics, the same training."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
import torch

from lightning_sasv.commands.train import base_config
from lightning_sasv.scores import read_scores
from tests.faults.forks import running, wait_for

pytestmark = pytest.mark.ddp

CONFIG = str(base_config().parent / "L3c.yaml")
SMALL = ["--config", CONFIG, "--data.scale=0.02", "--trainer.accelerator=cpu"]
TWO = ["--trainer.devices=2", "--trainer.strategy=ddp"]


def run(folder: Path, *args: str) -> Path:
    """Run a command and return the folder of its results."""
    folder.mkdir(parents=True, exist_ok=True)
    with running(folder, *args) as process:
        output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, output + errors
    return folder / "runs" / "L3c" / "version_0"


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training by one process."""
    return run(tmp_path_factory.mktemp("one"), "fit", *SMALL, "--trainer.max_epochs=2")


@pytest.mark.parametrize("size", ["101", "4096"], ids=["uneven", "empty rank"])
def test_evaluation_is_the_same(one: Path, tmp_path: Path, size: str) -> None:
    checkpoint = f"--ckpt_path={one / 'checkpoints' / 'best.ckpt'}"
    two = run(tmp_path, "test", *SMALL, *TWO, checkpoint, f"--data.score_batch_size={size}")
    mine, theirs = (json.loads((f / "metrics.json").read_text())["L3c"] for f in (two, one))
    assert mine["fitted"] == theirs["fitted"]
    for key, value in theirs["eval"].items():
        assert mine["eval"][key] == pytest.approx(value, rel=1e-6), key
    mine, theirs = (read_scores(f / "scores" / "eval.csv") for f in (two, one))
    assert (mine.utterance == theirs.utterance).all()
    assert abs(mine.cm - theirs.cm).max() < 1e-5  # batches of another size round differently


def test_training_is_equivalent(one: Path, tmp_path: Path) -> None:
    """Weights, fitted systems and metrics agree up to the order of summation."""
    two = run(tmp_path, "fit", *SMALL, *TWO, "--trainer.max_epochs=2")
    mine, theirs = (
        torch.load(f / "checkpoints" / "last.ckpt", weights_only=True) for f in (two, one)
    )
    assert mine["global_step"] == theirs["global_step"]
    for name, value in theirs["state_dict"].items():
        if name.startswith("head."):
            torch.testing.assert_close(mine["state_dict"][name], value, rtol=0, atol=1e-5)
    mine, theirs = (json.loads((f / "metrics.json").read_text())["L3c"] for f in (two, one))
    for split in ("dev", "eval"):
        assert mine[split]["sasv_eer"] == pytest.approx(theirs[split]["sasv_eer"], abs=1e-3)
    mine, theirs = (len(read_scores(f / "scores" / "eval.csv")) for f in (two, one))
    assert mine == theirs


def test_a_process_that_dies_ends_the_run(tmp_path: Path) -> None:
    with running(tmp_path, "fit", *SMALL, *TWO, "--trainer.max_epochs=100000") as process:
        wait_for(process, tmp_path, "runs/L3c/version_0/metrics.csv")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert children, "no second process was started"
        os.kill(int(children[0]), signal.SIGKILL)
        _, errors = process.communicate(timeout=60)  # far less than the timeout of the group
    assert process.returncode == 1, errors
    assert "another process of this run died" in errors
