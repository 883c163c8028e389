"""Models of enrolled speakers, one file each; they are personal data and nobody else's to read."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from lightning_sasv.deploy.before_fusion import identity
from lightning_sasv.errors import InputError, meant
from lightning_sasv.files import inside, read_arrays, write_arrays
from lightning_sasv.places import refuse

SUFFIX = ".safetensors"
_HEADER = "lightning_sasv"
_NAME, _MOST_BYTES = re.compile(r"[^\W_][\w.@+-]*"), 200
"""Names of speakers, which are names of files too."""


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

    def __contains__(self, name: str) -> bool:
        """Whether somebody is enrolled under a name."""
        with suppress(InputError):
            return self._path(name).is_file()
        return False

    def keep(
        self, name: str, vector: np.ndarray, about: Mapping[str, Any], overwrite: bool = True
    ) -> Path:
        """Keep a model, readable by its owner alone.

        Args:
            name: Whose it is.
            vector: Mean embedding of the enrolment recordings.
            about: The front end that made it, as a bundle records it.
            overwrite: Replace an older one of this name.

        Raises:
            InputError: There is one that is not to be replaced, or it cannot be written.
        """
        path = self._path(name)
        day = datetime.now(UTC).date().isoformat()
        made_by = {key: about.get(key) for key in ("class_path", "weights_sha256", "samples")}
        header = json.dumps({"made_by": made_by, "enrolled": day}, sort_keys=True)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with TemporaryDirectory(prefix=".", dir=self.folder) as place:
                arrays = {"model": np.float32(vector)}
                made = write_arrays(Path(place) / path.name, arrays, {_HEADER: header}, mode=0o600)
                if overwrite:
                    return made.replace(path)
                try:
                    path.hardlink_to(made)  # of two who do this at a time one succeeds
                except OSError:
                    self.check(name)
                    return made.replace(path)
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror or error}") from None
        return path

    def check(self, name: str, overwrite: bool = False) -> None:
        """Refuse what is no name, and one that somebody has whose model is not to be replaced."""
        if self._path(name).exists() and not overwrite:
            refuse(self.folder, f"a model of {name} already", "another --name")

    def read(self, name: str, about: Mapping[str, Any]) -> np.ndarray:
        """A model that the same front end has made.

        Raises:
            InputError: There is none of this name, it is damaged, or of another front end.
        """
        path = self._there(name)
        try:
            header, arrays = read_arrays(inside(self.folder, path), _HEADER)
            vector: np.ndarray = arrays["model"]
            if vector.ndim != 1 or vector.dtype.kind != "f" or not np.isfinite(vector).all():
                raise ValueError(f"{vector.dtype} of shape {vector.shape}")
        except (OSError, KeyError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path} is no speaker model ({error}); enrol again") from None
        made_by = header.get("made_by")
        if not isinstance(made_by, dict) or identity(made_by) != identity(about):
            raise InputError(f"{path} was made by another network or other weights; enrol again")
        return vector

    def forget(self, name: str) -> Path:
        """Remove a model."""
        path = self._there(name)
        path.unlink()
        return path

    def _there(self, name: str) -> Path:
        path = self._path(name)
        if not path.is_file():
            known = meant(name, self.names())
            raise InputError(f"nobody is enrolled as {name!r} in {self.folder}{known}")
        return path

    def _path(self, name: str) -> Path:
        whole = unicodedata.normalize("NFC", name)  # the same letters make the same file
        letters = "".join(one for one in whole if unicodedata.category(one)[0] != "M")
        if not (letters[:1] == whole[:1] and _NAME.fullmatch(letters)):
            raise InputError(
                f"{name[:100]!r} is no name of a speaker: letters, digits and . @ + - _ make one"
            )
        if len(whole.encode()) > _MOST_BYTES:
            raise InputError(f"the name {name[:40]}… is too long: {_MOST_BYTES} bytes are the most")
        return self.folder / f"{whole}{SUFFIX}"
