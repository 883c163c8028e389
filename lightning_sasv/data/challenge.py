"""Reading a corpus from disk: protocols, and embeddings as challenge pickles or our own store."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lightning_sasv.data.corpus import Corpus, TrainingSet, TrialsAlone, TrialSet, mean_models
from lightning_sasv.data.embeddings import SUFFIX, EmbeddingStore
from lightning_sasv.data.laid_out import lay_out_as
from lightning_sasv.data.profiles import (
    Profile,
    SetFiles,
    check_root,
    find_file,
    profile_named,
    profiles,
    recognised,
)
from lightning_sasv.data.protocols import (
    MARKER,
    TRAIN_PROTOCOL,
    TRIAL_PROTOCOL,
    TrialList,
    UtteranceList,
    enrolment_within,
    read_enrolment,
    read_trials,
    read_trials_to_score,
    read_utterances,
    write_trials,
    write_utterances,
)
from lightning_sasv.errors import InputError
from lightning_sasv.files import atomic_path, ensure_directory, read_json, write_text
from lightning_sasv.places import refuse
from lightning_sasv.trials import SPLITS, TWIN, UNKNOWN

PICKLE = ".pk"


def load_embeddings(root: Path, stem: str) -> EmbeddingStore:
    """Embeddings ``stem`` (e.g. ``asv_embd_dev``): our own store, else the challenge's pickle."""
    path = find_file(root, stem + SUFFIX, stem + PICKLE)
    return EmbeddingStore.load(path) if path.suffix == SUFFIX else EmbeddingStore.from_pickle(path)


def _list_of(lists: Mapping[str, str], protocols: Path) -> tuple[Path, str]:
    """The list of a set that is there, and its layout."""
    path = find_file(protocols, *lists)
    return path, next(layout for name, layout in lists.items() if path.match(name))


def trials_of(profile: Profile, split: str, protocols: Path) -> TrialList:
    """The trials of a set of a corpus."""
    files: SetFiles = getattr(profile, split)
    details = [(p, files.details[name]) for name in files.details for p in protocols.rglob(name)]
    return read_trials(*_list_of(files.lists, protocols), details[0] if details else None, profile)


def enrolment_lists(files: SetFiles, protocols: Path, present: bool = False) -> list[Path]:
    """Enrolment lists of a set: the first group that is there.

    Args:
        files: The set.
        protocols: Folder of the lists.
        present: Take those that are there, even if they are none.
    """
    there = {name for group in files.enrolment for name in group if any(protocols.rglob(name))}
    groups = [group for group in files.enrolment if there.intersection(group)] or files.enrolment
    names = [name for name in groups[0] if name in there or not present] if groups else []
    return [find_file(protocols, name) for name in names]


def utterances_of(profile: Profile, protocols: Path) -> UtteranceList:
    """The training utterances of a corpus."""
    profile.need("train")
    lists = profile.train.lists if profile.train else {}
    return read_utterances(*_list_of(lists, protocols), profile)


def _load_trials(root: Path, protocols: Path, split: str, profile: Profile) -> TrialSet:
    trials = trials_of(profile, split, protocols)
    asv = load_embeddings(root, f"asv_embd_{split}")
    stem = f"spk_model_{split}"
    if any(any(root.rglob(stem + suffix)) for suffix in (SUFFIX, PICKLE)):
        models = load_embeddings(root, stem)
    elif profile.pairwise:
        models = asv
    elif "enrolment" in trials.more:
        models = mean_models(asv, trials.enrolment(), f"enrolment models of {split}")
    else:
        paths = enrolment_lists(getattr(profile, split), protocols)
        claimed = set(trials.speaker.tolist())
        enrolment = enrolment_within(paths, asv, claimed, asv.source, profile.plain)
        models = mean_models(asv, enrolment, f"enrolment models of {split}")
    named = split if profile.train is not None else "trials"  # of which nothing is measured
    cm = load_embeddings(root, f"cm_embd_{split}")
    made = _marked(root)[1]
    return TrialSet(named, trials, asv, cm, models, costs=profile.costs, twin=made)


def corpus_name(root: Path, name: str | None) -> str:
    """Name for tables: ``name``, else what the folder's marker says, else the folder's own name.

    A folder that is marked as the twin stays the twin under any name: a simulated corpus is never
    shown under a real one's name.
    """
    marked = _marked(root)[0]
    return marked if marked == TWIN else name or marked or root.resolve().name


def _marked(root: Path) -> tuple[str, tuple[float, int] | None]:
    """What the marker of a folder says: name of the corpus, scale and seed of the twin."""
    marker = root / MARKER
    if not marker.is_file():
        return "", None
    try:
        content = read_json(marker)
        made = content.get("twin")
        return str(content["name"]), made and (float(made[0]), int(made[1]))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        raise InputError(f'{marker} is damaged: expected {{"name": "…"}}') from None


