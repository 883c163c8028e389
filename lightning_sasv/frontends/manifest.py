"""``manifest.json`` beside extracted embeddings: weights, settings, versions, failures."""

from __future__ import annotations

import json
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from lightning_sasv import __version__
from lightning_sasv.errors import InputError
from lightning_sasv.files import read_json, write_text
from lightning_sasv.frontends.pipeline import Resources

MANIFEST = "manifest.json"
FORMAT = "lightning_sasv.extraction/1"
_PACKAGES = ("torch", "numpy", "scipy", "soundfile", "speechbrain", "safetensors")


def _versions() -> dict[str, str]:
    """Versions of everything that can change an embedding."""
    found = {"lightning_sasv": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


class Manifest:
    """The manifest of a folder of embeddings; every change is written at once.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / MANIFEST
        self.content: dict[str, Any] = {"format": FORMAT, "stores": {}}
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

    def add_store(
        self,
        stem: str,
        front_end: dict[str, Any],
        resources: Resources,
        utterances: int,
        failures: dict[str, str],
    ) -> None:
        """Record a finished store."""
        self.content["stores"][stem] = {
            "front_end": front_end,
            "utterances": utterances,
            "failures": failures,
            "settings": {
                "batch_size": resources.batch(),
                "workers": resources.worker_count(),
                "device": str(resources.torch_device()),
            },
            "versions": _versions(),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        self._write()

    def add_models(self, stem: str, source: str, problems: dict[str, str]) -> None:
        """Record speaker models that are means of the embeddings in another store."""
        self.content["stores"][stem] = {"mean_of": source, "failures": problems}
        self._write()

    def set_source(self, source: dict[str, Any]) -> None:
        """Record where the utterances came from."""
        self.content["source"] = source
        self._write()

    def _write(self) -> None:
        write_text(self.path, json.dumps(self.content, indent=1, ensure_ascii=False) + "\n")
