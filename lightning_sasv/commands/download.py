"""``lightning download``: public scores, protocols, embeddings and weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning_sasv import data
from lightning_sasv.commands.arguments import options_of
from lightning_sasv.console import print_line, progress
from lightning_sasv.data.downloads import SOURCES, Name

CORPUS = ("sasv2022-protocols", "sasv2022-embeddings")
"""What a corpus to train on consists of."""


@options_of(data.download)
def download(name: Name, **options: Any) -> None:
    """Say what :func:`data.download` left, and what can be done with it."""
    with progress("bytes") as begin:
        done = data.download(name, **options, begin=begin)
    size = sum(source.size for source in done.files)
    print_line(
        f"{name}: {len(done.files)} files, {size:,} bytes, each with its pinned SHA-256, "
        f"{done.folder}"
    )
    for terms in dict.fromkeys((one.repository, one.terms) for one in done.files if one.terms):
        print_line(f"{terms[0]}: {terms[1]}, says its owner; do not pass its files on")
    for path, trials in done.tables.items():
        print_line(f"{path}: {trials:,} trials")
    if name in CORPUS:
        print_line(f"next: {_next_step(done.folder)}")


def _next_step(folder: Path) -> str:
    """What is still to be fetched for a corpus, or what can be done with it now."""
    for name in CORPUS:
        if not all((folder / source.place).is_file() for source in SOURCES[name]):
            return f"lightning download {name} --out {folder}"
    return f"lightning table --data.root {folder}"
