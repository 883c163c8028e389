"""Protocols of a corpus: lists of utterances and trials, which are layouts of ``scores``."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lightning_sasv.data.profiles import Profile
from lightning_sasv.errors import InputError
from lightning_sasv.scores import ScoreTable, read_table, write_table
from lightning_sasv.scores.layouts import BONAFIDE_ATTACK, LABELS, LAYOUTS, column_named
from lightning_sasv.scores.sources import key_beside, where_equal
from lightning_sasv.scores.table import TEXT
from lightning_sasv.scores.text import lines_of, load, split
from lightning_sasv.trials import UNKNOWN, TrialClass

TRIALS, UTTERANCES = "sasv2022-protocol", "asvspoof2019-cm-protocol"
UNLABELLED = "trials"
"""Layouts of the kinds of protocols."""
TRAIN_PROTOCOL = "ASVspoof2019.LA.cm.train.trn.txt"
TRIAL_PROTOCOL = "ASVspoof2019.LA.asv.{split}.gi.trl.txt"
MARKER = "corpus.json"
"""File that says which corpus a folder holds; simulated ones carry it."""
_ANY = Profile("any")
"""A corpus of which nothing is known."""


class _Rows:
    """Rows of a list, each with a speaker and an utterance."""

    utterance: np.ndarray
    where: Callable[..., str] | None

    def place(self, names: np.ndarray, known: Container[str]) -> str:
        """Beginning of a message about the first row whose name in a column is not known."""
        rows = (row for row, name in enumerate(names.tolist()) if name not in known)
        return "" if self.where is None else f"{self.where(next(rows, 0))}: "

    def __len__(self) -> int:
        return len(self.utterance)


@dataclass(frozen=True)
class TrialList(_Rows):
    """ASV trials: an enrolled speaker against a probe utterance.

    Attributes:
        speaker: Enrolled speaker of each trial, or the utterance that enrols it.
        utterance: Probe utterance of each trial.
        attack: Attack of the probe (``A07``), ``-`` for bona fide speech; empty where not known.
        label: ``TrialClass`` code of each trial, int8; ``UNKNOWN`` of all where they have none.
        more: Further columns, e.g. the codec; they go with the scores.
        where: File and line of a row (in a column), for messages; nothing where they are of none.
    """

    speaker: np.ndarray
    utterance: np.ndarray
    attack: np.ndarray
    label: np.ndarray
    more: dict[str, np.ndarray] = field(default_factory=dict)
    where: Callable[..., str] | None = None

    @property
    def path(self) -> np.ndarray | None:
        """Recording of each probe below the audio folder, where the list says so."""
        return self.more.get("path")

    def enrolment(self) -> dict[str, list[str]]:
        """Enrolment utterances of each model, where the trials name them in a column.

        Raises:
            InputError: A model has two enrolments.
        """
        found: dict[str, str] = {}
        for row, model in enumerate(self.speaker.tolist()):
            own = str(self.more["enrolment"][row])
            if found.setdefault(model, own) != own:
                at = "" if self.where is None else f"{self.where(row)}: "
                raise InputError(f"{at}model {model} is enrolled with {found[model]} and {own}")
        return {model: re.split(r"\s*,\s*", own) for model, own in found.items()}

    def columns(self) -> list[np.ndarray]:
        """Every column."""
        return [self.speaker, self.utterance, self.attack, self.label, *self.more.values()]

    def table(self, name: str | Path) -> ScoreTable:
        """The trials, which all have labels, as a table without scores."""
        return _table(self, np.array(LABELS)[self.label], Path(name))


@dataclass(frozen=True)
class UtteranceList(_Rows):
    """A CM protocol: utterances with their speaker and attack.

    Attributes:
        speaker: Speaker (for spoofed speech the imitated one).
        utterance: Utterance.
        attack: Attack, ``-`` for bona fide speech.
        bonafide: True for bona fide speech.
        path: Recording of each utterance below the audio folder, where the list says so.
        where: File and line of a row (in a column), for messages; nothing where they are of none.
    """

    speaker: np.ndarray
    utterance: np.ndarray
    attack: np.ndarray
    bonafide: np.ndarray
    path: np.ndarray | None = None
    where: Callable[..., str] | None = None

    def columns(self) -> list[np.ndarray]:
        """Every column."""
        return [self.speaker, self.utterance, self.attack, self.bonafide]


def _read(path: str | Path, layout: str | None) -> ScoreTable:
    """A protocol as a table; arrays of text would lose a NUL at the end of a name."""
    import polars as pl

    table = read_table(path, layout)
    table = replace(table, frame=table.frame.with_columns(pl.col(pl.String).str.strip_chars()))
    known = LAYOUTS.get(table.layout)
    between_blanks = known is not None and known.separator == " "
    wrong = {r"\x00|^$": "is empty or holds a NUL byte; mend this line"}
    wrong |= {r"\s": "holds a blank; has this line more columns?"} if between_blanks else {}
    for pattern, what in wrong.items():
        bad = pl.any_horizontal(pl.col(pl.String).str.contains(pattern))
        rows = table.frame.select(bad.arg_true()).to_series()
        if len(rows):
            raise InputError(f"{table.where(rows[0])}: a name {what}")
    return table


def read_trials(
    path: str | Path,
    layout: str = TRIALS,
    details: tuple[Path, str] | None = None,
    of: Profile = _ANY,
) -> TrialList:
    """Read an ASV trial list, ``speaker utterance attack key`` (key: target, nontarget, spoof).

    Args:
        path: The file.
        layout: Its layout.
        details: A list that says more of its utterances, and its layout: whoever speaks there is
            the column ``test_speaker``.
        of: The corpus, which says what its ids look like and which of its trials count.
    """
    table = where_equal(_trials(_read(path, layout), of), of.where or None)
    if details is not None:
        other = _plain(_read(*details), of)
        heard = other.frame.rename({"speaker": "test_speaker"})
        table = key_beside(replace(other, frame=heard), table)
    used = (*TEXT, "label", "cm_label")
    more = {name: table.text(name) for name in table.frame.columns if name not in used}
    rows = replace(_trial_list(table, "label" in table), more=more, where=table.where)
    found = _of_corpus(rows, of)
    _check_values({**vars(found), **more}, table, of)
    return found


def _trial_list(table: ScoreTable, labelled: bool) -> TrialList:
    names = _names(table, np.full(len(table), ""))
    label = table.labels() if labelled else np.full(len(table), UNKNOWN)
    return TrialList(**names, label=label.astype(np.int8))


def _names(table: ScoreTable, attack: np.ndarray) -> dict[str, Any]:
    """Speakers, utterances and attacks; where there are none, those given."""
    return {"attack": attack} | {name: table.text(name) for name in TEXT if name in table}


def _trials(table: ScoreTable, of: Profile = _ANY) -> ScoreTable:
    """A list as one of trials: ``speaker`` is who is claimed, whoever is heard ``test_speaker``.

    Raises:
        InputError: It does not name speakers and utterances, or is an enrolment list.
    """
    table.need(["speaker", "utterance"], "a trial list")
    if "model" in table and "test_speaker" not in table:
        names = {"speaker": "test_speaker", "model": "speaker"}
        table = replace(table, frame=table.frame.rename(names))
    several = table.frame["speaker"].str.contains(",", literal=True)  # no name of a model has one
    if "enrolment" not in table and (several.any() or _headed_by_enrolment(table)):
        own = table.frame["speaker"].alias("enrolment")
        table = replace(table, frame=table.frame.with_columns(own))
    several = table.frame["utterance"].str.contains(",", literal=True).arg_true()
    if len(several):
        raise InputError(
            f"{table.where(several[0])}: several utterances in one trial "
            f"({table.frame['utterance'][several[0]][:40]}); is it an enrolment list?"
        )
    return _plain(table, of)


def _headed_by_enrolment(table: ScoreTable) -> bool:
    """Whether a table of one's own has utterances that enrol in the place of a model."""
    if table.layout not in ("csv", "json-lines"):
        return False
    source = load(table.path)[0] if table.layout == "csv" else table.path
    _, first = next(lines_of(table.path, source))
    return bool(re.search(r"\benroll?ment\b", first, re.I))


