"""A folder that cannot be written to is reported before the work, a full disk when it is."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lightning_sasv.cli import main
from lightning_sasv.experiment import run as run_module
from tests.helpers import content, failure_of

SMALL = ["--data.scale", "0.02", "--epochs", "1", "--replicates", "0", "--seeds", "1-2"]


@pytest.mark.parametrize("place", ["out", "out/training", "out/seed2", "out/seed1/scores"])
def test_a_folder_that_cannot_be_written_to_and_a_file_in_the_way_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("a training was begun")

    monkeypatch.setattr(run_module, "train_stack", fail)
    folder = tmp_path / place
    folder.mkdir(parents=True)
    _make_read_only(folder, monkeypatch)
    said = failure_of(capsys, "table", "--out", tmp_path / "out", *SMALL)
    assert f"cannot write to output directory {folder}: " in said
    (tmp_path / "file").write_text("")
    said = failure_of(capsys, "table", "--out", tmp_path / "file" / "out", *SMALL)
    assert "cannot write to output directory" in said


def _make_read_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the right to write away; from root, whom rights do not bind, by refusing the file."""
    if os.geteuid():
        folder.chmod(0o500)
        return
    from lightning_sasv import files

    real = files.tempfile.TemporaryFile

    def refuse(*args: Any, dir: Path, **kwargs: Any) -> Any:
        if Path(dir) == folder:
            raise OSError(30, "Read-only file system")
        return real(*args, dir=dir, **kwargs)

    monkeypatch.setattr(files.tempfile, "TemporaryFile", refuse)


def _limit_files() -> None:
    """No file may grow beyond 100 kB: what is written then fails as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


def test_a_disk_that_fills_up_meanwhile_ends_with_a_message(tmp_path: Path) -> None:
    """And when there is room again, the same command ends as if nothing had been."""
    command = [sys.executable, "-m", "lightning_sasv.cli", "table", *SMALL, "--systems", "B1"]
    broken = subprocess.run(
        [*command, "--out", "out"],
        cwd=tmp_path,
        preexec_fn=_limit_files,
        capture_output=True,
        text=True,
        check=False,
    )
    assert broken.returncode == 2, broken.stderr
    assert "File too large" in broken.stderr
    assert "Traceback" not in broken.stderr
    assert not list(tmp_path.rglob("*.tmp"))
    for out in ("out", "whole"):
        main(["table", "--out", str(tmp_path / out), *SMALL, "--systems", "B1"])
    mine, theirs = (content(tmp_path / out / "metrics.json") for out in ("out", "whole"))
    assert mine == theirs
