"""Configurations of the user add to the program's own; ``--check`` looks at them and runs none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import yaml

from lightning_sasv.cli import main
from lightning_sasv.experiment import CorpusSettings, table
from tests.helpers import failure_of
from tests.hostile.test_checkpoints import OLD

SMALL = "--data.scale=0.02"
TWICE = [SMALL, "--trainer.max_epochs=2"]
CSV = {"class_path": "pytorch_lightning.loggers.CSVLogger", "init_args": {"save_dir": "runs"}}
MLFLOW = {
    "class_path": "pytorch_lightning.loggers.MLFlowLogger",
    "init_args": {"experiment_name": "L3c", "save_dir": "mlruns"},
}
STOPPING = {
    "class_path": "pytorch_lightning.callbacks.EarlyStopping",
    "init_args": {"monitor": "val/cm_eer"},
}
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def written(folder: Path, **content: object) -> str:
    """A configuration beside the working directory."""
    file = folder.parent / "own.yaml"
    file.write_text(yaml.safe_dump(content))
    return str(file)


def test_a_sound_configuration_is_said_to_be_one(here: Path, capsys: Capture) -> None:
    trainer = {"logger": [CSV, MLFLOW], "callbacks": [STOPPING]}
    file = written(here, trainer=trainer, model={"systems": ["L3c", "M3"]})
    main(["fit", "--config", file, SMALL, "--check"])
    shown = capsys.readouterr().out
    assert "systems L3c, M3" in shown
    assert "CSVLogger, MLFlowLogger, EarlyStopping" in shown
    assert "corpus twin: 540 training utterances" in shown
    assert shown.endswith("nothing was run, and nothing was written\n")
    assert not list(here.iterdir())  # MLflow makes its folder as soon as its logger is made


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"model": {"lr": "fast"}}, "model.lr"),
        ({"model": {"systems": ["L33"]}}, "did you mean L3"),
        ({"model": {"head": "concat", "systems": ["L3c"]}}, "concat"),
        ({"data": {"root": "nowhere"}}, "no data folder at nowhere"),
        ({"trainer": {"max_epoch": 3}}, "did you mean trainer.max_epochs?"),
        ({"trainer": {"callbacks": [{"class_path": "os.system"}]}}, "--trust-config"),
        ({"trainer": {"logger": {**CSV, "init_args": {"to": "x"}}}}, "to"),
        ({"trainer": {"accelerator": "abacus"}}, "abacus"),
    ],
)
def test_a_wrong_one_is_refused_in_a_line(
    content: dict[str, object], says: str, here: Path, capsys: Capture
) -> None:
    said = failure_of(capsys, "fit", "--config", written(here, **content), SMALL, "--check")
    assert says in said
    assert len(said.splitlines()) == 1
    assert not list(here.iterdir())


def test_checkpoints_are_checked_too(here: Path, capsys: Capture) -> None:
    words = ["test", "--ckpt_path", str(OLD / "best.ckpt"), "--data.root=null", "--data.scale=0.01"]
    main([*words, "--check"])
    assert f"checked: checkpoint {OLD / 'best.ckpt'}" in capsys.readouterr().out
    assert "no checkpoint at x.ckpt" in failure_of(capsys, "test", "--ckpt_path=x.ckpt", "--check")
    assert not list(here.iterdir())


def test_a_table_is_checked(here: Path, capsys: Capture) -> None:
    main(["table", "--config", "debug", "--systems", "B1,Post,F3", "--seeds", "1-3", "--check"])
    shown = capsys.readouterr().out
    assert "settings of table; systems B1, Post, F3; seeds: 3" in shown
    assert "networks: cm, Post, F3" in shown
    assert "corpus twin: 540 training utterances" in shown
    assert "nothing was written" in shown
    for words, says in {
        "--systems B9": "B9",
        "--seeds 1-x": "1-x",
        "--lr -1": "lr",
        "--data.root nowhere": "nowhere",
        "--replicates -1": "replicates",
    }.items():
        assert says in failure_of(capsys, "table", SMALL, *words.split(), "--check")
    assert not list(here.iterdir())


def test_a_folder_of_another_kind_is_found_by_a_check(here: Path, capsys: Capture) -> None:
    (here / "out").mkdir()
    (here / "out/thesis.txt").write_text("x")
    words = ["table", SMALL, "--out", "out", "--check"]
    assert "out" in failure_of(capsys, *words)
    main([*words, "--overwrite"])
    assert (here / "out/thesis.txt").read_text() == "x"


def test_the_public_function_says_what_it_checked() -> None:
    found = table(seeds="1", systems="B1", data=CorpusSettings(scale=0.02), check=True)
    assert found.rows == []
    assert found.remarks[0] == "settings of table; systems B1; seeds: 1"


OWN = """
trainer:
  profiler: simple
  enable_progress_bar: false
  gradient_clip_val: 0.5
  callbacks: [{class_path: pytorch_lightning.callbacks.EarlyStopping, init_args: {monitor: val/loss}}]
  logger:
    - {class_path: pytorch_lightning.loggers.CSVLogger, init_args: {save_dir: mine, name: "run-${seed_everything}"}}