def _plain(table: ScoreTable, of: Profile) -> ScoreTable:
    """A list whose ids are those of the audio without the endings of its files."""
    import polars as pl

    if not of.plain:
        return table
    ids = pl.col("utterance").str.replace(AUDIO_ENDING.pattern, "")
    return replace(table, frame=table.frame.with_columns(ids))


def _check_values(columns: Mapping[str, Any], table: ScoreTable, of: Profile) -> None:
    """Refuse values that a corpus does not have, as a gender or an attack that nobody knows."""
    for name, pattern in of.values.items():
        words = columns[name].tolist() if columns.get(name) is not None else []
        known = {word for word in set(words) if re.fullmatch(f"|-|{pattern}", word)}
        row = next((n for n, word in enumerate(words) if word not in known), None)
        if row is not None:
            raise InputError(
                f"{table.where(row, name)}: {name} is {words[row]!r}; expected {pattern}: is it a "
                f"list of another corpus than {of.name}?"
            )


def _of_corpus(trials: TrialList, of: Profile) -> TrialList:
    """Trials whose ids are paths or have endings, or whose speakers are enrolment utterances."""
    if of.ending:
        return _without_ending(trials, of.ending.split())
    if not (of.paths or of.pairwise):
        return trials
    speaker, probe = (plain_paths(names) for names in (trials.speaker, trials.utterance))
    attack = trials.attack
    if of.paths:
        first = np.array([name.partition("/")[0] for name in probe.tolist()])
        attack = np.where(trials.label == TrialClass.SPOOF, first, BONAFIDE_ATTACK)
    return replace(trials, speaker=speaker, utterance=probe, attack=attack)


