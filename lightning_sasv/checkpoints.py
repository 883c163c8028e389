"""Checkpoints that appear whole or not at all, and run nothing when they are read."""

from __future__ import annotations

import io
import pickle
import re
from pathlib import Path
from typing import Any

import torch
from lightning_fabric.plugins import TorchCheckpointIO

from lightning_sasv.errors import InputError
from lightning_sasv.files import atomic_path


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint beside its place and renames it; a killed process leaves the old one."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None
    ) -> None:
        """Save ``checkpoint`` to ``path``.

        It is put together in memory: on a full disk PyTorch's own writer fails with an error that
        says nothing of the disk.
        """
        content = io.BytesIO()
        torch.save(checkpoint, content)
        with atomic_path(path) as temporary:
            temporary.write_bytes(content.getbuffer())

    def load_checkpoint(
        self, path: str | Path, map_location: Any = "cpu", weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Read a checkpoint, of weights and plain values alone; see :func:`read_checkpoint`."""
        if Path(path).is_file():
            return read_checkpoint(path, map_location)
        return super().load_checkpoint(path, map_location, weights_only=True)


def read_checkpoint(path: str | Path, map_location: Any = "cpu") -> dict[str, Any]:
    """Content of a checkpoint.

    Raises:
        InputError: The file is damaged, no checkpoint, or asks for anything but tensors and plain
            values; nothing of it is executed in that case.
    """
    try:
        content = torch.load(path, map_location=map_location, weights_only=True)
    except pickle.UnpicklingError as error:
        asked = re.search(r"GLOBAL (\S+)", str(error))
        if asked is None:
            raise _damaged(path) from None
        raise InputError(
            f"{path} is refused: it asks for {asked[1]}; a checkpoint holds tensors and plain "
            "values, nothing of the file was run"
        ) from None
    except Exception:  # a damaged file can raise nearly anything
        raise _damaged(path) from None
    if not isinstance(content, dict) or not isinstance(content.get("state_dict"), dict):
        raise InputError(f"{path} is no checkpoint of a training; give one that `fit` wrote")
    return content


def _damaged(path: str | Path) -> InputError:
    return InputError(f"{path} is damaged or not a checkpoint; give one that `fit` wrote")
