"""What a run leaves behind: in a folder of its own whoever logs, and called a part if it is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightning_sasv.cli import main
from lightning_sasv.metrics_file import of_in
from lightning_sasv.results import read_metrics
from tests.helpers import failure_of

SMALL = ["--data.scale=0.02", "--trainer.max_epochs=1", "--model.systems=[L3c]"]
CSV = """- class_path: pytorch_lightning.loggers.CSVLogger
  init_args: {save_dir: logs, name: mine}
"""
WANDB = """- class_path: lightning_sasv.loggers.wandb_logger
  init_args: {save_dir: logs}
"""
WRITTEN = ("config.yaml", "metrics.json", "scores/eval.csv", "fitted/L3c.safetensors")
WRITTEN += ("checkpoints/best.ckpt", "checkpoints/last.ckpt")


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")


def fit_with(logger: str, *args: str) -> None:
    text = f"trainer:\n  logger:{' false' if logger == 'false' else ''}\n"
    text += "".join(f"    {line}\n" for line in logger.splitlines() if logger != "false")
    Path("logger.yaml").write_text(text)
    main(["fit", "--config=logger.yaml", *SMALL, *args])


@pytest.mark.parametrize(
    ("logger", "folder"),
    [
        ("false", "runs/L3c/version_0"),
        (WANDB, "logs/L3c/version_0"),
        (WANDB + CSV, "logs/mine/version_0"),
        (CSV + WANDB, "logs/mine/version_0"),
    ],
    ids=["none", "W&B", "W&B first", "W&B second"],
)
def test_a_run_has_one_folder_whoever_logs(here: Path, logger: str, folder: str) -> None:
    (here / "metrics.json").write_text("{}")  # of something else
    fit_with(logger)
    assert [name for name in WRITTEN if not (here / folder / name).is_file()] == []
    assert (here / "metrics.json").read_text() == "{}"
    others = {path.name for path in here.iterdir()} - {"logger.yaml", "metrics.json"}
    assert others == {folder.split("/")[0]}
    assert len(list(here.rglob("*.ckpt"))) == 2
    of = of_in(read_metrics(here / folder / "metrics.json")["L3c"], "eval")
    assert (of["checkpoint"]["file"], of["checkpoint"]["epoch"]) == ("best.ckpt", 0)
    assert len(of["checkpoint"]["sha256"]) == 64


def test_runs_without_logger_do_not_share_a_folder(here: Path) -> None:
    for version in (0, 1):
        fit_with("false", f"--seed_everything={version}")
        assert (here / f"runs/L3c/version_{version}/metrics.json").is_file()


def test_a_part_is_called_one(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    limits = ["--data.score_batch_size=40", "--trainer.limit_test_batches=0.9"]
    main(["fit", *SMALL, *limits, "--trainer.limit_val_batches=0.8"])
    shown = " ".join(capsys.readouterr().out.split())
    folder = here / "runs/L3c/version_0"
    found = read_metrics(folder / "metrics.json")["L3c"]
    for split, cause in (("dev", "limit_val_batches 0.8"), ("eval", "limit_test_batches 0.9")):
        of = of_in(found, split)
        assert (of["part"], of["cause"]) == (True, cause)
        there, whole = sum(of["trials"].values()), sum(of["expected"].values())
        assert len((folder / f"scores/{split}.csv").read_text().splitlines()) == there + 1 < whole
        assert f"part of {split}: {there:,} of {whole:,} trials" in shown
    assert found["fitted_on"]["part"] is True
    assert found["fitted_on"]["trials"] == of_in(found, "dev")["trials"]
    assert "part of eval" in failure_of(capsys, "report", folder)
    whole = of_in(found, "eval")["expected"]
    checkpoint = str(folder / "checkpoints/best.ckpt")
    main(["test", *SMALL, "--ckpt_path", checkpoint])  # fitted on a part, which is not forgotten
    newest = max(here.rglob("metrics.json"), key=lambda path: path.stat().st_mtime_ns)
    tested = read_metrics(newest)["L3c"]
    assert of_in(tested, "eval")["trials"] == whole
    assert tested["fitted_on"] == {**tested["fitted_on"], **found["fitted_on"]}
    assert of_in(tested, "eval")["checkpoint"] == of_in(found, "eval")["checkpoint"]


def test_what_a_run_is_of(here: Path) -> None:
    main(["fit", *SMALL, "--seed_everything=7", "--data.twin_seed=3"])
    found = read_metrics(here / "runs/L3c/version_0/metrics.json")["L3c"]
    for split in ("dev", "eval"):
        of = of_in(found, split)
        assert (of["corpus"], of["simulated"], of["scale"]) == ("twin", True, 0.02)
        assert (of["twin_seed"], of["seeds"], of["part"]) == (3, [7], False)
        assert (of["device"], of["threads"], of["precision"]) == ("cpu", 1, "32-true")
        assert (of["costs"]["name"], of["tandem_costs"]["name"]) == ("a-dcf1", "asvspoof5")
