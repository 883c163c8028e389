"""A folder of embeddings: its manifest, the part (shard) of an extraction that it holds, joining.

``manifest.json`` has weights, settings, versions and failures of every store.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from lightning_sasv import __version__
from lightning_sasv.errors import InputError
from lightning_sasv.files import read_json, write_text
from lightning_sasv.locks import lock
from lightning_sasv.places import EMBEDDINGS, check_folder

MANIFEST = "manifest.json"
FORMAT = "lightning_sasv.extraction/1"
_PACKAGES = ("torch", "numpy", "scipy", "soundfile", "speechbrain", "safetensors")
"""What can change an embedding."""
T = TypeVar("T")
_STEM = re.compile(r"\w[\w.-]{0,99}", re.ASCII)
KEY = "shard"
"""What a manifest says of the part that its folder holds."""


def versions(*packages: str) -> dict[str, str]:
    """Versions of Python and of those packages that are installed."""
    found = {"python": platform.python_version()}
    for package in packages:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


class Manifest:
    """The manifest of a folder of embeddings; every change is written at once.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / MANIFEST
        self.content: dict[str, Any] = {"format": FORMAT, "stores": {}}
        self._read()

    def _read(self) -> None:
        if self.path.exists():
            try:
                self.content = read_json(self.path)
                known = self.content["format"] == FORMAT
                self.content["stores"].keys()
            except (ValueError, KeyError, TypeError, AttributeError):
                known = False
            if not known:
                raise InputError(
                    f"{self.path} is damaged or not a manifest of `lightning extract`; "
                    "remove it or give another --out"
                )

    def front_end_of(self, stem: str) -> dict[str, Any] | None:
        """Description of the front end that made a store, if the manifest knows it."""
        entry = self.content["stores"].get(stem)
        return entry.get("front_end") if isinstance(entry, dict) else None

    def add_store(self, stem: str, **made: Any) -> None:
        """Record a finished store: what it was made of, with which versions, and when."""
        finished = datetime.now(UTC).isoformat(timespec="seconds")
        found = {"lightning_sasv": __version__} | versions(*_PACKAGES)
        self.add(stores={stem: made | {"versions": found, "finished": finished}})

    def add(self, stores: dict[str, Any] | None = None, **content: Any) -> None:
        """Record stores beside those that are there, or where the utterances came from."""
        with lock(self.path.parent, name=MANIFEST, wait=True):
            self._read()  # other commands may have recorded theirs
            self.content |= content
            self.content["stores"] |= stores or {}
            write_text(self.path, json.dumps(self.content, indent=1, ensure_ascii=False) + "\n")


