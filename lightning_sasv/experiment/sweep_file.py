"""What a W&B sweep file says, and may run: our own program, and nothing else of its author's.

A sweep file may come from anybody. Unless it is trusted its command is
``[${env} NAME=VALUE …] lightning fit|table …``, and what the command names is checked as the
content of a file is, by the process that it starts.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightning_sasv.errors import InputError
from lightning_sasv.files import read_yaml
from lightning_sasv.limits import GRID_POINTS
from lightning_sasv.program import ENVIRONMENT, program
from lightning_sasv.terminal import clean

PROJECT = "lightning_sasv"
PROGRAMS, COMMANDS = ("lightning", "lightning-sasv"), ("fit", "table")
FORM = "[${env} NAME=VALUE ...] lightning fit|table ..."
TO_THE_SWEEP = ("trust-config", "limits")
"""Options by which a file would trust itself; they are given to the sweep, which hands them on."""

_VARIABLE = re.compile(r"\$\{envvar:(\w*)\}")
_OPTION = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
Plain = str | int | float | bool | None


@dataclass(frozen=True)
class Sweep:
    """A W&B sweep file.

    Attributes:
        path: The file.
        content: What it says.
    """

    path: Path
    content: dict[str, Any]

    @property
    def name(self) -> str:
        """Name of the experiment; groups its runs."""
        return self._text("name", self.path.resolve().parent.name)

    @property
    def project(self) -> str:
        """W&B project."""
        return self._text("project", PROJECT)

    def _text(self, key: str, default: str) -> str:
        found = self.content.get(key) or default
        if not isinstance(found, str | int):
            raise InputError(f"{self.path}: {key} must be a text")
        with self._naming():
            check_texts(key, [found])
        return str(found)

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Name the file in a message about it."""
        try:
            yield
        except InputError as error:
            raise InputError(f"{self.path}: {error}") from None

    def points(self) -> list[dict[str, Any]]:
        """Options of each run, for a sweep of method ``grid``; W&B chooses those of others."""
        method = self._text("method", "none")
        if method != "grid":
            raise InputError(
                f"{self.path}: only method: grid runs without a W&B server, got {method!r}; log in "
                "with `wandb login`"
            )
        with self._naming():
            return grid(self.content["parameters"])

    def command(self) -> list[str]:
        """The command, with W&B's macros ``${env}`` and ``${args}``, if it may be run.

        The names of the parameters, which become its options, are checked with it.
        """
        words = self.content.get("command")
        if not isinstance(words, list) or not words:
            raise InputError(f"{self.path}: needs the key 'command', a list of words")
        command = [str(word) for word in words if isinstance(word, str | int | float)]
        with self._naming():
            if len(command) < len(words):
                raise InputError("a command is a list of words, not of lists or mappings")
            check_command(command)
            check_parameters(self.content["parameters"])
        return command


def read_sweep(path: str | Path) -> Sweep:
    """Read a W&B sweep file."""
    path = Path(path)
    content = read_yaml(path, "sweep file")
    content = content if isinstance(content, dict) else {}
    for key in ("method", "parameters"):
        if key not in content:
            raise InputError(f"{path}: a sweep file needs the key {key!r}")
    return Sweep(path, content)


