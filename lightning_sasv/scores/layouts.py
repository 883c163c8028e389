"""The layouts of score files and keys in circulation, one entry each.

A layout says what each column of a file is. Inside the package every table has the same columns:

- ``speaker`` (enrolled or claimed speaker, or model), ``utterance`` (the probe), ``attack`` (``-``
  for bona fide speech);
- ``label``: ``spoof``, ``target``, ``nontarget``, or ``bonafide`` where the layout knows no more;
- ``asv_score``, ``cm_score``, ``sasv_score``, ``sasv_<system>``: scores, higher is better;
- any other column under its own name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lightning_sasv.errors import InputError

LABELS = ("spoof", "target", "nontarget", "bonafide")
"""Words of the label column; the first three at the places of their ``TrialClass`` codes."""

BONAFIDE_ATTACK = "-"
ROLES = ("asv", "cm", "sasv")
SCORES = tuple(f"{role}_score" for role in ROLES)

_TRIAL = {word: word for word in ("target", "nontarget", "spoof")}
_CM = {word: word for word in ("bonafide", "spoof")}
_SAME_SPEAKER = {"1": "target", "0": "nontarget"}
_ANY = _TRIAL | _CM


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
        separator: ``" "`` (any white space), a tab or ``","``.
        labels: Words of the label column in the file, and what they mean.
        role: Which side the column ``score`` speaks for.
        bonafide_attack: How the attack of bona fide speech is written.
        absent: Whether a whole column of scores may be absent, written as ``-``.
        optional: Further columns that may be there: heading and our name.
        open: Whether any other columns may follow under headings of their own.
        aliases: Other names of the very same layout.
        suffix: Usual end of the file name.
    """

    name: str
    about: str
    columns: tuple[str, ...]
    headings: tuple[str, ...] = ()
    separator: str = " "
    labels: Mapping[str, str] = field(default_factory=lambda: _ANY)
    role: str = "sasv"
    bonafide_attack: str = "bonafide"
    absent: bool = False
    optional: Mapping[str, str] = field(default_factory=dict)
    open: bool = False
    aliases: tuple[str, ...] = ()
    suffix: str = ".txt"

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that hold numbers."""
        return tuple(name for name in self.columns if name == "score" or is_number(name))

    def describe(self) -> str:
        """The columns as they stand in the file."""
        shown = self.headings or ["-" if name.startswith("_") else name for name in self.columns]
        return {" ": " ", "\t": " <tab> ", ",": ","}[self.separator].join(shown)


def is_number(name: str) -> bool:
    """Whether a column of this name holds numbers in every layout."""
    return name.endswith(("_score", "_llr", "_norm")) or name.startswith("sasv_")


_COHORT = ("enrol_magnitude_norm", "test_magnitude_norm", "enrol_mean_norm", "test_mean_norm")
_LA = ("speaker", "utterance", "codec", "transmission", "attack", "label", "trim", "subset")
_PA = ("speaker", "utterance", "R", "M", "d", "r", "m", "s", "c", "label", "trim", "subset")
_DF = ("speaker", "utterance", "codec", "source", "attack", "label", "trim", "subset", "vocoder")
_VCC = ("_vcc_task", "_vcc_team", "_vcc_genders", "_vcc_language")

_ALL = (
    Layout("csv", "our table", (), ("label",), ",", _ANY, bonafide_attack="-", open=True,
           suffix=".csv"),
    Layout("parquet", "our table as Parquet", (), (), "", _ANY, open=True, suffix=".parquet"),
    Layout("sasv2022", "SASV 2022 submission",
           ("speaker", "utterance", "attack", "label", "score"), labels=_TRIAL),
    Layout("sasv2022-protocol", "SASV 2022 protocol (ASVspoof 2019 ASV protocol)",
           ("speaker", "utterance", "attack", "label"), labels=_TRIAL,
           aliases=("asvspoof2019-asv-protocol",)),
    Layout("a-dcf", "scores for the a-DCF tool",
           ("speaker", "utterance", "score", "label"), labels=_TRIAL),
    Layout("wespeaker", "WeSpeaker scores",
           ("speaker", "utterance", "score", "label"), labels=_TRIAL, role="asv"),
    Layout("wespeaker-asnorm", "WeSpeaker scores after AS-norm",
           ("speaker", "utterance", "score", "label", *_COHORT), labels=_TRIAL, role="asv"),
    Layout("asvspoof2019-cm-protocol", "ASVspoof 2019 CM protocol",
           ("speaker", "utterance", "_environment", "attack", "label"), labels=_CM,
           bonafide_attack="-"),
    Layout("asvspoof2019-cm", "ASVspoof 2019 CM scores",
           ("utterance", "attack", "label", "score"), labels=_CM, role="cm", bonafide_attack="-"),
    Layout("asvspoof2019-asv", "ASVspoof 2019 ASV scores (no trial ids)",
           ("attack", "label", "score"), labels=_TRIAL, role="asv"),
    Layout("asvspoof2021-cm", "ASVspoof 2021 CM scores", ("utterance", "score"), role="cm"),
    Layout("asvspoof2021-asv", "ASVspoof 2021 ASV scores, Kaldi scores",
           ("speaker", "utterance", "score"), role="asv", aliases=("kaldi",)),
    Layout("asvspoof2021-la-key", "ASVspoof 2021 LA key", _LA),
    Layout("asvspoof2021-la", "ASVspoof 2021 LA key with scores (t-EER tool)", (*_LA, "score"),
           role="asv"),
    Layout("asvspoof2021-pa-key", "ASVspoof 2021 PA key", _PA),
    Layout("asvspoof2021-df-key", "ASVspoof 2021 DF key",
           (*_DF, *_VCC), labels=_CM),
    Layout("asvspoof5-t1", "ASVspoof 5 track 1 scores (WeDefense llr.txt)",
           ("utterance", "cm_score"), ("filename", "cm-score"), "\t", aliases=("wedefense",),
           suffix=".tsv"),
    Layout("asvspoof5-t1-key", "ASVspoof 5 track 1 key",
           ("utterance", "label"), ("filename", "cm-label"), "\t", _CM, suffix=".tsv"),
    Layout("asvspoof5-t2", "ASVspoof 5 track 2 scores",
           ("speaker", "utterance", "cm_score", "asv_score", "sasv_score"),
           ("spk", "filename", "cm-score", "asv-score", "sasv-score"), "\t", absent=True,
           suffix=".tsv"),
    Layout("asvspoof5-t2-key", "ASVspoof 5 track 2 key",
           ("speaker", "utterance", "cm_label", "label"),
           ("spk", "filename", "cm-label", "asv-label"), "\t", _TRIAL, suffix=".tsv"),
    Layout("asvspoof5-key", "ASVspoof 5 full key",
           ("speaker", "utterance", "label", "cm_label", "attack", "codec", "track_2_tag"),
           ("tar_spk_anon", "trial_anon", "asv-label", "cm-label", "attack_anon", "codec",
            "track_2_tag"), " ", _ANY, open=True),
    Layout("asvspoof5-trials", "ASVspoof 5 trial list, Kaldi trials",
           ("speaker", "utterance", "label"), labels=_TRIAL, aliases=("kaldi-trials",)),
    Layout("asvspoof5-protocol", "ASVspoof 5 train or dev metadata",
           ("speaker", "utterance", "_gender", "_codec", "attack", "label"), labels=_CM),
    Layout("asvspoof5-metadata", "ASVspoof 5 track 1 metadata as released",
           ("speaker", "utterance", "_gender", "_codec", "_codec_quality", "_codec_seed",
            "_attack_tag", "attack", "label", "_remark"), labels=_CM),
    Layout("asvspoof5-fusion", "ASVspoof 5 fusion table (no trial ids)",
           ("asv_score", "cm_score", "label"), ("asv_score", "cm_score", "sasv_label"), ",",
           {"1": "target", "2": "nontarget", "0": "spoof"},
           optional={"fused_score": "sasv_score"}, open=True, suffix=".csv"),
    Layout("voxceleb", "VoxCeleb trials", ("label", "speaker", "utterance"), labels=_SAME_SPEAKER),
    Layout("voxsrc", "VoxSRC scores of VoxCeleb trials", ("score", "speaker", "utterance"),
           role="asv"),
    Layout("speechbrain", "SpeechBrain verification scores",
           ("speaker", "utterance", "label", "score"), labels=_SAME_SPEAKER, role="asv"),
    Layout("bob4", "bob scores, four columns",
           ("speaker", "real_speaker", "utterance", "score"), role="asv"),
    Layout("bob5", "bob scores, five columns",
           ("client", "speaker", "real_speaker", "utterance", "score"), role="asv"),
    Layout("bob-vuln", "bob vulnerability table",
           ("speaker", "real_speaker", "utterance", "attack", "score"),
           ("bio_ref_subject_id", "probe_subject_id", "probe_key", "probe_attack_type", "score"),
           ",", role="asv", bonafide_attack="", open=True, suffix=".csv"),
)  # fmt: skip

LAYOUTS: dict[str, Layout] = {layout.name: layout for layout in _ALL}
"""Every layout by its name."""

_BY_ANY_NAME = LAYOUTS | {alias: layout for layout in _ALL for alias in layout.aliases}
SAME_SPEAKER = {"bob4": "speaker", "bob5": "client", "bob-vuln": "speaker"}
"""Layouts without a label: the column that equals ``real_speaker`` in target trials."""


def layout_named(name: str) -> Layout:
    """Layout by its name or one of its aliases."""
    if name not in _BY_ANY_NAME:
        raise InputError(f"unknown format {name!r}; formats: {', '.join(_BY_ANY_NAME)}")
    return _BY_ANY_NAME[name]
