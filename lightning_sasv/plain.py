"""Plain values (numbers, booleans, texts, nothing, and containers of them) and what they fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter, signature
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

CLASS_KEYS = ("class_path", "init_args", "dict_kwargs", "_class_path", "_instantiator")
"""Keys by which a mapping asks for an object."""


def is_address(path: object) -> bool:
    """Whether a path leads to another file system than this machine's.

    Example:
        >>> [is_address(path) for path in ("x.ckpt", "file:///x.ckpt", "filecache::x")]
        [False, True, True]
    """
    return "://" in str(path) or "::" in str(path)


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
