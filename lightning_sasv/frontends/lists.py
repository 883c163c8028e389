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

from lightning_sasv.data.profiles import find_file
from lightning_sasv.data.protocols import (
    ENROLMENT_PROTOCOLS,
    TRAIN_PROTOCOL,
    TRIAL_PROTOCOL,
    TrialList,
    UtteranceList,
    read_enrolment,
    read_trials,
    read_utterances,
)
from lightning_sasv.errors import InputError
from lightning_sasv.frontends.audio import SUFFIXES
from lightning_sasv.scores import read_table
from lightning_sasv.scores.text import lines_of, load
from lightning_sasv.trials import SPLITS

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
) -> list[Split]:
    """What to embed.

    Args:
        audio: The recordings.
        protocol: A list of utterances, or a folder with the protocols of ASVspoof 2019 LA. By
            default the protocols below the audio folder, and without them every recording.
        enrolment: Enrolment lists, where ``protocol`` is a list.
        name: Name of the split, where ``protocol`` is a list or every recording is taken.
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
    splits = asvspoof_splits(Path(protocol) if protocol is not None else audio.root)
    if splits and (name is not None or enrolment):
        raise InputError("--name and --enrolment are for a single list, not for ASVspoof protocols")
    if protocol is not None and not splits:
        raise InputError(f"no protocols of ASVspoof 2019 LA ({TRAIN_PROTOCOL}, …) below {protocol}")
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
    attack key``).
    """
    path = Path(path)
    line, first = next(lines_of(path, load(path)[0]), (1, "-"))
    columns = len(first.split())
    if columns not in (1, 2, 4, 5):
        raise InputError(
            f"{path}, line {line}: {columns} columns; expected 1 (utterance or path), "
            "2 (utterance and path), 4 (trial list) or 5 (CM protocol)"
        )
    table = read_table(path, f"utterances-{columns}")
    names = table.frame["utterance"]
    places = table.frame["path"] if "path" in table else names
    return _unique(map(Utterance, names, places), str(path))


def asvspoof_splits(root: Path) -> list[Split]:
    """The splits whose protocols are below ``root``, by their names in ASVspoof 2019 LA."""

    def found(*names: str) -> list[Path]:
        return [find_file(root, name) for name in names if any(root.rglob(name))]

    splits = [Split("trn", _named(read_utterances(path))) for path in found(TRAIN_PROTOCOL)]
    for split in SPLITS:
        lists = found(*(name.format(split=split) for name in ENROLMENT_PROTOCOLS))
        for path in found(TRIAL_PROTOCOL.format(split=split)):
            splits.append(Split(split, _named(read_trials(path)), read_enrolment(*lists)))
    return splits


def _named(rows: TrialList | UtteranceList) -> tuple[Utterance, ...]:
    names = rows.utterance.tolist()
    return _unique(map(Utterance, names, names), "protocol")
