"""The vocabulary shared by every layer: classes of trials, and scores of trials."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from lightning_sasv.errors import InputError


class TrialClass(IntEnum):
    """Class of a trial (enrolled speaker, probe utterance).

    The integer codes are those of the paper's published score files, and the text keys
    (``str(TrialClass.SPOOF) == "spoof"``) those of the challenge's protocols.
    """

    SPOOF = 0
    TARGET = 1
    NONTARGET = 2

    def __str__(self) -> str:
        return self.name.lower()


UNKNOWN = -1
"""In place of the class of a trial that nobody knows."""

SPLITS = ("dev", "eval")
"""Sets of trials: everything is fitted on the first and evaluated on the second."""

TWIN = "twin"
"""Name of the simulated corpus; it never takes a real one's, nor the other way round."""

KINDS = ("asv", "cm", "quality")
"""Kinds of columns that are fused, by the beginning of their names, in their order."""

PAIR = ("asv_score", "cm_score")
"""Names of one ASV and one CM score without names of their own."""

OWN_CM = "cm_score_"
"""Beginning of the name of a column of CM scores of one system's own network."""

OWN_ASV = "asv_score_"
"""The same for networks that give both scores of a trial."""

CLASS_ORDER = (TrialClass.TARGET, TrialClass.NONTARGET, TrialClass.SPOOF)
"""The classes, positives first."""


class Task(NamedTuple):
    """A detection task: which classes a score tells apart.

    Attributes:
        column: The score it is about: ``sasv``, ``asv`` or ``cm``.
        positive: Classes that should be accepted.
        negative: Classes that should be rejected.
    """

    column: str
    positive: tuple[TrialClass, ...]
    negative: tuple[TrialClass, ...]


TASKS = {
    "sasv": Task("sasv", CLASS_ORDER[:1], CLASS_ORDER[1:]),
    "sv": Task("sasv", CLASS_ORDER[:1], (TrialClass.NONTARGET,)),
    "spf": Task("sasv", CLASS_ORDER[:1], (TrialClass.SPOOF,)),
    "asv": Task("asv", CLASS_ORDER[:1], (TrialClass.NONTARGET,)),
    "cm": Task("cm", CLASS_ORDER[:2], (TrialClass.SPOOF,)),
}
"""The detection tasks; ``sasv``, ``sv`` and ``spf`` are parts of spoofing-aware verification."""


class FusedScores(NamedTuple):
    """What a fusion system says of each trial. Higher means "more like a target".

    Columns of numbers: tensors from a ``FusionSystem``, arrays from a ``FittedSystem``.

    Attributes:
        asv_llr: The ASV side, log p(s|target)/p(s|nontarget) where the system has densities.
        cm_llr: The CM side, log p(s|target)/p(s|spoof) where the system has densities.
        sasv: The one score to threshold.
    """

    asv_llr: Any
    cm_llr: Any
    sasv: Any


@dataclass(frozen=True)
class Scores:
    """Scores of a list of trials, column by column.

    Attributes:
        asv: ASV score of each trial (cosine), float64.
        cm: CM score of each trial (logit difference), float64.
        label: ``TrialClass`` code of each trial, or ``UNKNOWN`` of all.
        speaker: Enrolled speaker.
        utterance: Probe utterance.
        attack: Attack of the probe, ``-`` for bona fide speech.
        extra: Any further columns by name.
    """

    asv: np.ndarray
    cm: np.ndarray
    label: np.ndarray
    speaker: np.ndarray | None = None
    utterance: np.ndarray | None = None
    attack: np.ndarray | None = None
    extra: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        columns = self.columns()
        lengths = {name: len(values) for name, values in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"columns of scores differ in length: {lengths}")

    def columns(self) -> dict[str, Any]:
        """Every column that is there, by name."""
        named = ("asv", "cm", "label", "speaker", "utterance", "attack")
        own = {name: getattr(self, name) for name in named}
        return {name: values for name, values in (own | self.extra).items() if values is not None}

    def of_system(self, system: str) -> Scores:
        """The scores that a system fuses: ``cm_score_<system>`` of its own network, or shared."""
        asv = self.extra.get(f"{OWN_ASV}{system}", self.asv)
        return replace(self, asv=asv, cm=self.extra.get(f"{OWN_CM}{system}", self.cm))

    def __len__(self) -> int:
        return len(self.label)


_MODELS = tuple(map(re.compile, (r"(SPK_\d+)_\d+", r"(?:LA2021-)?(LA_\d+)-\w+-\w+")))
_RECORDING = re.compile(r"(?:a\d\d/|voxceleb\d/)?([^/]+)/.+")


def claimed_speakers(models: Iterable[str]) -> list[str]:
    """Speakers of models, of which one speaker may have several.

    Those of WildSpoof, ``SPK_00001373_042``, are draws; ASVspoof 2021 has one for each condition,
    ``LA_0007-alaw-ita_tx``; where a recording enrols, as in SpoofCeleb and VoxCeleb, its folder is
    the speaker's.

    Example:
        >>> claimed_speakers(["a00/id10318/x", "a00/id10318/y", "a00/id10326/x"])
        ['id10318', 'id10318', 'id10326']
        >>> claimed_speakers(["SPK_00001373_000", "SPK_00001373_042"])
        ['SPK_00001373', 'SPK_00001373']
        >>> claimed_speakers(["SPK_00001373_000", "LA_0001"])
        ['SPK_00001373_000', 'LA_0001']
    """
    names = list(models)
    known = set(names)
    for pattern in (*_MODELS, _RECORDING):
        found = {name: match[1] for name in known if (match := pattern.fullmatch(name))}
        one_folder = pattern is _RECORDING and len(set(found.values())) == 1
        if len(found) == len(known) and not one_folder:
            return [found[name] for name in names]
    return names
