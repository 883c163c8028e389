"""jsonargparse and OmegaConf read within our limits: files, values of options, interpolations.

Both have readers of their own, which take whatever they are given.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from jsonargparse import Path as GivenPath  # type: ignore[attr-defined]
from jsonargparse import get_loader, set_loader
from jsonargparse._loaders_dumpers import set_omegaconf_loader

from lightning_sasv.errors import InputError
from lightning_sasv.files import read_text
from lightning_sasv.limits import INTERPOLATED, check_yaml
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
        return load(text)

    return bounded


_read_any = GivenPath.read_text


def _read_text(path: GivenPath) -> str:
    """``Path.read_text`` of a file that may be without end, or no text."""
    if not Path(path.absolute).exists():  # standard input, or an address
        return _read_any(path)
    try:
        return read_text(path.absolute)
    except InputError as error:
        fail(str(error))


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
    _spent[0] = 0
