"""Checkpoints that appear whole or not at all, and are data when they are read.

A class of another package that one was made with is a name and plain settings in it. It is imported
where an installed package registers it, as an entry point of :data:`GROUP`, or where the user
trusts the file.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from inspect import Parameter
from pathlib import Path
from typing import Any, TypeVar

import torch
from lightning_fabric.plugins import TorchCheckpointIO

from lightning_sasv.errors import InputError
from lightning_sasv.files import atomic_path, is_address, sha256
from lightning_sasv.gate import CLASS_KEYS, fits, is_plain, settings_of, texts
from lightning_sasv.program import program
from lightning_sasv.tensor_files import read_tensor_file

T = TypeVar("T")

GROUP = "lightning_sasv.extensions"
"""Entry points by which an installed package registers classes that checkpoints may name."""

KEY = "extensions"
"""Where a checkpoint names the classes of other packages that it was made with."""

_KNOWN = ("lightning_sasv", "pytorch_lightning", "lightning_fabric", "torch")
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


@dataclass(frozen=True)
class Extension:
    """A class that is not ours.

    Attributes:
        name: Its dotted name.
        settings: Arguments to make one with, plain values.
    """

    name: str
    settings: dict[str, Any]

    def load(self, base: type[T], path: str | Path) -> type[T]:
        """The class, if it may be imported; the settings are then known to be its own.

        Args:
            base: What it must be a subclass of.
            path: The file that names it, for messages.

        Raises:
            InputError: It is not registered and the file not trusted, or it is none of that kind.
        """
        found = self._registered()
        if found is None:
            found = self._imported(path)
        if not isinstance(found, type) or not issubclass(found, base):
            raise InputError(f"{path} asks for {self.name[:200]}, which is no {base.__name__}")
        check_settings(self.settings, found, path)
        return found

    def _registered(self) -> object:
        for entry in entry_points(group=GROUP):
            if self.name in (entry.name, entry.value.replace(":", ".")):
                loaded: object = entry.load()
                return loaded
        return None

    def _imported(self, path: str | Path) -> object:
        if not program().trust_config:
            raise InputError(
                f"{path} was made with the class {self.name[:200]}, which is not part of "
                "lightning_sasv; if you trust the file, add --trust-config, or install a package "
                f"that registers the class as an entry point of {GROUP}"
            )
        module, _, name = self.name.rpartition(".")
        try:
            return getattr(import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise InputError(f"{path} asks for {self.name[:200]}: {error}") from None


def describe(thing: object, settings: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
    """What a checkpoint says of an object whose class is not ours; nothing of one that is.

    Args:
        thing: The object.
        settings: What it was made with; by default its attributes of the names of its arguments.
    """
    kind = type(thing)
    if kind.__module__.partition(".")[0] in _KNOWN:
        return None
    if settings is None:
        names = [name for name in settings_of(kind) if hasattr(thing, name)]
        settings = {name: getattr(thing, name) for name in names}
    plain = {name: value for name, value in settings.items() if is_plain(value)}
    return {"class": f"{kind.__module__}.{kind.__qualname__}", "settings": plain}


def extensions_in(checkpoint: Mapping[str, Any], path: str | Path) -> dict[str, Extension]:
    """The classes of others that a checkpoint names, by their places; nothing is imported.

    Args:
        checkpoint: What was read.
        path: Where it lies, for messages.

    Raises:
        InputError: They are not named in the way that :func:`describe` names them.
    """
    found = checkpoint.get(KEY, {})
    if not isinstance(found, dict) or not all(_is_description(one) for one in found.values()):
        raise InputError(f"{path} is damaged: its {KEY} are none")
    check_words(found, path)
    return {str(place): Extension(one["class"], one["settings"]) for place, one in found.items()}


def _is_description(found: object) -> bool:
    if not isinstance(found, dict) or found.keys() != {"class", "settings"}:
        return False
    settings = found["settings"]
    return isinstance(found["class"], str) and isinstance(settings, dict) and is_plain(settings)
