"""Protocols of SASV 2022 (those of ASVspoof 2019 LA), which are layouts of ``scores``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lightning_sasv.errors import InputError
from lightning_sasv.scores import ScoreTable, read_table, write_table
from lightning_sasv.scores.layouts import LABELS
from lightning_sasv.scores.table import TEXT
from lightning_sasv.scores.text import lines_of, load
from lightning_sasv.trials import UNKNOWN

TRIALS, UTTERANCES, ENROLMENT = "sasv2022-protocol", "asvspoof2019-cm-protocol", "enrolment"
UNLABELLED = "trials"
"""Layouts of the kinds of protocols."""
TRAIN_PROTOCOL = "ASVspoof2019.LA.cm.train.trn.txt"
TRIAL_PROTOCOL = "ASVspoof2019.LA.asv.{split}.gi.trl.txt"
ENROLMENT_PROTOCOLS = tuple(
    f"ASVspoof2019.LA.asv.{{split}}.{gender}.trn.txt" for gender in ("female", "male")
)
MARKER = "corpus.json"
"""File that says which corpus a folder holds; simulated ones carry it."""


@dataclass(frozen=True)
class TrialList:
    """ASV trials: an enrolled speaker against a probe utterance.

    Attributes:
        speaker: Enrolled speaker of each trial.
        utterance: Probe utterance of each trial.
        attack: Attack of the probe (``A07``), ``-`` for bona fide speech; empty where not known.
        label: ``TrialClass`` code of each trial, int8; ``UNKNOWN`` of all where they have none.
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


def _read(path: str | Path, layout: str | None) -> ScoreTable:
    """A protocol as a table; arrays of text would lose a NUL at the end of a name."""
    import polars as pl

    table = read_table(path, layout)
    bad = pl.any_horizontal(pl.col(pl.String).str.contains(r"\x00|^$"))
    rows = table.frame.select(bad.arg_true()).to_series()
    if len(rows):
        raise InputError(
            f"{table.where(rows[0])}: a name is empty or holds a NUL byte; mend this line"
        )
    return table


def read_trials(path: str | Path) -> TrialList:
    """Read an ASV trial list, ``speaker utterance attack key`` (key: target, nontarget, spoof)."""
    table = _read(path, TRIALS)
    names = {name: table.text(name) for name in TEXT}
    return TrialList(**names, label=table.labels().astype(np.int8))


def read_trials_to_score(path: str | Path) -> TrialList:
    """Read trials that need no labels: ``speaker utterance``, or any list or table with these."""
    line = next(iter(lines_of(Path(path), load(Path(path), mend=True)[0])), (1, ""))[1]
    bare = len(line.split()) == 2 and "," not in line
    table = _read(path, UNLABELLED if bare else None)
    table.need(["speaker", "utterance"], "a trial list")
    names = {name: table.text(name) for name in TEXT if name in table}
    known = "label" in table and not table.has_cm_labels
    label = table.labels().astype(np.int8) if known else np.full(len(table), UNKNOWN, np.int8)
    return TrialList(**{"attack": np.full(len(table), "")} | names, label=label)


def read_utterances(path: str | Path) -> UtteranceList:
    """Read a CM protocol, ``speaker utterance - attack key`` (key: bonafide, spoof)."""
    table = _read(path, UTTERANCES)
    names = {name: table.text(name) for name in TEXT}
    return UtteranceList(**names, bonafide=table.text("label") == "bonafide")


def read_enrolment(*paths: str | Path) -> dict[str, list[str]]:
    """Read enrolment lists, ``speaker utterance,utterance,…``."""
    found = {}
    for table in (_read(path, ENROLMENT) for path in paths):
        for row, (speaker, names) in enumerate(table.frame.rows()):
            found[speaker] = [name for name in names.split(",") if name]
            if not found[speaker]:
                raise InputError(
                    f"{table.where(row)}: speaker {speaker} has no enrolment utterance"
                )
    return found


def write_trials(path: str | Path, trials: TrialList) -> Path:
    """Write an ASV trial list in the challenge's layout."""
    return _write(path, TRIALS, trials, np.array(LABELS)[trials.label])


def write_utterances(path: str | Path, utterances: UtteranceList) -> Path:
    """Write a CM protocol in the challenge's layout."""
    return _write(path, UTTERANCES, utterances, np.where(utterances.bonafide, "bonafide", "spoof"))


def _write(
    path: str | Path, layout: str, rows: TrialList | UtteranceList, label: np.ndarray
) -> Path:
    import polars as pl

    columns = {name: getattr(rows, name).tolist() for name in TEXT}
    frame = pl.DataFrame(columns | {"label": label.tolist()})
    return write_table(path, ScoreTable(frame, Path(path)), layout)
