"""Spoofing-aware speaker verification on PyTorch Lightning.

Nothing heavy is imported here; import what you need from the subpackages ``metrics``, ``fusion``,
``decisions``, ``data``, ``models``, ``callbacks``, ``scores`` and ``report``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

__version__ = "0.2.0"


def lazy(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package whose names are imported when first asked for (PEP 562).

    Args:
        package: The package, ``__name__``.
        modules: Names of each module; modules relative to the package.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def look_up(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f".{homes[name]}", package), name)

    return look_up
