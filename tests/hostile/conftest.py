"""What every attack is measured by."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lightning_sasv.cli import main
from tests.hostile.corpus import MARK

Attack = Callable[..., str]


def tree(folder: Path) -> dict[Path, bytes]:
    """Every file below a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with room above it that nothing may be written to."""
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def attack(here: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Attack:
    """Run a command on hostile files; returns what it says.

    Nothing of them is executed, and nothing written outside of ``out`` and ``runs``. With
    ``refused`` the command has to end with a line or two and exit code 2, and without results.
    """

    def run(*args: str, refused: bool = True) -> str:
        before = tree(tmp_path)
        capfd.readouterr()
        if refused:
            with pytest.raises(SystemExit) as ended:  # anything else would be a traceback
                main(args)
            assert ended.value.code == 2
        else:
            main(args)
        shown = capfd.readouterr()
        after = tree(tmp_path)
        assert not list(tmp_path.rglob(MARK))
        assert before.items() <= after.items()
        for path in after.keys() - before.keys():
            inside = path.relative_to(here).parts[0] if path.is_relative_to(here) else "outside"
            assert inside in (("runs",) if refused else ("out", "runs")), path
            assert not refused or path.name in ("config.yaml", "hparams.yaml"), path
        if refused:
            lines = [line for line in shown.err.splitlines() if line.strip()]
            lines = [line for line in lines if " rows, looks like " not in line]
            assert 1 <= len(lines) <= 2, shown.err
        return shown.err if refused else shown.out + shown.err

    return run
