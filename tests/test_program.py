"""Options of every command are taken out of its words, in one place."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from lightning_sasv.cli import COMMANDS, TRAINING, main
from lightning_sasv.errors import InputError
from lightning_sasv.program import (
    ENVIRONMENT,
    FROM_FILE,
    SAFE_PATH,
    Program,
    handed_on,
    program,
    read_options,
    take_options,
    using,
)

SAID = Program(trust_config=True, quiet=True, wait=True, limits=2.5)


@pytest.mark.parametrize(
    "words",
    [
        ["--trust-config", "fit", "--quiet", "--wait", "--limits", "2.5"],
        ["fit", "--trust_config=true", "--quiet", "true", "--wait=true", "--limits=2.5"],
        ["fit", *SAID.words()],
    ],
)
def test_options_are_found_wherever_they_stand(words: list[str]) -> None:
    assert take_options(words) == (SAID, ["fit"])


def test_other_words_stay() -> None:
    words = ["evaluate", "--quie", "--limitsx=1", "a b", "--out=--quiet", "quiet", "--", ""]
    assert take_options(words) == (Program(), words)
    assert take_options(["--quiet", "false"]) == (Program(), [])


@pytest.mark.parametrize("words", [["--limits"], ["--limits=0"], ["--limits", "nan"], ["--wait=1"]])
def test_mistakes_are_refused(words: list[str]) -> None:
    with pytest.raises(InputError, match=words[0].partition("=")[0]):
        take_options(words)


def test_what_was_said_holds_for_the_block() -> None:
    with suppress(KeyError), using(SAID):
        assert program() is SAID
        raise KeyError
    assert program() == Program()


def test_no_variable_that_files_may_read_could_hold_a_secret() -> None:
    words = ("KEY", "TOKEN", "SECRET", "PASSWORD", "URL")
    assert not [name for name in ENVIRONMENT for word in words if word in name]


@pytest.mark.parametrize("command", ["", *COMMANDS, *TRAINING])
def test_help_shows_them(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with suppress(SystemExit):
        main([command, "--help"] if command else [])
    assert "--limits FACTOR" in capsys.readouterr().out


def test_options_are_handed_on_to_a_process_that_a_file_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with using(SAID):
        given = handed_on()
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert read_options(["fit"]) == (SAID, ["fit"])
    assert read_options(["fit", "--wait=false"])[0].wait is False


@pytest.mark.parametrize("variable", [FROM_FILE, "WANDB_SWEEP_ID"])
@pytest.mark.parametrize("word", ["--trust-config", "--trust_config=true", "--limits=9"])
def test_a_file_gives_neither_trust_nor_limits(
    variable: str, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_options(["fit", word])[0] != Program()
    monkeypatch.setenv(variable, "1")
    with pytest.raises(InputError, match="cannot be given by a sweep file"):
        read_options(["fit", word])


def test_the_current_folder_is_in_the_module_path_with_trust_alone_and_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(SAFE_PATH, raising=False)
    (tmp_path / "random.py").write_text("raise SystemExit('taken from the current folder')")
    before = list(sys.path)
    with using(Program(trust_config=True)):
        assert sys.path == [*before, str(tmp_path)]
    with using(Program()):
        assert sys.path == before
        subprocess.run([sys.executable, "-c", "import random"], check=True)
    assert (sys.path, os.environ.get(SAFE_PATH)) == (before, None)


def test_started_as_a_module_the_program_leaves_the_current_folder_alone(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('taken from the current folder')")
    command = [sys.executable, "-m", "lightning_sasv.cli", "sweep", "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
