"""Configuration files are checked before they are used: readable YAML, and classes to trust."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from jsonargparse import set_parsing_settings

from lightning_sasv.errors import InputError
from lightning_sasv.files import read_yaml

TRUSTED = ("lightning_sasv", "pytorch_lightning", "torch", "torchmetrics")
"""Packages whose classes a configuration may name in a ``class_path``."""

TRUST_FLAG = "--trust-config"


_PART_OF_LIGHTNING = "lightning_fabric"
"""Where some classes of ``pytorch_lightning`` are defined."""


def config_files(args: Sequence[str], options: Sequence[str] | None = None) -> list[Path]:
    """Files named by ``--config`` and the like, e.g. ``--model=file.yaml``.

    Args:
        args: Command line.
        options: Options that may name a configuration; by default all.
    """
    pairs = [(option, value) for option, value in pairwise(args) if option.startswith("-")]
    pairs += [(arg.partition("=")[0], arg.partition("=")[2]) for arg in args if arg[:2] == "--"]
    values = [value for option, value in pairs if options is None or option in options]
    return [Path(value) for value in values if value and _is_file(Path(value))]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # no name of a file at all
        return False


def _texts(content: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Every text in a configuration, at any depth, with the key it stands under."""
    if isinstance(content, dict):
        for name, value in content.items():
            yield from _texts(value, str(name))
    elif isinstance(content, (list, tuple, set)):
        for value in content:
            yield from _texts(value, key)
    elif isinstance(content, str):
        yield key, content


def class_paths(content: Any) -> Iterator[str]:
    """Every class or function that a configuration asks for, at any depth.

    That is each ``class_path``, and each text that could be taken for one, as in
    ``logger: package.Class``: the name of something inside a package that is installed.
    """
    for key, text in _texts(content):
        if "." not in text:
            continue
        if key.rpartition(".")[2].rstrip("+") == "class_path" or _is_importable(text):
            yield text


def _is_importable(text: str) -> bool:
    if not all(part.isidentifier() for part in text.split(".")):
        return False
    try:
        return find_spec(text.split(".")[0]) is not None
    except ValueError:  # a module without a specification, e.g. __main__
        return True


def included_files(content: Any, folder: Path) -> Iterator[Path]:
    """Files that a configuration names, which could stand in place of a section."""
    for _, text in _texts(content):
        yield from (path for path in (folder / text, Path(text)) if text and _is_file(path))


def check_configs(args: Sequence[str], options: Sequence[str] | None = None) -> list[str]:
    """Check every configuration file of a command line.

    A class outside of ``TRUSTED`` would run code that the file's author chose, so that it has to
    be allowed by ``--trust-config``. Classes that the command line itself names are the user's own
    choice.

    Args:
        args: Command line.
        options: Options that may name a configuration; by default all.

    Returns:
        The command line without ``--trust-config``.
    """
    trusted = TRUST_FLAG in args
    allowed = {name.split(".")[0] for arg in args for name in class_paths(arg.split("=")[-1])}
    waiting, seen = config_files(args, options), set()
    while waiting:
        path = waiting.pop()
        if path.resolve() in seen:
            continue
        seen.add(path.resolve())
        content = _content(path, str(path) in _given(args))
        waiting += included_files(content, path.parent)
        for name in class_paths(content):
            package = name.split(".")[0]
            if not trusted and package not in TRUSTED:
                raise InputError(
                    f"{path} asks for the class {name}, which is not of {', '.join(TRUSTED)}; if "
                    f"you trust the file, add {TRUST_FLAG}"
                )
            allowed.add(package)
    _admit({*TRUSTED, _PART_OF_LIGHTNING, *allowed})
    return [arg for arg in args if arg != TRUST_FLAG]


def _given(args: Sequence[str]) -> set[str]:
    """What ``--config`` names."""
    given = {value for option, value in pairwise(args) if option in ("--config", "-c")}
    given |= {arg.partition("=")[2] for arg in args if arg.startswith(("--config=", "-c="))}
    return {str(Path(value)) for value in given}


def _content(path: Path, given: bool) -> Any:
    """Content of a file; one that is no configuration, e.g. a checkpoint, has none."""
    try:
        return read_yaml(path)
    except InputError:
        if given or path.suffix in (".yaml", ".yml"):
            raise
        return None


def _admit(packages: set[str]) -> None:
    """Let jsonargparse import from these packages alone, whatever a name was put together from."""
    known = sorted(name for name in packages if name.isidentifier() and name != "jsonargparse")
    set_parsing_settings(import_path_denylist=["*"], import_path_allowlist=known)
