"""W&B: offline runs hold what metrics.json holds; no account, no prompt, no crash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import wandb

from lightning_sasv import loggers
from lightning_sasv.callbacks.write_results import SHOWN
from lightning_sasv.commands.train import base_config
from lightning_sasv.loggers import wandb_logger, wandb_mode
from tests.helpers import content, metrics_in
from tests.wandb_log import OfflineRun, read_offline_run

pytestmark = pytest.mark.slow

CONFIGS = base_config().parent
FIT = ["fit", "--config", str(CONFIGS / "L3c.yaml"), "--config", str(CONFIGS / "logger/wandb.yaml")]
SMALL = ["--data.scale", "0.02", "--trainer.max_epochs", "2", "--seed_everything", "7"]


def fit(folder: Path, *args: str, **environment: str) -> Path:
    """Train in a process of its own and return the folder of the results."""
    command = [sys.executable, "-m", "lightning_sasv.cli", *args, *SMALL]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    subprocess.run(command, cwd=folder, env=one_thread, check=True)
    return folder / "runs/L3c/version_0"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[OfflineRun, Path]:
    folder = tmp_path_factory.mktemp("wandb")
    results = fit(folder, *FIT, WANDB_MODE="offline", WANDB_RUN_GROUP="table1")
    return read_offline_run(folder), results


def test_final_metrics_are_those_on_disk(run: tuple[OfflineRun, Path]) -> None:
    metrics = metrics_in(run[1])["L3c"]
    for split in ("dev", "eval"):
        for key, value in metrics[split].items():
            if value is not None:
                assert run[0].last(f"{split}/{key}") == pytest.approx(value, rel=1e-6), key


def test_every_epoch_is_logged(run: tuple[OfflineRun, Path]) -> None:
    """And in the end dev once more, with the best checkpoint: that is what a sweep compares."""
    for key, epochs in (("train/loss", [0, 1]), ("val/cm_eer", [0, 1, 2]), ("val/loss", [0, 1, 2])):
        assert [row["epoch"] for row in run[0].history if key in row] == epochs
    metrics = metrics_in(run[1])["L3c"]
    assert run[0].last("val/sasv_eer") == pytest.approx(metrics["dev"]["sasv_eer"], rel=1e-6)


def test_configuration_and_group(run: tuple[OfflineRun, Path]) -> None:
    assert run[0].group == "table1"
    assert run[0].name == "L3c-7"
    assert run[0].project == "lightning_sasv"
    assert run[0].config["systems"] == ["L3c"]
    assert run[0].config["seeds"] == [7]
    assert run[0].config["scale"] == 0.02
    assert run[0].config["hidden_dims"] == [258, 128, 64]


def test_figures_are_logged(run: tuple[OfflineRun, Path]) -> None:
    keys = [key for row in run[0].history for key in row if key.startswith("figures/")]
    assert {key.split("/")[1] for key in keys} == {*SHOWN} - {"forest"}
    assert any(name.endswith(".png") for name in run[0].files)


def test_results_do_not_depend_on_wandb(run: tuple[OfflineRun, Path], tmp_path: Path) -> None:
    plain = fit(tmp_path, *FIT[:3])
    for name in ("metrics.json", "scores/eval.csv", "scores/dev.csv"):
        assert content(plain / name) == content(run[1] / name)


def test_no_account_is_offline_without_a_prompt(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert wandb_mode() == "offline"


@pytest.mark.parametrize(
    ("value", "mode"), [("offline", "offline"), ("disabled", "offline"), ("online", "online")]
)
def test_the_environment_decides(monkeypatch: pytest.MonkeyPatch, value: str, mode: str) -> None:
    monkeypatch.setenv("WANDB_MODE", value)
    assert wandb_mode() == mode


def test_a_server_that_does_not_answer_is_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(**_: object) -> bool:
        raise wandb.errors.CommError("no route to host")

    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setattr(wandb, "login", unreachable)
    assert wandb_mode() == "offline"


def test_without_wandb_there_is_still_a_logger(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(loggers.importlib.util, "find_spec", lambda _: None)
    assert type(wandb_logger(save_dir=str(tmp_path))).__name__ == "CSVLogger"
