"""One vocabulary for every command: spelling of options, suggestions, configurations by name."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from lightning_sasv.cli import main
from lightning_sasv.commands.train import STAGES, train
from lightning_sasv.program import shipped_configs, with_shipped
from tests.helpers import failure_of

TINY = ["--data.scale", "0.01", "--trainer.fast_dev_run", "true"]


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        (["evalute", "x"], "did you mean evaluate?"),
        (["fti"], "did you mean fit?"),
        (["fit", "--model.lrr", "1"], "did you mean --model.lr?"),
        (["fit", "--model.lrr=1"], "did you mean --model.lr?"),
        (["test", "--cktp-path=x"], "did you mean --ckpt_path?"),
        (["fit", "--config", "typo.yaml"], "did you mean trainer.max_epochs?"),
        (["fit", "--config", "debgu"], "did you mean debug?"),
        (["fit", "--config=L3cc"], "did you mean L3c?"),
        (["fit", "--model.systems", "[L33c]"], "did you mean L3c?"),
        (["table", "--systms", "B1"], "did you mean --systems?"),
        (["table", "--systems", "papers"], "did you mean paper?"),
        (["evaluate", "x", "--replicate", "3"], "did you mean --replicates?"),
        (["evaluate", "x", "--costs", "asvspof5"], "did you mean asvspoof5?"),
    ],
)
def test_a_typing_error_gets_one_suggestion(
    here: Path, capsys: pytest.CaptureFixture[str], words: list[str], meaning: str
) -> None:
    (here / "typo.yaml").write_text("trainer: {max_epoch: 3}\n")
    (here / "x").write_text("trial,label,sasv\na,target,1.5\nb,spoof,0.2\nc,nontarget,0.1\n")
    said = failure_of(capsys, *words)
    assert meaning in said
    assert said.count("did you mean") == 1


def test_nothing_is_suggested_that_is_nowhere_near(capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean" not in failure_of(capsys, "xyzzy")
    assert "did you mean" not in failure_of(capsys, "evaluate", "x", "--qqqqqqq", "1")


def test_hyphens_and_underscores_are_equal(here: Path) -> None:
    ran = train_with("--data.batch-size=8", "--data.score-batch-size", "512", "--seed-everything=3")
    assert (ran.datamodule.batch_size, ran.datamodule.score_batch_size) == (8, 512)
    assert ran.datamodule.seeds == (3,)
    main(["simulate", "--out", "a-b", "--scale", "0.01", "--pickles", "false"])
    assert (here / "a-b").is_dir()  # a value is left as it is


def train_with(*words: str) -> Any:
    """What the training command of the program makes of these words."""
    made: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "lightning_sasv.commands.train.train", lambda words: made.append(train(words))
        )
        main(["fit", *words, *TINY])
    return made[0]


def test_a_bare_name_is_one_of_our_configurations(here: Path) -> None:
    assert with_shipped(["--config", "debug"])[1].endswith("configs/trainer/debug.yaml")
    assert with_shipped(["-c=wandb"])[0].endswith("configs/logger/wandb.yaml")
    names = shipped_configs()
    assert {"base", "L3c", "sasv2022", "debug", "overfit", "profiler", "wandb", "ddp"} <= set(names)
    assert len(names) == len(list(names["base"].parent.rglob("*.yaml")))  # no name twice
    ran = train_with("--config", "L3t", "--data.name", "debug")
    assert ran.model.names == ("L3t",)
    Path("L3t").write_text("model: {systems: [M3]}\n")  # the user's own file goes first
    assert train_with("--config=L3t").model.names == ("M3",)


def test_presets_for_a_look_inside(here: Path) -> None:
    main(["fit", "--config", "overfit", "--config", "profiler", "--trainer.max_epochs", "8"])
    folder = here / "runs/B1/version_0"
    assert "run_training_epoch" in (folder / "fit-profile.txt").read_text()
    with (folder / "metrics.csv").open() as file:
        losses = [float(row["train/loss"]) for row in csv.DictReader(file) if row["train/loss"]]
    assert len(losses) == 8
    assert losses == sorted(losses, reverse=True)  # the same batch in every epoch
    assert losses[-1] < 0.2 * losses[0]
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert config["data"]["scale"] == 0.02
    assert json.loads((folder / "metrics.json").read_text())


@pytest.mark.parametrize("command", STAGES)
def test_the_help_of_a_training_command_begins_with_our_options(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main([command, "--help"])
    shown = capsys.readouterr().out
    ours, _, theirs = shown.partition("Lightning's Trainer")
    assert shown.startswith(f"usage: lightning {command} [--config FILE]")
    assert all(f"--{name} " in ours for name in ("model.lr", "data.root", "ckpt_path", "threads"))
    assert "Folder of a real corpus" in ours  # the docstrings are the help
    assert "--trainer" not in ours.partition("options:")[2]
    assert "--trainer.max_epochs" in theirs


def test_help_of_a_training_command_imports_nothing_that_takes_long(repository: Path) -> None:
    code = "import sys; from lightning_sasv.cli import main; main(['fit', '--help']); "
    code += "sys.exit(bool({'torch', 'numpy', 'jsonargparse'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], cwd=repository, check=True, capture_output=True)


MINE = """
from pathlib import Path
from pytorch_lightning import Callback


class Marker(Callback):
    def on_train_start(self, trainer, pl_module):
        Path("marks").open("a").write("x")
"""


def test_classes_of_the_current_folder_are_for_those_who_trust_the_file(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "mine_of_t.py").write_text(MINE)
    own = {"trainer": {"callbacks": [{"class_path": "mine_of_t.Marker"}], "fast_dev_run": True}}
    (here / "own.yaml").write_text(yaml.safe_dump(own | {"data": {"scale": 0.01}}))
    words = ["fit", "--config", "own.yaml"]
    assert "add --trust-config" in failure_of(capsys, *words)
    main([*words, "--trust-config"])
    command = ["lightning", *words, "${args}"]
    grid = {"method": "grid", "parameters": {"seed_everything": {"values": [1]}}}
    (here / "sweep.yaml").write_text(yaml.safe_dump(grid | {"command": command}))
    monkeypatch.delitem(sys.modules, "mine_of_t")
    main(["sweep", "sweep.yaml", "--offline", "--trust-config"])  # in a process of its own
    assert (here / "marks").read_text() == "xx"
