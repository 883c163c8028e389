"""``lightning simulate`` and ``lightning import``: corpora on disk."""

from __future__ import annotations

from pathlib import Path

from lightning_sasv.console import print_line


def simulate(*, out: str, scale: float = 1.0, seed: int = 0, pickles: bool = True) -> None:
    """Write the twin, a simulated corpus with the statistics of SASV 2022, in its layout.

    The folder can be used with `lightning fit --data.root OUT`. It is marked as simulated, and
    every result from it says "twin".

    Args:
        out: Folder to write.
        scale: Size; 1 has the numbers of speakers, utterances and trials of SASV 2022.
        seed: Seed of the corpus.
        pickles: Write embeddings as the challenge's pickles (.pk); false writes our own
            memory-mapped stores (.safetensors).
    """
    from lightning_sasv import data

    corpus = data.simulate(out=out, scale=scale, seed=seed, pickles=pickles)
    print_line(f"twin corpus (simulated, scale {scale:g}): {corpus.sizes} in {Path(out)}")


def import_corpus(
    root: str, *, out: str, protocols: str | None = None, name: str | None = None
) -> None:
    """Turn the challenge's pickles into memory-mapped embedding stores, with their protocols.

    Pickles are read by an unpickler that admits only numpy arrays and plain containers: one that
    would run code is refused. Nothing is written unless every trial has its embeddings.

    Args:
        root: Folder with {asv,cm}_embd_{trn,dev,eval}.pk and spk_model_{dev,eval}.pk.
        out: Folder to write.
        protocols: Folder with the protocols, when they are not below ROOT.
        name: Name of the corpus in tables; by default that of the folder ROOT.
    """
    from lightning_sasv import data

    corpus = data.import_corpus(root, out=out, protocols=protocols, name=name)
    print_line(f"{corpus.name}: {corpus.sizes} in {Path(out)}")
