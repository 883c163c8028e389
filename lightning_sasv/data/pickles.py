"""A pickle reader that admits numpy arrays and plain containers, and runs nothing else.

The challenge publishes its embeddings as pickles. A pickle is a program: unpickling one from a
stranger with ``pickle.load`` runs whatever it says. Here every global that a pickle asks for is
looked up in a short list, so that a file which asks for anything else is refused before any of
its code runs.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from lightning_sasv.errors import InputError


class _Admitted:
    """Something a pickle may ask for. Without a ``__dict__``, so that a pickle cannot alter it."""

    __slots__ = ()


class _NDArray(_Admitted):
    """The name ``numpy.ndarray``: a token for ``_Reconstruct``, which cannot be called."""

    __slots__ = ()


class _Reconstruct(_Admitted):
    """numpy's ``_reconstruct``: an empty array whose state the pickle then sets."""

    __slots__ = ()

    def __call__(self, subtype: object, shape: object, dtype: object) -> np.ndarray:
        if not isinstance(subtype, _NDArray):
            raise pickle.UnpicklingError("asks for an array type other than numpy.ndarray")
        return np.empty(0, dtype=np.int8)


class _DType(_Admitted):
    """numpy's ``dtype``, always a fresh one; numbers only (an object array can carry anything)."""

    __slots__ = ()

    def __call__(self, name: str, *_: object) -> np.dtype[Any]:
        dtype = np.dtype(str(name), False, True)
        if dtype.kind not in "fiub" or dtype.shape:
            raise pickle.UnpicklingError(f"asks for arrays of {dtype}, only numbers are admitted")
        return dtype


class _FromBuffer(_Admitted):
    """numpy's ``_frombuffer`` (arrays of pickle protocol 5)."""

    __slots__ = ()

    def __call__(self, data: bytes, dtype: np.dtype[Any], shape: Any, order: str) -> np.ndarray:
        return np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if order == "F" else "C")


class _Scalar(_Admitted):
    """numpy's ``scalar``."""

    __slots__ = ()

    def __call__(self, dtype: np.dtype[Any], data: bytes) -> Any:
        return np.frombuffer(data, dtype=dtype, count=1)[0]


class _Encode(_Admitted):
    """``codecs.encode`` of text to Latin-1, the way pickles before protocol 3 keep bytes."""

    __slots__ = ()

    def __call__(self, text: str, encoding: str) -> bytes:
        if encoding != "latin1":
            raise pickle.UnpicklingError(f"asks for the codec {encoding!r}")
        return str(text).encode("latin1")


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _NDArray(),
    ("numpy", "dtype"): _DType(),
    ("_codecs", "encode"): _Encode(),
    ("collections", "OrderedDict"): dict,
} | {
    (f"numpy.{core}.{module}", name): stand_in
    for core in ("core", "_core")
    for module, name, stand_in in (
        ("multiarray", "_reconstruct", _Reconstruct()),
        ("multiarray", "scalar", _Scalar()),
        ("numeric", "_frombuffer", _FromBuffer()),
    )
}


class _SafeUnpickler(pickle.Unpickler):
    """Unpickler that finds only what ``_ADMITTED`` lists."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"asks for {module}.{name}") from None

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("asks for a persistent object")


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
            return _SafeUnpickler(file).load()
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{path} is refused: it {error}; only numpy arrays and plain containers are admitted, "
            "nothing of the file was run"
        ) from None
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise InputError(f"{path} is damaged or not a pickle: {error}") from None
