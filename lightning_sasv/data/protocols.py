"""Protocols of a corpus: lists of utterances and trials, which are layouts of ``scores``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from lightning_sasv.data.profiles import Profile
from lightning_sasv.errors import InputError
from lightning_sasv.scores import ScoreTable, read_table, write_table
from lightning_sasv.scores.layouts import BONAFIDE_ATTACK, LABELS
from lightning_sasv.scores.sources import key_beside, where_equal
from lightning_sasv.scores.table import TEXT
from lightning_sasv.scores.text import lines_of, load
from lightning_sasv.trials import UNKNOWN, TrialClass

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
        model: What each trial is compared with, where that is not the speaker but an utterance.
        more: Further columns, e.g. the codec; they go with the scores.
    """

    speaker: np.ndarray
    utterance: np.ndarray
    attack: np.ndarray
    label: np.ndarray
    model: np.ndarray | None = None
    more: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def models(self) -> np.ndarray:
        """Name of the model of each trial."""
        return self.speaker if self.model is None else self.model

    def columns(self) -> list[np.ndarray]:
        """Every column."""
        own = [self.speaker, self.utterance, self.attack, self.label]
        return [*own, *([] if self.model is None else [self.model]), *self.more.values()]

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

    def columns(self) -> list[np.ndarray]:
        """Every column."""
        return [self.speaker, self.utterance, self.attack, self.bonafide]


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


def read_trials(
    path: str | Path,
    layout: str = TRIALS,
    details: tuple[Path, str] | None = None,
    where: str | None = None,
    of: Profile | None = None,
) -> TrialList:
    """Read an ASV trial list, ``speaker utterance attack key`` (key: target, nontarget, spoof).

    Args:
        path: The file.
        layout: Its layout.
        details: A list that says more of its utterances, and its layout: whoever speaks there is
            the column ``test_speaker``.
        where: Trials that count, e.g. ``subset=eval``.
        of: The corpus, where ids are paths or trials name their enrolment.
    """
    table = where_equal(_read(path, layout), where or None)
    table.need(["speaker", "utterance"], "a trial list")
    if details is not None:
        table = _with_details(table, _read(*details))
    attack = np.full(len(table), "")
    names = {"attack": attack} | {name: table.text(name) for name in TEXT if name in table}
    label = np.full(len(table), UNKNOWN, np.int8)
    if "label" in table:
        label = table.labels().astype(np.int8)
    used = (*TEXT, "label", "cm_label")
    more = {name: table.text(name) for name in table.frame.columns if name not in used}
    return _of_corpus(TrialList(**names, label=label, more=more), of)


def _with_details(table: ScoreTable, details: ScoreTable) -> ScoreTable:
    """Trials with what another list says of their utterances; uncoded speech has no quality."""
    import polars as pl

    frame = details.frame.rename({"speaker": "test_speaker"})
    if "codec_quality" in frame.columns:
        quality = pl.col("codec_quality")
        coded = pl.when(quality == "0").then(pl.lit("-")).otherwise(quality)
        frame = frame.with_columns(coded.alias("codec_quality"))
    return key_beside(replace(details, frame=frame), table)


def _of_corpus(trials: TrialList, of: Profile | None) -> TrialList:
    """Trials whose ids are paths, or whose speakers are enrolment utterances."""
    if of is None or not (of.paths or of.pairwise):
        return trials
    model, probe = (plain_paths(names) for names in (trials.speaker, trials.utterance))
    parts = [name.split("/") for name in model.tolist()]
    speaker = np.array([part[1] if of.paths and len(part) > 2 else part[0] for part in parts])
    attack = trials.attack
    if of.paths:
        first = np.array([name.partition("/")[0] for name in probe.tolist()])
        attack = np.where(trials.label == TrialClass.SPOOF, first, BONAFIDE_ATTACK)
    return replace(
        trials, speaker=speaker, utterance=probe, attack=attack,
        model=model if of.pairwise else None,
    )  # fmt: skip


def plain_paths(names: np.ndarray) -> np.ndarray:
    """Paths without the ending of audio files.

    Example:
        >>> plain_paths(np.array(["a00/id1/x.flac", "y"])).tolist()
        ['a00/id1/x', 'y']
    """
    return np.array([re.sub(r"(?i)\.(flac|wav)$", "", name) for name in names.tolist()])


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


def read_utterances(
    path: str | Path, layout: str = UTTERANCES, of: Profile | None = None
) -> UtteranceList:
    """Read a CM protocol, ``speaker utterance - attack key`` (key: bonafide, spoof).

    Args:
        path: The file.
        layout: Its layout; without labels, what has an attack is spoofed.
        of: The corpus, where ids are paths.
    """
    table = _read(path, layout)
    table.need(["speaker", "utterance"], "a list of utterances")
    if "label" not in table and "attack" not in table:
        table.need(["label"], "a list of utterances")
    spoofed = table.text("label" if "label" in table else "attack")
    bonafide = spoofed == ("bonafide" if "label" in table else BONAFIDE_ATTACK)
    attack = np.where(bonafide, BONAFIDE_ATTACK, "spoof")
    names = {"attack": attack} | {name: table.text(name) for name in TEXT if name in table}
    if of is not None and of.paths:
        names["utterance"] = plain_paths(names["utterance"])
    return UtteranceList(**names, bonafide=bonafide)


def read_enrolment(*paths: str | Path) -> dict[str, list[str]]:
    """Read enrolment lists, ``speaker utterance,utterance,…``, or tables ``model,enrolment``."""
    found = {}
    for path in paths:
        table = _read(path, "csv" if Path(path).suffix == ".csv" else ENROLMENT)
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