def profile_of(corpus: str | None, lists: Path) -> Profile:
    """The corpus that is named, or whose lists are below a folder.

    Raises:
        InputError: There is none of that name, or lists of none or of several are there.
    """
    if corpus:
        return profile_named(corpus)
    check_root(lists)
    found = recognised(lists)
    if found is None:
        raise InputError(
            f"no lists of a corpus: {TRAIN_PROTOCOL} not found below {lists}, nor those of "
            f"{', '.join(name for name in profiles() if name != 'sasv2022')}; --data.protocols "
            "says where they are, --data.corpus FILE.yaml what your own are called"
        )
    return found


def folder_of(root: Path, name: str) -> Path:
    """Where a corpus is below a folder: in one of its name, if that has embeddings, else there."""
    return root / name if any((root / name).rglob("cm_embd_*")) else root


def load_corpus(
    root: str | Path,
    protocols: str | Path | None = None,
    name: str | None = None,
    corpus: str | Profile | None = None,
    others: Mapping[str, str | None] | None = None,
) -> Corpus:
    """Corpus of a folder: the lists of a known corpus, and embeddings as the challenge has them.

    Args:
        root: Folder with ``{asv,cm}_embd_{trn,dev,eval}`` and ``spk_model_{dev,eval}``, as
            ``.pk`` or ``.safetensors``, at any depth. Without the speaker models the enrolment
            lists among the protocols are used.
        protocols: Folder with the protocols, at any depth; by default ``root``.
        name: Name of the corpus in tables; by default the folder's.
        corpus: Which corpus' lists they are (``profiles.profiles``), or a YAML file of the same
            shape; by default the one whose lists are there.
        others: Corpora of ``dev`` and ``eval`` where they are not of this one; :func:`trials_from`.
    """
    above, named = Path(root), {split: one for split, one in (others or {}).items() if one}
    where = Path(protocols or root)
    profile = corpus if isinstance(corpus, Profile) else profile_of(corpus, where)
    profile.need("train", *(split for split in SPLITS if split not in named))
    root = folder_of(above, profile.name)
    lists = Path(protocols or root)
    utterances = utterances_of(profile, lists)
    asv = partial(load_embeddings, root, "asv_embd_trn")  # read when a training needs them
    train = TrainingSet(utterances, load_embeddings(root, "cm_embd_trn"), asv)
    dev, evaluation = (
        trials_from(named[split], split, above)
        if split in named
        else _load_trials(root, lists, split, profile)
        for split in SPLITS
    )
    return Corpus(corpus_name(root, name), train, dev, evaluation)


def trials_from(text: str, split: str, root: Path | None = None) -> TrialSet:
    """The dev or eval trials of another corpus than the one that is trained with.

    Args:
        text: Its folder, ``NAME=FOLDER`` to say which corpus it is, ``NAME=FOLDER,LISTS`` where its
            lists lie elsewhere; or its name alone, where it is below ``root``.
        split: ``dev`` or ``eval``.
        root: Folder of the first corpus.

    Raises:
        InputError: There is no such corpus, or its trials have no labels.
    """
    name, sign, place = text.partition("=")
    if not sign and Path(text).is_dir():
        name, place = "", text
    folder, _, lists = place.partition(",")
    if not folder and root is not None:
        folder = str(folder_of(root, name))
    if not folder:
        raise InputError(f"--data.{split}_corpus {text}: where is it? give {text}=FOLDER")
    protocols = Path(lists or folder)
    profile = profile_of(name or None, protocols)
    profile.need(split)
    found = _load_trials(Path(folder), protocols, split, profile)
    if (found.trials.label == UNKNOWN).all():
        raise InputError(
            f"--data.{split}_corpus {text}: the trials of {profile.name} have no labels; score "
            "them with `lightning predict`"
        )
    return replace(found, name=split, corpus=corpus_name(Path(folder), None))


def load_evaluation(
    root: str | Path, protocols: str | Path | None, name: str | None, profile: Profile
) -> TrialsAlone:
    """Trials of a corpus that has no training set, with labels or without; they are only scored."""
    root = folder_of(Path(root), profile.name)
    trials = _load_trials(root, Path(protocols or root), "eval", profile)
    return TrialsAlone(corpus_name(root, name), trials)