def _without_ending(trials: TrialList, columns: Sequence[str]) -> TrialList:
    """Ids ``LA2021-LA_E_5013670-alaw-ita_tx`` as the audio has them: ``LA_E_5013670``."""
    for name in columns:
        if name not in trials.more:
            raise InputError(f"ids end with {name}, says the corpus, but its list has no {name}")
    parts = zip(*(trials.more[name].tolist() for name in columns), strict=True)
    ends = ["-" + "-".join(part) for part in parts]
    speaker, utterance = (
        [
            re.sub(r"^LA2021-", "", name).removesuffix(end)
            for name, end in zip(names.tolist(), ends, strict=True)
        ]
        for names in (trials.speaker, trials.utterance)
    )
    return replace(trials, speaker=np.array(speaker), utterance=np.array(utterance))


_ENROLS = re.compile(r"enroll?(ment)?s?|(\w+_)?(utt|utterance|file|filename|file_name|name)s?")
"""Headings of the utterances of an enrolment list."""
AUDIO_ENDING = re.compile(r"(?i)\.(?:flac|wav)$")
"""How names of recordings end."""


def plain_paths(names: np.ndarray) -> np.ndarray:
    """Paths from the folder of a set without the ending of audio files.

    Example:
        >>> plain_paths(np.array(["./a00/id1/x.flac", "y"])).tolist()
        ['a00/id1/x', 'y']
    """
    return np.array([AUDIO_ENDING.sub("", name).removeprefix("./") for name in names.tolist()])


def read_trials_to_score(path: str | Path) -> TrialList:
    """Read trials that need no labels: ``speaker utterance``, or any list or table with these."""
    from lightning_sasv.scores.kinds import kind_of

    path, line = Path(path), ""
    if kind_of(path, None) == "text":
        _, line = next(lines_of(path, load(path)[0]), (1, ""))
    bare = len(line.split()) == 2 and "," not in line
    table = _trials(_read(path, UNLABELLED if bare else None))
    return _trial_list(table, "label" in table and not table.has_cm_labels)


