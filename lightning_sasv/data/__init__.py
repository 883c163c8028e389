"""Corpora, embeddings, protocols and what the Trainer iterates over.

The names are imported on first use, so that reading a protocol does not import Lightning.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lightning_sasv.data.challenge import load_corpus
    from lightning_sasv.data.corpus import Corpus
    from lightning_sasv.data.datamodule import SASVDataModule
    from lightning_sasv.data.embeddings import EmbeddingStore
    from lightning_sasv.data.twin import make_twin

__all__ = ["Corpus", "EmbeddingStore", "SASVDataModule", "load_corpus", "make_twin"]

_HOME = {
    "Corpus": "corpus",
    "EmbeddingStore": "embeddings",
    "SASVDataModule": "datamodule",
    "load_corpus": "challenge",
    "make_twin": "twin",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
