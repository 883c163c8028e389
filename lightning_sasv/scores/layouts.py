"""The layouts of score files, keys and protocols in circulation: one entry each in layouts.toml.

A layout says what each column of a file is. Inside the package every table has the same columns:

- ``speaker`` (enrolled or claimed speaker, or model), ``utterance`` (the probe), ``attack`` (``-``
  for bona fide speech);
- ``label``: ``spoof``, ``target``, ``nontarget``, or ``bonafide`` where the layout knows no more;
- ``asv_score``, ``cm_score``, ``sasv_score``, ``sasv_<system>``: scores, higher is better;
- any other column under its own name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightning_sasv.errors import InputError, meant

LABELS = ("spoof", "target", "nontarget", "bonafide")
"""Words of the label column; the first three at the places of their ``TrialClass`` codes."""

BONAFIDE_ATTACK = "-"
"""Attack of bona fide speech in memory and in our tables; also what a filler is written as."""
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
        headings: Header line, the heading of each column; empty for files without one.
        aliases: Other names of the very same layout.
        labels: Words of the label column in the file, and what they mean.
        separator: ``" "`` (any white space), a tab or ``","``.
        role: Which side the column ``score`` speaks for.
        bonafide_attack: How the attack of bona fide speech is written.
        claimed: Where there is no label, the column that equals ``real_speaker`` in target trials.
        absent: Whether a whole column of scores may be absent, written as ``-``.
        optional: Further columns that may be there: heading and our name.
        open: Whether any other columns may follow under headings of their own.
        repeats: Whether an id may stand in several rows.
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
    suffix: str = ".txt"

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that hold numbers."""
        return tuple(name for name in self.columns if name == "score" or is_number(name))

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
    return name.endswith(("_score", "_llr", "_norm")) or name.startswith("sasv_")


_FILE = tomllib.loads(Path(__file__).with_name("layouts.toml").read_text(encoding="utf-8"))


def _layouts(section: str) -> dict[str, Layout]:
    """The layouts of a section of the file by their names."""
    return {name: _layout(name, **entry) for name, entry in _FILE[section].items()}


def _layout(name: str, labels: str = "any", **entry: Any) -> Layout:
    for key in ("columns", "headings", "aliases"):
        entry[key] = tuple(entry.get(key, "").split())
    return Layout(name, labels=_FILE["labels"][labels], **entry)


LAYOUTS = _layouts("layouts")
"""Every layout of score files and keys by its name."""

_ALIASES = {alias: layout for layout in LAYOUTS.values() for alias in layout.aliases}
_BY_ANY_NAME = LAYOUTS | _ALIASES | _layouts("lists")


def layout_named(name: str) -> Layout:
    """Layout by its name or one of its aliases."""
    if name not in _BY_ANY_NAME:
        known = [*LAYOUTS, *_ALIASES]
        listed = f"formats: {', '.join(known)}{meant(name, known)}"
        raise InputError(f"unknown format {name!r}; {listed}")
    return _BY_ANY_NAME[name]
