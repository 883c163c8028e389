"""`lightning fit | validate | test | predict`: configurations, results, mistakes."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from lightning_sasv.cli import main
from lightning_sasv.commands.train import base_config, train
from lightning_sasv.fusion import OUR_SYSTEMS, PAPER_SYSTEMS
from lightning_sasv.scores import read_scores
from tests.helpers import failure_of, metrics_in

CONFIGS = base_config().parent
SYSTEMS = (*PAPER_SYSTEMS, *OUR_SYSTEMS)
SMALL = ["--data.scale", "0.02", "--trainer.max_epochs", "1", "--trainer.accelerator", "cpu"]


def bind_root() -> None:
    """Let the mode of a folder bind root too: give up CAP_DAC_OVERRIDE (no effect on others)."""
    pr_capbset_drop, cap_dac_override = 24, 1
    ctypes.CDLL(None).prctl(pr_capbset_drop, cap_dac_override, 0, 0, 0)


def run(*args: str, cwd: Path | None = None, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "lightning_sasv.cli", *args]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, **kwargs)


def test_every_system_has_a_short_configuration() -> None:
    assert set(SYSTEMS) <= {path.stem for path in CONFIGS.glob("*.yaml")}
    for system in SYSTEMS:
        content = yaml.safe_load((CONFIGS / f"{system}.yaml").read_text())
        assert content["model"]["systems"] == [system]
        assert len((CONFIGS / f"{system}.yaml").read_text().splitlines()) <= 15


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_can_be_trained(here: Path, system: str) -> None:
    main(["fit", "--config", str(CONFIGS / f"{system}.yaml"), *SMALL])
    folder = here / "runs" / system / "version_0"
    metrics = metrics_in(folder)
    assert 0 <= metrics[system]["eval"]["sasv_eer"] < 0.5
    assert metrics[system]["corpus"] == "twin"
    for name in ("checkpoints/best.ckpt", "checkpoints/last.ckpt", "config.yaml", "metrics.csv"):
        assert (folder / name).is_file()


@pytest.mark.parametrize(
    "extra",
    [
        ["--config", str(CONFIGS / "data" / "twin.yaml")],
        ["--config", str(CONFIGS / "logger" / "csv.yaml")],
        ["--config", str(CONFIGS / "trainer" / "debug.yaml")],
        ["--config", str(CONFIGS / "trainer" / "gpu.yaml"), "--trainer.accelerator", "cpu"],
    ],
    ids=["twin", "csv", "debug", "gpu"],
)
def test_other_configurations(here: Path, extra: list[str]) -> None:
    main(["fit", "--config", str(CONFIGS / "B1.yaml"), *extra, *SMALL])


def test_run_describes_itself(here: Path) -> None:
    done = run("fit", "--config", str(CONFIGS / "L3c.yaml"), *SMALL, cwd=here)
    assert done.returncode == 0, done.stderr
    assert "Results on the corpus: twin" in done.stdout
    assert "Written to runs/L3c/version_0" in done.stdout
    assert "SASV 2022" not in done.stdout
    assert done.stderr == ""
    metrics = metrics_in(here / "runs/L3c/version_0")["L3c"]
    for split in ("dev", "eval"):
        shown = [f"{100 * metrics[split][key]:.2f}" for key in ("sasv_eer", "sv_eer", "spf_eer")]
        assert re.search(rf"L3c +│ {split} *│ +{'│ +'.join(shown)}│", done.stdout), done.stdout


ONE, TWO = ("--config", "one.yaml"), ("--config", "two.yaml")
FLAG = "--data.score_batch_size"


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((*ONE, *TWO), 16),
        ((*TWO, *ONE), 16),
        ((*ONE, *TWO, "--data.batch_size", "12"), 12),
        ((*TWO,), 24),  # the default of the other key
        ((*ONE, FLAG, "${data.batch_size}"), 16),
        ((FLAG + "=${data.batch_size}", "--data.batch_size=12"), 12),
        ((FLAG, "${.batch_size}"), 24),
        ((FLAG, "${fit.data.batch_size}"), 24),
        ((FLAG, "${oc.env:SASV_NOT_SET,17}"), 17),
    ],
)
def test_interpolation_works_across_files_and_flags(
    here: Path, args: tuple[str, ...], expected: int
) -> None:
    (here / "one.yaml").write_text("data:\n  batch_size: 16\n")
    (here / "two.yaml").write_text("data:\n  score_batch_size: ${data.batch_size}\n")
    ran = train(["fit", *args, "--data.scale=0.01", "--trainer.fast_dev_run=true"])
    assert ran.datamodule.score_batch_size == expected


def test_real_embeddings_by_root(here: Path, shared: Path) -> None:
    root, lists = shared / "data/mini_la_embeddings", shared / "data/mini_la/LA"
    where = ["--data.root", str(root), "--data.protocols", str(lists), "--data.name", "mini LA"]
    main(["fit", "--config", str(CONFIGS / "B1.yaml"), *where, *SMALL])
    metrics = metrics_in(here / "runs/B1/version_0")
    assert metrics["B1"]["corpus"] == "mini LA"
    assert len(read_scores(here / "runs/B1/version_0/scores/eval.csv")) == 396


def test_unwritable_output_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "runs").write_text("a file, not a folder")
    message = failure_of(capsys, "fit", "--config", CONFIGS / "B1.yaml", *SMALL)
    assert "cannot write to output directory" in message
    assert "runs/B1: Not a directory; choose another" in message
    assert (here / "runs").read_text() == "a file, not a folder"


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's capabilities")
@pytest.mark.parametrize("folder", [".", "runs/B1"])
def test_read_only_output_is_named(here: Path, folder: str) -> None:
    locked = here / folder
    locked.mkdir(parents=True, exist_ok=True)
    locked.chmod(0o555)
    args = ["fit", "--config", str(CONFIGS / "B1.yaml"), *SMALL]
    before = sorted(here.rglob("*"))
    done = run(*args, cwd=here, preexec_fn=bind_root)
    locked.chmod(0o755)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "Permission denied; choose another" in done.stderr
    assert "runs" in done.stderr
    assert sorted(here.rglob("*")) == before
