"""What a configuration may name: exact names, and the only ones that jsonargparse imports.

Importing a module runs it, so that the list holds while a configuration is still being parsed.
"""

from __future__ import annotations

import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from jsonargparse import set_parsing_settings

from lightning_sasv import gate

Factory = Callable[..., Any]

_OWN = (
    ("models", ("SASVModule",)),
    ("data.datamodule", ("SASVDataModule",)),
    ("callbacks", ("FitFusion", "KeepBest", "LogFigures", "SaveLast", "WriteResults")),
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


def guard_resolvers() -> None:
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
