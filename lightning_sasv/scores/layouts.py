"""The layouts of score files, keys and protocols in circulation: one entry each in layouts.toml.

A layout says what each column of a file is. Inside the package every table has the same columns:

- ``speaker`` (enrolled or claimed speaker, or model), ``utterance`` (the probe), ``attack`` (``-``
  for bona fide speech);
- ``label``: ``spoof``, ``target``, ``nontarget``, or ``bonafide`` where the layout knows no more;
- ``asv_score``, ``cm_score``, ``sasv_score``, ``sasv_<system>``: scores, higher is better;
- any other column under its own name.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightning_sasv.errors import InputError, meant
from lightning_sasv.plugins import Registry
from lightning_sasv.trials import OWN_ASV, OWN_CM

LABELS = ("spoof", "target", "nontarget", "bonafide")
"""Words of the label column; the first three at the places of their ``TrialClass`` codes."""

BONAFIDE_ATTACK = "-"
"""Attack of bona fide speech in memory and in our tables; also what a filler is written as."""
STAR = "speaker*utterance"
"""A column of enrolment and test in one cell, a star between them."""
ROLES = ("asv", "cm", "sasv")
SCORES = tuple(f"{role}_score" for role in ROLES)


@dataclass(frozen=True)
class Layout:
    """What each column of a file is.

    Attributes:
        name: Name on the command line.
        about: What the file is, in a few words.
        columns: Our name of each column in the order of the file. ``score`` is a score whose role
            is ``role``; a name that begins with ``_`` is a filler: dropped where it is ``-`` in
            every row, kept without the ``_`` where it is not, and written as ``-`` where absent.
            One that begins with ``-`` is dropped; ``speaker*utterance`` is both in one cell.
        headings: Header line, the heading of each column; empty for files without one.
        aliases: Other names of the very same layout.
        labels: Words of the label column in the file, and what they mean.
        separator: ``" "`` (any white space), a tab or ``","``.
        role: Which side the column ``score`` speaks for; empty where the labels tell.
        bonafide_attack: How the attack of bona fide speech is written.
        claimed: Where there is no label, the column that equals ``real_speaker`` in target trials.
        absent: Whether a whole column of scores may be absent, written as ``-``.
        optional: Further columns that may be there: heading and our name.
        open: Whether any other columns may follow under headings of their own.
        repeats: Whether an id may stand in several rows; they are trials all the same.
        recognised: Whether a file can be told to have this layout from its content.
        suffix: Usual end of the file name.
    """

    name: str
    about: str
    columns: tuple[str, ...]
    headings: tuple[str, ...]
    aliases: tuple[str, ...]
    labels: Mapping[str, str]
    separator: str = " "
    role: str = "sasv"
    bonafide_attack: str = "bonafide"
    claimed: str = ""
    absent: bool = False
    optional: Mapping[str, str] = field(default_factory=dict)
    open: bool = False
    repeats: bool = False
    recognised: bool = True
    suffix: str = ".txt"

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that hold numbers."""
        return tuple(filter(is_number, self.columns))

    @property
    def role_by_labels(self) -> bool:
        """Whether the labels that a key brings say whose the scores are."""
        return not self.role or not (self.role == "cm" or self.claimed or "label" in self.columns)

    @property
    def of_utterances(self) -> bool:
        """Whether a row is an utterance rather than a trial."""
        cm_labels = "label" in self.columns and set(self.labels.values()) == {"bonafide", "spoof"}
        return "utterance" in self.columns and ("speaker" not in self.columns or cm_labels)

    def describe(self) -> str:
        """The columns as they stand in the file."""
        shown = self.headings or ["-" if name.startswith("_") else name for name in self.columns]
        return {" ": " ", "\t": " <tab> ", ",": ","}[self.separator].join(shown)


def is_number(name: str) -> bool:
    """Whether a column of this name holds numbers in every layout."""
    return name == "score" or name.endswith(("_score", "_llr", "_norm")) or name.startswith("sasv_")


def is_fusible(name: str) -> bool:
    """Whether a column is by its name a score, or a measure of quality, that can be fused.

    ``cm_score_<system>`` and ``asv_score_<system>`` are of a system's own network, and for that
    system alone.

    Example:
        >>> [is_fusible(name) for name in ("asv_ecapa", "quality_snr", "cm_llr", "sasv_L3")]
        [True, True, False, False]
    """
    of_others = name.endswith(("_llr", "_norm")) or name.startswith((OWN_CM, OWN_ASV))
    return bool(re.match(r"(asv|cm|quality)_.", name)) and not of_others


_FILE = tomllib.loads(Path(__file__).with_name("layouts.toml").read_text(encoding="utf-8"))

WORDS = {word: label for label, words in _FILE["words"].items() for word in words.split()}
"""Words for labels, in lower case, and the labels that they mean."""
FILLERS = ("-", "_", "")
"""Cells that say nothing."""
_HEADINGS = {word: name for name, words in _FILE["headings"].items() for word in words.split()}
ENROLMENT = ("enrolment", "enrollment", "enrol", "enroll")
"""Headings of what enrols a model, or of the model."""
_WHOLE = re.compile(r"([+-]?\d+)\.0*")


