"""Protocol readers on the challenge's real protocols, and on broken ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from lightning_sasv.data.protocols import (
    read_enrolment,
    read_trials,
    read_utterances,
    write_trials,
    write_utterances,
)
from lightning_sasv.errors import InputError
from lightning_sasv.trials import TrialClass

COUNTS = {"dev": (22_296, 1_484, 5_768), "eval": (63_882, 5_370, 33_327)}
SPEAKERS = {"dev": 10, "eval": 48}


@pytest.mark.parametrize("split", ["dev", "eval"])
def test_real_trial_lists(shared: Path, split: str) -> None:
    path = shared / f"data/sasv2022/protocols/ASVspoof2019.LA.asv.{split}.gi.trl.txt"
    trials = read_trials(path)
    assert tuple(np.bincount(trials.label)) == COUNTS[split]
    assert len(np.unique(trials.speaker)) == SPEAKERS[split]
    assert set(trials.attack[trials.label != TrialClass.SPOOF]) == {"-"}
    attacks = {f"A{n:02d}" for n in (range(1, 7) if split == "dev" else range(7, 20))}
    assert set(trials.attack[trials.label == TrialClass.SPOOF]) == attacks


def test_real_cm_protocol(shared: Path) -> None:
    path = shared / "data/sasv2022/protocols/ASVspoof2019.LA.cm.train.trn.txt"
    utterances = read_utterances(path)
    assert (utterances.bonafide.sum(), (~utterances.bonafide).sum()) == (2_580, 22_800)
    assert len(np.unique(utterances.speaker)) == 20


def test_real_enrolment_list(shared: Path) -> None:
    folder = shared / "data/mini_la/LA/ASVspoof2019_LA_asv_protocols"
    enrolment = read_enrolment(folder / "ASVspoof2019.LA.asv.dev.female.trn.txt")
    assert Counter(map(len, enrolment.values())) == {4: 2}


def test_written_protocols_are_the_originals(shared: Path, tmp_path: Path) -> None:
    folder = shared / "data/sasv2022/protocols"
    trials = folder / "ASVspoof2019.LA.asv.dev.gi.trl.txt"
    utterances = folder / "ASVspoof2019.LA.cm.dev.trl.txt"
    copy = write_trials(tmp_path / "trials", read_trials(trials))
    assert copy.read_text() == trials.read_text()
    copy = write_utterances(tmp_path / "utterances", read_utterances(utterances))
    assert copy.read_text() == utterances.read_text()


GOOD = "S1 U1 bonafide target\nS1 U2 bonafide nontarget\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD + "S1 U3 A07 spoofed\n", ["line 3", "'spoofed'", "target, nontarget, spoof"]),
        (GOOD + "\nS1 U3 A07 fake\n", ["line 4", "'fake'"]),
        (GOOD + "S1 U1 bonafide target\n", ["line 3: the trial of line 1", "S1 U1; remove"]),
        (GOOD + "S1 U4 target\n", ["line 3: 3 columns where 4", "attack, label); mend"]),
        ("\n\n", ["line 1: the file has no trials; write it"]),
        ("", ["line 1: the file is empty; write it"]),
    ],
)
def test_broken_trial_list(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "trials.txt"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_trials(path)
    for word in [str(path), *words]:
        assert word in str(caught.value)


def test_missing_and_binary_protocol(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*absent\.txt: No such file"):
        read_trials(tmp_path / "absent.txt")
    for content, says in (
        (b"\xff\xfe\x00S1", "line 1: not valid UTF-16"),
        (b"S1 U1,U2\n\0 U3\n", "line 2: a name is empty or holds a NUL byte; mend"),
        (b"S1\tU1\n\tU3\n", "line 2: a name is empty"),
        (b"S1 U1\n\xffS2 U3\n", "line 2: not UTF-8 text; save the file as UTF-8"),
    ):
        (tmp_path / "binary").write_bytes(content)
        with pytest.raises(InputError, match=f"binary, {says}"):
            read_enrolment(tmp_path / "binary")


def test_windows_line_ends_and_byte_order_marks_are_read(tmp_path: Path) -> None:
    (tmp_path / "dos").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert read_trials(tmp_path / "dos").speaker.tolist() == ["S1", "S1"]


@pytest.mark.parametrize("second", ["S2 U1 - A01 spoof", "S2 U1 - - bonafide"])
def test_an_utterance_stands_once(second: str, tmp_path: Path) -> None:
    path = tmp_path / "cm.txt"
    path.write_text(f"S1 U1 - A01 spoof\n{second}\n")
    with pytest.raises(InputError, match=r"cm.txt, line 2: the trial of line 1 .*: U1; remove"):
        read_utterances(path)


def test_enrolment_lists_that_make_no_sense(tmp_path: Path) -> None:
    path = tmp_path / "enrol.txt"
    path.write_text("S1 U1,U2\nS1 U3\n")
    with pytest.raises(InputError, match=r"enrol.txt, line 2: the speaker of line 1 .*: S1; rem"):
        read_enrolment(path)
    path.write_text("S1 U1,U2\nS2 ,\n")
    with pytest.raises(InputError, match=r"enrol.txt, line 2: speaker S2 has no enrolment utt"):
        read_enrolment(path)
