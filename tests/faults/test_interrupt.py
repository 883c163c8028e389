"""Ctrl-C ends a command quickly, says what was kept, exits with 130, and leaves no process."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from lightning_sasv.commands.train import base_config
from tests.faults.forks import is_there, running, wait_for

CONFIG = str(base_config().parent / "B1.yaml")
CASES = {
    "fit": (
        ["fit", "--config", CONFIG, "--data.scale=0.02", "--trainer.max_epochs=100000"],
        "runs/B1/version_0/checkpoints/last.ckpt",
        "--ckpt_path last",
    ),
    "table": (
        ["table", "--out=out", "--data.scale=0.02", "--epochs=100000", "--processes=2"],
        "out/training/*/last.ckpt",
        "the same command goes on",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_interrupt(case: str, tmp_path: Path) -> None:
    args, begun, advice = CASES[case]
    with running(tmp_path, *args) as process:
        wait_for(process, tmp_path, begun)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=60)
        while is_there(process.pid) and time.monotonic() - start < 5:
            time.sleep(0.05)
        assert time.monotonic() - start < 5
    assert process.returncode == 130
    assert advice in message
    assert "Traceback" not in message
    assert list(tmp_path.glob(begun))
    assert not list(tmp_path.rglob("*.tmp"))
