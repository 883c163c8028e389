"""Which utterances are to be embedded, and where below the audio folder their recordings are."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from lightning_sasv.console import print_note
from lightning_sasv.data.challenge import enrolment_lists, trials_of, utterances_of
from lightning_sasv.data.profiles import profile_named, profiles, recognised, recognition
from lightning_sasv.data.protocols import (
    TRAIN_PROTOCOL,
    TrialList,
    UtteranceList,
    enrolled_at,
    read_enrolment,
)
from lightning_sasv.errors import InputError
from lightning_sasv.frontends.audio import PACKED, SUFFIXES, TAR, Member, members_of
from lightning_sasv.scores import ScoreTable, read_table
from lightning_sasv.scores.text import lines_of, load

_SPLIT_NAMES = {"train": "trn", "dev": "dev", "eval": "eval"}
_NAME = re.compile(r"\w[\w.-]{0,49}")
"""What a split may be called: a part of a file name."""


Where = Callable[[int], str]
"""File and line of a row."""


class Utterance(NamedTuple):
    """An utterance: the id that it is stored under, and the file (or its id) to look for."""

    id: str
    place: str


class Lines:
    """File and line at which lists name utterances, looked up where something is wrong with one.

    Args:
        where: File and line of a row.
        columns: Utterances of each row; several of a row are separated by commas.
        enrolment: Enrolment lists that name others.
    """

    def __init__(
        self, where: Where | None, *columns: Iterable[str], enrolment: Sequence[Path] = ()
    ) -> None:
        self._where, self._columns, self._enrolment = where, columns, enrolment

    @cached_property
    def _rows(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for column in self._columns:
            for row, names in enumerate(column):
                for name in (names, *names.split(",")):
                    found.setdefault(name, row)
        return found

    def of(self, name: str, message: str) -> str:
        """A message about an utterance, with file and line before it where these are known."""
        if self._where is not None and name in self._rows:
            return f"{self._where(self._rows[name])}: {message}"
        at = enrolled_at(self._enrolment, name)
        return f"{at}: {message}" if at else message


@dataclass(frozen=True)
class Split:
    """Utterances that belong together in one file of embeddings.

    Attributes:
        name: ``trn``, ``dev``, ``eval``, another name, or nothing.
        utterances: Training utterances or probes, each once.
        enrolment: Enrolment utterances of each speaker.
        lines: Where the lists name them.
        audio: Folders of its recordings, where other sets may have some of the same names.
    """

    name: str
    utterances: tuple[Utterance, ...]
    enrolment: dict[str, list[str]] = field(default_factory=dict)
    lines: Lines | None = field(default=None, compare=False)
    audio: tuple[str, ...] = ()

    def stem(self, kind: str) -> str:
        """Name of a file of this split, e.g. ``asv_embd_dev`` for the kind ``asv_embd``."""
        return f"{kind}_{self.name}" if self.name else kind

    @property
    def has_models(self) -> bool:
        """Whether speakers are enrolled, and not single utterances."""
        return any(names != [speaker] for speaker, names in self.enrolment.items())

    @property
    def with_enrolment(self) -> tuple[Utterance, ...]:
        """The utterances, and the enrolment utterances that are not among them."""
        names = (name for names in self.enrolment.values() for name in names)
        return _unique([*self.utterances, *(Utterance(name, name) for name in names)], self.name)


def _unique(utterances: Iterable[Utterance], source: str) -> tuple[Utterance, ...]:
    """Each utterance once, in the order of first mention."""
    found: dict[str, Utterance] = {}
    for utterance in utterances:
        known = found.setdefault(utterance.id, utterance)
        if known.place != utterance.place and utterance.place != utterance.id:
            raise InputError(
                f"{source}: utterance {utterance.id} stands for two files, {known.place} and "
                f"{utterance.place}"
            )
    return tuple(found.values())


class AudioFolder:
    """The recordings below a folder and in tar files there, found by path or by name alone.

    A tar file counts as a folder; a recording that is unpacked as well is read from disk.

    Args:
        root: The folder; nothing outside of it is read.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        if not self.root.is_dir():
            raise InputError(f"no audio folder at {self.root}")

    @cached_property
    def files(self) -> list[str]:
        """Every recording, as a sorted path relative to the folder."""
        found, seen, archives = [], set(), []
        for folder, folders, names in os.walk(self.root, followlinks=True):
            real = os.path.realpath(folder)
            if real in seen:  # a link back to a folder above
                folders.clear()
                continue
            seen.add(real)
            here = Path(folder).relative_to(self.root)
            audio = (name for name in names if Path(name).suffix.lower() in SUFFIXES)
            found += [(here / name).as_posix() for name in audio]
            archives += [here / name for name in names if name.lower().endswith((TAR, *PACKED))]
        return sorted([*found, *self._in_archives(archives)])

    def _in_archives(self, archives: Iterable[Path]) -> Iterable[str]:
        """Recordings in tar files, whose names then are places below the folder."""
        self._members: dict[str, Member] = {}
        self._cut: list[str] = []
        for archive in sorted(archives):
            members, wrong = members_of(self.root / archive)
            self._cut += [wrong] if wrong else []
            for one in members:
                if PurePosixPath(one.name).suffix.lower() in SUFFIXES:
                    self._members[(archive / one.name).as_posix()] = one
        return self._members

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        names: dict[str, list[str]] = defaultdict(list)
        for file in self.files:
            names[PurePosixPath(file).stem].append(file)
        return names

    def find(self, place: str, within: Sequence[str] = ()) -> Path | Member:
        """The recording at a path below the folder, or the only one of that name.

        Args:
            place: ``LA_D_1047731``, ``dev/LA_D_1047731`` or ``dev/LA_D_1047731.flac``.
            within: Folders of which one has it, where several recordings have that name.

        Raises:
            InputError: There is none or more than one, or the path leads out of the folder.
        """
        path = Path(os.path.normpath(self.root / place))
        root = os.path.normpath(self.root.absolute())  # ../x is relative to . and to ..
        whole = Path(os.path.normpath(Path(root) / place))
        if "\0" in place or not whole.is_relative_to(root):
            raise InputError(f"{place!r} leads out of the audio folder {self.root}")
        try:
            if path.is_file():
                return path
        except OSError as error:  # a name that is too long, a folder that may not be entered
            raise InputError(f"cannot be looked for: {error.strerror}") from None
        wanted = PurePosixPath(whole.relative_to(root).as_posix())
        if wanted.suffix.lower() in SUFFIXES:
            wanted = wanted.with_suffix("")
        depth = len(wanted.parts)
        named = self._by_name.get(wanted.name, [])
        found = [
            f for f in named if PurePosixPath(f).with_suffix("").parts[-depth:] == wanted.parts
        ]
        found = [f for f in found if any(f"/{one}/" in f"/{f}" for one in within)] or found
        found = [f for f in found if f not in self._members] or found
        if not found:
            cut = "".join(f"; {wrong}" for wrong in self._cut)
            raise InputError(f"no recording of that name below {self.root}{cut}")
        if len(found) > 1:
            raise InputError(f"more than one recording of that name: {', '.join(found[:3])}")
        return self._members.get(found[0], self.root / found[0])


