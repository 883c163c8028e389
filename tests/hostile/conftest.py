"""What every attack is measured by."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lightning_sasv.cli import main
from lightning_sasv.scores import write_scores
from tests.hostile.corpus import EVIL, MARK
from tests.scores.samples import toy_scores

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
def evil(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that leaves a mark when it is imported."""
    (here / "evil_module.py").write_text(EVIL)
    monkeypatch.syspath_prepend(str(here))
    monkeypatch.delitem(sys.modules, "evil_module", raising=False)


@pytest.fixture
def scored(here: Path) -> Path:
    """The working directory, with sound scores in x.csv."""
    write_scores(here / "x.csv", toy_scores(90))
    return here


@pytest.fixture
def attack(here: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Attack:
    """Run a command on hostile files; returns what it says.

    Nothing of them is executed, and nothing written outside of ``out`` and ``runs``. With
    ``refused`` the command has to end with a line and exit code 2, and no file or folder is
    written, changed or removed.
    """

    def run(*args: str, refused: bool = True) -> str:
        before, places = tree(tmp_path), {*tmp_path.rglob("*")}
        capfd.readouterr()
        if refused:
            with pytest.raises(SystemExit) as ended:  # anything else would be a traceback
                main(args)
            assert ended.value.code == 2
        else:
            main(args)
        shown = capfd.readouterr()
        assert not list(tmp_path.rglob(MARK))
        if not refused:
            assert before.items() <= tree(tmp_path).items()
            mine = {*(here / "out").rglob("*"), *(here / "runs").rglob("*")}
            assert {*tmp_path.rglob("*")} - places - mine <= {here / "out", here / "runs"}
            return shown.out + shown.err
        assert tree(tmp_path) == before
        assert {*tmp_path.rglob("*")} == places
        lines = [line for line in shown.err.splitlines() if line.strip()]
        assert len([line for line in lines if " rows, looks like " not in line]) == 1, shown.err
        return shown.err

    return run


@pytest.fixture
def configured(here: Path, attack: Attack) -> Attack:
    """Give a command a configuration that it has to refuse; returns what it says."""

    def run(text: str, *words: str) -> str:
        (here / "x.yaml").write_text(text)
        return attack(*words, "--config=x.yaml")

    return run
