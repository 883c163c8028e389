"""Readers and writers of the SASV 2022 protocol files (the layout of ASVspoof 2019 LA)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lightning_sasv.errors import InputError
from lightning_sasv.files import write_text
from lightning_sasv.trials import TrialClass

BONAFIDE_ATTACK = "-"
"""Attack of bona fide speech in memory and in score files (trial lists write ``bonafide``)."""


@dataclass(frozen=True)
class TrialList:
    """ASV trials: an enrolled speaker against a probe utterance.

    Attributes:
        speaker: Enrolled speaker of each trial.
        utterance: Probe utterance of each trial.
        attack: Attack of the probe (``A07``), ``-`` for bona fide speech.
        label: ``TrialClass`` code of each trial, int8.
    """

    speaker: np.ndarray
    utterance: np.ndarray
    attack: np.ndarray
    label: np.ndarray

    def __len__(self) -> int:
        return len(self.label)


@dataclass(frozen=True)
class UtteranceList:
    """A CM protocol: utterances with their speaker and attack.

    Attributes:
        speaker: Speaker (for spoofed speech the imitated one).
        utterance: Utterance.
        attack: Attack, ``-`` for bona fide speech.
        bonafide: True for bona fide speech.
    """

    speaker: np.ndarray
    utterance: np.ndarray
    attack: np.ndarray
    bonafide: np.ndarray

    def __len__(self) -> int:
        return len(self.bonafide)


class _Table:
    """The white-space separated columns of a protocol, with the line of each row."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.path = path
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read protocol {path}: {error}") from None
        rows = [(number, line.split()) for number, line in enumerate(lines, start=1)]
        rows = [(number, row) for number, row in rows if row]
        if not rows:
            raise InputError(f"protocol {path} is empty")
        for number, row in rows:
            if any("\0" in word for word in row):
                raise InputError(f"{path}, line {number}: holds a NUL byte; this is no text file")
            if len(row) != len(names):
                raise InputError(
                    f"{path}, line {number}: {len(row)} columns where {len(names)} were expected "
                    f"({' '.join(names)})"
                )
        self.lines = [number for number, _ in rows]
        self.columns = list(np.array([row for _, row in rows], dtype=str).T)

    def encode(self, keys: np.ndarray, codes: dict[str, int], what: str) -> np.ndarray:
        """Integer codes of text keys; an unknown key is reported with its line."""
        known, inverse = np.unique(keys, return_inverse=True)
        for key in known.tolist():
            if key not in codes:
                line = self.lines[int(np.argmax(keys == key))]
                raise InputError(
                    f"{self.path}, line {line}: unknown {what} {key!r}; expected one of "
                    f"{', '.join(codes)}"
                )
        return np.array([codes[key] for key in known.tolist()], dtype=np.int8)[inverse.reshape(-1)]

    def refuse_duplicates(self, ids: np.ndarray, what: str) -> None:
        """Raise where an id stands twice, naming the first ten such ids."""
        unique, count = np.unique(ids, return_counts=True)
        if len(unique) == len(ids):
            return
        twice = unique[count > 1]
        lines = [self.lines[row] for row in np.flatnonzero(ids == twice[0])]
        raise InputError(
            f"{self.path}: {len(twice)} {what}(s) stand more than once, the first in lines "
            f"{lines[0]} and {lines[1]}: {', '.join(twice[:10].tolist())}; remove the repetitions"
        )


def read_trials(path: str | Path) -> TrialList:
    """Read an ASV trial list, ``speaker utterance attack key`` (key: target, nontarget, spoof)."""
    table = _Table(Path(path), ("speaker", "utterance", "attack", "key"))
    speaker, utterance, attack, key = table.columns
    codes = {str(c): int(c) for c in (TrialClass.TARGET, TrialClass.NONTARGET, TrialClass.SPOOF)}
    label = table.encode(key, codes, "trial label")
    table.refuse_duplicates(np.char.add(np.char.add(speaker, " "), utterance), "trial")
    attack = np.where(attack == "bonafide", BONAFIDE_ATTACK, attack)
    return TrialList(speaker, utterance, attack, label)


def read_utterances(path: str | Path) -> UtteranceList:
    """Read a CM protocol, ``speaker utterance - attack key`` (key: bonafide, spoof)."""
    table = _Table(Path(path), ("speaker", "utterance", "environment", "attack", "key"))
    speaker, utterance, _, attack, key = table.columns
    bonafide = table.encode(key, {"bonafide": 1, "spoof": 0}, "CM label").astype(bool)
    table.refuse_duplicates(utterance, "utterance")
    return UtteranceList(speaker, utterance, attack, bonafide)


def read_enrolment(path: str | Path) -> dict[str, list[str]]:
    """Read an enrolment list, ``speaker utterance,utterance,…``."""
    table = _Table(Path(path), ("speaker", "utterances"))
    speakers, utterances = table.columns
    table.refuse_duplicates(speakers, "speaker")
    found = {
        str(speaker): [name for name in str(names).split(",") if name]
        for speaker, names in zip(speakers, utterances, strict=True)
    }
    for line, (speaker, names) in zip(table.lines, found.items(), strict=True):
        if not names:
            raise InputError(f"{path}, line {line}: speaker {speaker} has no enrolment utterance")
    return found


def write_trials(path: str | Path, trials: TrialList) -> Path:
    """Write an ASV trial list in the challenge's layout."""
    attack = np.where(trials.attack == BONAFIDE_ATTACK, "bonafide", trials.attack)
    keys = np.array([str(TrialClass(code)) for code in range(len(TrialClass))])[trials.label]
    return _write_columns(path, trials.speaker, trials.utterance, attack, keys)


def write_utterances(path: str | Path, utterances: UtteranceList) -> Path:
    """Write a CM protocol in the challenge's layout."""
    key = np.where(utterances.bonafide, "bonafide", "spoof")
    dash = np.full(len(utterances), "-")
    return _write_columns(
        path, utterances.speaker, utterances.utterance, dash, utterances.attack, key
    )


def _write_columns(path: str | Path, *columns: np.ndarray) -> Path:
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return write_text(path, "".join(" ".join(row) + "\n" for row in rows))
