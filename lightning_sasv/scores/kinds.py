"""Other tables than delimited text: arrays of numpy, JSON lines, frames in memory; no pickles."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np

from lightning_sasv.errors import InputError
from lightning_sasv.limits import BYTES_PER_BYTE, COLUMNS, LINE_BYTES, UNPACKED_BYTES, parse_json
from lightning_sasv.scores.layouts import (
    LABELS,
    LAYOUTS,
    column_named,
    columns_named,
    is_number,
    layout_named,
)
from lightning_sasv.scores.parquet import MAGIC as PARQUET
from lightning_sasv.scores.parquet import read_parquet
from lightning_sasv.scores.reading import Reading, canonical, turned, with_role
from lightning_sasv.scores.table import TEXT, ScoreTable, check_duplicates, check_numbers
from lightning_sasv.scores.text import first_bytes, unpacked
from lightning_sasv.trials import TrialClass

if TYPE_CHECKING:
    import polars as pl

Frame: TypeAlias = Any
"""A frame of polars, pandas or pyarrow, or a dictionary of arrays."""

NAME = Path("frame")
"""What stands in the place of a file in messages and names."""
Cells: TypeAlias = tuple["pl.DataFrame", Callable[[int], int], list[str]]
_ARRAY = b"\x93NUM"
_MAGIC = {PARQUET: "parquet", _ARRAY: "arrays", b"PK\x03\x04": "arrays"}
_SAID = {"parquet": ", line 1: this is a Parquet file", "arrays": ": these are numpy arrays"}
_POSTERIORS = 2
_HALF = re.compile("[\ud800-\udfff]")
RECORDINGS = "wav"
"""A list of recordings: references, and the test utterance last."""


def kind_of(path: Path, format: str | None) -> str:
    """``parquet``, ``arrays``, ``json-lines`` or ``text``: what a file is by its first bytes.

    Raises:
        InputError: It is another than the one that the user names.
    """
    start, named = first_bytes(path), layout_named(format).name if format else ""
    kind = _MAGIC.get(start, "")
    if kind and named not in ("", kind):
        raise InputError(f"{path}{_SAID[kind]}, not {format}; drop --format")
    if named == "arrays" and not kind:
        raise InputError(f"{path}: not a readable numpy file; drop --format")
    by_name = not named and path.name.endswith((".jsonl", ".jsonl.gz"))
    if start and (by_name or named == "json-lines"):
        kind = kind or "json-lines"
    return "parquet" if named == "parquet" else kind or "text"


def with_our_names(frame: pl.DataFrame) -> pl.DataFrame:
    """Columns of a table by our names of their headings."""
    return frame.rename(dict(zip(frame.columns, columns_named(frame.columns), strict=True)))


def plain_types(path: Path, frame: pl.DataFrame, start: int = 0) -> pl.DataFrame:
    """Numbers as float64, the rest as text, nothing missing; rows count from ``start``."""
    import polars as pl

    if not frame.height or not frame.width:
        raise InputError(f"{path}: the file has no trials; write it again")
    missing = [s.name for s in frame.null_count() if s[0]]
    if missing:
        row = int(frame[missing[0]].is_null().arg_max() or 0)
        raise InputError(f"{path}, row {start + row + 1}, column {missing[0]}: a value is missing")
    columns = []
    for name, kind in frame.schema.items():
        wanted = pl.Float64 if kind.is_numeric() and name not in ("label", *TEXT) else pl.String
        try:
            columns.append(frame[name].cast(wanted))
        except pl.exceptions.PolarsError:
            raise InputError(f"{path}, column {name}: cannot use values of type {kind}") from None
        if wanted == pl.String and is_number(name):
            raise InputError(f"{path}, column {name}: holds {kind}, not numbers; write numbers")
    return pl.DataFrame(columns)


def _read_arrays(path: Path) -> Cells:
    """Arrays of equal length as columns by their names.

    A row of two numbers is taken for log posteriors of the negative and the positive class: their
    difference is the score.

    Raises:
        InputError: The file is damaged, holds Python objects or is beyond a limit, or its arrays
            are no columns of one table.
    """
    try:
        arrays = _arrays(path)
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
    return _frame(columns), _next, notes


def _frame(arrays: Mapping[str, np.ndarray]) -> pl.DataFrame:
    """Arrays under our names, those without one by what they hold; scores as numbers."""
    import polars as pl

    columns: dict[str, np.ndarray] = {}
    for name, values in arrays.items():
        few = values.dtype.kind != "f" and len(np.unique(values)) <= 3
        plain = "label" if few or not _are_numbers(values) else "score"
        ours = column_named(name) if name else plain
        ours = ours if ours not in columns else name
        numbers = is_number(ours) and _are_numbers(values)
        columns[ours] = values.astype(np.float64) if numbers else values
    return pl.DataFrame([pl.Series(name, values) for name, values in columns.items()])


def _are_numbers(values: np.ndarray) -> bool:
    try:
        values.astype(np.float64)
    except ValueError:
        return False
    return True


def _arrays(path: Path) -> dict[str, np.ndarray]:
    size = path.stat().st_size
    with path.open("rb") as file:
        if file.read(4) == _ARRAY:
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


def _read_json_lines(path: Path) -> Cells:
    """One object for each trial or utterance, its keys are headings.

    Raises:
        InputError: A line is no object, or has other keys than the first, with its number.
    """
    import polars as pl

    rows, lines = list[dict[str, Any]](), list[int]()
    for number, entry in _objects(path):
        row = _row(entry, f"{path}, line {number}")
        if rows and row.keys() != rows[0].keys():
            wrong = sorted(row.keys() ^ rows[0].keys())
            raise InputError(f"{path}, line {number}: {wrong[0]} is not in every line; mend it")
        rows.append(row)
        lines.append(number)
    if not rows:
        raise InputError(f"{path}, line 1: no rows; write the file again")
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    frame = pl.DataFrame([pl.Series(name, own, strict=False) for name, own in columns.items()])
    return frame, lines.__getitem__, []


def _objects(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with path.open("rb") as file:
        for number, line in enumerate(unpacked(path, file), 1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            LINE_BYTES.check(where, len(line))
            entry = parse_json(line, where)
            if not isinstance(entry, dict) or not entry:
                raise InputError(f"{where}: expected an object with keys; mend this line")
            if b"\\u" in line and _HALF.search(json.dumps(entry, ensure_ascii=False)):
                raise InputError(f"{where}: half a character, \\ud800 to \\udfff; mend this line")
            yield number, entry


def _row(entry: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Cells by our names: of recordings the last is the utterance, the others enrol a speaker."""
    COLUMNS.check(where, len(entry))
    found: dict[str, Any] = {}
    for (key, value), named in zip(entry.items(), columns_named(list(entry)), strict=True):
        name = "label" if key == "lab" else named
        if key == "key" and "lab" in entry:
            name = "trial_key"  # the name of the row beside a label of another name
        if key == RECORDINGS and isinstance(value, list) and len(value) > 1:
            found["speaker"] = found["enrolment"] = ",".join(map(str, value[:-1]))
            name, value = "utterance", value[-1]
        if isinstance(value, list):
            value = ",".join(map(str, value))
        if value is None or isinstance(value, dict):
            raise InputError(f"{where}, {key}: expected a text or a number; mend this line")
        if name in found:
            raise InputError(f"{where}: {key} is {name}, which stands there already")
        found[name] = value
    return found


