"""``--check``: a configuration is checked as far as it can be without running, and that is said."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from lightning_sasv.cli import main
from lightning_sasv.experiment import CorpusSettings, table
from tests.helpers import failure_of
from tests.hostile.test_checkpoints import OLD

SMALL = "--data.scale=0.02"
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
