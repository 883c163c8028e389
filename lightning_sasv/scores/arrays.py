"""Score files of numpy: ``.npy`` and ``.npz``, without pickles and within the limits."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np

from lightning_sasv.errors import InputError
from lightning_sasv.limits import BYTES_PER_BYTE, UNPACKED_BYTES

MAGIC = (b"\x93NUM", b"PK\x03\x04")
_POSTERIORS = 2


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], list[str]]:
    """Columns of equal length by the names of their arrays, and what there is to say about them.

    A row of two numbers is taken for log posteriors of the negative and the positive class: their
    difference is the score.

    Raises:
        InputError: The file is damaged, holds Python objects or is beyond a limit, or its arrays
            are no columns of one table.
    """
    try:
        arrays = _read(path)
    except InputError:
        raise
    except Exception as error:  # damaged files fail in many ways
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{path}: not a readable numpy file ({reason}); save it again") from None
    columns, notes = {}, []
    for name, array in arrays.items():
        columns[name], note = _column(f"{path}{', array ' + name if name else ''}", array)
        notes += note
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) != 1 or not max(lengths.values(), default=0):
        raise InputError(f"{path}: arrays of one table have the same length; these have {lengths}")
    return columns, notes


def _read(path: Path) -> dict[str, np.ndarray]:
    size = path.stat().st_size
    with path.open("rb") as file:
        if file.read(4) == MAGIC[0]:
            file.seek(0)
            return {"": _array(path, file, size)}
        with zipfile.ZipFile(file) as archive:
            members = [one for one in archive.infolist() if one.filename.endswith(".npy")]
            if len(members) < len(archive.infolist()) or not members:
                raise InputError(f"{path}: a zip archive that is no npz file; write scores as text")
            unpacked = sum(one.file_size for one in members)
            UNPACKED_BYTES.check(path, unpacked, BYTES_PER_BYTE * size)
            arrays = {}
            for one in members:
                with archive.open(one) as member:
                    arrays[one.filename.removesuffix(".npy")] = _array(path, member, one.file_size)
    only = len(arrays) == 1 and "arr_0" in arrays
    return {"": arrays["arr_0"]} if only else arrays


def _array(path: Path, file: IO[bytes], size: int) -> np.ndarray:
    """One array, whose header is compared with what there is before room is made for it."""
    version = np.lib.format.read_magic(file)
    header: Any = {(1, 0): np.lib.format.read_array_header_1_0}.get(
        version, np.lib.format.read_array_header_2_0
    )
    shape, fortran, dtype = header(file)
    if dtype.hasobject:
        raise InputError(f"{path}: holds Python objects, which are not read; save numbers or text")
    count = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if count > size:
        raise InputError(f"{path}: shorter than its header says; save it again")
    content = np.frombuffer(file.read(count), dtype)
    return content.reshape(shape, order="F" if fortran else "C")


def _column(where: str, array: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """An array as one column: numbers as float64, the rest as text."""
    notes = []
    array = np.atleast_1d(array.squeeze()) if array.ndim else array
    if array.ndim == _POSTERIORS and array.shape[1] == _POSTERIORS and array.dtype.kind == "f":
        notes.append(
            f"{where}: two columns, {_posteriors(where, array)}: the second minus the first"
        )
        array = array[:, 1].astype(np.float64) - array[:, 0].astype(np.float64)
    if array.ndim != 1 or array.dtype.kind not in "fiubUS":
        raise InputError(
            f"{where}: {array.dtype} of shape {array.shape} is no column of scores or labels; "
            "save one number per trial"
        )
    if array.dtype.kind == "S":
        array = np.char.decode(array.astype(np.bytes_), "utf-8")
    return array.astype(np.float64) if array.dtype.kind == "f" else array.astype(np.str_), notes


def _posteriors(where: str, array: np.ndarray) -> str:
    """What two columns are taken for; a column of labels is none of it."""
    if any(np.isin(column, [-1, 0, 1]).all() for column in array.T) and len(array) > 2:
        raise InputError(
            f"{where}: one of two columns is a label or a decision, not a score; save scores and "
            "labels as arrays of their own in an .npz file"
        )
    if (array >= 0).all() and np.allclose(array.sum(1), 1, atol=1e-4):
        return "taken for posteriors, whose Cllr and actual costs say little"
    return "taken for log posteriors"


def write_arrays(file: IO[bytes], columns: dict[str, np.ndarray]) -> None:
    """Write columns as an ``.npz`` archive, numbers as they are and the rest as text."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, values in columns.items():
            plain = values if values.dtype.kind == "f" else values.astype(np.str_)
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, plain, allow_pickle=False)