def plan(
    audio: AudioFolder,
    protocol: str | None = None,
    enrolment: Sequence[str] = (),
    name: str | None = None,
    corpus: str | None = None,
) -> list[Split]:
    """What to embed.

    Args:
        audio: The recordings.
        protocol: A list of utterances, or a folder with the lists of a corpus. By default the
            lists below the audio folder, and without them every recording.
        enrolment: Enrolment lists, where ``protocol`` is a list.
        name: Name of the split, where ``protocol`` is a list or every recording is taken.
        corpus: Whose lists they are; by default those of the corpus that is recognised.
    """
    if name and not _NAME.fullmatch(name):
        raise InputError(
            f"--name {name[:60]!r} cannot be part of a file name: at most 50 letters, digits, "
            "'_', '-' and '.', the first of them a letter, digit or '_'"
        )
    if protocol is not None and not Path(protocol).is_dir():
        word = re.search(r"\.(train|dev|eval)\.", Path(protocol).name)
        split = (_SPLIT_NAMES[word[1]] if word else "") if name is None else name
        table, utterances = read_list(protocol)
        paths = [Path(one) for one in enrolment]
        lines = Lines(table.where, table.frame["utterance"], enrolment=paths)
        return [Split(split, utterances, read_enrolment(*paths), lines)]
    lists = Path(protocol) if protocol is not None else audio.root
    splits = corpus_splits(lists, corpus)
    if splits and (name is not None or enrolment):
        raise InputError("--name and --enrolment are for a single list, not for those of a corpus")
    if not splits and (protocol is not None or corpus is not None):
        wanted = corpus or f"ASVspoof 2019 LA ({TRAIN_PROTOCOL}, …) or another corpus"
        listed = f"--corpus is one of {', '.join(profiles())}, or a YAML file"
        raise InputError(f"no protocols of {wanted} below {lists}; {listed}")
    return splits or [Split(name or "", _all_recordings(audio), read_enrolment(*enrolment))]


