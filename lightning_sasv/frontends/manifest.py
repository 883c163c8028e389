"""``manifest.json`` beside extracted embeddings: weights, settings, versions, failures."""

from __future__ import annotations

import json
import platform
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from lightning_sasv import __version__
from lightning_sasv.errors import InputError
from lightning_sasv.files import read_json, write_text
from lightning_sasv.locks import lock

MANIFEST = "manifest.json"
FORMAT = "lightning_sasv.extraction/1"
_PACKAGES = ("torch", "numpy", "scipy", "soundfile", "speechbrain", "safetensors")


def _versions() -> dict[str, str]:
    """Versions of everything that can change an embedding."""
    found = {"lightning_sasv": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
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
        self.add(stores={stem: made | {"versions": _versions(), "finished": finished}})

    def add(self, stores: dict[str, Any] | None = None, **content: Any) -> None:
        """Record stores beside those that are there, or where the utterances came from."""
        with lock(self.path.parent, name=MANIFEST, wait=True):
            self._read()  # other commands may have recorded theirs
            self.content |= content
            self.content["stores"] |= stores or {}
            write_text(self.path, json.dumps(self.content, indent=1, ensure_ascii=False) + "\n")
