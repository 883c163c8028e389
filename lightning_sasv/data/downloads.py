"""Fetching pinned public files: what is there stays, what is wrong is refused.

``sources.json`` names repository, commit, size and SHA-256 of each; the SHA-256 of an object of Git
Large File Storage is the ``oid`` of its pointer. Nothing that was fetched is executed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, urlsplit

from lightning_sasv.data.protocols import MARKER, TRIAL_PROTOCOL, TRIALS
from lightning_sasv.errors import InputError, RunError, meant
from lightning_sasv.files import ensure_directory, read_json, sha256, write_json
from lightning_sasv.scores import ScoreTable, write_table
from lightning_sasv.scores.read import read_plain
from lightning_sasv.scores.reading import Reading
from lightning_sasv.scores.sources import read_key, read_source
from lightning_sasv.scores.write import holds

Name = Literal[
    "sasv2022-scores",
    "sasv2022-protocols",
    "sasv2022-embeddings",
    "aasist-weights",
    "sasv2022-more",
    "referee",
]
Begin = Callable[[str, int], Callable[[int], object]]
"""Begins the progress of a file, ``begin(name, size)``; what it returns is told of new bytes."""

PUBLISHED = {"dev": "dev_scores_label.csv", "eval": "eval_scores.csv"}
MORE = {
    "asv_xvector": "ASVspoof2019.LA.asv.{split}.gi.trl.scores.txt",
    "cm_ocsoftmax": "checkpoint_cm_score_gender_{split}.txt",
}
"""Further published scores of the same trials, by the column that they become."""
COLUMNS_OF_MORE = ("asv_ecapa", "asv_xvector", "cm_aasist", "cm_ocsoftmax")
FOLDERS = {"aasist-weights": "weights", "referee": "referee"}
"""Where downloads go that do not belong to the corpus ``sasv2022``."""
MIRROR_VARIABLE = "SASV_MIRROR"
"""Environment variable with the address of a mirror, in place of both hosts."""
RETRIES = 4
"""New attempts after a broken connection or a damaged file; pooch waits n seconds for the nth."""
TIMEOUT = (10.0, 30.0)
"""Seconds to connect, and between two pieces of an answer."""
_REMEDY = f"choose another address (--mirror URL or {MIRROR_VARIABLE})"


@dataclass(frozen=True)
class Source:
    """A file at a commit of a repository, with its size and SHA-256, to be kept at ``place``.

    Where ``lfs``, the repository holds a pointer, and the content is a Git LFS object. ``terms`` is
    what its owner asks of those who use it.
    """

    repository: str
    commit: str
    path: str
    size: int
    sha256: str
    place: str
    lfs: bool = False
    terms: str = ""

    def url(self, mirror: str | None = None) -> str:
        """Address of the file; at a mirror, ``http(s)://host[/folder]``, the rest is the same."""
        kind, folder = ("media", "/media") if self.lfs else ("raw", "")
        host = mirror.rstrip("/") if mirror else f"https://{kind}.githubusercontent.com"
        return f"{host}{folder}/{self.repository}/{self.commit}/{quote(self.path)}"


def _sources(files: dict[str, list[Any]], folder: str, below: str, **of: Any) -> tuple[Source, ...]:
    """Files ``{name: [size, SHA-256]}`` of a folder of a repository, to be kept ``below``."""
    return tuple(
        Source(path=f"{folder}/{name}", size=size, sha256=digest, place=below + name, **of)
        for name, (size, digest) in files.items()
    )


SOURCES: dict[str, tuple[Source, ...]] = {
    name: tuple(
        source
        for part in (entry if isinstance(entry, list) else [entry])
        for source in _sources(**part)
    )
    for name, entry in read_json(Path(__file__).with_name("sources.json")).items()
}
"""The files of each download, by name."""


class Downloaded(NamedTuple):
    """What a download left: its folder and files, and tables made of them with their trials."""

    folder: Path
    files: tuple[Source, ...]
    tables: dict[Path, int]


