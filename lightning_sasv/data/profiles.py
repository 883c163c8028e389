"""Corpora as data: which lists their sets have, in which layouts, and what enrols speakers.

An entry of corpora.toml, or a YAML file of the same shape, is a corpus. Lists are layouts of
``scores``; nothing here knows a name of a file.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from lightning_sasv.decisions.costs import as_cost_model
from lightning_sasv.errors import InputError, meant
from lightning_sasv.files import is_file, read_yaml
from lightning_sasv.scores.layouts import layout_named

SETS = ("train", "dev", "eval")
_ATOM = r"(?:\\[dw.-]|\[\^?(?:\\[dw.-]|[\w .-])+\]|[\w .:/@-])(?:\{\d{1,2}\})?"
_WORD = rf"(?:{_ATOM})*+(?:[*+?](?:{_ATOM})*+)?"
_PATTERN = re.compile(rf"(?=.{{1,200}}\Z){_WORD}(?:\|{_WORD})*")
"""Expressions that are tried in a time that grows as the word does: no groups, one repetition."""


@dataclass(frozen=True)
class SetFiles:
    """The files of one set.

    Attributes:
        lists: Names of the list of its utterances or trials, best first, and their layouts.
        details: The same of a list that says more of the utterances of its trials.
        enrolment: Names of the enrolment lists, all of which are read; several such groups, of
            which the first that is there counts.
        audio: Folders of its recordings, of which one is there: where several sets have one of a
            name, that of the set counts.
    """

    lists: Mapping[str, str]
    details: Mapping[str, str] = field(default_factory=dict)
    enrolment: tuple[tuple[str, ...], ...] = ()
    audio: tuple[str, ...] = ()


@dataclass(frozen=True)
class Profile:
    """A corpus.

    Attributes:
        name: Its name on the command line.
        about: What it is.
        costs: Preset of the costs of its metric.
        train: Utterances to train with; none for a corpus that only evaluates.
        dev: Trials that everything is fitted on.
        eval: Trials to evaluate, with labels or without.
        paths: Whether ids are paths ``attack/speaker/name.flac``.
        pairwise: Whether a trial names its enrolment utterance in the place of a speaker.
        plain: Whether ids lose the endings of audio files, which some copies of its lists have.
        where: Trials that count, e.g. ``subset=eval``; empty for all.
        values: Regular expressions of what columns may say beside ``-``, by their names.
        ending: Columns whose values stand at the end of both ids, between hyphens.
        separator: What separates columns where lists are written, if not as their layouts have it.
    """

    name: str
    about: str = ""
    costs: str = "a-dcf1"
    train: SetFiles | None = None
    dev: SetFiles | None = None
    eval: SetFiles | None = None
    paths: bool = False
    pairwise: bool = False
    plain: bool = False
    where: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    ending: str = ""
    separator: str = ""

    def sets(self) -> Iterator[tuple[str, SetFiles]]:
        """Its sets by name."""
        return ((name, one) for name in SETS if (one := getattr(self, name)) is not None)

    def need(self, *names: str) -> None:
        """Raise unless it has some sets."""
        lacking = [name for name in names if getattr(self, name) is None]
        if lacking:
            raise InputError(
                f"corpus {self.name} ({self.about}) has no {' and no '.join(lacking)} set; train "
                "with another corpus, then `lightning predict`, or `evaluate` scores with its key"
            )


def _profile(name: str, entry: Any) -> Profile:
    """A profile from plain data."""
    if not isinstance(entry, dict):
        raise InputError(f"corpus {name}: expected its sets, e.g. `dev: {{lists: …}}`")
    known = [one.name for one in fields(Profile) if one.name != "name"]
    _refuse_unknown(f"corpus {name}", entry, known)
    sets = {key: _set_files(f"corpus {name}, {key}", entry[key]) for key in SETS if key in entry}
    if not sets:
        raise InputError(f"corpus {name}: no set; give {', '.join(SETS)} or some of them")
    rest: dict[str, Any] = {key: value for key, value in entry.items() if key not in SETS}
    for key, value in rest.items():
        kind = {"paths": bool, "pairwise": bool, "plain": bool, "values": dict}.get(key, str)
        if not isinstance(value, kind):
            raise InputError(f"corpus {name}: {key} is {value!r}; expected a {kind.__name__}")
    for column, pattern in rest.get("values", {}).items():
        if not isinstance(pattern, str) or not _is_simple(pattern):
            raise InputError(
                f"corpus {name}: values of {column} are {str(pattern)[:100]!r}; expected words "
                r"with | between them, of letters, \d, \w, [a-z] and one of * + ? each, e.g. A\d\d"
            )
    as_cost_model(rest.get("costs", Profile.costs))
    return Profile(name, **rest | sets)


def _is_simple(pattern: str) -> bool:
    try:
        return bool(_PATTERN.fullmatch(pattern) and re.compile(pattern))
    except re.error:  # a range the wrong way round
        return False


def _set_files(where: str, entry: Any) -> SetFiles:
    entry = entry if isinstance(entry, dict) else {}
    lists, details = entry.get("lists"), entry.get("details") or {}
    if not (lists and isinstance(lists, dict) and isinstance(details, dict)):
        raise InputError(f"{where}: expected lists, each with its layout")
    _refuse_unknown(where, entry, [one.name for one in fields(SetFiles)])
    for layout in [*lists.values(), *details.values()]:
        layout_named(str(layout))
    groups = [group.split() for group in str(entry.get("enrolment", "")).split("|")]
    audio = str(entry.get("audio", "")).split()
    for name in (*lists, *details, *(one for group in groups for one in group), *audio):
        _check_name(where, name)
    return SetFiles(lists, details, tuple(map(tuple, filter(None, groups))), tuple(audio))


def _check_name(where: str, name: Any) -> None:
    """Refuse a name that leads out of the folder of a corpus: lists are written, too."""
    parts = PurePosixPath(name).parts if isinstance(name, str) and name.isprintable() else ()
    if not parts or ".." in parts or parts[0] == "/" or "**" in name:
        raise InputError(
            f"{where}: {str(name)[:100]!r} is no name of a file below the folder of the corpus"
        )


def _refuse_unknown(where: str, entry: Mapping[str, Any], known: list[str]) -> None:
    wrong = [key for key in entry if key not in known]
    if wrong:
        said = f"expected {', '.join(known)}{meant(str(wrong[0]), known)}"
        raise InputError(f"{where}: cannot use {wrong[0]!r}; {said}")


@cache
def profiles() -> dict[str, Profile]:
    """Every corpus that is known, by name."""
    text = Path(__file__).with_name("corpora.toml").read_text(encoding="utf-8")
    return {name: _profile(name, entry) for name, entry in tomllib.loads(text).items()}


def profile_named(name: str, option: str = "--data.corpus") -> Profile:
    """A corpus by its name, or of a YAML file.

    Args:
        name: Its name, or the file.
        option: What the user gave it with.

    Raises:
        InputError: There is none of that name, or the file does not describe one.
    """
    if name in profiles():
        return profiles()[name]
    if not is_file(name):
        listed = f"({', '.join(profiles())}) nor a file{meant(name, profiles())}"
        raise InputError(f"{option} {name} is neither a corpus {listed}")
    try:
        return _profile(Path(name).stem, read_yaml(name))
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def recognised(root: Path) -> Profile | None:
    """The corpus whose lists are below a folder: the one with most sets.

    Raises:
        InputError: Lists of several corpora are there, and as many sets of each.
    """
    lists = {name: [tuple(f.lists) for _, f in one.sets()] for name, one in profiles().items()}
    wanted = {Path(name).name for sets in lists.values() for names in sets for name in names}
    there = [f"/{path.as_posix()}" for path in _walk(root, wanted)]
    found = {
        corpus: sum(any(p.endswith(f"/{n}") for p in there for n in names) for names in sets)
        for corpus, sets in lists.items()
    }
    best = [name for name in found if found[name] == max(found.values()) > 0]
    if len(best) > 1:
        raise InputError(
            f"lists of {' and of '.join(best)} are below {root}: say which corpus is meant "
            "(--data.corpus, of extract --corpus), or give each a folder of its own"
        )
    return profiles()[best[0]] if best else None


def recognition(root: str | Path, profile: Profile, option: str = "--data.corpus") -> str:
    """What is said where a corpus was recognised."""
    return f"{root}: lists of {profile.name}; {option} says otherwise"


def _walk(root: Path, names: set[str]) -> Iterator[Path]:
    """Files of some names below a folder, which is walked once."""
    for folder, _, files in os.walk(root):
        yield from (Path(folder) / name for name in names.intersection(files))


def lists_of(profile: Profile, root: Path) -> list[Path]:
    """Every list of a corpus below a folder."""
    names = {
        name
        for _, files in profile.sets()
        for group in (files.lists, files.details, *files.enrolment)
        for name in group
    }
    return sorted({path for name in names for path in root.rglob(name)})


def check_root(root: Path) -> None:
    """Raise unless there is a folder of data."""
    if not root.is_dir():
        raise InputError(f"no data folder at {root}; `lightning download` fetches public ones")


def find_file(root: Path, *names: str) -> Path:
    """The one file below ``root`` with one of these names, the first name that is there."""
    check_root(root)
    for name in names:
        found = sorted(root.rglob(name))
        if len(found) > 1:
            listed = ", ".join(str(path) for path in found[:3])
            raise InputError(f"{name} stands more than once below {root}: {listed}; keep one")
        if found:
            return found[0]
    raise InputError(f"{' or '.join(names)} not found below {root}")
