"""Which utterances are to be embedded, and where below the audio folder their recordings are."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from lightning_sasv.data.challenge import enrolment_of, trials_of, utterances_of
from lightning_sasv.data.profiles import profile_named, profiles, recognised
from lightning_sasv.data.protocols import (
    TRAIN_PROTOCOL,
    TrialList,
    UtteranceList,
    read_enrolment,
)
from lightning_sasv.errors import InputError
from lightning_sasv.frontends.audio import SUFFIXES
from lightning_sasv.scores import ScoreTable, read_table
from lightning_sasv.scores.text import lines_of, load

_SPLIT_NAMES = {"train": "trn", "dev": "dev", "eval": "eval"}
_NAME = re.compile(r"\w[\w.-]{0,49}")
"""What a split may be called: a part of a file name."""


class Utterance(NamedTuple):
    """An utterance: the id that it is stored under, and the file (or its id) to look for."""

    id: str
    place: str


@dataclass(frozen=True)
class Split:
    """Utterances that belong together in one file of embeddings.

    Attributes:
        name: ``trn``, ``dev``, ``eval``, another name, or nothing.
        utterances: Training utterances or probes, each once.
        enrolment: Enrolment utterances of each speaker.
    """

    name: str
    utterances: tuple[Utterance, ...]
    enrolment: dict[str, list[str]] = field(default_factory=dict)

    def stem(self, kind: str) -> str:
        """Name of a file of this split, e.g. ``asv_embd_dev`` for the kind ``asv_embd``."""
        return f"{kind}_{self.name}" if self.name else kind

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
    """The recordings below a folder, found by path or by name alone.

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
        found, seen = [], set()
        for folder, folders, names in os.walk(self.root, followlinks=True):
            real = os.path.realpath(folder)
            if real in seen:  # a link back to a folder above
                folders.clear()
                continue
            seen.add(real)
            here = Path(folder).relative_to(self.root)
            audio = (name for name in names if Path(name).suffix.lower() in SUFFIXES)
            found += [(here / name).as_posix() for name in audio]
        return sorted(found)

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        names: dict[str, list[str]] = defaultdict(list)
        for file in self.files:
            names[PurePosixPath(file).stem].append(file)
        return names

    def find(self, place: str) -> Path:
        """The recording at a path below the folder, or the only one of that name.

        Args:
            place: ``LA_D_1047731``, ``dev/LA_D_1047731`` or ``dev/LA_D_1047731.flac``.

        Raises:
            InputError: There is none or more than one, or the path leads out of the folder.
        """
        root = os.path.normpath(self.root)
        path = Path(os.path.normpath(self.root / place))
        if "\0" in place or not path.is_relative_to(root):
            raise InputError(f"{place!r} leads out of the audio folder {self.root}")
        try:
            if path.is_file():
                return path
        except OSError as error:  # a name that is too long, a folder that may not be entered
            raise InputError(f"cannot be looked for: {error.strerror}") from None
        wanted = PurePosixPath(path.relative_to(root).as_posix())
        if wanted.suffix.lower() in SUFFIXES:
            wanted = wanted.with_suffix("")
        depth = len(wanted.parts)
        named = self._by_name.get(wanted.name, [])
        found = [
            f for f in named if PurePosixPath(f).with_suffix("").parts[-depth:] == wanted.parts
        ]
        if not found:
            raise InputError(f"no recording of that name below {self.root}")
        if len(found) > 1:
            raise InputError(f"more than one recording of that name: {', '.join(found[:3])}")
        return self.root / found[0]


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
        return [Split(split, read_list(protocol), read_enrolment(*enrolment))]
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


def read_list(path: str | Path) -> tuple[Utterance, ...]:
    """Utterances of a list, each once.

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
    return _unique(map(Utterance, names, places), str(path))


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
    profile = profile_named(corpus) if corpus else recognised(root)
    splits = []
    for name, files in profile.sets() if profile else ():
        if profile is None or not any(any(root.rglob(one)) for one in files.lists):
            continue
        if name == "train":
            splits.append(Split(_SPLIT_NAMES[name], _named(utterances_of(profile, root))))
            continue
        trials = trials_of(profile, name, root)
        enrolment = enrolment_of(files, root, present=True)
        if trials.model is not None:  # each is enrolled by itself
            enrolment = {model: [model] for model in dict.fromkeys(trials.model.tolist())}
        splits.append(Split(name, _named(trials), enrolment))
    return splits


def _named(rows: TrialList | UtteranceList) -> tuple[Utterance, ...]:
    names = rows.utterance.tolist()
    return _unique(map(Utterance, names, names), "protocol")
