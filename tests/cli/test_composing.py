"""Configurations of the user add to the program's own; optimisers and seeds are recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import yaml

from lightning_sasv.cli import main
from tests.helpers import failure_of

SMALL = ["--data.scale=0.02", "--trainer.max_epochs=2"]
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
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PL_GLOBAL_SEED", "7")  # left by an earlier training of this process
    Path("own.yaml").write_text(OWN)
    main(["fit", "--config", "own.yaml", "--seed_everything", "true", *SMALL])
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
    here: Path, capsys: pytest.CaptureFixture[str], words: list[str], reason: str
) -> None:
    Path("x.yaml").write_text("optimizer: {class_path: subprocess.Popen}\n")
    Path("y.yaml").write_text("lr_scheduler: {class_path: torch.optim.SGD}\n")
    message = failure_of(capsys, "fit", *SMALL, *words)
    assert reason in message
    assert len(message.splitlines()) == 1
    assert not Path("runs").exists()
