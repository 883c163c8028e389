"""Is there room for the results? Asked before the work, not found out after it."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from lightning_sasv.data.corpus import CM_DIM, Corpus
from lightning_sasv.errors import InputError
from lightning_sasv.files import ensure_directory

_NAMES, _NUMBER = 48, 21
"""Bytes of a trial's names and label in a score file, and of each of its scores."""
_COPIES = 10
"""Times that the weights of a seed are stored: in the seed's checkpoint, and with the best heads
and the two moments of Adam in the checkpoint to resume from and in the one that replaces it."""
_REST = 2**20
"""Bytes of everything else a seed has: metrics, fitted systems, logs."""
_MARGIN = 1.25


def needed_bytes(
    corpus: Corpus, seeds: int, systems: int, hidden_dims: Sequence[int], in_dim: int = CM_DIM
) -> int:
    """About how many bytes the results and checkpoints of so many seeds take."""
    rows = len(corpus.dev.label) + len(corpus.eval.label)
    scores = rows * (_NAMES + _NUMBER * (2 + systems))
    widths = [in_dim, *hidden_dims, 2]
    weights = sum((one + 1) * other for one, other in pairwise(widths))
    return math.ceil(_MARGIN * seeds * (scores + 4 * _COPIES * weights + _REST))


def require_room(folder: Path, needed: int) -> None:
    """Raise an ``InputError`` when the disk of ``folder`` has fewer than ``needed`` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise InputError(
            f"the results need about {_megabytes(needed)} MB, but only {_megabytes(free)} MB are "
            f"free at {folder}; make room, or choose another --out"
        )


def _megabytes(count: int) -> str:
    return f"{count / 2**20:,.1f}"


def require_writable(folder: Path) -> None:
    """Raise an ``InputError`` when a folder of results, or one below it, cannot be written to."""
    ensure_directory(folder)
    for place in [folder / "training", *folder.glob("training/*"), *folder.glob("seed[0-9]*")]:
        if place.exists():
            ensure_directory(place)
    for place in folder.glob("seed[0-9]*/*"):
        if place.is_dir():
            ensure_directory(place)
