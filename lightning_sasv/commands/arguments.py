"""Words of the command line, brought into the form that jsonargparse's ``auto_cli`` takes.

A command is a function, its parameters are its options. Three things that people type are foreign
to ``auto_cli`` and are translated here:

- ``--allow-missing`` is ``--allow_missing true``: dashes inside names, and a bare name for yes;
- several words for a first parameter of type ``list[str]`` (``lightning evaluate A B C``);
- functions of keyword-only parameters (``lightning fuse --dev FILE --eval FILE``) have none by
  position.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from typing import Any, get_type_hints

from lightning_sasv.commands.parser import OneLineParser


class CommandParser(OneLineParser):
    """Parser whose help calls a list of files by its name."""

    def format_help(self, *args: Any, **kwargs: Any) -> str:
        """The help text."""
        for action in self._actions:
            if not action.option_strings and "ITEM" in str(action.metavar):
                action.metavar = f"{action.dest.upper().removesuffix('S')} [...]"
        return super().format_help(*args, **kwargs)


def by_position(function: Callable[..., Any]) -> bool:
    """Whether required parameters of a command are given by position."""
    parameters = inspect.signature(function).parameters.values()
    return any(p.kind is not inspect.Parameter.KEYWORD_ONLY for p in parameters)


def translate(function: Callable[..., Any], words: Sequence[str]) -> list[str]:
    """The words for ``auto_cli``.

    Args:
        function: The command.
        words: What stands after the command's name.
    """
    hints = get_type_hints(function)
    first = next(iter(inspect.signature(function).parameters), "")
    options: list[str] = []
    places: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            (options if word == "-h" else places).append(word)
            continue
        name, sign, value = word.partition("=")
        name = "--" + name[2:].replace("-", "_")
        if sign:
            options.append(f"{name}={value}")
        elif hints.get(name[2:]) is bool and (not rest or rest[0] not in ("true", "false")):
            options.append(f"{name}=true")
        elif rest and name not in ("--help", "--print_config"):
            options += [name, rest.pop(0)]
        else:
            options.append(name)
    if hints.get(first) == list[str] and places:
        places = [json.dumps(places)]
    return places + options
