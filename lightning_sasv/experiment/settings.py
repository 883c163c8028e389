"""What an experiment is made of, and the keys that tell its results from those of another."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from lightning_sasv import __version__
from lightning_sasv.data.corpus import Corpus
from lightning_sasv.errors import InputError
from lightning_sasv.fusion import build_system


@dataclass(frozen=True)
class CorpusSettings:
    """Which corpus to use.

    Attributes:
        root: Folder of a real corpus; without it the embedded twin is made.
        protocols: Folder of the protocols when they are not below ``root``.
        name: Name of the corpus in tables; by default the name of the folder.
        scale: Size of the twin.
        twin_seed: Seed of the twin (not of the training).
    """

    root: str | None = None
    protocols: str | None = None
    name: str | None = None
    scale: float = 1.0
    twin_seed: int = 0


@dataclass(frozen=True)
class Experiment:
    """A training recipe and the corpus it is applied to.

    Attributes:
        data: The corpus.
        epochs: Training epochs.
        hidden_dims: Widths of the CM head.
        threads: CPU threads; the last bits of a result depend on it.
    """

    data: CorpusSettings = field(default_factory=CorpusSettings)
    epochs: int = 10
    hidden_dims: tuple[int, ...] = (258, 128, 64)
    threads: int = 1

    def __post_init__(self) -> None:
        for name in ("epochs", "threads"):
            if getattr(self, name) < 1:
                raise InputError(f"--{name} must be at least 1, got {getattr(self, name)}")

    def key(self, corpus: Corpus) -> str:
        """Key of a seed's training: the same settings, data and versions give the same key."""
        recipe = asdict(self) | {"data": corpus.fingerprint}
        return digest(recipe | {"versions": [__version__, torch.__version__]})


def digest(content: Any) -> str:
    """Short hash of plain content."""
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def system_key(name: str) -> str:
    """Key of a fusion system's configuration."""
    return digest(build_system(name).config)


def parse_seeds(text: str) -> list[int]:
    """Seeds of ``1986-1991`` or ``1986,1988``, in the order given.

    Example:
        >>> parse_seeds("1-3,7")
        [1, 2, 3, 7]
    """
    seeds: list[int] = []
    for part in text.replace(" ", "").split(","):
        low, dash, high = part.partition("-")
        if not low.isdigit() or (dash and not high.isdigit()):
            raise InputError(f"--seeds: cannot read {text!r}; write 1986-1991 or 1986,1988")
        seeds += range(int(low), int(high if dash else low) + 1)
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"--seeds: {text!r} names no seed, or one twice")
    return seeds
