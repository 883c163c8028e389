"""What jsonargparse and OmegaConf read and import: within our limits, and listed names alone.

Both have readers of their own, which take whatever they are given. Importing a module runs it, so
that the list of names holds while a configuration is still being parsed.
"""

from __future__ import annotations

import inspect
import json
import os
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from jsonargparse import Path as GivenPath  # type: ignore[attr-defined]
from jsonargparse import get_loader, set_loader, set_parsing_settings
from jsonargparse._loaders_dumpers import set_omegaconf_loader

from lightning_sasv import gate
from lightning_sasv.errors import InputError
from lightning_sasv.files import read_text
from lightning_sasv.limits import INTERPOLATED, MISTAKES, YAML_VALUES, check_yaml, mistake
from lightning_sasv.terminal import fail

if TYPE_CHECKING:
    from omegaconf import Node

_VALUE = "a configuration or the value of an option"
Loader = Callable[[str], Any]


def _bounded(load: Loader) -> Callable[..., Any]:
    """A loader of jsonargparse's behind the check of what it is given.

    A text beyond the limits ends the command: jsonargparse would take the error for one of type,
    and try what else the value could be.
    """

    def bounded(text: str, path: str = "") -> Any:
        if text.startswith('["'):  # a list of words: JSON knows every character, YAML does not
            with suppress(ValueError, RecursionError):
                return json.loads(text)
        try:
            check_yaml(text, path or _VALUE)
        except InputError as error:
            fail(str(error))
        try:
            return load(text)
        except MISTAKES as error:
            raise yaml.YAMLError(mistake(error)) from None

    return bounded


_read_any = GivenPath.read_text


def _read_text(path: GivenPath) -> str:
    """``Path.read_text`` of a file that may be without end, no text, or without any setting."""
    if not Path(path.absolute).exists():  # standard input, or an address
        return _read_any(path)
    try:
        text = read_text(path.absolute)
    except InputError as error:
        fail(str(error))
    if all(line.strip()[:1] in ("", "#") for line in text.splitlines()):
        fail(f"{path.relative} holds no settings; write some into it, or leave it out")
    return text


_spent = [0]
"""What was put in place of interpolations in this command."""


def _spend(size: int) -> None:
    _spent[0] += size
    try:
        INTERPOLATED.check("the configuration", _spent[0])
    except InputError as error:
        fail(str(error))


def _counting_texts(resolve: Callable[..., Node]) -> Callable[..., Node]:
    """Counts the texts put in place of ``${…}``: a few of them can double one many times."""

    def counted(*args: Any, **kwargs: Any) -> Node:
        node = resolve(*args, **kwargs)
        content = node._value()
        _spend(1 + len(content) if isinstance(content, str) else 1)
        return node

    return counted


def _counting_values(convert: Callable[..., Any]) -> Callable[..., Any]:
    """Counts the values of each container, as often as it stands in the configuration."""

    def counted(container: Node, *args: Any, **kwargs: Any) -> Any:
        content = container._value()
        _spend(1 + len(content) if isinstance(content, (dict, list)) else 1)
        return convert(container, *args, **kwargs)

    return counted


def check_words(words: Sequence[str]) -> None:
    """Refuse words that are no text: a configuration, which is written, cannot hold them.

    Raises:
        InputError: A word has bytes that are not UTF-8, as a name of a file may have.
    """
    for word in words:
        if word.encode("utf-8", "ignore").decode() != word:
            raise InputError(f"{word} is not UTF-8 text; rename the file, or give a link to it")


def _written(dumper: yaml.SafeDumper, value: Enum) -> yaml.Node:
    """One of several words, as Lightning has them for defaults, is written as that word."""
    return dumper.represent_data(value.value)


@cache
def _bound_options() -> None:
    yaml.SafeDumper.add_multi_representer(Enum, _written)
    set_loader("yaml", _bounded(get_loader("yaml")), (yaml.YAMLError,))
    setattr(GivenPath, "read_text", _read_text)  # noqa: B010


@cache
def _bound_interpolations() -> None:
    from omegaconf import Container
    from omegaconf.basecontainer import BaseContainer

    set_omegaconf_loader("omegaconf+")  # type: ignore[no-untyped-call]
    set_loader("omegaconf+", _bounded(get_loader("omegaconf+")), (yaml.YAMLError,))
    texts = _counting_texts(Container._resolve_node_interpolation)
    values = _counting_values(BaseContainer._to_content)
    setattr(Container, "_resolve_node_interpolation", texts)  # noqa: B010
    setattr(BaseContainer, "_to_content", staticmethod(values))  # noqa: B010


def read_within_limits(interpolations: bool = False) -> None:
    """Have jsonargparse, and OmegaConf where it is used, read within our limits.

    Called when a command begins.
    """
    _bound_options()
    if interpolations:
        _bound_interpolations()
        os.environ["OMEGACONF_MAX_YAML_EXPANDED_NODES"] = str(2 * YAML_VALUES.now)  # ours holds
        _guard_resolvers()
    _spent[0] = 0


