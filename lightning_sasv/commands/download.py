"""``lightning download``: public scores, protocols, embeddings and weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lightning_sasv.console import print_line, progress
from lightning_sasv.data.downloads import SOURCES, Name, Source
from lightning_sasv.data.downloads import download as fetch

CORPUS = ("sasv2022-protocols", "sasv2022-embeddings")
"""What a corpus to train on consists of."""


def download(name: Name, out: str | None = None, mirror: str | None = None) -> None:
    """Fetch public files, each checked against a pinned size and SHA-256.

    What is there already is not fetched again; what breaks off is tried again a few times.

    sasv2022-scores (5 MB): published ASV and CM scores; dev_scores.csv and eval_scores.csv are made
    from them, ready for `lightning fuse`.
    sasv2022-protocols (9 MB) and sasv2022-embeddings (183 MB): the corpus of the paper; with both
    in one folder, `make table DATA=OUT` reproduces its table.
    aasist-weights (2 MB): the public AASIST and AASIST-L checkpoints.

    Args:
        name: What to fetch.
        out: Folder to put it in; by default sasv2022, for aasist-weights weights.
        mirror: Address in place of GitHub's, with the same paths below it; by default
            $SASV_MIRROR, if set.
    """
    with progress("bytes") as begin:
        bars: dict[Source, tuple[int, Callable[..., object]]] = {}

        def tell(source: Source, have: int) -> None:
            known, advance = bars.get(source) or (0, begin(Path(source.place).name, source.size))
            advance(have - known)
            bars[source] = have, advance

        done = fetch(name, out, mirror, progress=tell)
    size = sum(source.size for source in done.files)
    print_line(
        f"{name}: {len(done.files)} files, {size:,} bytes, each with its pinned SHA-256, "
        f"{done.folder}"
    )
    for path, trials in done.tables.items():
        print_line(f"{path}: {trials:,} trials")
    if name in CORPUS:
        print_line(f"next: {_next_step(done.folder)}")


def _next_step(folder: Path) -> str:
    """What is still to be fetched for a corpus, or what can be done with it now."""
    for name in CORPUS:
        if not all((folder / source.place).is_file() for source in SOURCES[name]):
            return f"lightning download {name} --out {folder}"
    return f"make table DATA={folder}"