def grid(parameters: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every combination of the parameters' values, the last parameter changing fastest.

    Example:
        >>> grid({"a": {"values": [1, 2]}, "b": {"value": 3}})
        [{'a': 1, 'b': 3}, {'a': 2, 'b': 3}]
    """
    axes = {}
    for name, settings in check_parameters(parameters).items():
        axes[name] = values_of(name, settings)
        if not axes[name]:
            raise InputError(f"parameter {name!r} of a grid needs a list `values`, or `value`")
    GRID_POINTS.check("parameters", math.prod(len(values) for values in axes.values()))
    return [dict(zip(axes, point, strict=True)) for point in itertools.product(*axes.values())]


def check_command(command: Sequence[str]) -> None:
    """Refuse a command that an untrusted file must not give."""
    check_texts("the command", command)
    if program().trust_config:
        return
    words = list(command)
    if words[0] == "${env}":
        words.pop(0)
        while words and "=" in words[0]:
            assignment = words.pop(0)
            _check_variables([assignment.partition("=")[0]], f"sets {assignment!r}")
            _check_word(assignment)
    if not (words and words[0] in PROGRAMS and "".join(words[1:2]) in COMMANDS):
        raise InputError(
            f"the command {' '.join(command)!r} is not of the form {FORM}; if you trust the file, "
            "add --trust-config"
        )
    for word in words[2:]:
        _check_word(word)


def _check_word(word: str) -> None:
    """Check one word behind the name of the program's command, or before the program."""
    _check_variables(_VARIABLE.findall(word), f"reads the environment in {word!r}")
    left = _VARIABLE.sub("", word)
    if word.startswith("${") and word.endswith("}") and left not in ("", "${args}"):
        raise InputError(f"the command has {word!r}; of W&B's macros it may have ${{args}}")
    if word.startswith("-"):
        check_option(word.lstrip("-").partition("=")[0])


def _check_variables(names: Iterable[str], what: str) -> None:
    if unknown := set(names) - ENVIRONMENT:
        raise InputError(
            f"the command {what}: {min(unknown)} is not one of {', '.join(sorted(ENVIRONMENT))}; "
            "if you trust the file, add --trust-config"
        )


def check_option(name: str) -> None:
    """Refuse an option that is for the sweep itself, however it is spelt or shortened."""
    spelt = name.replace("_", "-").lower()
    if spelt and any(option.startswith(spelt) for option in TO_THE_SWEEP):
        raise InputError(
            f"--{name} cannot be given by a sweep file; if you trust the file, add --trust-config "
            "to lightning sweep (likewise --limits)"
        )


def check_parameters(parameters: object) -> dict[str, Any]:
    """Parameters of a sweep, whose names are options of the command and nothing else."""
    if not isinstance(parameters, dict):
        raise InputError(f"parameters must be names with values, got {type(parameters).__name__}")
    for name in parameters:
        if not (isinstance(name, str) and _OPTION.fullmatch(name)):
            raise InputError(f"parameter {str(name)[:100]!r} is not the name of an option")
        if not program().trust_config:
            check_option(name)
    return parameters


def check_texts(what: str, texts: Iterable[object]) -> None:
    """Refuse characters that are not seen, such as line breaks, in texts of a file."""
    for text in map(str, texts):
        if clean(text) != text:
            raise InputError(f"{what} has characters that are not seen: {clean(text)[:200]}")


def values_of(name: str, settings: object) -> list[Any]:
    """The values that a parameter lists, or its one, if they may be; none where it has neither."""
    own = settings if isinstance(settings, dict) else {}
    listed = own.get("values") if isinstance(own.get("values"), list) else None
    found: list[Any] = listed or ([own["value"]] if "value" in own else [])
    for value in found:
        _check_value(name, value)
    return found


def _check_value(name: str, value: object) -> None:
    """Refuse a value that is neither plain nor a list or mapping of plain ones."""
    inner = value if isinstance(value, list) else [value]
    if isinstance(value, dict):
        inner = [*value, *value.values()]
    if not all(isinstance(one, Plain) for one in inner):
        raise InputError(f"parameter {name!r}: a value must be plain, or a list of plain values")
    check_texts(f"parameter {name!r}", inner)


def expand(command: Sequence[str], point: Mapping[str, Any]) -> list[str]:
    """The command of one point, its macros replaced as W&B's agent replaces them.

    Example:
        >>> expand(["lightning", "fit", "${args}"], {"seed_everything": 7})
        ['lightning', 'fit', '--seed_everything=7']
    """
    args = [f"--{name}={value}" for name, value in point.items()]
    macros = {"${env}": ["/usr/bin/env"], "${interpreter}": [sys.executable], "${args}": args}
    words: list[str] = []
    for part in command:
        words += macros.get(part, [_VARIABLE.sub(_value, part)])
    return words


def _value(found: re.Match[str]) -> str:
    return os.environ.get(found[1], "")
