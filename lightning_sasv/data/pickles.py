"""A pickle reader that admits numpy arrays and plain containers, and runs nothing else.

The challenge publishes its embeddings as pickles. A pickle is a program: unpickling one from a
stranger with ``pickle.load`` runs whatever it says. Here every global that a pickle asks for is
looked up in a short list, so that a file which asks for anything else is refused before any of
its code runs. Arrays and their types are stood in for until the end: numpy's own way to set their
state trusts what it is told, and a damaged file can make it crash.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from lightning_sasv.errors import InputError


class _Admitted(tuple[Callable[..., Any] | None]):
    """A function that a pickle may ask for, in a tuple, so that a pickle cannot alter it."""

    __slots__ = ()

    def __call__(self, *args: Any) -> Any:
        """Call it, if it can be called."""
        (function,) = self
        if function is None:
            raise pickle.UnpicklingError("calls what is no function")
        return function(*args)


_NDARRAY = _Admitted((None,))
"""The name ``numpy.ndarray``: a token for ``_reconstruct``."""


class _Type:
    """A numpy dtype of numbers, whose state numpy itself is never asked to set: it may crash."""

    __slots__ = ("dtype",)

    def __init__(self, name: str) -> None:
        self.dtype = np.dtype(name)
        if self.dtype.kind not in "fiub" or self.dtype.shape:
            raise pickle.UnpicklingError(f"asks for arrays of {self.dtype}: only numbers are known")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Take the byte order; version, size, alignment and flags are those of the type's name."""
        _, order, *compound = state[:5]
        if order not in ("<", ">", "|", "=") or compound != [None, None, None]:
            raise pickle.UnpicklingError("asks for arrays of a compound type")
        self.dtype = self.dtype.newbyteorder(order)


class _Array:
    """An array that the pickle describes after it has asked for it."""

    __slots__ = ("array",)

    def __init__(self) -> None:
        self.array: np.ndarray | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Take shape, type, order and content."""
        _, shape, kind, fortran, content = state
        if not isinstance(content, (bytes, bytearray)):
            raise pickle.UnpicklingError("asks for an array of objects")
        self.array = _array_of(content, kind, shape, bool(fortran)).copy()


def _array_of(content: bytes | bytearray, kind: object, shape: Any, fortran: bool) -> np.ndarray:
    """Array of a content of bytes, which must fit the shape."""
    if not isinstance(kind, _Type):
        raise pickle.UnpicklingError("asks for an array of no type")
    return np.frombuffer(content, dtype=kind.dtype).reshape(shape, order="F" if fortran else "C")


def _reconstruct(subtype: object, shape: object, dtype: object) -> _Array:
    """Numpy's ``_reconstruct``: an empty array whose state the pickle then sets."""
    if subtype is not _NDARRAY:
        raise pickle.UnpicklingError("asks for an array type other than numpy.ndarray")
    return _Array()


def _dtype(name: str, *_: object) -> _Type:
    """Numpy's ``dtype``; numbers only (an object array can carry anything)."""
    return _Type(str(name))


def _frombuffer(data: bytes, dtype: object, shape: Any, order: str) -> np.ndarray:
    """Numpy's ``_frombuffer`` (arrays of pickle protocol 5)."""
    return _array_of(data, dtype, shape, order == "F")


def _scalar(dtype: object, data: bytes) -> Any:
    """Numpy's ``scalar``."""
    return _array_of(data, dtype, (), False)[()]


def _encode(text: str, encoding: str) -> bytes:
    """``codecs.encode`` of text to Latin-1, the way pickles before protocol 3 keep bytes."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"asks for the codec {encoding!r}")
    return str(text).encode("latin1")


def _check_keys(keys: Iterable[object]) -> None:
    """Only plain keys: a tuple of tuples of tuples can take for ever to be hashed."""
    for key in keys:
        if not isinstance(key, (str, bytes, int, float, np.generic, type(None))):
            raise pickle.UnpicklingError(f"asks for a {type(key).__name__} as a key")


def _dictionary(pairs: Iterable[tuple[Any, Any]] = ()) -> dict[Any, Any]:
    """``OrderedDict``, with or without a list of pairs."""
    pairs = [(key, value) for key, value in pairs]
    _check_keys(key for key, _ in pairs)
    return dict(pairs)


_ADMITTED: dict[tuple[str, str], _Admitted] = {
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): _Admitted((_dtype,)),
    ("_codecs", "encode"): _Admitted((_encode,)),
    ("collections", "OrderedDict"): _Admitted((_dictionary,)),
} | {
    (f"numpy.{core}.{module}", name): _Admitted((stand_in,))
    for core in ("core", "_core")
    for module, name, stand_in in (
        ("multiarray", "_reconstruct", _reconstruct),
        ("multiarray", "scalar", _scalar),
        ("numeric", "_frombuffer", _frombuffer),
    )
}


def _with_plain_keys(letter: bytes, keys: slice) -> Callable[[Any], None]:
    """What a letter of a pickle does, once the part of the stack that is hashed has been seen."""
    load: Callable[[Any], None] = pickle._Unpickler.dispatch[letter[0]]

    def checked(unpickler: Any) -> None:
        _check_keys(unpickler.stack[keys])
        load(unpickler)

    return checked


class _SafeUnpickler(pickle._Unpickler):
    """Unpickler that finds only what ``_ADMITTED`` lists.

    The one that Python is written in: that in C takes gigabytes of memory when a file of a few
    bytes numbers an object high, and is only twice as fast.
    """

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"asks for {module}.{name}") from None

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("asks for a persistent object")

    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch) | {
        pickle.SETITEM[0]: _with_plain_keys(pickle.SETITEM, slice(-2, -1)),
        pickle.SETITEMS[0]: _with_plain_keys(pickle.SETITEMS, slice(0, None, 2)),
        pickle.DICT[0]: _with_plain_keys(pickle.DICT, slice(0, None, 2)),
        pickle.ADDITEMS[0]: _with_plain_keys(pickle.ADDITEMS, slice(None)),
        pickle.FROZENSET[0]: _with_plain_keys(pickle.FROZENSET, slice(None)),
    }
    """What each letter of a pickle does, with a look at what is to be hashed."""


class _Finish:
    """Content with its arrays in place of what stood for them.

    What is named again and again is finished once: written out, it could be without end.
    """

    def __init__(self) -> None:
        self.done: dict[int, Any] = {}

    def __call__(self, content: Any) -> Any:
        if id(content) not in self.done:
            self.done[id(content)] = self._finished(content)
        return self.done[id(content)]

    def _finished(self, content: Any) -> Any:
        if isinstance(content, _Array):
            if content.array is None:
                raise pickle.UnpicklingError("asks for an array without content")
            return content.array
        if isinstance(content, (_Type, _Admitted)):
            raise pickle.UnpicklingError("holds a type")
        if isinstance(content, dict):
            return {key: self(value) for key, value in content.items()}
        if isinstance(content, (list, tuple)):
            return type(content)(map(self, content))
        return content


def load_pickle(path: str | Path) -> Any:
    """Content of a pickle of numpy arrays and plain containers.

    Raises:
        InputError: When the file is missing, damaged, or asks for anything else; nothing of the
            file is executed in that case.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"no pickle at {path}")
    try:
        with path.open("rb") as file:
            return _Finish()(_SafeUnpickler(file).load())
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{path} is refused: it {error}; only numpy arrays and plain containers are admitted, "
            "nothing of the file was run"
        ) from None
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise InputError(f"{path} is damaged or not a pickle: {error}") from None
