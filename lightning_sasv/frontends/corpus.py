"""Extraction of whole corpora: every split with every network, and the speaker models."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from lightning_sasv.console import Begin
from lightning_sasv.data.corpus import mean_models
from lightning_sasv.data.embeddings import SUFFIX, EmbeddingStore
from lightning_sasv.errors import InputError
from lightning_sasv.files import ensure_directory
from lightning_sasv.frontends.aasist import AASIST
from lightning_sasv.frontends.base import FrontEnd, build_front_end
from lightning_sasv.frontends.ecapa import ECAPA
from lightning_sasv.frontends.lists import AudioFolder, Split, plan
from lightning_sasv.frontends.manifest import Manifest
from lightning_sasv.frontends.pipeline import Resources
from lightning_sasv.frontends.stores import Extraction, extract_store

Network = dict[str, Any] | str | None
"""A front end as users give it: weights of the usual one, a class path, or the cached weights."""


def extract(
    *,
    audio: str,
    out: str,
    protocol: str | None = None,
    enrolment: str | None = None,
    name: str | None = None,
    cm: Network = None,
    asv: Network = None,
    only: Literal["cm", "asv"] | None = None,
    train_asv: bool = False,
    batch_size: int | None = None,
    workers: int | None = None,
    device: str = "auto",
    strict: bool = False,
    overwrite: bool = False,
    progress: Begin | None = None,
) -> dict[str, Extraction]:
    """Turn audio into embeddings, as ``lightning extract`` does.

    Args:
        audio: Folder with the recordings, at any depth.
        out: Folder to write to; what is there already is kept, only the rest is computed.
        protocol: List of utterances, or a folder with the protocols of ASVspoof 2019 LA; by
            default the protocols below ``audio``, and without them every recording.
        enrolment: Enrolment lists for ``protocol``, separated by commas.
        name: Ending of the files for ``protocol``.
        cm: Checkpoint of AASIST (by default the cached one), or ``{class_path: …}``.
        asv: Folder of ECAPA-TDNN (by default the cached one), or ``{class_path: …}``.
        only: Make only these embeddings.
        train_asv: Make ASV embeddings of the training utterances too.
        batch_size: Recordings that are read and embedded together.
        workers: Batches that are embedded at the same time.
        device: ``auto``, ``cpu``, ``cuda``, ``cuda:1``, …
        strict: Raise an error where a recording cannot be embedded.
        overwrite: Replace embeddings that other weights have made.
        progress: Begins a progress bar for each store.

    Returns:
        What became of each store, e.g. ``cm_embd_dev``, and of the speaker models.
    """
    resources = Resources(batch_size, workers, device)
    resources.torch_device()
    folder = AudioFolder(audio)
    lists = [path for path in (enrolment or "").split(",") if path]
    splits = plan(folder, protocol, lists, name)
    networks = build_networks(cm, asv, only)
    target = ensure_directory(out)
    options: dict[str, Any] = {"overwrite": overwrite, "strict": strict, "progress": progress}
    results: dict[str, Extraction] = {}
    for kind, network in networks.items():
        for split in splits:
            if kind == "cm" or split.name != "trn" or train_asv or only == "asv":
                stem = split.stem(f"{kind}_embd")
                utterances = split.with_enrolment if kind == "asv" else split.utterances
                with suppress(InputError):  # searches the folder now, not in a timed thread
                    folder.find(utterances[0].place if utterances else "")
                path = target / (stem + SUFFIX)
                results[stem] = extract_store(
                    network, utterances, folder.find, path, resources, **options
                )
                results |= _models(kind, split, results[stem], target)
    Manifest(target).set_source({"audio": audio, "protocol": protocol, "enrolment": lists})
    return results


def build_networks(cm: Network, asv: Network, only: str | None = None) -> dict[str, FrontEnd]:
    """The networks by kind: AASIST for ``cm`` and ECAPA for ``asv``, or those of a class path."""
    found: dict[str, FrontEnd] = {}
    if only != "asv":
        found["cm"] = build_front_end(cm) if isinstance(cm, dict) else AASIST.from_checkpoint(cm)
    if only != "cm":
        found["asv"] = build_front_end(asv) if isinstance(asv, dict) else ECAPA.from_checkpoint(asv)
    return found


def _models(kind: str, split: Split, done: Extraction, out: Path) -> dict[str, Extraction]:
    """The speaker models of a split, from its ASV embeddings."""
    if kind != "asv" or not split.enrolment or done.store is None:
        return {}
    models = split.stem("spk_model")
    problems = speaker_models(done.store, split.enrolment, out / (models + SUFFIX))
    Manifest(out).add_models(models, split.stem("asv_embd"), problems)
    return {models: Extraction(None, problems)}


def speaker_models(
    store: EmbeddingStore, enrolment: dict[str, list[str]], path: str | Path
) -> dict[str, str]:
    """Write the mean embedding of each speaker's enrolment utterances to ``path``.

    Args:
        store: ASV embeddings of the enrolment utterances.
        enrolment: Enrolment utterances of each speaker.
        path: File to write.

    Returns:
        What is missing of each speaker that lacks one or all of its utterances.
    """
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