class Shard(NamedTuple):
    """One of several parts of every list, in the order of the list.

    Attributes:
        number: Which, from 1.
        of_all: How many there are.

    Example:
        >>> Shard.named("2/3").of(range(7))
        range(2, 4)
    """

    number: int
    of_all: int

    @classmethod
    def named(cls, text: str) -> Shard:
        """The shard ``3/16``."""
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise InputError(f"--shard {text[:50]}: expected e.g. 3/16, the third of sixteen parts")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.of_all}"

    def of(self, items: Sequence[T]) -> Sequence[T]:
        """Its part of a list."""
        first, last = (len(items) * n // self.of_all for n in (self.number - 1, self.number))
        return items[first:last]


def take_shard(folder: Path, shard: Shard | None) -> None:
    """Note which part a folder holds.

    Raises:
        InputError: It holds another one: that would be lost.
    """
    manifest = Manifest(folder)
    known = manifest.content.get(KEY)
    if (manifest.content["stores"] or known) and known != (shard and str(shard)):
        holds = f"shard {known}" if known else "whole lists"
        raise InputError(f"{folder} holds embeddings of {holds}; every shard needs its own --out")
    if shard is not None:
        manifest.add(shard=str(shard))


def are_shards(folders: Sequence[str | Path]) -> bool:
    """Whether some of the folders hold parts of an extraction; others may have manifests too."""
    for folder in folders:
        with suppress(InputError):
            if KEY in Manifest(folder).content:
                return True
    return False


def join_shards(
    folders: Sequence[str | Path], out: str | Path, overwrite: bool = False
) -> dict[str, int]:
    """Join the embeddings of all shards of an extraction.

    Args:
        folders: Folders that ``lightning extract --shard`` wrote, in any order.
        out: Folder to write.
        overwrite: Write to it though it holds other files.

    Returns:
        How many embeddings each store has.

    Raises:
        InputError: A shard is missing, stands twice, is not finished, or was made by another front
            end.
    """
    manifests = [Manifest(folder) for folder in _in_order(folders)]
    _check_alike(manifests)
    with lock(out):
        check_folder(out, EMBEDDINGS, overwrite)
        found = {stem: _join(stem, manifests, Path(out)) for stem in manifests[0].content["stores"]}
        Manifest(out).add(source=manifests[0].content.get("source"), joined=len(manifests))
    return found


def _in_order(folders: Sequence[str | Path]) -> list[Path]:
    """All shards from the first to the last."""
    known: dict[Shard, Path] = {}
    for folder in map(Path, folders):
        said = Manifest(folder).content.get(KEY)
        if said is None:
            raise InputError(f"{folder} holds no shard of `lightning extract --shard`")
        shard = Shard.named(str(said))
        if shard in known:
            raise InputError(f"shard {shard} stands twice: {known[shard]} and {folder}")
        known[shard] = folder
    count = max(shard.of_all for shard in known)
    wanted = [Shard(number + 1, count) for number in range(count)]
    lacking = [str(shard) for shard in wanted if shard not in known]
    if lacking or len(known) > count:
        others = ", ".join(str(one) for one in known if one.of_all != count)
        raise InputError(
            f"shards {', '.join(lacking[:10])} are missing"
            + (f", there are {others} of another division" if others else "")
        )
    return [known[shard] for shard in wanted]


def _check_alike(manifests: Sequence[Manifest]) -> None:
    first = manifests[0]
    for one in manifests:
        folder, stores = one.path.parent, one.content["stores"]
        for stem, entry in stores.items():
            plain = isinstance(entry, dict) and isinstance(entry.get("utterances"), int)
            if not (_STEM.fullmatch(stem) and plain and isinstance(entry.get("failures"), dict)):
                raise InputError(f"{one.path}: {stem[:100]!r} is no store of `lightning extract`")
        if stores.keys() != first.content["stores"].keys() or any(folder.glob("*.parts")):
            raise InputError(f"{folder} is not finished: run its `lightning extract` again")
        for stem in stores:
            if one.front_end_of(stem) != first.front_end_of(stem):
                raise InputError(
                    f"{stem} in {folder} was made by another front end or with other weights than "
                    f"in {first.path.parent}"
                )


def _join(stem: str, manifests: Sequence[Manifest], out: Path) -> int:
    """Write a store of all shards; how many embeddings it has."""
    import torch

    from lightning_sasv.data.embeddings import SUFFIX, EmbeddingStore

    entries = [manifest.content["stores"][stem] for manifest in manifests]
    paths = [one.path.parent / (stem + SUFFIX) for one in manifests]
    made = [EmbeddingStore.load(p) for p, e in zip(paths, entries, strict=True) if e["utterances"]]
    failures: dict[str, Any] = {k: v for entry in entries for k, v in entry["failures"].items()}
    if len({store.dim for store in made}) > 1:
        raise InputError(
            f"{stem}: embeddings of {' and '.join(str(one.dim) for one in made)} values"
        )
    if made:
        ids = [name for store in made for name in store.ids]
        vectors = torch.cat([store.vectors for store in made])
        EmbeddingStore(ids, vectors, f"{stem} of {len(made)} shards").save(out / (stem + SUFFIX))
    number = sum(len(store) for store in made)
    Manifest(out).add(stores={stem: entries[0] | {"utterances": number, "failures": failures}})
    return number