def read_utterances(
    path: str | Path, layout: str = UTTERANCES, of: Profile = _ANY
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
    if "label" in table:
        verified = np.flatnonzero(np.isin(spoofed, ("target", "nontarget")))
        if len(verified):
            raise InputError(
                f"{table.where(int(verified[0]))}: label {str(spoofed[verified[0]])!r} in a list "
                "of utterances, which are bonafide or spoof; is it a list of trials?"
            )
    bonafide = spoofed == ("bonafide" if "label" in table else BONAFIDE_ATTACK)
    names = _names(table, np.where(bonafide, BONAFIDE_ATTACK, "spoof"))
    if of.paths or of.plain:
        names["utterance"] = plain_paths(names["utterance"])
    columns = names | {n: table.text(n) for n in table.frame.columns if n not in names}
    _check_values(columns, table, of)
    return UtteranceList(**names, bonafide=bonafide, path=columns.get("path"), where=table.where)


class Enrolled(NamedTuple):
    """A row of an enrolment list.

    Attributes:
        where: File and line.
        model: The speaker.
        utterances: What enrols it.
    """

    where: str
    model: str
    utterances: list[str]


def read_enrolment(*paths: str | Path, plain: bool = False) -> dict[str, list[str]]:
    """Read enrolment lists, ``speaker utterance,utterance,…``, or tables ``model,enrolment``.

    Args:
        *paths: The lists; a line for each speaker.
        plain: Ids are those of the audio without the endings of its files.

    Raises:
        InputError: A line names no utterance, or its speaker stands before.
    """
    return _by_model(row for path in paths for row in _enrolment_rows(path, plain))


def _by_model(rows: Iterable[Enrolled]) -> dict[str, list[str]]:
    found, seen = dict[str, list[str]](), dict[str, str]()
    for row in rows:
        if row.model in found:
            before = seen[row.model].removeprefix(row.where.rpartition("line ")[0])
            raise InputError(
                f"{row.where}: the speaker of {before} stands again: {row.model}; remove one of "
                "them, or write all utterances of a speaker on one line, between commas"
            )
        if not row.utterances:
            raise InputError(f"{row.where}: speaker {row.model} has no enrolment utterance")
        found[row.model], seen[row.model] = row.utterances, row.where
    return found


def _enrolment_rows(path: str | Path, plain: bool = False) -> Iterator[Enrolled]:
    """The rows of an enrolment list; arguments as for :func:`read_enrolment`."""
    for number, model, names in _enrolment_cells(Path(path)):
        where = f"{path}, line {number}"
        utterances = re.split(r"\s*,\s*", names)
        if not model or not names:
            raise InputError(f"{where}: a name is empty; expected a speaker and its utterances")
        if any(re.search(r"\s", name) for name in (model, *utterances)):
            raise InputError(f"{where}: a name holds a blank; has this line more columns?")
        own = [AUDIO_ENDING.sub("", name) if plain else name for name in utterances if name]
        yield Enrolled(where, model, own)


def _enrolment_cells(path: Path) -> Iterator[tuple[int, str, str]]:
    """Line, model and utterances of each row, whatever is between and above them."""
    lines = lines_of(path, load(path)[0])
    number, text = next(lines, (1, ""))
    for sign in (",", "\t", None):  # a table has a header; else a speaker and the rest of the line
        cells = split(path, number, text, sign) if sign else text.split(maxsplit=1)
        header = _enrolment_header(cells)
        if header is not None:
            break
    else:
        lines = chain([(number, text)], lines)
        sign = "," if path.suffix == ".csv" and len(text.partition(",")[0].split()) == 1 else None
    for number, text in lines:
        cells = split(path, number, text, sign) if sign else text.split(maxsplit=1)
        model, names = (cells[n].strip() if n < len(cells) else "" for n in header or (0, 1))
        yield number, model, names


def _enrolment_header(cells: Sequence[str]) -> tuple[int, int] | None:
    """Places of the model and of its utterances where a line is a header, else nothing."""
    plain = [re.sub(r"[\s-]+", "_", cell.strip().lower()) for cell in cells]
    enrols = [n for n, name in enumerate(plain) if _ENROLS.fullmatch(name)]
    models = [n for n, name in enumerate(plain) if column_named(name) == "speaker"]
    others = [n for n in models if n not in enrols[:1]]
    return (others[0], enrols[0]) if others and enrols else None


def enrolled_at(paths: Sequence[Path], name: str) -> str:
    """File and line of the enrolment list that names an utterance; nothing where none does."""
    rows = (row for path in paths for row in _enrolment_rows(path, plain=True))
    return next((row.where for row in rows if AUDIO_ENDING.sub("", name) in row.utterances), "")


def enrolment_within(
    paths: Sequence[Path], known: Container[str], claimed: Container[str], source: str, plain: bool
) -> dict[str, list[str]]:
    """Enrolment lists of some embeddings; a list may be of several sets, and enrol others too.

    Args:
        paths: The lists.
        known: Utterances that have an embedding.
        claimed: Models that trials name.
        source: Where the embeddings are, for messages.
        plain: As for :func:`read_enrolment`.

    Raises:
        InputError: A model that is claimed has an utterance without embedding; with its line.
    """
    left, rows = set(), [row for path in paths for row in _enrolment_rows(path, plain)]
    for row in rows:
        lacking = [name for name in row.utterances if name not in known]
        if lacking and row.model not in claimed:
            left.add(row.model)
        elif lacking:
            raise InputError(
                f"{row.where}: no embedding for {len(lacking)} id(s) of the enrolment "
                f"of {row.model} in {source}, first: {', '.join(lacking[:10])}; extract them or "
                "correct the list"
            )
    return {model: names for model, names in _by_model(rows).items() if model not in left}


def write_trials(path: str | Path, trials: TrialList) -> Path:
    """Write an ASV trial list in the challenge's layout."""
    return write_table(path, trials.table(path), TRIALS)


def write_utterances(path: str | Path, utterances: UtteranceList) -> Path:
    """Write a CM protocol in the challenge's layout."""
    label = np.where(utterances.bonafide, "bonafide", "spoof")
    return write_table(path, _table(utterances, label, Path(path)), UTTERANCES)


def _table(rows: TrialList | UtteranceList, label: np.ndarray, path: Path) -> ScoreTable:
    import polars as pl

    columns = {name: getattr(rows, name).tolist() for name in TEXT}
    return ScoreTable(pl.DataFrame(columns | {"label": label.tolist()}), path)
