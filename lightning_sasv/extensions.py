"""Classes of other packages that a checkpoint was made with: a name and plain settings.

A name in a file runs nothing. The class is imported where an installed package registers it, as an
entry point of :data:`GROUP`, or where the user trusts the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

from lightning_sasv.checkpoints import check_settings, check_words
from lightning_sasv.errors import InputError
from lightning_sasv.plain import is_plain, settings_of
from lightning_sasv.program import program

T = TypeVar("T")

GROUP = "lightning_sasv.extensions"
KEY = "extensions"
_KNOWN = ("lightning_sasv", "pytorch_lightning", "lightning_fabric", "torch")


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