optimizer: {class_path: torch.optim.AdamW, init_args: {lr: 0.001}}
lr_scheduler: {class_path: pytorch_lightning.cli.ReduceLROnPlateau, init_args: {monitor: val/loss}}
"""  # noqa: E501


def test_a_training_with_callbacks_optimiser_schedule_and_drawn_seed(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("PL_GLOBAL_SEED", "7")  # left by an earlier training of this process
    Path("own.yaml").write_text(OWN)
    main(["fit", "--config", "own.yaml", "--seed_everything", "true", *TWICE])
    output = capsys.readouterr()
    assert "Written to" in output.out
    assert output.err == ""
    [run] = Path("mine").glob("run-*/version_0")
    config = yaml.safe_load((run / "config.yaml").read_text())
    seed = config["seed_everything"]
    assert seed not in (True, 0, 7, 1986)
    assert run.parent.name == f"run-{seed}"
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["systems"]["B1"]["sets"]["eval"]["of"]["seeds"] == [seed]
    assert {path.name for path in (run / "checkpoints").iterdir()} == {"best.ckpt", "last.ckpt"}
    last = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    assert last["seeds"] == [seed]
    [group] = last["optimizer_states"][0]["param_groups"]
    assert group["decoupled_weight_decay"]  # AdamW
    assert last["lr_schedulers"][0]["last_epoch"] == 2
    assert any(name.startswith("EarlyStopping") for name in last["callbacks"])
    main(["fit", "--config", str(run / "config.yaml"), "--trainer.logger.version=9"])
    assert len({path.read_bytes() for path in Path("mine").rglob("eval.csv")}) == 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--trainer.accumulate_grad_batches=2"], "set --data.batch_size"),
        (
            ["--trainer.callbacks=StochasticWeightAveraging", "--trainer.callbacks.swa_lrs=0.1"],
            "StochasticWeightAveraging is refused: the head that counts",
        ),
        (["--optimizer=torch.optim.SGD", "--model.lr=0.1"], "give --optimizer.lr instead"),
        (["--optimizer=torch.optim.LBFGS"], "LBFGS computes the loss"),
        (["--config=x.yaml"], "x.yaml asks for subprocess.Popen"),
        (["--config=y.yaml"], "torch.optim.SGD does not correspond to a subclass of LRScheduler"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    here: Path, capsys: Capture, words: list[str], reason: str
) -> None:
    Path("x.yaml").write_text("optimizer: {class_path: subprocess.Popen}\n")
    Path("y.yaml").write_text("lr_scheduler: {class_path: torch.optim.SGD}\n")
    message = failure_of(capsys, "fit", *TWICE, *words)
    assert reason in message
    assert len(message.splitlines()) == 1
    assert not Path("runs").exists()
