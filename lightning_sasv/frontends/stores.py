"""Extraction of a list of utterances into an ``EmbeddingStore``, resumable after any end."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from lightning_sasv.console import Begin
from lightning_sasv.data.corpus import mean_models
from lightning_sasv.data.embeddings import SUFFIX, EmbeddingStore
from lightning_sasv.errors import InputError
from lightning_sasv.files import read_json, write_json
from lightning_sasv.frontends.base import FrontEnd, describe
from lightning_sasv.frontends.lists import AudioFolder, Lines, Split, Utterance
from lightning_sasv.frontends.manifest import Manifest, Shard
from lightning_sasv.frontends.pipeline import Embedded, Find, Resources, embed_files
from lightning_sasv.locks import lock
from lightning_sasv.places import refuse
from lightning_sasv.signals import advise

SHARD_SIZE, SHARD_SECONDS = 256, 60.0
"""A part is written after so many utterances or seconds, whichever comes first: no more than that
is lost when a run is killed."""

_SETTINGS = "front_end.json"


@dataclass
class Extraction:
    """What became of a list of utterances.

    Attributes:
        store: The embeddings, or ``None`` where there are none.
        failures: Reason of each utterance that has no embedding.
        computed: Utterances that were embedded now; the others were there already.
        seconds: Time that took.
        waited: Seconds that the networks waited for audio, over all workers.
        busy: Seconds that the networks worked, over all workers.
    """

    store: EmbeddingStore | None
    failures: dict[str, str] = field(default_factory=dict)
    computed: int = 0
    seconds: float = 0.0
    waited: float = 0.0
    busy: float = 0.0


class _Parts:
    """The parts of an unfinished store: ``OUT/<stem>.parts/00000.safetensors`` and so on."""

    def __init__(self, path: Path, front_end: dict[str, Any]) -> None:
        self.folder = path.with_suffix(".parts")
        self.settings = front_end
        self._next = 0

    def open(self, overwrite: bool) -> Iterator[EmbeddingStore]:
        """Make the folder ready and yield the parts of an earlier run."""
        if self.folder.exists() and (overwrite or not any(self.folder.glob(f"*{SUFFIX}"))):
            shutil.rmtree(self.folder)
        if not self.folder.exists():
            write_json(self.folder / _SETTINGS, self.settings)
        made_by = None
        with suppress(InputError):  # unreadable settings are other settings
            made_by = read_json(self.folder / _SETTINGS)
        if made_by != self.settings:
            raise InputError(
                f"{self.folder} holds parts from another front end or other weights; give another "
                "--out, or --overwrite to begin again"
            )
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            self._next = int(path.stem) + 1
            yield EmbeddingStore.load(path)

    def write(self, store: EmbeddingStore) -> None:
        """Add a part; it appears whole or not at all."""
        store.save(self.folder / f"{self._next:05d}{SUFFIX}")
        self._next += 1


def extract_store(
    front_end: FrontEnd,
    utterances: Sequence[Utterance],
    find: Find,
    path: str | Path,
    resources: Resources | None = None,
    *,
    overwrite: bool = False,
    strict: bool = False,
    begin: Begin | None = None,
    shard_size: int = SHARD_SIZE,
    lines: Lines | None = None,
) -> Extraction:
    """Embed recordings and write them to ``path`` as an ``EmbeddingStore``.

    What is there from an earlier run with the same front end, finished or killed, is kept: only
    the rest is computed. Recordings that cannot be embedded do not stop the others.

    Args:
        front_end: The network.
        utterances: What to embed; the store has their order.
        find: Where the recordings are.
        path: File to write, ``….safetensors``; its folder gets a ``manifest.json``.
        resources: Batch size, workers and device.
        overwrite: Begin again instead of keeping embeddings from another front end.
        strict: Raise an error where recordings cannot be embedded, after the others are done
            (they are kept as parts).
        begin: Begins a progress bar.
        shard_size: Utterances of a part.
        lines: Where lists name the utterances, for what is said of those that fail.

    Raises:
        InputError: ``path`` holds embeddings of another front end, or ``strict``.
    """
    path, resources = Path(path), resources or Resources()
    settings = describe(front_end)
    manifest = Manifest(path.parent)
    parts = _Parts(path, settings)
    done = _done_before(path, manifest, parts, overwrite)
    todo = [utterance for utterance in utterances if utterance.id not in done]
    result = Extraction(None)
    total = len(utterances)
    before = total - len(todo)
    advance = begin(f"{path.stem:<14}", total, before) if begin else (lambda steps: None)
    start = time.perf_counter()
    advise("what was embedded is kept: the same command goes on")
    with closing(embed_files(front_end, todo, find, resources)) as batches:  # ends its threads
        for shard in _shards(batches, shard_size, result, advance):
            parts.write(shard)
            done |= dict(zip(shard.ids, shard.vectors, strict=True))
    if lines is not None:
        result.failures = {name: lines.of(name, why) for name, why in result.failures.items()}
    result.seconds = time.perf_counter() - start
    if strict and result.failures:
        name, reason = next(iter(result.failures.items()))
        raise InputError(
            f"{len(result.failures)} of {total} recordings could not be embedded (--strict), "
            f"first {name}: {reason}"
        )
    ids = [utterance.id for utterance in utterances if utterance.id in done]
    if ids:
        vectors = torch.stack([done[name] for name in ids])
        result.store = EmbeddingStore(ids, vectors, str(path))
        result.store.save(path)
    made = {"front_end": settings, "utterances": len(ids), "failures": result.failures}
    manifest.add_store(path.stem, **made, settings=resources.settings())
    shutil.rmtree(parts.folder)  # they are in the store now
    return result


def _done_before(
    path: Path, manifest: Manifest, parts: _Parts, overwrite: bool
) -> dict[str, torch.Tensor]:
    """Embeddings of a finished store and of the parts of an unfinished one."""
    stores = []
    if path.exists() and not overwrite:
        if manifest.front_end_of(path.stem) != parts.settings:
            raise InputError(
                f"{path} was made by another front end or with other weights; give another --out, "
                "or --overwrite to begin again"
            )
        stores.append(EmbeddingStore.load(path))
    stores += parts.open(overwrite)
    rows = ((store.ids, store.vectors) for store in stores)
    return {name: row for ids, vectors in rows for name, row in zip(ids, vectors, strict=True)}


def _shards(
    batches: Iterator[Embedded], size: int, result: Extraction, advance: Callable[..., object]
) -> Iterator[EmbeddingStore]:
    """Collect batches into parts of ``size`` utterances or a minute's work.

    Where a signal breaks the work off, what is there becomes a part before it ends.
    """
    part: list[Embedded] = []
    begin = time.monotonic()
    try:
        for batch in batches:
            part.append(batch)
            result.failures |= batch.failures
            result.computed += len(batch.ids)
            result.waited += batch.waited
            result.busy += batch.busy
            advance(len(batch.ids) + len(batch.failures))
            count = sum(len(one.ids) for one in part)
            if count >= size or (count and time.monotonic() - begin >= SHARD_SECONDS):
                yield _joined(part)
                part, begin = [], time.monotonic()
    except KeyboardInterrupt:
        if any(one.ids for one in part):
            yield _joined(part)
        raise
    if any(one.ids for one in part):
        yield _joined(part)


def _joined(part: Sequence[Embedded]) -> EmbeddingStore:
    ids = [name for batch in part for name in batch.ids]
    return EmbeddingStore(ids, torch.cat([batch.vectors for batch in part]), "extracted embeddings")


def extract_split(
    kind: str,
    network: FrontEnd,
    split: Split,
    folder: AudioFolder,
    out: Path,
    shard: Shard | None = None,
    **options: Any,
) -> dict[str, Extraction]:
    """Embed a split by a network and, for ASV, write its speaker models.

    Args:
        kind: ``cm`` or ``asv``.
        network: The network.
        split: What to embed.
        folder: The recordings.
        out: Folder to write to.
        shard: The part of the utterances to embed, without speaker models; by default all.
        options: The other arguments of :func:`extract_store`.

    Returns:
        What became of each store, by its name.
    """
    stem, models = split.stem(f"{kind}_embd"), split.stem("spk_model")
    whole = split.with_enrolment if kind == "asv" else split.utterances
    utterances = whole if shard is None else shard.of(whole)
    find = partial(folder.find, within=split.audio)
    with suppress(InputError):  # searches the folder now, not in a thread with a time limit
        find(utterances[0].place if utterances else "")
    with_models = kind == "asv" and split.has_models and shard is None
    place = out / (models + SUFFIX)
    with lock(out, name=stem):
        known = options.get("overwrite") or models in Manifest(out).content["stores"]
        if with_models and place.exists() and not known:
            refuse(place, "speaker models of another origin")
        options["lines"] = split.lines
        done = extract_store(network, utterances, find, out / (stem + SUFFIX), **options)
        if not with_models or done.store is None:
            return {stem: done}
        problems = speaker_models(done.store, split.enrolment, place)
        Manifest(out).add(stores={models: {"mean_of": stem, "failures": problems}})
        return {stem: done, models: Extraction(None, problems)}


def speaker_models(
    store: EmbeddingStore, enrolment: dict[str, list[str]], path: str | Path
) -> dict[str, str]:
    """Write each speaker's mean embedding to ``path``; returns what is missing of which speaker."""
    problems: dict[str, str] = {}
    there = {}
    for speaker, names in enrolment.items():
        found = [name for name in names if name in store]
        if found:
            there[speaker] = found
        if len(found) < len(names):
            kept = f"the model is the mean of the other {len(found)}" if found else "no model"
            problems[speaker] = f"{len(names) - len(found)} enrolment recordings failed; {kept}"
    if there:
        mean_models(store, there, str(path)).save(path)
    return problems
