"""A corpus written with the lists of another: the twin in the layout of every corpus.

Speakers keep their names. Each is enrolled with one utterance, whose embedding is its model, so
that the corpus that is read again has the same scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from lightning_sasv.data.corpus import Corpus, TrainingSet, TrialSet
from lightning_sasv.data.embeddings import EmbeddingStore
from lightning_sasv.data.profiles import Profile, SetFiles
from lightning_sasv.data.protocols import UtteranceList
from lightning_sasv.errors import InputError
from lightning_sasv.files import write_text
from lightning_sasv.scores import ScoreTable, write_table
from lightning_sasv.scores.layouts import BONAFIDE_ATTACK, LABELS, layout_named
from lightning_sasv.trials import SPLITS, TrialClass

ENDING = ".flac"
NOBODY = "others"
"""Folder of utterances whose speaker is not enrolled."""
CODECS = (BONAFIDE_ATTACK, "C01", "C04", "C11")
"""Codecs of evaluation utterances, where a corpus has some, in turn."""


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
    if profile.paths:
        first = np.unique(rows.utterance, return_index=True)[1]
        alone = rows.label[first] == TrialClass.NONTARGET
        speaker = np.where(alone, NOBODY, rows.speaker[first])
        named = _paths(rows.attack[first], speaker, probes)
    utterance = named[data.probe_of_trial.numpy()]
    model = dict(zip(data.models.ids, enrol, strict=True))
    vectors = torch.cat([data.asv.select(data.probes), data.models.vectors])
    asv = EmbeddingStore([*named.tolist(), *enrol], vectors, data.asv.source)
    cm = EmbeddingStore(named.tolist(), data.probe_vectors, data.cm.source)
    models = np.array([model[one] for one in rows.speaker.tolist()]) if profile.pairwise else None
    trials = replace(rows, utterance=utterance, model=models)
    found = TrialSet(data.name, trials, asv, cm, asv if profile.pairwise else data.models)
    _write_trials(out, files, found, profile)
    names = files.enrolment[0] if files.enrolment else ()
    for number, path in enumerate(out / name for name in names):  # by gender: speakers in turn
        sign, head = (",", "model,enrolment\n") if path.suffix == ".csv" else (" ", "")
        lines = [f"{one}{sign}{used}\n" for one, used in model.items()][number :: len(names)]
        write_text(path, "".join([head, *lines]))
    return found


def _write_utterances(out: Path, files: SetFiles, rows: UtteranceList, profile: Profile) -> None:
    label = np.where(rows.bonafide, "bonafide", "spoof")
    utterance = np.char.add(rows.utterance, ENDING) if profile.paths else rows.utterance
    columns = {"speaker": rows.speaker, "utterance": utterance, "attack": rows.attack}
    _write(out, files.lists, columns | {"label": label}, profile)


def _write_trials(out: Path, files: SetFiles, data: TrialSet, profile: Profile) -> None:
    rows, ending = data.trials, ENDING if profile.paths else ""
    ending += "".join(f"-{PLAIN[name]}" for name in profile.ending.split())
    asked = layout_named(next(iter(files.lists.values()))).columns
    columns = {name: np.full(len(rows), word) for name, word in PLAIN.items() if name in asked}
    columns |= {
        "speaker": np.char.add(rows.models, ending),
        "utterance": np.char.add(rows.utterance, ending),
        "attack": rows.attack,
        "label": np.array(LABELS)[rows.label],
    }
    gender = np.where(np.unique(rows.speaker, return_inverse=True)[1] % 2, "M", "F")
    if files.details:
        columns["gender"] = gender
    _write(out, files.lists, columns, profile)
    if files.details:
        first = np.unique(rows.utterance, return_index=True)[1]
        label = np.where(rows.label[first] == TrialClass.SPOOF, "spoof", "bonafide")
        own = {name: columns[name][first] for name in ("speaker", "utterance", "attack")}
        own["gender"] = gender[first]
        codec = np.resize(CODECS if data.name == "eval" else CODECS[:1], len(first))
        quality = np.where(codec == BONAFIDE_ATTACK, "0", "2")
        details = own | {"label": label, "codec": codec, "codec_quality": quality}
        _write(out, files.details, details, profile)


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
    path = write_table(out / name, ScoreTable(pl.DataFrame(kept), out / name), layout)
    if of.separator:
        write_text(path, path.read_text().replace(" ", of.separator))
