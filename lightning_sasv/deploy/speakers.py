"""Models of enrolled speakers, one file each; they are personal data and nobody else's to read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from lightning_sasv.errors import InputError, meant
from lightning_sasv.files import inside, read_arrays, write_arrays

SUFFIX = ".safetensors"
_HEADER = "lightning_sasv"
_NAME = re.compile(r"[^\W_][\w.@+-]{0,99}")


class SpeakerModels:
    """A folder of speaker models.

    Args:
        folder: The folder; it is made when the first model is kept.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def names(self) -> list[str]:
        """Everybody who is enrolled."""
        return sorted(path.stem for path in self.folder.glob(f"*{SUFFIX}"))

    def keep(self, name: str, vector: np.ndarray, about: Mapping[str, Any]) -> Path:
        """Keep a model, readable by its owner alone; an older one of this name is replaced.

        Args:
            name: Whose it is.
            vector: Mean embedding of the enrolment recordings.
            about: The front end that made it, as a bundle records it.
        """
        path = self._path(name)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        day = datetime.now(UTC).date().isoformat()
        header = {"made_by": _identity(about), "enrolled": day}
        text = json.dumps(header, sort_keys=True)
        return write_arrays(path, {"model": np.float32(vector)}, {_HEADER: text}, mode=0o600)

    def read(self, name: str, about: Mapping[str, Any]) -> np.ndarray:
        """A model that the same front end has made.

        Raises:
            InputError: There is none of this name, it is damaged, or of another front end.
        """
        path = self._path(name)
        if not path.is_file():
            known = meant(name, self.names())
            raise InputError(f"nobody is enrolled as {name!r} in {self.folder}{known}")
        try:
            header, arrays = read_arrays(inside(self.folder, path), _HEADER)
            vector: np.ndarray = arrays["model"]
            if vector.ndim != 1 or vector.dtype.kind != "f" or not np.isfinite(vector).all():
                raise ValueError(f"{vector.dtype} of shape {vector.shape}")
        except (OSError, KeyError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path} is no speaker model ({error}); enrol again") from None
        if header.get("made_by") != _identity(about):
            raise InputError(f"{path} was made by another network or other weights; enrol again")
        return vector

    def forget(self, name: str) -> Path:
        """Remove a model."""
        path = self._path(name)
        if not path.is_file():
            known = meant(name, self.names())
            raise InputError(f"nobody is enrolled as {name!r} in {self.folder}{known}")
        path.unlink()
        return path

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise InputError(
                f"{name[:100]!r} is no name of a speaker: letters, digits and . @ + - _ make one"
            )
        return self.folder / f"{name}{SUFFIX}"


def _identity(about: Mapping[str, Any]) -> dict[str, Any]:
    """What determines the embeddings of a front end, however it is run."""
    return {name: about.get(name) for name in ("class_path", "weights_sha256", "samples")}
