"""Reading a corpus from disk: protocols, and embeddings as challenge pickles or our own store."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from lightning_sasv.data.corpus import Corpus, TrainingSet, TrialsAlone, TrialSet, mean_models
from lightning_sasv.data.embeddings import SUFFIX, EmbeddingStore
from lightning_sasv.data.protocols import (
    ENROLMENT_PROTOCOLS,
    MARKER,
    TRAIN_PROTOCOL,
    TRIAL_PROTOCOL,
    read_enrolment,
    read_trials,
    read_trials_to_score,
    read_utterances,
    write_trials,
    write_utterances,
)
from lightning_sasv.errors import InputError
from lightning_sasv.files import ensure_directory, read_json, write_text
from lightning_sasv.places import refuse
from lightning_sasv.trials import SPLITS, TWIN

PICKLE = ".pk"


def find_file(root: Path, *names: str) -> Path:
    """The one file below ``root`` with one of these names, the first name that is there."""
    if not root.is_dir():
        raise InputError(f"no data folder at {root}; `lightning download` fetches public ones")
    for name in names:
        found = sorted(root.rglob(name))
        if len(found) > 1:
            listed = ", ".join(str(path) for path in found[:3])
            raise InputError(f"{name} stands more than once below {root}: {listed}; keep one")
        if found:
            return found[0]
    raise InputError(f"{' or '.join(names)} not found below {root}")


def load_embeddings(root: Path, stem: str) -> EmbeddingStore:
    """Embeddings ``stem`` (e.g. ``asv_embd_dev``): our own store, else the challenge's pickle."""
    path = find_file(root, stem + SUFFIX, stem + PICKLE)
    return EmbeddingStore.load(path) if path.suffix == SUFFIX else EmbeddingStore.from_pickle(path)


def _load_trials(root: Path, protocols: Path, split: str) -> TrialSet:
    trials = read_trials(find_file(protocols, TRIAL_PROTOCOL.format(split=split)))
    asv = load_embeddings(root, f"asv_embd_{split}")
    stem = f"spk_model_{split}"
    if any(any(root.rglob(stem + suffix)) for suffix in (SUFFIX, PICKLE)):
        models = load_embeddings(root, stem)
    else:
        lists = (find_file(protocols, name.format(split=split)) for name in ENROLMENT_PROTOCOLS)
        models = mean_models(asv, read_enrolment(*lists), f"enrolment models of {split}")
    return TrialSet(split, trials, asv, load_embeddings(root, f"cm_embd_{split}"), models)


def corpus_name(root: Path, name: str | None) -> str:
    """Name for tables: ``name``, else what the folder's marker says, else the folder's own name.

    A folder that is marked as the twin stays the twin under any name: a simulated corpus is never
    shown under a real one's name.
    """
    marker = root / MARKER
    if not marker.is_file():
        return name or root.resolve().name
    try:
        marked = str(read_json(marker)["name"])
    except (ValueError, KeyError, TypeError):
        raise InputError(f'{marker} is damaged: expected {{"name": "…"}}') from None
    return marked if marked == TWIN else name or marked


def load_corpus(
    root: str | Path, protocols: str | Path | None = None, name: str | None = None
) -> Corpus:
    """Corpus of a folder in the challenge's layout.

    Args:
        root: Folder with ``{asv,cm}_embd_{trn,dev,eval}`` and ``spk_model_{dev,eval}``, as
            ``.pk`` or ``.safetensors``, at any depth. Without the speaker models the enrolment
            lists among the protocols are used.
        protocols: Folder with the protocols, at any depth; by default ``root``.
        name: Name of the corpus in tables; by default the folder's.
    """
    root = Path(root)
    lists = Path(protocols) if protocols is not None else root
    utterances = read_utterances(find_file(lists, TRAIN_PROTOCOL))
    asv = partial(load_embeddings, root, "asv_embd_trn")  # read when a training needs them
    train = TrainingSet(utterances, load_embeddings(root, "cm_embd_trn"), asv)
    dev, evaluation = (_load_trials(root, lists, split) for split in SPLITS)
    return Corpus(corpus_name(root, name), train, dev, evaluation)


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
    corpus: Corpus, out: str | Path, pickles: bool = False, overwrite: bool = True
) -> Path:
    """Write a corpus as protocols and embeddings that ``load_corpus`` reads.

    Args:
        corpus: What to write.
        out: Folder to write to.
        pickles: Write the embeddings as pickles, as the challenge does, instead of stores.
        overwrite: Replace another corpus that is there.
    """
    out = ensure_directory(out)
    marker, content = out / MARKER, {"name": corpus.name, "data": corpus.fingerprint}
    if not overwrite and marker.exists() and read_json(marker) != content:
        refuse(out, "another corpus")
    write_text(marker, json.dumps(content) + "\n")  # first: never unnamed
    stores = {"cm_embd_trn": corpus.train.cm}
    with suppress(InputError):  # it may have none
        stores["asv_embd_trn"] = corpus.train.asv
    write_utterances(out / "protocols" / TRAIN_PROTOCOL, corpus.train.utterances)
    for data in (corpus.dev, corpus.eval):
        write_trials(out / "protocols" / TRIAL_PROTOCOL.format(split=data.name), data.trials)
        kinds = {"asv_embd": data.asv, "cm_embd": data.cm, "spk_model": data.models}
        stores |= {f"{kind}_{data.name}": store for kind, store in kinds.items()}
    for stem, store in stores.items():
        pickled, own = (out / "embeddings" / (stem + suffix) for suffix in (PICKLE, SUFFIX))
        write, path, old = (
            (store.to_pickle, pickled, own) if pickles else (store.save, own, pickled)
        )
        write(path)
        old.unlink(missing_ok=True)  # of an older corpus, and it might be read first
    return out