def download(
    name: Name,
    out: str | None = None,
    mirror: str | None = None,
    *,
    begin: Begin = lambda name, size: lambda new: None,
) -> Downloaded:
    """Fetch public files, each checked against a pinned size and SHA-256.

    What is there already is not fetched again; what breaks off is tried again a few times.

    sasv2022-scores (5 MB): published ASV and CM scores; dev_scores.csv and eval_scores.csv are made
    from them, ready for `lightning fuse`.
    sasv2022-protocols (9 MB) and sasv2022-embeddings (183 MB): the corpus of the paper; with both
    in one folder, `lightning table --data.root OUT` reproduces its table.
    aasist-weights (2 MB): the public AASIST and AASIST-L checkpoints.
    sasv2022-more (9 MB, and sasv2022-scores): scores of a second verifier and a second
    countermeasure on the same trials; dev_more_scores.csv and eval_more_scores.csv have all four.
    referee (10 MB): score files of other people, for `lightning referee` (docs/referee.md).

    Args:
        name: What to fetch.
        out: Folder to put it in; by default sasv2022, for aasist-weights weights, for referee
            referee.
        mirror: Address in place of GitHub's, with the same paths below it; by default
            $SASV_MIRROR, if set.
        begin: Begins the progress of a file.
    """
    if name not in SOURCES:
        there = f"there are {', '.join(SOURCES)}{meant(name, SOURCES)}"
        raise InputError(f"unknown download {name!r}; {there}")
    folder = Path(out if out is not None else FOLDERS.get(name, "sasv2022"))
    sources, tables = SOURCES[name], dict[Path, int]()
    if name == "sasv2022-more":
        sources += SOURCES["sasv2022-scores"]
    if name in ("sasv2022-scores", "sasv2022-more"):  # which have no trials without protocols
        sources += tuple(s for s in SOURCES["sasv2022-protocols"] if ".asv." in s.place)
    fetch(sources, folder, mirror=mirror, begin=begin)
    if name in ("sasv2022-scores", "sasv2022-more"):
        more = MORE if name == "sasv2022-more" else None
        for split in PUBLISHED:
            tables |= _tabulate(folder, split, more)
    elif name == "sasv2022-embeddings" and not (folder / MARKER).exists():
        write_json(folder / MARKER, {"name": "SASV 2022"})  # one that is there stays
    return Downloaded(folder, sources, tables)


def fetch(
    sources: Iterable[Source],
    out: str | Path,
    mirror: str | None = None,
    begin: Begin = lambda name, size: lambda new: None,
) -> list[Path]:
    """Fetch files into a folder; arguments as in :func:`download`.

    Files that are there and right are left alone. One that is there and differs is somebody's own:
    it is reported before anything is fetched, never overwritten.
    """
    import pooch

    wanted, address, folder = tuple(sources), chosen_mirror(mirror), ensure_directory(out)
    for source in wanted:
        _refuse_other(folder / source.place, source)
    pooch.get_logger().setLevel("WARNING")
    store = pooch.create(
        path=folder,
        base_url="",
        registry={source.place: f"sha256:{source.sha256}" for source in wanted},
        urls={source.place: source.url(address) for source in wanted},
        retry_if_failed=RETRIES,
        allow_updates=False,
    )
    return [_fetch_one(store, folder / source.place, source, begin) for source in wanted]


def chosen_mirror(mirror: str | None) -> str | None:
    """The mirror asked for, else that of the environment, else none."""
    address = mirror or os.environ.get(MIRROR_VARIABLE)
    if address and not address.startswith(("http://", "https://")):
        raise InputError(f"mirror {address!r} must begin with https:// or http://")
    return address or None


def _refuse_other(path: Path, source: Source) -> None:
    """Raise where another file has the name of ours."""
    if path.exists() and not (path.is_file() and sha256(path) == source.sha256):
        raise InputError(
            f"{path} is there already and differs from the published file; move it away or choose "
            "another --out"
        )


class _RefusedError(Exception):
    """An answer that another attempt would not mend; pooch repeats after any ``ValueError``."""


