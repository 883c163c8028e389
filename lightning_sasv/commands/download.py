"""``lightning download``: public scores, protocols, embeddings and weights."""

from __future__ import annotations

import filecmp
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from lightning_sasv.console import print_line, progress
from lightning_sasv.data.download import Progress, fetch
from lightning_sasv.data.sources import SOURCES, Source
from lightning_sasv.errors import InputError

Name = Literal["sasv2022-scores", "sasv2022-protocols", "sasv2022-embeddings", "aasist-weights"]
CORPUS = "SASV 2022"
DEFAULT_FOLDER = {"aasist-weights": "weights"}
SPLITS = {"dev": "dev_scores_label.csv", "eval": "eval_scores.csv"}


def download(name: Name, out: str | None = None, mirror: str | None = None) -> None:
    """Fetch public files, each checked against a pinned size and SHA-256.

    What is there already is not fetched again, and a download that was cut off continues where it
    stopped when the same command is run again.

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
    folder = Path(out if out is not None else DEFAULT_FOLDER.get(name, "sasv2022"))
    sources = SOURCES[name]
    if name == "sasv2022-scores":
        sources += _trial_lists()
    with _bars(sources) as tell:
        fetch(sources, folder, mirror=mirror, progress=tell)
    size = sum(source.size for source in sources)
    print_line(
        f"{name}: {len(sources)} files, {size:,} bytes, each with its pinned SHA-256, {folder}"
    )
    if name == "sasv2022-scores":
        _convert(folder)
    elif name == "sasv2022-embeddings":
        _mark(folder)
    if name in ("sasv2022-embeddings", "sasv2022-protocols"):
        print_line(_next_step(folder))


def _trial_lists() -> tuple[Source, ...]:
    """The two protocols without which the published scores have no trials."""
    return tuple(s for s in SOURCES["sasv2022-protocols"] if ".asv." in s.place)


def _convert(folder: Path) -> None:
    """Make dev_scores.csv and eval_scores.csv from the published files and the protocols."""
    from lightning_sasv.data.challenge import TRIAL_PROTOCOL
    from lightning_sasv.data.protocols import read_trials
    from lightning_sasv.data.published import read_published_scores
    from lightning_sasv.scores import write_scores

    for split, name in SPLITS.items():
        trials = read_trials(folder / "protocols" / TRIAL_PROTOCOL.format(split=split))
        scores = read_published_scores(folder / "published" / name, trials)
        path = folder / f"{split}_scores.csv"
        fresh = write_scores(path.with_name(f".{path.name}.new"), scores)
        try:
            if path.exists() and not filecmp.cmp(fresh, path, shallow=False):
                raise InputError(
                    f"{path} is there already and differs from the published scores; move it away "
                    "or choose another --out"
                )
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)
        print_line(f"{path}: {len(scores):,} trials")


def _mark(folder: Path) -> None:
    """Name the corpus for tables; a marker that is there stays."""
    from lightning_sasv.data.challenge import MARKER
    from lightning_sasv.files import write_text

    if not (folder / MARKER).exists():
        write_text(folder / MARKER, json.dumps({"name": CORPUS}) + "\n")


def _next_step(folder: Path) -> str:
    """What is still to be fetched, or what can be done now."""
    for name in ("sasv2022-protocols", "sasv2022-embeddings"):
        if not all((folder / source.place).is_file() for source in SOURCES[name]):
            return f"next: lightning download {name} --out {folder}"
    return f"next: make table DATA={folder}"


@contextmanager
def _bars(sources: tuple[Source, ...]) -> Iterator[Progress]:
    """A progress bar for each file, on a terminal."""
    with progress("bytes") as begin:
        bars = {source: begin(Path(source.place).name, source.size) for source in sources}
        known = dict.fromkeys(sources, 0)

        def tell(source: Source, have: int) -> None:
            bars[source](have - known[source])
            known[source] = have

        yield tell