def _read_parquet(path: Path) -> Cells:
    return with_our_names(read_parquet(path)), _next, []


def _next(row: int) -> int:
    return row + 1


_READERS = {"parquet": _read_parquet, "arrays": _read_arrays, "json-lines": _read_json_lines}
"""From a file to its columns, the line of each row, and what there is to say."""


def read_kind(path: Path, kind: str, how: Reading) -> ScoreTable:
    """A file that is no delimited text, of a kind that :func:`kind_of` gave."""
    frame, line, notes = _READERS[kind](path)
    frame, guessed = plain_types(path, frame), how.format is None
    table = ScoreTable(frame, path, kind, line, guessed, notes=tuple(notes))
    return canonical(table, layout_named(kind), how.labels)


def read_frame(frame: Frame, how: Reading, columns: Mapping[str, str] | None = None) -> ScoreTable:
    """A frame as a table; columns are taken as arrays of numpy, so that pandas needs no pyarrow.

    Args:
        frame: The frame; its columns are called as in files. Numbers as labels are ``TrialClass``
            codes unless ``how`` says otherwise; 0 and 1 alone may be anything.
        how: What labels and ids are.
        columns: Our names of columns by those in the frame; the roles ``asv``, ``cm``, ``sasv``
            stand for their scores.

    Raises:
        InputError: Something of the frame cannot be used.
    """
    import polars as pl

    frame = frame.collect() if isinstance(frame, pl.LazyFrame) else frame
    named: dict[str, Any] = {}
    for name, values in _columns(frame).items():
        ours = column_named((columns or {}).get(name, name))
        if ours in named:
            raise InputError(f"{NAME}: two columns are {ours}, one of them {name!r}; rename one")
        named[ours] = values
    lost = [name for name in columns or {} if name not in _names(frame)]
    if lost:
        raise InputError(f"columns: no column {lost[0]!r}; there are {', '.join(_names(frame))}")
    if "label" in named and not how.labels:
        named["label"] = _words(named["label"])
    try:
        plain = plain_types(NAME, pl.DataFrame(named))
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise InputError(f"{NAME}: {' '.join(str(error).split())[:200]}") from None
    table = ScoreTable(plain, NAME, "parquet", _next)
    table = canonical(table, LAYOUTS["parquet"], how.labels)
    table = check_numbers(turned(with_role(table, None), how), how.allow_missing)
    check_duplicates(table, () if how.ids == "none" else table.ids)
    return table


