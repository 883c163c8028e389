"""What other packages add to ours: registered as entry points, or named by a file that is trusted.

A :class:`Registry` knows our own entries. A name that it lacks is looked for among the entry points
of its group, ``lightning_sasv.densities`` for one, and nothing is imported before that. A dotted
name of a class is imported where a package registers that class, or with ``--trust-config``.
"""

from __future__ import annotations

import pkgutil
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from lightning_sasv.errors import InputError, meant
from lightning_sasv.program import program

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

PREFIX = "lightning_sasv."
"""Beginning of the names of our groups of entry points."""

Simple = str | int | float | bool | None

Other = TypedDict("Other", {"class": str, "settings": dict[str, Simple]})
"""A thing of another package as files keep it: its name, and the plain settings it is made with."""


class UntrustedError(InputError):
    """A file names a class of another package, and nobody said that it may."""


@lru_cache(1)
def _entries(path: tuple[str, ...]) -> dict[str, dict[str, EntryPoint]]:
    """Entry points for us by group and name, of the packages that are installed on a path."""
    from importlib.metadata import distributions  # a tenth of the time to a first score

    found: dict[str, dict[str, EntryPoint]] = {}
    for package in distributions(path=list(path)):
        if f"[{PREFIX}" in (package.read_text("entry_points.txt") or ""):  # few have any
            for entry in package.entry_points:
                found.setdefault(entry.group, {}).setdefault(entry.name, entry)
    return found


def as_other(given: Any) -> str | Other | None:
    """A name, or a name with settings, in any way in which a file may write it.

    Raises:
        InputError: It is written otherwise.

    Example:
        >>> as_other({"class_path": "my.Laplace", "init_args": {"width": 2}})
        {'class': 'my.Laplace', 'settings': {'width': 2}}
    """
    if given is None or isinstance(given, str):
        return given
    keys = ("class", "settings") if isinstance(given, dict) and "class" in given else _KEYS
    if not isinstance(given, dict) or not {keys[0]} <= given.keys() <= {*keys}:
        raise InputError("expected a name, or class_path and init_args")
    name, settings = given[keys[0]], given.get(keys[1])
    settings = {} if settings is None else settings
    plain = isinstance(settings, dict) and all(
        isinstance(key, str) and isinstance(value, Simple) for key, value in settings.items()
    )
    if not isinstance(name, str) or not plain:
        raise InputError("expected class_path: a name, and init_args: plain values by name")
    return {"class": name, "settings": settings}


_KEYS = ("class_path", "init_args")


def name_of(given: Any) -> Any:
    """The name of what :func:`as_other` gave; anything else as it is.

    Example:
        >>> name_of({"class": "my.Laplace", "settings": {}}), name_of("gaussian")
        ('my.Laplace', 'gaussian')
    """
    return given["class"] if isinstance(given, dict) and "class" in given else given


def _named(thing: Any, name: str) -> Any:
    """A thing that knows its own name has the one that it is registered under."""
    knows = is_dataclass(thing) and not isinstance(thing, type) and hasattr(thing, "name")
    return replace(thing, name=name) if knows else thing


def said_of(error: BaseException) -> str:
    """What an error of others says, in a line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


class Registry(dict[str, T]):
    """Our own entries by name, and those of installed packages where they are asked for.

    Args:
        own: Our own.
        group: Group of entry points, without the prefix.
        kind: What one of them is called.
        made: Makes an entry of what a package gives, and of settings; an ``InputError`` where it
            is none of this kind.
        also: Names for which there is no entry, for messages.

    Example:
        >>> known = Registry({"sum": lambda a, c: a + c}, "rules", "rule", lambda thing: thing)
        >>> known.find("sum")(1, 2), "mean" in known, list(known.all())
        (3, False, ['sum'])
    """

    def __init__(
        self,
        own: Mapping[str, T],
        group: str,
        kind: str,
        made: Callable[..., T],
        also: tuple[str, ...] = (),
    ) -> None:
        super().__init__(own)
        self.group, self.kind, self._made, self._also = PREFIX + group, kind, made, also
        self._found: dict[str, T | None] = {}
        self._path: tuple[str, ...] = ()

    def _registered(self) -> dict[str, EntryPoint]:
        if self._path != (path := tuple(sys.path)):  # what is installed may be another thing now
            self._path, self._found = path, {}
        return _entries(path).get(self.group, {})

    def _load(self, name: str) -> T | None:
        """An entry of another package; nothing, and a warning, where it cannot be used."""
        entry = self._registered()[name]
        if name not in self._found:
            try:
                self._found[name] = _named(self._made(entry.load()), name)
            except (Exception, SystemExit) as error:
                text = f"{self._failure(entry, error)}; it is left out"
                warnings.warn(text, stacklevel=2)
                self._found[name] = None
        return self._found[name]

    def _failure(self, entry: EntryPoint, error: BaseException) -> str:
        package = entry.dist.name if entry.dist else entry.value
        what = f"the package {package} registers the {self.kind} {entry.name!r}"
        return f"{what}, which fails ({said_of(error)})"

    def __missing__(self, name: str) -> T:
        found = self._load(name) if name in self._registered() else None
        if found is None:
            raise KeyError(name)
        return found

    def __contains__(self, name: object) -> bool:
        if super().__contains__(name):
            return True
        return isinstance(name, str) and name in self._registered() and self._load(name) is not None

    def all(self) -> dict[str, T]:
        """Our own, then those of installed packages."""
        more = {name: self._load(name) for name in self._registered() if not dict.get(self, name)}
        return {**self, **{name: one for name, one in more.items() if one is not None}}

    def find(self, given: str | Other) -> T:
        """An entry by its name, or made of a class by its dotted name, or with settings.

        Raises:
            InputError: There is none such, it is none of this kind, or no file may name it.
        """
        other: Other = {"class": given, "settings": {}} if isinstance(given, str) else given
        name, settings = other["class"], other["settings"]
        if not settings and name in self:
            return self[name]
        key = f"{name} {sorted(settings.items())!r} {program().trust_config}"
        self._registered()
        found = self._found.get(key) or self._new(name, settings)
        self._found[key] = found
        return found

    def _new(self, name: str, settings: Mapping[str, Simple]) -> T:
        thing = self._thing(name)
        try:
            return self._made(thing, **settings)
        except InputError as error:
            raise InputError(f"{name[:200]} is no {self.kind}: {error}") from None
        except Exception as error:
            raise InputError(f"the {self.kind} {name[:200]} fails ({said_of(error)})") from None

    def _thing(self, name: str) -> Any:
        """What another package gives under a name of its own, or under that of its class."""
        for entry in self._registered().values():
            if name in (entry.name, entry.value.replace(":", ".")):
                try:
                    return entry.load()
                except (Exception, SystemExit) as error:
                    raise InputError(self._failure(entry, error)) from None
        if dict.__contains__(self, name):
            raise InputError(f"the {self.kind} {name} is one of ours and takes no init_args")
        if "." not in name:
            known = [*self.all(), *self._also]
            listed = f"expected one of {', '.join(known)}{meant(name, known)}"
            raise InputError(f"unknown {self.kind} {name[:200]!r}; {listed}")
        if not program().trust_config:
            raise UntrustedError(
                f"the {self.kind} {name[:200]} is a class of another package, which no file may "
                "name by itself; if you trust the file, add --trust-config, or install a package "
                f"that registers it as an entry point of {self.group}"
            )
        try:
            return pkgutil.resolve_name(name)
        except Exception as error:
            raise InputError(f"no {self.kind} {name[:200]} ({said_of(error)})") from None