def _all_recordings(audio: AudioFolder) -> tuple[Utterance, ...]:
    """Every recording below the folder; its id is its path without the suffix."""
    if not audio.files:
        raise InputError(f"no recordings ({', '.join(SUFFIXES)}) below {audio.root}")
    found = [Utterance(str(PurePosixPath(file).with_suffix("")), file) for file in audio.files]
    for place in (utterance.place for utterance in found):
        if len(place.splitlines()) > 1:
            raise InputError(f"file name with a line break: {place!r}; rename it")
        if place != place.encode(errors="ignore").decode():
            raise InputError(f"file name that is not UTF-8: {place!r}; rename it")
    return _unique(found, str(audio.root))


def read_list(path: str | Path) -> tuple[ScoreTable, tuple[Utterance, ...]]:
    """A list as a table, and its utterances, each once.

    A line holds an utterance or a path (one column), an utterance and its path (two), or is one of
    a trial list (``speaker utterance attack key``) or of a CM protocol (``speaker utterance -
    attack key``), or of any other list or table whose layout is known.
    """
    path = Path(path)
    line, first = next(lines_of(path, load(path)[0]), (1, "-"))
    columns = len(first.split())
    if columns == 2 and "," in first:
        raise InputError(
            f"{path}, line {line}: {first[:60]!r} looks like an enrolment list; give --enrolment"
        )
    other = columns not in (1, 2, 4, 5) or "," in first or "\t" in first
    try:
        table = read_table(path, None if other else f"utterances-{columns}")
        table.need(["utterance"], "a list to extract")
    except InputError as error:
        if not other:
            raise
        raise InputError(
            f"{path}, line {line}: {columns} columns; expected 1 (utterance or path), 2 (utterance "
            f"and path), 4 (trial list), 5 (CM protocol), or a layout that is known: {error}"
        ) from None
    if columns == 2 and not other and _are_trials(table):
        table = read_table(path, "trials")
    names = table.frame["utterance"]
    places = table.frame["path"] if "path" in table else names
    return table, _unique(map(Utterance, names, places), str(path))


def _are_trials(table: ScoreTable) -> bool:
    """Whether two columns are speaker and utterance: the first repeats, the second is no path."""
    places = table.frame["path"].to_list()
    paths = any("/" in one or Path(one).suffix.lower() in SUFFIXES for one in places)
    return not paths and table.frame["utterance"].is_duplicated().any()


def corpus_splits(root: Path, corpus: str | None = None) -> list[Split]:
    """The splits whose lists are below ``root``.

    Args:
        root: Folder with the lists, at any depth.
        corpus: Whose lists they are; by default those of the corpus that is recognised.
    """
    profile = profile_named(corpus, "--corpus") if corpus else recognised(root)
    splits: list[Split] = []
    if profile is None:
        return splits
    if corpus is None:
        print_note(recognition(root, profile, "--corpus"))
    for name, files in profile.sets():
        if not any(any(root.rglob(one)) for one in files.lists):
            continue
        if name == "train":
            rows = utterances_of(profile, root)
            lines = Lines(rows.where, rows.utterance)
            splits.append(Split(_SPLIT_NAMES[name], _named(rows), {}, lines, files.audio))
            continue
        trials, paths = trials_of(profile, name, root), enrolment_lists(files, root, present=True)
        enrolment = read_enrolment(*paths, plain=profile.plain)
        columns = [trials.utterance]
        if "enrolment" in trials.more:
            enrolment, columns = trials.enrolment(), [*columns, trials.more["enrolment"]]
        if profile.pairwise:  # each is enrolled by itself
            enrolment = {model: [model] for model in dict.fromkeys(trials.speaker.tolist())}
            columns.append(trials.speaker)
        lines = Lines(trials.where, *columns, enrolment=paths)
        splits.append(Split(name, _named(trials), enrolment, lines, files.audio))
    return splits


def _named(rows: TrialList | UtteranceList) -> tuple[Utterance, ...]:
    names = rows.utterance.tolist()
    places = names if rows.path is None else rows.path.tolist()
    return _unique(map(Utterance, names, places), "protocol")
