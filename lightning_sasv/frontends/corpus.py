"""Extraction of whole corpora: every split with every network, and the speaker models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from lightning_sasv.console import Begin

if TYPE_CHECKING:
    from lightning_sasv.frontends.base import FrontEnd
    from lightning_sasv.frontends.stores import Extraction

Plain = str | bool | int | float | None
Argument = Plain | list[Plain] | dict[str, Plain]
Network = dict[str, Plain | dict[str, Argument]] | str | None
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
    corpus: str | None = None,
    shard: str | None = None,
    begin: Begin | None = None,
) -> dict[str, Extraction]:
    """Turn audio into embeddings: AASIST for the countermeasure, ECAPA-TDNN for the speaker.

    With the lists of a corpus below AUDIO (or in the folder PROTOCOL), OUT gets the files of the
    challenge, {cm,asv}_embd_{trn,dev,eval} and spk_model_{dev,eval}: train on them
    with `lightning fit --data.root OUT --data.protocols AUDIO`. Otherwise every utterance of the
    list PROTOCOL, or without one every recording below AUDIO, goes into cm_embd and asv_embd.
    Recordings are averaged to one channel, resampled, and repeated or cut to the 64,600 samples
    (4 s) that the networks take.

    The same command continues a run that was stopped, and adds utterances that are new.
    manifest.json in OUT holds the SHA-256 of the weights, settings, versions and failures.

    Args:
        audio: Folder with the recordings (flac, wav, ogg, mp3, ...), at any depth, also in tar
            files, which are not unpacked.
        out: Folder to write to.
        protocol: List of utterances: their names or paths (one column), names and paths (two), a
            trial list (four), a CM protocol (five), or any other list whose layout is known; or a
            folder with the lists of a corpus.
        enrolment: Enrolment lists for PROTOCOL ("speaker utterance,utterance,..."), separated by
            commas; OUT gets the mean embedding of each speaker in spk_model.
        name: Ending of the files for PROTOCOL (cm_embd_NAME); by default trn, dev or eval where
            the name of the list says so.
        cm: Weights of AASIST, AASIST.pth or AASIST-L.pth (by default those in PyTorch's cache);
            or another network, {class_path: package.Class, init_args: {...}}.
        asv: Folder with the weights of SpeechBrain's ECAPA-TDNN, embedding_model.ckpt (by default
            those in the hub's cache); or another network, as for CM.
        only: Make only these embeddings.
        train_asv: Make ASV embeddings of the training utterances too, which every objective of
            `lightning fit` but cm needs, and `lightning table` for Post and B1v2.
        batch_size: Recordings that are read and embedded together; by default 4, on a GPU 32.
        workers: Batches that are embedded at the same time, each with one CPU thread; by default
            one for each CPU, and one on a GPU.
        device: Where to compute: auto (a GPU where there is one), cpu, cuda, cuda:1, ...
        strict: Fail if a recording cannot be embedded; otherwise failures are listed at the end.
        overwrite: Replace embeddings in OUT that other weights have made.
        corpus: Whose lists they are: sasv2022, asvspoof5, spoofceleb, wildspoof, manifest, or a
            YAML file (docs/corpora.md); by default the corpus whose lists are there.
        shard: Embed only a part of every list, e.g. 3/16 for the third of sixteen, each with an
            OUT of its own; `lightning import SHARD... --out DIR` joins them.
        begin: Begins a progress bar for each store.

    Returns:
        What became of each store, e.g. cm_embd_dev, and of the speaker models.
    """
    from lightning_sasv.files import ensure_directory
    from lightning_sasv.frontends.lists import AudioFolder, plan
    from lightning_sasv.frontends.manifest import Manifest, Shard, take_shard
    from lightning_sasv.frontends.pipeline import Resources
    from lightning_sasv.frontends.stores import extract_split

    part = None if shard is None else Shard.named(shard)
    resources = Resources(batch_size, workers, device)
    resources.torch_device()
    folder = AudioFolder(audio)
    lists = [path for path in (enrolment or "").split(",") if path]
    splits = plan(folder, protocol, lists, name, corpus)
    networks = build_networks(cm, asv, only)
    target = ensure_directory(out)
    take_shard(target, part)
    options = {"resources": resources, "overwrite": overwrite, "strict": strict, "begin": begin}
    results: dict[str, Extraction] = {}
    for kind, network in networks.items():
        for split in splits:
            if kind == "cm" or split.name != "trn" or train_asv or only == "asv":
                results |= extract_split(kind, network, split, folder, target, part, **options)
    Manifest(target).add(source={"audio": audio, "protocol": protocol, "enrolment": lists})
    return results


def build_networks(cm: Network, asv: Network, only: str | None = None) -> dict[str, FrontEnd]:
    """The networks by kind: AASIST for ``cm`` and ECAPA for ``asv``, or those of a class path."""
    from lightning_sasv.frontends.aasist import AASIST
    from lightning_sasv.frontends.base import build_front_end
    from lightning_sasv.frontends.ecapa import ECAPA

    found: dict[str, FrontEnd] = {}
    if only != "asv":
        found["cm"] = build_front_end(cm) if isinstance(cm, dict) else AASIST.from_checkpoint(cm)
    if only != "cm":
        found["asv"] = build_front_end(asv) if isinstance(asv, dict) else ECAPA.from_checkpoint(asv)
    return found
