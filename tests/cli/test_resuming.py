"""A training goes on as it began: same settings, same folder, same W&B run, its history kept."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from lightning_sasv.cli import main
from lightning_sasv.commands.train import base_config
from lightning_sasv.loggers import wandb_logger
from tests.helpers import failure_of
from tests.wandb_log import read_ended_runs, read_offline_runs

CONFIGS = base_config().parent
L3C, WANDB = (["--config", str(CONFIGS / name)] for name in ("L3c.yaml", "logger/wandb.yaml"))
MADE = ["--data.scale=0.01", "--model.hidden_dims=[8,4]", "--model.lr=0.01", "--seed_everything=7"]
FEW = ["--trainer.max_epochs=1", "--trainer.accelerator=cpu", "--evaluate=false"]
MORE = ["--trainer.max_epochs=2", *FEW[1:]]
RUN = Path("runs/L3c/version_0")
LAST = RUN / "checkpoints" / "last.ckpt"

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a training was begun."""
    folder = tmp_path_factory.mktemp("begun")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        main(["fit", *L3C, *MADE, *FEW])
    return folder


@pytest.fixture
def here(begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(begun, tmp_path / "a")
    monkeypatch.chdir(tmp_path / "a")
    return tmp_path / "a"


def last() -> dict[str, Any]:
    return torch.load(LAST, weights_only=True)


def test_all_settings_that_differ_are_listed(here: Path, capsys: Capture) -> None:
    others = {
        "model.lr": "0.5",
        "model.systems": "['B1', 'L3c']",
        "data.scale": "0.02",
        "data.batch_size": "12",
        "trainer.precision": "64-true",
        "trainer.limit_val_batches": "0.5",
    }
    words = [f"--{name}={value}" for name, value in others.items()]
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
    seed = "--seed_everything=8"
    said = failure_of(capsys, "fit", *L3C, *MORE, "--ckpt_path", LAST, *words, seed)
    assert "a training goes on with the settings that it began with" in said
    for name, value in others.items():
        assert f"{name} " in said
        assert f" there, {value} now" in said
    assert "data.scale 0.01 there, 0.02 now" in said
    assert "seed [7] there, [8] now" in said
    assert "corpus.fingerprint " in said
    after = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
    assert after == before


def test_the_optimiser_stays(here: Path, capsys: Capture) -> None:
    """Its state is restored, so that another one's settings would be ignored."""
    other = ["--model.lr=5e-05", "--optimizer=torch.optim.AdamW", "--optimizer.lr=0.1"]
    said = failure_of(capsys, "fit", RUN, *MORE, *other)
    assert "optimizer None there, AdamW(lr=0.1" in said


def test_what_may_change_is_recorded(here: Path) -> None:
    main(["fit", str(RUN), *MORE, "--threads=2", "--data.score_batch_size=100"])
    torch.set_num_threads(1)
    made = last()["made_with"]
    changed = {
        one["setting"]: (one["epoch"], one["before"], one["after"]) for one in made["changed"]
    }
    assert changed == {
        "trainer.max_epochs": (1, 1, 2),
        "trainer.threads": (1, 1, 2),
        "data.score_batch_size": (1, 1024, 100),
    }
    assert made["trainer"]["max_epochs"] == 2
    used = yaml.safe_load((RUN / "config.yaml").read_text())
    assert (used["threads"], used["trainer"]["max_epochs"]) == (2, 2)
    assert (used["model"]["lr"], used["data"]["scale"]) == (0.01, 0.01)  # those of the checkpoint
    assert not list(Path("runs").glob("*/version_1"))


@pytest.mark.parametrize("way", [["--ckpt_path", str(LAST)], [*L3C, "--ckpt_path=last"]])
def test_the_same_bits_without_naming_a_setting(way: list[str], here: Path, begun: Path) -> None:
    main(["fit", *way, *MORE])
    resumed = last()
    shutil.rmtree(here / "runs")
    main(["fit", *L3C, *MADE, *MORE])
    whole = last()
    assert resumed["epoch"] == whole["epoch"] == 1
    for name, value in whole["state_dict"].items():
        assert torch.equal(resumed["state_dict"][name], value), name


def rows() -> list[dict[str, str]]:
    with (RUN / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_history_is_kept_with_new_columns(here: Path) -> None:
    """The callback that is new logs one."""
    before = rows()
    new = "--trainer.callbacks+=pytorch_lightning.callbacks.LearningRateMonitor"
    main(["fit", str(RUN), *MORE, new])
    after = rows()
    assert "lr-Adam" in after[0]
    assert "lr-Adam" not in before[0]
    for old, row in zip(before, after, strict=False):
        assert {name: row[name] for name in old} == old
    assert {row["epoch"] for row in after if row["train/loss"]} == {"0", "1"}
    main(["fit", str(RUN), "--trainer.max_epochs=3", *FEW[1:]])  # and without it again
    assert rows()[: len(after)] == after


def test_the_wandb_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each training in a process of its own, as people start them: W&B keeps state in one."""

    def fit(*more: str) -> None:
        words = ["fit", *L3C, *WANDB, *MADE, *more]
        command = [sys.executable, "-P", "-m", "lightning_sasv.cli", *words]
        subprocess.run(command, check=True, capture_output=True)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    fit(*FEW)
    (first,) = read_offline_runs(tmp_path)
    fit(*MORE, "--ckpt_path=last")
    runs = read_offline_runs(tmp_path)
    assert [one.id for one in runs] == [first.id] * 2
    assert {row["epoch"] for row in runs[-1].history if "train/loss" in row} == {1}
    assert last()["made_with"]["wandb"] == first.id
    bad = last()
    bad["made_with"]["wandb"] = "../../x"
    torch.save(bad, LAST)
    fit(*FEW, "--trainer.max_epochs=3", "--ckpt_path=last")
    assert last()["made_with"]["wandb"] not in (first.id, "../../x")


def test_wandb_takes_names_of_people_and_purposes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    said: dict[str, Any] = {"entity": "us", "tags": ["twin", "L3c"], "notes": "why"}
    logger = wandb_logger(str(tmp_path), **said)
    assert logger.experiment.entity == "us"  # type: ignore[attr-defined]
    logger.finalize("success")
    (run,) = read_ended_runs(tmp_path)
    assert (run.entity, run.tags, run.notes) == ("us", ["twin", "L3c"], "why")
