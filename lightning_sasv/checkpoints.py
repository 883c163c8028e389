"""Checkpoints that appear whole or not at all, and are data when they are read."""

from __future__ import annotations

import io
from inspect import Parameter
from pathlib import Path
from typing import Any

import torch
from lightning_fabric.plugins import TorchCheckpointIO

from lightning_sasv.errors import InputError
from lightning_sasv.files import atomic_path, sha256
from lightning_sasv.plain import CLASS_KEYS, fits, is_address, is_plain, settings_of, texts
from lightning_sasv.program import program
from lightning_sasv.tensor_files import read_tensor_file

_LIGHTNINGS_OWN = ("_instantiator", "pytorch_lightning.cli.instantiate_module")
"""What Lightning's command line adds to the settings that it saves; it is never followed."""


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
        """Read a checkpoint as data, whatever ``weights_only`` says; see :func:`read_checkpoint`.

        Only one that lies elsewhere, which needs trust, is read by Lightning.
        """
        if is_remote(path):
            need_trust(f"the checkpoint {path} is not a file of this machine")
            return super().load_checkpoint(path, map_location, weights_only=True)
        return read_checkpoint(path)

    def remove_checkpoint(self, path: str | Path) -> None:
        """Remove a file of this machine; a checkpoint can name any other place as its own."""
        if is_remote(path):
            need_trust(f"the checkpoint {path}, which is to be removed, is no file of this machine")
        super().remove_checkpoint(path)


def is_remote(path: str | Path) -> bool:
    """Whether a path is an address that Lightning would hand to another file system.

    Example:
        >>> [is_remote(p) for p in ("x.ckpt", "file:///x.ckpt", "filecache::x", "registry:x")]
        [False, True, True, True]
    """
    text = str(path).lower()
    return is_address(text) or text == "registry" or text.startswith("registry:")


def need_trust(what: str) -> None:
    """Refuse ``what`` unless configurations are trusted.

    Raises:
        InputError: They are not.
    """
    if not program().trust_config:
        raise InputError(f"{what}; if you trust it, add --trust-config")


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Content of a checkpoint: tensors, numbers, texts, and containers of them.

    Raises:
        InputError: The file is damaged, no checkpoint, or asks for anything but tensors and plain
            values; nothing of it is executed in that case.
    """
    content = read_tensor_file(path)
    state = content.get("state_dict") if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(state, dict):
        raise InputError(f"{path} is no checkpoint of a training; give one that `fit` wrote")
    for name, value in state.items():
        if not isinstance(name, str) or not isinstance(value, torch.Tensor):
            raise InputError(f"{path} is damaged: state_dict[{name!r}] is no tensor")
    return content


def identity(path: str | Path) -> dict[str, Any]:
    """Which checkpoint this is: name of the file, epoch, optimiser steps, SHA-256."""
    content = read_checkpoint(path)
    epoch, step = (content.get(name) for name in ("epoch", "global_step"))
    numbers = {"epoch": epoch, "step": step} if fits([epoch, step], list[int]) else {}
    return {"file": Path(path).name, "epoch": None, "step": None, **numbers, "sha256": sha256(path)}


def settings(
    checkpoint: dict[str, Any], owner: type, path: str | Path, key: str = "hyper_parameters"
) -> dict[str, Any]:
    """The settings in a checkpoint, each of the type that the class says; nothing is made of them.

    Args:
        checkpoint: What was read.
        owner: Class whose settings they are.
        path: Where the checkpoint lies, for messages.
        key: Where in the checkpoint they are.

    Raises:
        InputError: A setting that the class does not have, of another type, or that names a class
            or a variable.
    """
    found = checkpoint.get(key, {})
    if not isinstance(found, dict):
        raise InputError(f"{path} is damaged: {key} are no settings")
    own = {name: value for name, value in found.items() if (name, value) != _LIGHTNINGS_OWN}
    check_settings(own, owner, path)
    return own


def check_settings(found: dict[str, Any], owner: type, path: str | Path) -> None:
    """Refuse settings that are not those of a class; see :func:`settings`."""
    check_words(found, path)
    known = settings_of(owner)
    for name, value in found.items():
        if name not in known:
            raise InputError(f"{path}: {owner.__name__} has no setting {str(name)[:100]!r}")
        kind = known[name].annotation
        if not (is_plain(value) if kind is Parameter.empty else fits(value, kind)):
            raise InputError(f"{path}: the setting {name} must be {kind}, got {repr(value)[:100]}")


def check_words(found: object, path: str | Path) -> None:
    """Refuse settings that name a class or a variable."""
    for text in texts(found):
        if text in CLASS_KEYS or "${" in text:
            raise InputError(
                f"{path} is refused: its settings hold {text[:100]!r}; those of a checkpoint are "
                "plain values and name neither classes nor variables"
            )
