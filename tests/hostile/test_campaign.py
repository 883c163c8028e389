"""The campaign finds what it is there to find, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightning_sasv.cli import COMMANDS, TRAINING
from tests.hostile import campaign, targets
from tests.hostile.attacks import hostile_files
from tests.hostile.corpus import MARK

Capture = pytest.CaptureFixture[str]


def test_two_commands_and_two_attacks(tmp_path: Path, capsys: Capture) -> None:
    """One of them in a part of its own; what is done is not done again."""
    words = ["--only=evaluate,convert", "--by=FILE", "--attack=text: gzip,text: NUL byte"]
    log = f"--log={tmp_path / 'log'}"
    assert campaign.main([*words, log, "--shard=2/4"]) == 0
    assert "1 of 1 attacks tried, found in 0" in capsys.readouterr().out
    assert campaign.main([*words, log]) == 0
    head, *rows, _, last = capsys.readouterr().out.splitlines()[-7:]
    assert head.split()[:4] == ["command", "by", "attack", "exit"]
    assert len(rows) == 4
    assert all(row.split()[-4:] == ["2", "1", "-", "-"] for row in rows)
    assert last == "4 of 4 attacks tried, found in 0"
    assert len((tmp_path / "log").read_text().splitlines()) == 4
    assert campaign.main([*words, "--minutes=0"]) == 1


@pytest.mark.parametrize(
    ("said", "written", "fault"),
    [
        ("Traceback (most recent call last):", "out/x", "traceback"),
        ("x", MARK, "mark"),
        ("x", "out/" + MARK, "mark"),
        ("x", "x", "files"),
        ("s3cret-word", "out/x", "secret"),
    ],
)
def test_what_counts_as_found(said: str, written: str, fault: str, tmp_path: Path) -> None:
    folder = tmp_path / "a"
    (folder / "out").mkdir(parents=True)
    (folder / written).touch()
    outcome = campaign.judged(campaign.Outcome(2, 0.0, said), folder, {})
    assert fault in outcome.faults
    assert outcome.left == [written]


def test_a_hang_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    monkeypatch.setattr(campaign, "LIMIT", 0.0)
    outcome = campaign.start(["--help"], tmp_path / "a")
    assert outcome.faults == ["hangs"]


def test_nothing_chosen_is_no_success(capsys: Capture) -> None:
    assert campaign.main(["--only=nothing"]) == 1


def test_every_command_is_attacked() -> None:
    assert targets.SOUND.keys() == targets.TARGETS.keys() == {*TRAINING, *COMMANDS}
    assert all(makers for makers in hostile_files().values())