def plain_label(word: str) -> str:
    """A word of a label column as the tables of words have it: ``1.0`` is ``1``, ``Spoof`` spoof.

    Example:
        >>> plain_label(" Bona-Fide"), plain_label("1.0"), plain_label("+1")
        ('bona-fide', '1', '1')
    """
    word = word.strip().lower()
    whole = _WHOLE.fullmatch(word)
    return (whole[1] if whole else word).removeprefix("+")


def column_named(heading: str) -> str:
    """Our name of a heading; the heading itself where it is none of those in circulation.

    Example:
        >>> column_named("flac_file"), column_named("CM-score"), column_named("codec")
        ('utterance', 'cm_score', 'codec')
    """
    return _HEADINGS.get(re.sub(r"[\s.-]+", "_", heading.strip().lower()), heading.strip())


def columns_named(headings: Sequence[str]) -> list[str]:
    """Our name of each heading; of several with one meaning the first, or the one that is its name.

    What enrols a model is its name only where no other column is.

    Example:
        >>> columns_named(["path", "utterance", "enrolment", "model"])
        ['path', 'utterance', 'enrolment', 'speaker']
    """
    names = [column_named(heading) for heading in headings]
    models = [n == "speaker" and not _is_enrolment(h) for h, n in zip(headings, names, strict=True)]
    found = list[str]()
    for place, (heading, name) in enumerate(zip(headings, names, strict=True)):
        known = heading in names[:place] or name in headings or name in found
        yields = any(models) and _is_enrolment(heading)
        found.append(heading if known or yields else name)
    return found


def _is_enrolment(heading: str) -> bool:
    return heading.strip().lower() in ENROLMENT


def columns_described(text: str) -> Layout:
    """The layout that a user describes, as ``utterance,score,label`` or ``spk utt - key score``.

    Example:
        >>> columns_described("utt,-,cm").columns
        ('utterance', '-2', 'cm_score')
    """
    words = re.split(r"[,\s]+", text.strip(" ,"))
    names = [f"-{place}" if word == "-" else column_named(word)
             for place, word in enumerate(words, 1)]  # fmt: skip
    if names.count("speaker") > 1:  # of which one may be what enrols the other
        names = [w if _is_enrolment(w) else n for w, n in zip(words, names, strict=True)]
    twice = [name for name in names if names.count(name) > 1]
    if twice or "" in names:
        raise InputError(f"--columns {text!r}: {twice[0] if twice else 'a column'} stands twice")
    return described(names)


def described(names: Iterable[str]) -> Layout:
    """A layout of some columns that has no name."""
    return _layout("columns", about="as described", columns=" ".join(names), role="")


def labels_described(text: str | None) -> dict[str, str]:
    """What labels mean where a user says so: ``bona=1,spoof=0``.

    Example:
        >>> labels_described("bona=1,spoof=0")
        {'1': 'bonafide', '0': 'spoof'}
    """
    meant = {}
    for part in (text or "").replace(",", " ").split():
        name, sign, word = part.partition("=")
        if not sign or name.lower() not in WORDS or plain_label(word) in meant:
            raise InputError(
                f"--labels {text!r}: expected what each class is written as, once each, e.g. "
                "bona=1,spoof=0 or target=1,nontarget=2,spoof=0"
            )
        meant[plain_label(word)] = WORDS[name.lower()]
    return meant


def _layouts(section: str) -> dict[str, Layout]:
    """The layouts of a section of the file by their names."""
    return {name: _layout(name, **entry) for name, entry in _FILE[section].items()}


def _layout(name: str, labels: str = "any", **entry: Any) -> Layout:
    for key in ("columns", "headings", "aliases"):
        entry[key] = tuple(entry.get(key, "").split())
    return Layout(name, labels=_words_of(_FILE["labels"][labels]), **entry)


def _words_of(labels: str | dict[str, str]) -> dict[str, str]:
    """Words of a layout's labels: the ones given, or all those of some classes."""
    if isinstance(labels, dict):
        return labels
    classes = labels.split()
    return {word: label for word, label in WORDS.items() if label in classes}


def _as_layout(thing: Any) -> Layout:
    """A layout of another package: one as such, or a mapping like an entry of layouts.toml."""
    if isinstance(thing, Layout):
        return thing
    if not isinstance(thing, Mapping) or not {"about", "columns"} <= thing.keys():
        raise InputError("it is no mapping with about and columns")
    return _layout("", **thing)


LAYOUTS = Registry(_layouts("layouts"), "layouts", "layout", _as_layout)
"""Every layout of score files and keys by its name; ``all()`` has those of installed packages."""

_ALIASES = {alias: layout for layout in LAYOUTS.values() for alias in layout.aliases}
_BY_ANY_NAME = LAYOUTS | _ALIASES | _layouts("lists")


def layout_named(name: str) -> Layout:
    """Layout by its name or one of its aliases, or by its columns (``utterance,score,label``)."""
    if name in _BY_ANY_NAME:
        return _BY_ANY_NAME[name]
    if re.search(r"[,\s]", name):
        return columns_described(name)
    if name not in LAYOUTS:
        known = [*LAYOUTS.all(), *_ALIASES]
        listed = f"formats: {', '.join(known)}{meant(name, known)}"
        raise InputError(f"unknown format {name!r}; {listed}")
    return LAYOUTS[name]