def _names(frame: Frame) -> list[str]:
    return [str(name) for name in getattr(frame, "column_names", None) or _keys(frame)]


def _keys(frame: Frame) -> Any:
    return frame.columns if hasattr(frame, "columns") else frame.keys()


def _columns(frame: Frame) -> dict[str, Any]:
    """The columns as arrays."""
    if not isinstance(frame, Mapping) and not hasattr(frame, "columns"):
        raise InputError(
            f"{type(frame).__name__} is no table: give a frame of polars, pandas or pyarrow, a "
            "dictionary of arrays, or paths"
        )
    arrays = {name: np.asarray(frame[name]) for name in _names(frame)}
    deep = [name for name, values in arrays.items() if values.ndim != 1]
    if deep:
        raise InputError(f"{NAME}, column {deep[0]}: expected one value per trial")
    return {
        n: v.astype(str) if v.dtype.kind == "O" and None not in v else v for n, v in arrays.items()
    }


def _words(labels: Any) -> Any:
    """Labels as words; whole numbers are ``TrialClass`` codes."""
    if np.asarray(labels).dtype.kind not in "iuf":
        return labels
    codes, there = {int(code) for code in TrialClass}, np.unique(labels).tolist()
    if there == [0, 1]:
        raise InputError(
            f"{NAME}: labels 0 and 1 alone do not tell what they are; give words, or "
            "labels='bona=1,spoof=0' (or 'target=1,nontarget=0', 'target=1,spoof=0')"
        )
    wrong = [value for value in there if value not in codes]
    if wrong:
        raise InputError(
            f"{NAME}: label {wrong[0]} is none of 0 (spoof), 1 (target), 2 (nontarget); give "
            "words, or labels='bona=1,spoof=0'"
        )
    return np.asarray(LABELS)[labels.astype(int)]