def _fetch_one(store: Any, path: Path, source: Source, begin: Begin) -> Path:
    """Let pooch fetch a file, and say in a line why it cannot."""
    import requests

    url = store.get_url(source.place)
    ensure_directory(path.parent)
    try:
        store.fetch(source.place, downloader=partial(_receive, source, begin))
    except _RefusedError as error:
        raise InputError(f"{url}{error} {_REMEDY}") from None
    except requests.RequestException as error:
        raise RunError(
            f"cannot fetch {path.name} from {urlsplit(url).netloc}: {_cause(error)}; check the "
            f"network and run the same command again, or {_REMEDY}"
        ) from None
    except ValueError:
        raise InputError(
            f"{url} does not have its pinned SHA-256 ({source.sha256[:12]}…): it was altered on "
            f"the way or at the server; nothing was kept, try again or {_REMEDY}"
        ) from None
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
    return path


def _receive(source: Source, begin: Begin, url: str, output_file: str, pooch: Any) -> None:
    """Receive a file of the pinned size; the last three arguments are those of a downloader."""
    import requests

    part, headers = Path(output_file), {"Accept-Encoding": "identity"}
    part.unlink()  # pooch's own file is for its owner alone, the new one for whom umask says
    with (
        requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as answer,
        part.open("wb") as file,
    ):
        if 400 <= answer.status_code < 500:
            said = f"{answer.status_code} {answer.reason}"
            raise _RefusedError(f": the server answers {said}; try again later or")
        answer.raise_for_status()
        if "Content-Encoding" not in answer.headers:
            _check_size(int(answer.headers.get("Content-Length", source.size)), source)
        advance = begin(Path(source.place).name, source.size)
        for chunk in answer.iter_content(1 << 14):
            file.write(chunk)
            _check_size(max(file.tell(), source.size), source)
            advance(len(chunk))


def _check_size(size: int, source: Source) -> None:
    if size != source.size:
        raise _RefusedError(
            f" has {size:,} bytes or more where {source.size:,} are pinned: this is another file; "
            "nothing was kept,"
        )


def _cause(error: BaseException) -> str:
    """The innermost reason of a network error, in a few words."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())[:120]


def _tabulate(folder: Path, split: str, more: Mapping[str, str] | None) -> dict[Path, int]:
    """Make a table of the published scores of a set and its protocol; the number of its trials.

    Args:
        folder: Folder of the files.
        split: ``dev`` or ``eval``.
        more: Files of further scores; with them all columns have the name of their system.
    """
    protocol = folder / "protocols" / TRIAL_PROTOCOL.format(split=split)
    table = read_source(
        str(folder / "published" / PUBLISHED[split]), read_key(str(protocol), TRIALS)
    )
    if more is not None:
        table = _with_more(folder, split, table, more)
    path = folder / f"{split}{'_more' if more is not None else ''}_scores.csv"
    if not path.exists():
        write_table(path, table)
    elif not holds(path, table):
        raise InputError(
            f"{path} is there already and differs from the published scores; move it away or "
            "choose another --out"
        )
    return {path: len(table)}


def _with_more(folder: Path, split: str, table: ScoreTable, more: Mapping[str, str]) -> ScoreTable:
    """A table with further scores: those of trials by their rows, those of utterances by name."""
    import polars as pl

    frame = table.frame.rename({"asv_score": "asv_ecapa", "cm_score": "cm_aasist"})
    for column, file in more.items():
        path = folder / "published" / file.format(split=split)
        found = read_plain(path, Reading()).frame
        score = pl.col("score").alias(column)
        if "utterance" in found:
            new = found.select("utterance", score)
            frame = frame.join(new, on="utterance", how="left", maintain_order="left")
        elif found.select("attack", "label").equals(frame.select("attack", "label")):
            frame = frame.with_columns(found.select(score))
        if column not in frame or frame[column].null_count():
            raise InputError(f"{path}: its trials are not those of {table.path}")
    return replace(table, frame=frame.select(*table.ids, "attack", "label", *COLUMNS_OF_MORE))
