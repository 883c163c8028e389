"""``lightning extract``: audio to embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from lightning_sasv.console import print_line, print_written, progress
from lightning_sasv.errors import InputError

_SHOWN = 10
"""Failures that are listed on the terminal; the manifest has them all."""

Network = dict[str, Any] | str | None


def _short(text: str, length: int = 100) -> str:
    return text if len(text) <= length else f"{text[:length]}…"


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
) -> None:
    """Turn audio into embeddings: AASIST for the countermeasure, ECAPA-TDNN for the speaker.

    With the protocols of ASVspoof 2019 LA below AUDIO (or in the folder PROTOCOL), OUT gets the
    files of the challenge, {cm,asv}_embd_{trn,dev,eval} and spk_model_{dev,eval}: train on them
    with `lightning fit --data.root OUT --data.protocols AUDIO`. Otherwise every utterance of the
    list PROTOCOL, or without one every recording below AUDIO, goes into cm_embd and asv_embd.
    Recordings are averaged to one channel, resampled, and repeated or cut to the 64,600 samples
    (4 s) that the networks take.

    The same command continues a run that was stopped, and adds utterances that are new.
    manifest.json in OUT holds the SHA-256 of the weights, settings, versions and failures.

    Args:
        audio: Folder with the recordings (flac, wav, ogg, mp3, ...), at any depth.
        out: Folder to write to.
        protocol: List of utterances: their names or paths (one column), names and paths (two), a
            trial list (four) or a CM protocol (five); or a folder with the protocols of ASVspoof
            2019 LA.
        enrolment: Enrolment lists for PROTOCOL ("speaker utterance,utterance,..."), separated by
            commas; OUT gets the mean embedding of each speaker in spk_model.
        name: Ending of the files for PROTOCOL (cm_embd_NAME); by default trn, dev or eval where
            the name of the list says so.
        cm: Weights of AASIST, AASIST.pth or AASIST-L.pth (by default those in PyTorch's cache);
            or another network, {class_path: package.Class, init_args: {...}}.
        asv: Folder with the weights of SpeechBrain's ECAPA-TDNN, embedding_model.ckpt (by default
            those in the hub's cache); or another network, as for CM.
        only: Make only these embeddings.
        train_asv: Make ASV embeddings of the training utterances too, which `lightning fit` does
            not need.
        batch_size: Recordings that are read and embedded together; by default 4, on a GPU 32.
        workers: Batches that are embedded at the same time, each with one CPU thread; by default
            one for each CPU, and one on a GPU.
        device: Where to compute: auto (a GPU where there is one), cpu, cuda, cuda:1, ...
        strict: Fail if a recording cannot be embedded; otherwise failures are listed at the end.
        overwrite: Replace embeddings in OUT that other weights have made.
    """
    from lightning_sasv import frontends

    with progress("utt", output=True) as begin:
        results = frontends.extract(
            audio=audio,
            out=out,
            protocol=protocol,
            enrolment=enrolment,
            name=name,
            cm=cm,
            asv=asv,
            only=only,
            train_asv=train_asv,
            batch_size=batch_size,
            workers=workers,
            device=device,
            strict=strict,
            overwrite=overwrite,
            progress=begin,
        )
    _summarise(results, Path(out))
    if {"cm_embd_trn", "spk_model_dev", "spk_model_eval"} <= results.keys():
        print_line(f"Next: lightning fit --data.root {out} --data.protocols {protocol or audio}")


def _summarise(results: Mapping[str, Any], target: Path) -> None:
    """Say what was made, and what could not be and why."""
    failures = [
        (stem, name, why) for stem, r in results.items() for name, why in r.failures.items()
    ]
    made = [(stem, result) for stem, result in results.items() if result.store is not None]
    for stem, result in made:
        rate = f", {result.computed / result.seconds:.1f} a second" if result.computed else ""
        print_line(
            f"{stem}: {len(result.store):,} embeddings, {result.computed:,} of them new{rate}"
        )
    for stem, name, why in failures[:_SHOWN]:
        print_line(f"  {stem} lacks {_short(name)}: {_short(why, 300)}")
    if len(failures) > _SHOWN:
        print_line(f"  and {len(failures) - _SHOWN} more; manifest.json lists them all")
    if not made:
        raise InputError(f"none of the recordings could be embedded; see manifest.json in {target}")
    print_written(target)
