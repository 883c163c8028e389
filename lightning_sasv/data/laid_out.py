"""A corpus written with the lists of another: the twin in the layout of every corpus.

Speakers keep their names. Each is enrolled with one utterance, whose embedding is its model, so
that the corpus that is read again has the same scores.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from lightning_sasv.data.corpus import Corpus, TrainingSet, TrialSet
from lightning_sasv.data.embeddings import EmbeddingStore
from lightning_sasv.data.profiles import Profile, SetFiles
from lightning_sasv.data.protocols import TrialList, UtteranceList
from lightning_sasv.errors import InputError
from lightning_sasv.files import write_text
from lightning_sasv.scores import ScoreTable, write_table
from lightning_sasv.scores.layouts import BONAFIDE_ATTACK, LABELS, layout_named
from lightning_sasv.trials import SPLITS, TrialClass

ENDING = ".flac"
CODECS = (BONAFIDE_ATTACK, "C01", "C04", "C11")
"""Codecs of evaluation utterances, where a corpus has some, in turn."""
TAGS = ("AC1", "AC2", "AC3")
"""How attackers adapted, where a corpus says so."""

PLAIN = {"codec": "none", "transmission": "loc_tx", "trim": "notrim", "subset": "eval"}
"""What lists of 2021 say of speech that nothing was done to."""


def check_twin(profile: Profile) -> None:
    """Refuse a corpus whose trials are not of three classes: the twin cannot be written as it."""
    for name in (one for one in profile.ending.split() if one not in PLAIN):
        raise InputError(f"--corpus {profile.name}: the twin has no {name} for the end of ids")
    trials = [next(iter(files.lists.values())) for name, files in profile.sets() if name in SPLITS]
    for layout in map(layout_named, trials):
        if layout.of_utterances or "spoof" not in layout.labels.values():
            raise InputError(
                f"--corpus {profile.name}: {profile.about}; the twin has targets, nontargets and "
                "spoofs, which its lists cannot hold"
            )


def lay_out_as(corpus: Corpus, profile: Profile, out: Path) -> Corpus:
    """Write the lists of a corpus as another has them.

    Args:
        corpus: What to write.
        profile: The other corpus.
        out: Folder of the lists.

    Returns:
        The corpus with the ids that the lists have, and the embeddings of enrolment utterances.
    """
    train, sets = corpus.train, {}
    if profile.train is not None:
        train = _training_set(train, profile)
        _write_utterances(out, profile.train, train.utterances, profile)
    for split in SPLITS:
        data: TrialSet = getattr(corpus, split)
        files: SetFiles | None = getattr(profile, split)
        sets[split] = data if files is None else _trial_set(data, files, profile, out)
    return Corpus(corpus.name, train, sets["dev"], sets["eval"])


def _training_set(train: TrainingSet, profile: Profile) -> TrainingSet:
    if not profile.paths:
        return train
    rows = train.utterances
    paths = _paths(rows.attack, rows.speaker, rows.utterance)
    return replace(
        train,
        utterances=replace(rows, utterance=paths, attack=np.char.lower(rows.attack)),
        cm=EmbeddingStore(paths.tolist(), train.vectors, train.cm.source),
        find_asv=None
        if train.find_asv is None
        else lambda: EmbeddingStore(paths.tolist(), train.asv_vectors, train.asv.source),
    )


def _paths(attack: np.ndarray, speaker: np.ndarray, utterance: np.ndarray) -> np.ndarray:
    """Ids ``attack/speaker/utterance``."""
    folder = np.where(attack == BONAFIDE_ATTACK, "a00", np.char.lower(attack))
    columns = zip(folder.tolist(), speaker.tolist(), utterance.tolist(), strict=True)
    return np.array(["/".join(row) for row in columns])


def _trial_set(data: TrialSet, files: SetFiles, profile: Profile, out: Path) -> TrialSet:
    """A set under the ids of a corpus, whose lists are written."""
    rows = data.trials
    enrol = [f"a00/{one}/enrolment" if profile.paths else f"{one}_A" for one in data.models.ids]
    probes = np.array(data.probes)
    named = probes
    first = np.unique(rows.utterance, return_index=True)[1]
    heard = _heard(rows, first, data.probe_of_trial.numpy())
    if profile.paths:
        named = _paths(rows.attack[first], heard, probes)
    utterance = named[data.probe_of_trial.numpy()]
    model = dict(zip(data.models.ids, enrol, strict=True))
    vectors = torch.cat([data.asv.select(data.probes), data.models.vectors])
    asv = EmbeddingStore([*named.tolist(), *enrol], vectors, data.asv.source)
    cm = EmbeddingStore(named.tolist(), data.probe_vectors, data.cm.source)
    enrolled = np.array([model[one] for one in rows.speaker.tolist()])
    speaker = enrolled if profile.pairwise else rows.speaker
    trials = replace(rows, utterance=utterance, speaker=speaker)
    found = TrialSet(data.name, trials, asv, cm, asv if profile.pairwise else data.models)
    _write_trials(out, files, found, profile, first, heard)
    _write_enrolment(out, files, model, profile, data.name)
    return found


def _write_enrolment(
    out: Path, files: SetFiles, model: Mapping[str, str], of: Profile, name: str
) -> None:
    """Write what enrols each speaker; a list of both sets has the speakers of both."""
    names = files.enrolment[0] if files.enrolment else ()
    shared = [n for group in of.dev.enrolment for n in group] if of.dev and name == "eval" else []
    for number, path in enumerate(out / one for one in names):  # by gender: speakers in turn
        csv = path.suffix == ".csv"
        sign, head = (",", "model,enrolment\n") if csv else (of.separator or " ", "")
        before = path.read_text() if names[number] in shared else head
        lines = [f"{one}{sign}{used}\n" for one, used in model.items()][number :: len(names)]
        write_text(path, "".join([before, *lines]))


def _heard(rows: TrialList, first: np.ndarray, probe: np.ndarray) -> np.ndarray:
    """Speaker of each probe; one who is not enrolled has a name by whom they are compared with."""
    speaker = rows.speaker[first].tolist()
    alone = (rows.label[first] == TrialClass.NONTARGET).tolist()
    claimed: dict[int, set[str]] = defaultdict(set)
    for number, who in zip(probe.tolist(), rows.speaker.tolist(), strict=True):
        if alone[number]:
            claimed[number].add(who)
    names: dict[frozenset[str], str] = {}
    for number, those in claimed.items():
        speaker[number] = names.setdefault(frozenset(those), f"TW_I{len(names) + 1:03d}")
    return np.array(speaker)


def _write_utterances(out: Path, files: SetFiles, rows: UtteranceList, profile: Profile) -> None:
    label = np.where(rows.bonafide, "bonafide", "spoof")
    utterance = np.char.add(rows.utterance, ENDING) if profile.paths else rows.utterance
    columns = {"speaker": rows.speaker, "utterance": utterance, "attack": rows.attack}
    if "gender" in profile.values:
        columns |= {"gender": _genders(rows.speaker), "attack_tag": _tags(rows.attack)}
    _write(out, files.lists, columns | {"label": label}, profile)


def _genders(speaker: np.ndarray) -> np.ndarray:
    """Speakers are women and men in turn."""
    return np.where(np.unique(speaker, return_inverse=True)[1] % 2, "M", "F")


def _tags(attack: np.ndarray) -> np.ndarray:
    """How attackers adapted, in turn; nothing of bona fide speech."""
    return np.where(attack == BONAFIDE_ATTACK, attack, np.resize(TAGS, len(attack)))


def _write_trials(
    out: Path,
    files: SetFiles,
    data: TrialSet,
    profile: Profile,
    first: np.ndarray,
    heard: np.ndarray,
) -> None:
    """Write the trials, and what a corpus says of their probes: first trial and speaker of each."""
    rows, ending = data.trials, ENDING if profile.paths else ""
    ending += "".join(f"-{PLAIN[name]}" for name in profile.ending.split())
    asked = layout_named(next(iter(files.lists.values()))).columns
    columns = {name: np.full(len(rows), word) for name, word in PLAIN.items() if name in asked}
    columns |= {
        "speaker": np.char.add(rows.speaker, ending),
        "utterance": np.char.add(rows.utterance, ending),
        "attack": rows.attack,
        "label": np.array(LABELS)[rows.label],
    }
    if files.details:
        columns["gender"] = _genders(rows.speaker)
    _write(out, files.lists, columns, profile)
    if files.details:
        label = np.where(rows.label[first] == TrialClass.SPOOF, "spoof", "bonafide")
        own = {name: columns[name][first] for name in ("utterance", "attack", "gender")}
        own |= {"speaker": heard, "label": label, "attack_tag": _tags(own["attack"])}
        if data.name == "eval":
            codec = np.resize(CODECS, len(first))
            coded = codec != BONAFIDE_ATTACK
            source = np.where(coded, own["utterance"], BONAFIDE_ATTACK)
            own |= {"codec": codec, "codec_quality": np.where(coded, "2", "0")}
            own |= {"codec_seed": source}
        _write(out, files.details, own, profile)


def _write(
    out: Path, lists: Mapping[str, str], columns: Mapping[str, np.ndarray], of: Profile
) -> None:
    """A list in the first layout of several."""
    import polars as pl

    name, layout = next(iter(lists.items()))
    known = [one.lstrip("_") for one in layout_named(layout).columns]
    kept = {one: column.tolist() for one, column in columns.items() if not known or one in known}
    if not kept:
        raise InputError(f"corpus {of.name}: {layout} has no columns to write")
    nothing = [BONAFIDE_ATTACK] * len(next(iter(kept.values())))
    kept |= {one: nothing for one in known if one not in kept}  # which the twin does not have
    path = write_table(out / name, ScoreTable(pl.DataFrame(kept), out / name), layout)
    if of.separator:
        write_text(path, path.read_text().replace(" ", of.separator))
