"""What a file may ask this program to make, and who may go beyond it.

A configuration, a pipe, a sweep or a checkpoint names classes by text, and making an object of any
class runs any code. So a file may name what is listed, at places that ask for it, and with plain
values as arguments. Names that the user typed on the command line are the user's own choice, that
very name each; ``--trust-config`` lets files name everything. Python code that calls a function of
this package makes its own choices too: the gate stands only while a command runs.

Plain values are numbers, truth values, texts, nothing, and containers of them; whether they are
what a class takes is said by :func:`fits`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from enum import Enum
from inspect import Parameter, signature
from itertools import pairwise
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from lightning_sasv.errors import InputError
from lightning_sasv.limits import parse_yaml
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

CLASS_KEYS = ("class_path", "init_args", "dict_kwargs", "_class_path", "_instantiator")
"""Keys by which a mapping asks for an object."""

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


def texts(value: object) -> Iterator[str]:
    """Every text in a value, at any depth; keys of mappings are texts too.

    Example:
        >>> list(texts({"a": ["b", {"c": 1}]}))
        ['a', 'b', 'c']
    """
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        parts = value.items() if isinstance(value, dict) else value
        for part in parts:
            yield from texts(part)


def is_plain(value: object) -> bool:
    """Whether a value is a number, a truth value, a text, nothing, or a container of such.

    Example:
        >>> is_plain({"a": [1, (None, "b")]}), is_plain([print])
        (True, False)
    """
    if isinstance(value, dict):
        return all(isinstance(name, str) and is_plain(item) for name, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    return value is None or type(value) in (bool, int, float, str)


def settings_of(owner: type) -> dict[str, Parameter]:
    """The arguments that a class is made with, those handed on to its bases too.

    Annotations are types; :data:`inspect.Parameter.empty` where there is none.
    """
    known: dict[str, Parameter] = {}
    for one in (one for one in owner.__mro__ if "__init__" in vars(one)):
        parameters = list(signature(one.__init__).parameters.values())[1:]  # type: ignore[misc]
        hints = get_type_hints(one.__init__)  # type: ignore[misc]
        for each in parameters:
            if each.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
                kind = hints.get(each.name, Parameter.empty)
                known.setdefault(each.name, each.replace(annotation=kind))
        if not any(each.kind == Parameter.VAR_KEYWORD for each in parameters):
            break
    return known


def fits(value: object, kind: Any) -> bool:
    """Whether a plain value is of the annotated type; one that is not plain admits nothing.

    Example:
        >>> fits([258, 128], Sequence[int]), fits([True], Sequence[int]), fits({}, type)
        (True, False, False)
    """
    if is_typeddict(kind):
        known = get_type_hints(kind)
        return isinstance(value, dict) and all(
            name in known and fits(item, known[name]) for name, item in value.items()
        )
    origin, inner = get_origin(kind), get_args(kind)
    if origin is not None:
        return origin in _OUTER and _OUTER[origin](value, inner)
    if kind in (int, float):
        return isinstance(value, int | kind) and not isinstance(value, bool)
    return kind in (bool, str, None, NoneType) and isinstance(value, kind or NoneType)


def _each(value: object, inner: tuple[Any, ...]) -> bool:
    return isinstance(value, list | tuple) and all(fits(item, inner[0]) for item in value)


def _tuple(value: object, inner: tuple[Any, ...]) -> bool:
    if inner[-1] is Ellipsis:
        return _each(value, inner)
    if not isinstance(value, list | tuple) or len(value) != len(inner):
        return False
    return all(fits(item, kind) for item, kind in zip(value, inner, strict=True))


def _mapping(value: object, inner: tuple[Any, ...]) -> bool:
    return isinstance(value, dict) and all(
        fits(name, inner[0]) and fits(item, inner[1]) for name, item in value.items()
    )


def _any(value: object, inner: tuple[Any, ...]) -> bool:
    return any(fits(value, kind) for kind in inner)


def _one_of(value: object, inner: tuple[Any, ...]) -> bool:
    return any(type(value) is type(one) and value == one for one in inner)


_OUTER: dict[Any, Callable[[object, tuple[Any, ...]], bool]] = {
    Union: _any,
    UnionType: _any,
    Literal: _one_of,
    tuple: _tuple,
    list: _each,
    Sequence: _each,
    dict: _mapping,
    Mapping: _mapping,
}
