"""What a sweep file may run: our own program, and nothing that its author could not do otherwise.

A sweep file may come from anybody. Unless it is trusted its command is
``[${env} NAME=VALUE …] lightning fit|table …``, and what the command names is checked as the
content of a file is, by the process that it starts.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lightning_sasv.errors import InputError
from lightning_sasv.program import ENVIRONMENT, program
from lightning_sasv.terminal import clean

PROGRAMS, COMMANDS = ("lightning", "lightning-sasv"), ("fit", "table")
FORM = "[${env} NAME=VALUE ...] lightning fit|table ..."
TO_THE_SWEEP = ("trust-config", "limits")
"""Options by which a file would trust itself; they are given to the sweep, which hands them on."""

_VARIABLE = re.compile(r"\$\{envvar:(\w*)\}")
_OPTION = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
Plain = str | int | float | bool | None


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


def check_value(name: str, value: object) -> None:
    """Refuse a value that is neither plain nor a list or mapping of plain ones."""
    inner: Iterable[object] = [value]
    if isinstance(value, dict):
        inner = [*value, *value.values()]
    elif isinstance(value, list):
        inner = value
    inner = list(inner)
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
