"""Corpora, embeddings, protocols and what the Trainer iterates over.

The names are imported on first use, so that reading a protocol does not import Lightning, and the
help of a command no torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lightning_sasv import lazy
from lightning_sasv.errors import InputError
from lightning_sasv.locks import lock
from lightning_sasv.places import CORPUS, check_folder

if TYPE_CHECKING:
    from lightning_sasv.data.challenge import load_corpus
    from lightning_sasv.data.corpus import Corpus
    from lightning_sasv.data.datamodule import SASVDataModule
    from lightning_sasv.data.downloads import download
    from lightning_sasv.data.embeddings import EmbeddingStore
    from lightning_sasv.data.twin import make_twin

__all__ = ["Corpus", "EmbeddingStore", "SASVDataModule", "download"]
__all__ += ["import_corpus", "load_corpus", "make_twin", "simulate"]

__getattr__ = lazy(
    __name__,
    {
        "challenge": ["load_corpus"],
        "corpus": ["Corpus"],
        "datamodule": ["SASVDataModule"],
        "downloads": ["download"],
        "embeddings": ["EmbeddingStore"],
        "twin": ["make_twin"],
    },
)


def simulate(
    *,
    out: str,
    scale: float = 1.0,
    seed: int = 0,
    pickles: bool = True,
    overwrite: bool = False,
    corpus: str = "sasv2022",
) -> Corpus:
    """Write the twin, a simulated corpus with the statistics of SASV 2022, in its layout.

    The folder can be used with `lightning fit --data.root OUT`. It is marked as simulated, and
    every result from it says "twin".

    Args:
        out: Folder to write.
        scale: Size; 1 has the numbers of speakers, utterances and trials of SASV 2022.
        seed: Seed of the corpus.
        pickles: Write embeddings as the challenge's pickles (.pk); false writes our own
            memory-mapped stores (.safetensors).
        overwrite: Write to OUT though it holds another corpus, or other files.
        corpus: Corpus whose lists are written: sasv2022, asvspoof5, asvspoof5-progress,
            spoofceleb, wildspoof, asvspoof2021-la, manifest (docs/corpora.md).
    """
    from lightning_sasv.data.challenge import save_corpus
    from lightning_sasv.data.laid_out import check_twin
    from lightning_sasv.data.profiles import profile_named
    from lightning_sasv.data.twin import make_twin

    check_twin(profile_named(corpus, "--corpus"))
    with lock(out):
        check_folder(out, CORPUS, overwrite)
        twin = make_twin(scale, seed)
        save_corpus(twin, out, pickles, overwrite, corpus)
    return twin


def import_corpus(
    root: str,
    *,
    out: str,
    protocols: str | None = None,
    name: str | None = None,
    overwrite: bool = False,
) -> Corpus:
    """Turn the challenge's pickles into memory-mapped embedding stores, with the corpus' lists.

    Pickles are read by an unpickler that admits only numpy arrays and plain containers: one that
    would run code is refused. Nothing is written unless every trial has its embeddings. The
    command also joins the folders that `lightning extract --shard` wrote.

    Args:
        root: Folder with {asv,cm}_embd_{trn,dev,eval}.pk and spk_model_{dev,eval}.pk; or all
            folders of shards.
        out: Folder to write.
        protocols: Folder with the protocols, when they are not below ROOT.
        name: Name of the corpus in tables; by default that of the folder ROOT.
        overwrite: Write to OUT though it holds another corpus, or other files.
    """
    from lightning_sasv.data.challenge import load_corpus, profile_of, save_corpus
    from lightning_sasv.data.profiles import lists_of

    if Path(out).resolve() == Path(root).resolve():
        raise InputError(f"--out {out} is the folder that is imported; choose another one")
    folder = Path(protocols or root)
    profile = profile_of(None, folder)
    corpus = load_corpus(root, protocols, name, profile)
    corpus.check()
    with lock(out):
        check_folder(out, CORPUS, overwrite)
        lists = [] if profile.name == "sasv2022" else lists_of(profile, folder)
        save_corpus(corpus, out, overwrite=overwrite, layout=profile.name, lists=lists)
    return corpus
