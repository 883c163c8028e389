"""Every mistake of the table ends in a line that names it, with nothing left behind."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from lightning_sasv.cli import COMMANDS, TRAINING, main
from tests.bad_input.cases import BROKEN, CASES, Case, good_files

READ_AS = re.compile(r": [\d,]+ rows, (looks like|read as) ")
"""What is said of each score file that was read."""

ALL = {case.name: case for case in CASES}


def prepare(case: Case, folder: Path) -> None:
    """Write the files of a case."""
    good_files(folder)
    named = {word.rpartition("=")[2] for word in shlex.split(case.args)}
    for name in [name for name in BROKEN if name.split("/")[0] in named]:
        content = BROKEN[name]
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content(path)
        else:
            path.write_bytes(content.encode())


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder but the settings that Lightning notes down of a run."""
    found = {p.relative_to(folder): p for p in folder.rglob("*") if p.is_file()}
    return {
        str(name): path.read_bytes()
        for name, path in found.items()
        if not (name.parts[0] == "runs" and name.name == "config.yaml")
    }


def test_table_is_large_and_names_every_command() -> None:
    assert len(ALL) == len(CASES) >= 60
    assert {*TRAINING, *COMMANDS} <= {case.args.split()[0] for case in CASES}
    words = {word for case in CASES for word in shlex.split(case.args)}
    assert {name.split("/")[0] for name in BROKEN} <= words


@pytest.mark.parametrize("name", ALL)
def test_mistake(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    case = ALL[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    prepare(case, tmp_path)
    before = files_of(tmp_path)
    capfd.readouterr()
    with pytest.raises(SystemExit) as ended:  # anything else would be a traceback
        main(shlex.split(case.args))
    message = capfd.readouterr().err
    assert ended.value.code == 2, message
    lines = [line for line in message.splitlines() if line.strip() and not READ_AS.search(line)]
    assert 1 <= len(lines) <= 2, message
    assert "Traceback" not in message
    assert "<class" not in message
    for word in case.words:
        assert word in message, message
    assert files_of(tmp_path) == before
