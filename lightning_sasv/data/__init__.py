"""Corpora, embeddings, protocols and what the Trainer iterates over.

The names are imported on first use, so that reading a protocol does not import Lightning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_sasv import lazy

if TYPE_CHECKING:
    from lightning_sasv.data.challenge import import_corpus, load_corpus, simulate
    from lightning_sasv.data.corpus import Corpus
    from lightning_sasv.data.datamodule import SASVDataModule
    from lightning_sasv.data.downloads import download
    from lightning_sasv.data.embeddings import EmbeddingStore
    from lightning_sasv.data.twin import make_twin

__all__ = ["Corpus", "EmbeddingStore", "SASVDataModule", "download", "import_corpus",
           "load_corpus", "make_twin", "simulate"]  # fmt: skip

__getattr__ = lazy(
    __name__,
    {"Corpus": "corpus", "EmbeddingStore": "embeddings", "SASVDataModule": "datamodule"}
    | {"download": "downloads", "make_twin": "twin"}
    | dict.fromkeys(("import_corpus", "load_corpus", "simulate"), "challenge"),
)
