"""What a file may ask this program to make, and who may go beyond it.

A configuration, a pipe, a sweep or a checkpoint names classes by text, and making an object of any
class runs any code. So a file may name what is listed, at places that ask for it, and with plain
values as arguments. Names that the user typed on the command line are the user's own choice, that
very name each; ``--trust-config`` lets files name everything. Python code that calls a function of
this package makes its own choices too: the gate stands only while a command runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from enum import Enum
from itertools import pairwise
from os import PathLike
from pathlib import Path

from lightning_sasv.errors import InputError
from lightning_sasv.limits import parse_yaml
from lightning_sasv.plain import CLASS_KEYS
from lightning_sasv.program import ENVIRONMENT, from_file, program
from lightning_sasv.terminal import clean

_FRONT_ENDS = {
    f"{module}.{name}"
    for name, file in (
        ("AASIST", "aasist"),
        ("ECAPA", "ecapa"),
        ("ECAPAChallenge", "ecapa_challenge"),
    )
    for module in ("lightning_sasv.frontends", f"lightning_sasv.frontends.{file}")
}
FRONT_ENDS = frozenset({*_FRONT_ENDS, *(f"{name}.from_checkpoint" for name in _FRONT_ENDS)})
"""Front ends that a file may name."""

PLAIN = (int, float, str, type(None), timedelta, Enum, PathLike)
"""Values that run nothing; lists and mappings of them are plain as well."""

ADVICE = "if you trust it, add --trust-config"
_REMOTE = re.compile(r"(?:[\w+.-]+::)*[\w+.-]+://")
_NAME = re.compile(r"(?<![\w.:/-])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+(?![\w.:/-])")
_LONGEST_SHOWN = 200

_words: tuple[str, ...] | None = None


@contextmanager
def command(words: Sequence[str]) -> Iterator[None]:
    """Close the gate while a command runs; ``words`` are those of its command line.

    Where a sweep wrote them they count as content of a file.
    """
    global _words
    before, _words = _words, () if from_file() else tuple(words)
    try:
        yield
    finally:
        _words = before


def is_open() -> bool:
    """Whether everything is admitted: files are trusted, or no command runs."""
    return _words is None or program().trust_config


def is_typed(text: str) -> bool:
    """Whether the user typed this very text on the command line, not a longer or shorter one."""
    words = [word for _, word in _given() if text and text in word]
    return any(re.search(rf"(?<![\w.:/-]){re.escape(text)}(?![\w.:/-])", word) for word in words)


def _given() -> Iterator[tuple[str, str]]:
    """Options and values on the command line; names of configuration files say nothing."""
    for last, word in pairwise(("", *(_words or ()))):
        option, sign, _ = word.partition("=")
        option = option if sign and word[:1] == "-" else last
        if option not in ("--config", "-c"):
            yield option, word


def typed_names() -> set[str]:
    """Dotted names on the command line, at options that take classes."""
    texts = [w for option, w in _given() if option[:9] == "--trainer" or "class_path" in w]
    return {name for text in texts for name in _NAME.findall(text.partition("=")[2] or text)}


def typed_option(name: str) -> dict[str, object]:
    """What the user typed for an option that takes a mapping, as a whole or key by key."""
    words, found = _words or (), dict[str, object]()
    for word, following in pairwise((*words, "")):
        option, sign, text = word.partition("=")
        place, _, key = option.removeprefix("--").replace("-", "_").partition(".")
        if option.startswith("--") and place == name:
            value = parse_yaml(text if sign else following, option)
            found = {**found, key: value} if key else value if isinstance(value, dict) else {}
    return found


def admit(name: str, admitted: Collection[str], place: str = "") -> None:
    """Refuse a name that is neither listed, nor typed by the user, nor from a trusted file.

    Args:
        name: Dotted name of a class or function.
        admitted: What may stand at this place.
        place: Key of the configuration, for the message.
    """
    if not (is_open() or name in admitted or is_typed(name)):
        raise InputError(refusal(name, place))


def refusal(name: str, place: str = "") -> str:
    """Why a class is not made, and what to do about it."""
    at = f" at {shown(place)}" if place else ""
    return (
        f"{source(name)} asks for {shown(name)}{at}, which no file may name there by itself; "
        f"{ADVICE}, or type that name on the command line"
    )


def admit_plain(value: object, place: str) -> None:
    """Refuse an argument that is, or asks for, an object or another machine."""
    if is_open():
        return
    if isinstance(value, Mapping):
        asked = next((key for key in CLASS_KEYS if key in value), None)
        if asked:
            _refuse(asked, place, f"takes plain values, no {asked}")
        for key, item in value.items():
            admit_plain(item, f"{place}.{key}")
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            admit_plain(item, place)
    else:
        _admit_leaf(value, place)


def _admit_leaf(value: object, place: str) -> None:
    if not isinstance(value, PLAIN):
        name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
        _refuse(name, place, f"takes plain values, not {shown(name)}")
    elif isinstance(value, str) and _REMOTE.match(value) and not place.endswith(".notes"):
        _refuse(value, place, f"leads to another machine ({shown(value)})")
    elif isinstance(value, str) and "\0" in value:
        _refuse(value, place, f"holds a character that no name can have ({shown(value)})")


def _refuse(text: str, place: str, why: str) -> None:
    if not is_typed(text):
        raise InputError(f"{source(text)}: {shown(place)} {why}; {ADVICE}")


def admit_variable(name: str) -> None:
    """Refuse to read a variable of the environment that could hold a secret."""
    if not (is_open() or name in ENVIRONMENT or is_typed(f"oc.env:{name}")):
        raise InputError(
            f"{source(name)} reads the variable {shown(name)} of the environment; a file may read "
            f"{', '.join(sorted(ENVIRONMENT))}; {ADVICE}"
        )


def source(text: str) -> str:
    """The file on the command line that holds a text, as far as it can be told."""
    values = [part for word in _words or () for part in (word, word.partition("=")[2])]
    for value in values:
        try:
            path = Path(value)
            if value and path.is_file():
                with path.open("rb") as file:
                    if text.encode() in file.read(1 << 20):
                        return shown(value)
        except (OSError, ValueError):  # no name of a file at all
            continue
    return "the configuration"


def shown(text: str) -> str:
    """A text of a file for a message: short, and without control characters."""
    return clean(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…")