def load_trials(
    root: str | Path, trials: str | Path, enrolment: str | None = None, name: str | None = None
) -> TrialsAlone:
    """Trials of a list that need neither labels nor the rest of a corpus.

    Args:
        root: Folder with embeddings at any depth, ``asv_embd*``, ``cm_embd*`` and ``spk_model*``
            as ``.pk`` or ``.safetensors``; each is looked for in every file of its kind.
        trials: List of trials, with labels or without.
        enrolment: Enrolment lists of the speakers, separated by commas, in place of ``spk_model*``.
        name: Name of the corpus; by default the folder's.
    """
    root, rows = Path(root), read_trials_to_score(trials)
    speakers, probes = (list(dict.fromkeys(one.tolist())) for one in (rows.speaker, rows.utterance))
    if enrolment:
        lists = read_enrolment(*enrolment.split(","))
        if lacking := [speaker for speaker in speakers if speaker not in lists]:
            raise InputError(f"{enrolment}: no enrolment of {', '.join(lacking[:10])}")
        own = {speaker: lists[speaker] for speaker in speakers}
        used = dict.fromkeys(name for names in own.values() for name in names)
        models = mean_models(_gather(root, "asv_embd", list(used)), own, f"models of {enrolment}")
    else:
        models = _gather(root, "spk_model", speakers)
    asv, cm = (_gather(root, kind, probes) for kind in ("asv_embd", "cm_embd"))
    return TrialsAlone(corpus_name(root, name), TrialSet("trials", rows, asv, cm, models))


def _gather(root: Path, kind: str, names: list[str]) -> EmbeddingStore:
    """Embeddings of these names, wherever they stand in the files of a kind."""
    paths = [p for p in sorted(root.rglob(f"{kind}*")) if p.suffix in (SUFFIX, PICKLE)]
    stems = list(dict.fromkeys(p.stem for p in paths if p.stem == kind or p.stem[len(kind)] == "_"))
    if not stems:
        remedy = "; give --data.enrolment" if kind == "spk_model" else ""
        raise InputError(
            f"no embeddings {kind}{SUFFIX} or {kind}_….{PICKLE[1:]} below {root}{remedy}"
        )
    found: dict[str, Tensor] = {}
    for store in (load_embeddings(root, stem) for stem in stems):
        own = [name for name in names if name in store]
        for known, vector in zip(own, store.select(own), strict=True):
            if known in found and not torch.equal(found[known], vector):
                raise InputError(f"{known} has two embeddings below {root}, one in {store.source}")
            found[known] = vector
    vectors = torch.stack([*found.values()]) if found else torch.empty(0, 1)
    gathered = EmbeddingStore(list(found), vectors, f"{kind} below {root}")
    gathered.rows(names)  # those that are nowhere are named
    return gathered


def save_corpus(
    corpus: Corpus,
    out: str | Path,
    pickles: bool = False,
    overwrite: bool = True,
    layout: str = "sasv2022",
    lists: Sequence[Path] = (),
) -> Path:
    """Write a corpus as protocols and embeddings that ``load_corpus`` reads.

    Args:
        corpus: What to write.
        out: Folder to write to.
        pickles: Write the embeddings as pickles, as the challenge does, instead of stores.
        overwrite: Replace another corpus that is there.
        layout: Corpus whose lists are written.
        lists: Its lists, to be copied as they are.
    """
    out = ensure_directory(out)
    marker, content = out / MARKER, dict[str, Any](name=corpus.name, data=corpus.fingerprint)
    if not overwrite and marker.exists() and not content.items() <= read_json(marker).items():
        refuse(out, "another corpus")
    content |= {"twin": corpus.eval.twin} if corpus.eval.twin else {}
    write_text(marker, json.dumps(content) + "\n")  # first: never unnamed
    profile = profile_named(layout)
    if lists:
        for path in lists:
            with atomic_path(ensure_directory(out / "protocols") / path.name) as temporary:
                shutil.copyfile(path, temporary)
    elif layout == "sasv2022":  # speaker models take the place of enrolment
        write_utterances(out / "protocols" / TRAIN_PROTOCOL, corpus.train.utterances)
        for data in (corpus.dev, corpus.eval):
            write_trials(out / "protocols" / TRIAL_PROTOCOL.format(split=data.name), data.trials)
    else:
        corpus = lay_out_as(corpus, profile, ensure_directory(out / "protocols"))
    sets = dict(profile.sets())
    stores = {"cm_embd_trn": corpus.train.cm} if "train" in sets else {}
    with suppress(InputError):  # it may have none
        stores |= {"asv_embd_trn": corpus.train.asv} if "train" in sets else {}
    for data in (one for one in (corpus.dev, corpus.eval) if one.name in sets):
        kinds = {"asv_embd": data.asv, "cm_embd": data.cm}
        enrolled = profile.pairwise or enrolment_lists(sets[data.name], out / "protocols", True)
        kinds |= {} if enrolled else {"spk_model": data.models}
        stores |= {f"{kind}_{data.name}": store for kind, store in kinds.items()}
    for stem, store in stores.items():
        pickled, own = (out / "embeddings" / (stem + suffix) for suffix in (PICKLE, SUFFIX))
        write, path, old = (
            (store.to_pickle, pickled, own) if pickles else (store.save, own, pickled)
        )
        write(path)
        old.unlink(missing_ok=True)  # of an older corpus, and it might be read first
    return out
