"""Protocol readers on the challenge's real protocols, and on broken ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
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
def test_real_trial_lists(shared: Path, tmp_path: Path, split: str) -> None:
    path = shared / f"data/sasv2022/protocols/ASVspoof2019.LA.asv.{split}.gi.trl.txt"
    trials = read_trials(path)
    assert tuple(np.bincount(trials.label)) == COUNTS[split]
    assert len(np.unique(trials.speaker)) == SPEAKERS[split]
    assert set(trials.attack[trials.label != TrialClass.SPOOF]) == {"-"}
    attacks = {f"A{n:02d}" for n in (range(1, 7) if split == "dev" else range(7, 20))}
    assert set(trials.attack[trials.label == TrialClass.SPOOF]) == attacks
    assert write_trials(tmp_path / "copy", trials).read_text() == path.read_text()


def test_real_cm_protocol(shared: Path, tmp_path: Path) -> None:
    path = shared / "data/sasv2022/protocols/ASVspoof2019.LA.cm.train.trn.txt"
    utterances = read_utterances(path)
    assert (utterances.bonafide.sum(), (~utterances.bonafide).sum()) == (2_580, 22_800)
    assert len(np.unique(utterances.speaker)) == 20
    assert write_utterances(tmp_path / "copy", utterances).read_text() == path.read_text()


def test_real_enrolment_list(shared: Path) -> None:
    folder = shared / "data/mini_la/LA/ASVspoof2019_LA_asv_protocols"
    enrolment = read_enrolment(folder / "ASVspoof2019.LA.asv.dev.female.trn.txt")
    assert Counter(map(len, enrolment.values())) == {4: 2}


GOOD = "S1 U1 bonafide target\nS1 U2 bonafide nontarget\n"


CM = "S1 U1 - A01 spoof\n"


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_trials, GOOD + "S1 U3 A07 odd\n", "line 3.*'odd'.*target, nontarget, spoof"),
        (read_trials, GOOD + "\nS1 U3 A07 odd\n", "line 4.*'odd'"),
        (read_trials, GOOD + GOOD, "line 3: the trial of line 1 .*S1 U1.*; remove"),
        (read_trials, GOOD + "S1 U4 target\n", "line 3: 3 columns where 4.*attack, label.; mend"),
        (read_trials, "\n\n", "line 1: the file has no trials; write it"),
        (read_trials, "", "line 1: the file is empty; write it"),
        (read_utterances, CM + "S2 U1 - A01 spoof\n", "line 2: the trial of line 1 .*: U1; remove"),
        (
            read_utterances,
            CM + "S2 U1 - - bonafide\n",
            "line 2: the trial of line 1 .*: U1; remove",
        ),
        (read_enrolment, "S1 U1,U2\nS1 U3\n", "line 2: the speaker of line 1 .*: S1; rem"),
        (read_enrolment, "S1 U1,U2\nS2 ,\n", "line 2: speaker S2 has no enrolment utt"),
        (read_enrolment, b"\xff\xfe\x00S1", "line 1: not valid UTF-16"),
        (read_enrolment, "S1 U1,U2\n\0 U3\n", "line 2: a NUL byte, which no text has; write it"),
        (read_enrolment, "S1\tU1\n\tU3\n", "line 2: a name is empty"),
        (read_enrolment, b"S1 U1\n\xffS2 U3\n", "line 2: not UTF-8 text; save the file as UTF-8"),
    ],
)
def test_broken_protocol(
    tmp_path: Path, read: Callable[[Path], object], text: str | bytes, message: str
) -> None:
    path = tmp_path / "list.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=rf"{path}, {message}"):
        read(path)