def below(error: BaseException | None) -> InputError | None:
    """Our own message inside the errors that others made of it, and what OmegaConf says."""
    from omegaconf.errors import OmegaConfBaseException

    inner = error
    while inner is not None and not isinstance(inner, InputError):
        inner = inner.__cause__ or inner.__context__
    if inner is None and isinstance(error, OmegaConfBaseException):
        said, key = str(error).partition("\n")[0], str(error.full_key or "").partition(".")[2]
        if nowhere := re.match(r"Interpolation key '\.*([^']+)' not found", said):
            said = f"${{{nowhere[1]}}} not found in the configuration"
        return InputError(f"configuration: {key}: {said}" if key else f"configuration: {said}")
    return inner


@contextmanager
def resolving() -> Iterator[None]:
    """Tell in a line what is wrong with ``${…}`` in the configuration of a command."""
    from omegaconf.errors import OmegaConfBaseException

    try:
        yield
    except OmegaConfBaseException as error:
        raise below(error) or error from None


Factory = Callable[..., Any]

_OWN = (
    ("models", ("SASVModule",)),
    ("data.datamodule", ("SASVDataModule",)),
    ("callbacks", ("FitFusion", "KeepBest", "LogFigures", "SaveLast", "StopEarly", "WriteResults")),
    ("checkpoints", ("AtomicCheckpointIO",)),
    ("loggers", ("wandb_logger",)),
)
"""Ours, by exact name: of nothing else in this package an object can be made from a file."""

KINDS = (
    ("pytorch_lightning.callbacks", "Callback"),
    ("pytorch_lightning.loggers", "Logger"),
    ("pytorch_lightning.strategies", "Strategy"),
    ("pytorch_lightning.profilers", "Profiler"),
    ("pytorch_lightning.plugins", "Precision"),
    ("torch.optim", "Optimizer"),
    ("torch.optim.lr_scheduler", "LRScheduler"),
    ("pytorch_lightning.cli", "ReduceLROnPlateau"),
)
"""Modules of others, and of which class they give subclasses."""


@cache
def library() -> dict[str, Factory]:
    """Every class and function that a file may name, under each name that it may use."""
    found = {
        f"lightning_sasv.{module}.{name}": getattr(import_module(f"lightning_sasv.{module}"), name)
        for module, names in _OWN
        for name in names
    }
    for module, base in KINDS:
        kind = getattr(import_module(module), base)
        for value in vars(import_module(module)).values():
            if inspect.isclass(value) and issubclass(value, kind):
                found |= dict.fromkeys(_names(value, module.partition(".")[0]), value)
    return found | {name: value for value in [*found.values()] for name in _names(value)}


def _names(value: Factory, package: str = "lightning_sasv") -> Iterator[str]:
    """Names of a class in the module where it is defined and in the packages around that."""
    parts = value.__module__.split(".")
    for end in range(1, len(parts) + 1):
        module = sys.modules[".".join(parts[:end])]
        if parts[0] == package and vars(module).get(value.__qualname__) is value:
            yield f"{module.__name__}.{value.__qualname__}"


_known: set[str] = set()
"""Names that jsonargparse was told of by earlier commands of this process."""


def open_imports(names: Iterable[str] = ()) -> None:
    """Let jsonargparse import what is named here, what the user typed, and nothing else."""
    wanted = {*names, *typed()} if not gate.is_open() else {*_top_level(), *_known}
    wanted = {name for name in wanted if all(part.isidentifier() for part in name.split("."))}
    wanted = {name for name in wanted if name.partition(".")[0] != "jsonargparse"}
    _known.update(wanted)
    set_parsing_settings(
        import_path_denylist=["*", *(_known - wanted)],
        import_path_allowlist=sorted(wanted),
        instantiate_subclass_spec_in_any=gate.is_open(),
    )


def typed() -> dict[str, Factory]:
    """What the user named on the command line, also under the name where it is defined."""
    found: dict[str, Factory] = {}
    for name in gate.typed_names():
        try:
            found[name] = value = pkgutil.resolve_name(name)
        except (ImportError, AttributeError, ValueError):  # no class: the value of an option
            continue
        if inspect.isclass(value) or inspect.isroutine(value):
            found[f"{value.__module__}.{value.__qualname__}"] = value
    return found


def _top_level() -> Iterator[str]:
    """Every module that could be imported, packages without ``__init__`` included."""
    yield from (*sys.builtin_module_names, *sys.stdlib_module_names)
    yield from (module.name for module in pkgutil.iter_modules() if module.name.isidentifier())
    yield from {name.partition(".")[0] for name in sys.modules if name.isidentifier()}
    for folder in map(Path, sys.path):
        if folder.is_dir():
            yield from (path.name for path in folder.iterdir() if path.name.isidentifier())


def _guard_resolvers() -> None:
    """Have ``${oc.env:…}`` read, and ``${oc.coerce:…}`` import, what the gate admits."""
    from omegaconf import OmegaConf  # of the training commands alone
    from omegaconf.resolvers import oc

    register = getattr(OmegaConf, "register_resolver", OmegaConf.register_new_resolver)
    for name, admit in (("env", gate.admit_variable), ("coerce", _admit_type)):
        own = getattr(oc, name, None)
        if own is not None:  # older versions lack some
            register(f"oc.{name}", _guarded(own, admit), replace=True)


def _guarded(resolver: Factory, admit: Callable[[str], None]) -> Factory:
    def guarded(name: str, *others: Any) -> Any:
        admit(str(name))
        return resolver(name, *others)

    return guarded


def _admit_type(name: str) -> None:
    gate.admit(name, ("bool", "bytes", "float", "int", "str", "pathlib.Path"))
