"""Loggers by class path, as docs/training.md has them: what was logged is read back."""

from __future__ import annotations

import re
from pathlib import Path

import polars
import pytest

from lightning_sasv.cli import main
from tests.conftest import REPOSITORY
from tests.helpers import failure_of, metrics_in

SMALL = ["--data.scale=0.02", "--trainer.max_epochs=2", "--quiet"]
RUN = Path("runs/L3c/version_0")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)


def write_example(name: str) -> str:
    """The example of the page, as a file."""
    page = (REPOSITORY / "docs/training.md").read_text(encoding="utf-8")
    (text,) = re.findall(rf"^```yaml\n(# {name},.*?)^```", page, re.M | re.S)
    Path(name).write_text(text)
    return name


def logged_csv(column: str) -> list[float]:
    """A column of ``metrics.csv``."""
    frame = polars.read_csv(RUN / "metrics.csv", infer_schema_length=None)
    return [float(value) for value in frame[column].drop_nulls()]


def test_tensorboard_holds_what_the_csv_file_holds() -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    main(["fit", "--config", "L3c", "--config", write_example("tensorboard.yaml"), *SMALL])
    found = EventAccumulator("runs/tensorboard/L3c/version_0").Reload()
    for name in ("train/loss", "val/cm_eer", "val/sasv_eer"):
        logged = [event.value for event in found.Scalars(name)]
        assert len(logged) >= 2  # a value each epoch
        assert logged == pytest.approx(logged_csv(name), rel=1e-6)
    (last,) = found.Scalars("eval/L3c/sasv_eer")
    assert last.value == pytest.approx(metrics_in(RUN)["L3c"]["eval"]["sasv_eer"], rel=1e-6)


def test_tensorboard_alone_is_the_folder_of_the_run() -> None:
    """Results, configuration and checkpoints lie beside its events, and nowhere else."""
    logger = "pytorch_lightning.loggers.TensorBoardLogger"
    words = ["--trainer.logger", logger, "--trainer.logger.save_dir", "board"]
    main(["fit", "--config", "L3c", *words, *SMALL[:1], "--trainer.max_epochs=1", "--quiet"])
    [run] = [path.parent for path in Path().rglob("metrics.json")]
    assert run == Path("board/lightning_logs/version_0")
    assert {path.name for path in Path().iterdir()} == {"board"}
    assert {"config.yaml", "checkpoints", "scores", "fitted"} <= {p.name for p in run.iterdir()}
    main(["test", str(run), "--quiet"])


def test_mlflow_keeps_a_run_in_a_folder() -> None:
    main(["fit", "--config", "L3c", "--config", write_example("mlflow.yaml"), *SMALL])
    from mlflow.tracking import MlflowClient

    client = MlflowClient("file:runs/mlflow")
    experiment = client.get_experiment_by_name("L3c")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == ("seed 1986", "FINISHED")
    assert run.data.params["objective"] == "cm"
    history = [one.value for one in client.get_metric_history(run.info.run_id, "val/cm_eer")]
    assert history == pytest.approx(logged_csv("val/cm_eer"))
    wanted = metrics_in(RUN)["L3c"]["eval"]["sasv_eer"]
    assert run.data.metrics["eval/L3c/sasv_eer"] == pytest.approx(wanted)


def test_a_logger_that_cannot_be_made_is_named_in_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["fit", "--config", write_example("mlflow.yaml"), *SMALL]
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "false")  # the user's own word
    said = failure_of(capsys, *words)
    assert said.startswith("lightning: error: pytorch_lightning.loggers.mlflow.MLFlowLogger fails")
    assert said.endswith("change its settings, or leave it out\n")
    assert len(said) < 500
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    Path("mlflow.yaml").write_text(
        Path("mlflow.yaml").read_text().replace("runs/mlflow", "/proc/x")
    )
    assert "cannot use '/proc/x'" in failure_of(capsys, *words)


@pytest.mark.parametrize("suffix", ["/../../x", "../x", "/x"])
def test_a_file_gives_tensorboard_no_way_out_of_its_folder(
    suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path(write_example("tensorboard.yaml")).read_text()
    text = text.replace("default_hp_metric: false", f"filename_suffix: {suffix}")
    Path("tensorboard.yaml").write_text(text)
    said = failure_of(capsys, "fit", "--config", "tensorboard.yaml", *SMALL)
    assert "filename_suffix leads out of its folder" in said
    assert [path.name for path in Path().iterdir()] == ["tensorboard.yaml"]
