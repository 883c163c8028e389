"""What a command takes, it gives back; and it takes no more memory than it says."""

from __future__ import annotations

import gc
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lightning_sasv import cli
from lightning_sasv.cli import main
from lightning_sasv.commands.train import base_config
from lightning_sasv.scores import write_scores
from tests.helpers import run_measured
from tests.scores.samples import toy_scores

SMALL = "--data.scale=0.02 --trainer.max_epochs=1 --trainer.accelerator=cpu"
COMMANDS = {
    "fuse": "fuse --dev good.csv --eval good.csv --out OUT",
    "evaluate": "evaluate good.csv --ci speaker --replicates 40 --by attack --json OUT.json",
    "decide": "decide good.csv --fitted fused --out OUT.csv",
    "convert": "convert good.csv --to parquet --out OUT.parquet",
    "report": "report fused --out OUT.html",
    "export": "export --fitted fused --system L3t --out OUT",
    "simulate": "simulate --out OUT --scale 0.02",
    "import": "import corpus --out OUT",
    "table": "table --out OUT --data.scale 0.02 --epochs 1 --replicates 0 --seeds 1-2 "
    "--seeds_per_job 1 --processes 2",
    "fit": f"fit --config {base_config().parent / 'B1.yaml'} {SMALL}",
}

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")


def open_files() -> list[str]:
    """What the files are that this process has open."""
    gc.collect()
    found = []
    for handle in Path("/proc/self/fd").iterdir():
        try:
            found.append(re.sub(r"[0-9]+", "N", str(handle.readlink())))
        except FileNotFoundError:  # the handle of this very look
            continue
    return sorted(found)


def processes() -> set[str]:
    """The processes that this one has started and that are still there."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {child for task in tasks for child in task.read_text().split()}


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_left_open(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_scores(Path("good.csv"), toy_scores(60))
    main(shlex.split("fuse --dev good.csv --eval good.csv --systems B1,L3t --out fused"))
    main(shlex.split("simulate --out corpus --scale 0.02"))
    main(shlex.split(COMMANDS[command].replace("OUT", "first")))  # opens what is kept for ever
    files, others = open_files(), processes()
    main(shlex.split(COMMANDS[command].replace("OUT", "second")))
    assert open_files() == files
    assert processes() <= others


def write_many_scores(path: Path, trials: int) -> None:
    """A score file of so many trials."""
    draw = np.random.default_rng(0)
    label = draw.choice(3, trials, p=(0.6, 0.1, 0.3))
    asv = draw.normal(size=trials) + np.array([0.7, 2, 0])[label]
    cm = 2 * draw.normal(size=trials) + np.array([-4, 3, 3])[label]
    number = pl.int_range(trials, eager=True).alias("n")
    columns = {"label": label, "asv_score": asv.round(6), "cm_score": cm.round(5)}
    frame = pl.DataFrame({"n": number, **columns, "sasv_score": (asv + cm).round(5)})
    attack = pl.when(pl.col("label") == 0).then(pl.lit("A07")).otherwise(pl.lit("-"))
    words = {0: "spoof", 1: "target", 2: "nontarget"}
    frame.select(
        pl.format("S{}", pl.col("n") % 5000).alias("speaker"),
        pl.format("U{}", pl.col("n")).alias("utterance"),
        attack.alias("attack"),
        pl.col("label").replace_strict(words),
        "asv_score",
        "cm_score",
        "sasv_score",
    ).write_csv(path)


@pytest.mark.slow
def test_ten_million_trials_are_evaluated_below_8_gb(tmp_path: Path) -> None:
    file = tmp_path / "scores.csv"
    write_many_scores(file, 10_000_000)
    try:
        shown, peak = run_measured(tmp_path, "evaluate", file.name)
    finally:
        file.unlink()
    assert "SASV-EER" in shown
    assert 0.5 < peak < 8


def test_no_room_for_a_tensor_is_told_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As PyTorch says it; any other error of its kind is none of ours to explain."""

    def work(text: str) -> Callable[[Sequence[str]], None]:
        def run(_: Sequence[str]) -> None:
            raise RuntimeError(text)

        return run

    allocator = "[enforce fail] DefaultCPUAllocator: you tried to allocate 64000000000 bytes. Error"
    monkeypatch.setattr(cli, "_run", work(allocator))
    with pytest.raises(SystemExit) as ended:
        cli.main(["fit"])
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said == "lightning: error: out of memory: PyTorch asked for 64000000000 bytes\n"
    monkeypatch.setattr(cli, "_run", work("something else"))
    with pytest.raises(RuntimeError, match="something else"):
        cli.main(["fit"])
