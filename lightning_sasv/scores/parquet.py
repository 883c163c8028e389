"""Parquet files; what one unpacks to is read from its pages before anything is unpacked.

Equal rows take next to no room: a file of less than a megabyte can hold sixty million. The headers
of the pages say how many cells and bytes each of them becomes; they are Thrift structures in the
compact protocol (github.com/apache/thrift, doc/specs/thrift-compact-protocol.md).
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning_sasv.errors import InputError
from lightning_sasv.limits import (
    BYTES_PER_BYTE,
    CELLS_PER_BYTE,
    TABLE_CELLS,
    UNPACKED_BYTES,
)

if TYPE_CHECKING:
    import polars as pl

MAGIC = b"PAR1"
_DAMAGED = (ValueError, AttributeError, KeyError, IndexError, TypeError, OSError)
"""What reading the headers of a damaged file raises."""
_DEEPEST = 16
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_ROW_GROUPS, _COLUMNS, _META = 4, 1, 3  # of the file, of a row group, of a column
_COMPRESSED, _DATA, _DICTIONARY = 7, 9, 11  # bytes and places of a column's pages
_UNPACKED_PAGE, _PACKED_PAGE = 2, 3
_PAGES = (5, 7, 8)  # data page, dictionary, data page of version 2: each begins with its count


class _Thrift:
    """Reads structures as dictionaries by the number of each field."""

    def __init__(self, content: mmap.mmap | bytes, place: int) -> None:
        self.content, self.place = content, place

    def byte(self) -> int:
        self.place += 1
        return self.content[self.place - 1]

    def varint(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise ValueError("a number without end")

    def integer(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def struct(self, depth: int = 0) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while (head := self.byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self.integer()
            fields[number] = self.value(head & 0x0F, depth + 1)
        return fields

    def value(self, kind: int, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError("structures nested too deeply")
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind in (_BYTE, _DOUBLE, _BINARY):
            size = {_BYTE: 1, _DOUBLE: 8}.get(kind) or self.varint()
            self.place += size
            return None
        if kind in (_I16, _I32, _I64):
            return self.integer()
        if kind in (_LIST, _SET, _STRUCT):
            return self.struct(depth) if kind == _STRUCT else list(self._items(depth))
        raise ValueError(f"a field of unknown kind {kind}")

    def _items(self, depth: int) -> Iterator[Any]:
        head = self.byte()
        size, kind = (self.varint() if head >> 4 == 0x0F else head >> 4), head & 0x0F
        for _ in range(size):
            yield self.byte() if kind in (_TRUE, _FALSE) else self.value(kind, depth + 1)


def _columns(content: mmap.mmap) -> Iterator[dict[int, Any]]:
    """What the file says of each column of each group of rows."""
    length = int.from_bytes(content[-8:-4], "little")
    if content[-4:] != MAGIC or length > len(content) - 12:
        raise ValueError("it does not end as such a file does")
    for group in _Thrift(content, len(content) - 8 - length).struct().get(_ROW_GROUPS, []):
        for column in group[_COLUMNS]:
            yield column[_META]


def _pages(content: mmap.mmap, column: dict[int, Any]) -> Iterator[tuple[int, int]]:
    """Cells and bytes that each page of a column unpacks to."""
    starts = [column[key] for key in (_DATA, _DICTIONARY) if column.get(key, 0) > 0]
    place, end = min(starts), min(starts) + column[_COMPRESSED]
    while 0 < place < end <= len(content):
        reader = _Thrift(content, place)
        page = reader.struct()
        place = reader.place + page[_PACKED_PAGE]
        if place <= reader.place - 1:
            raise ValueError("pages that overlap")
        yield max(page[kind][1] for kind in _PAGES if kind in page), page[_UNPACKED_PAGE]
    if place != end:
        raise ValueError("pages beyond the file")


def _check_parquet(path: Path) -> None:
    """Refuse a file that unpacks to more than its size and the limits allow.

    Raises:
        InputError: It does.
        DAMAGED: Its headers cannot be read.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        cells = size = 0
        for column in _columns(content):
            for more, unpacked in _pages(content, column):
                cells, size = cells + more, size + unpacked
                TABLE_CELLS.check(path, cells, len(content) * CELLS_PER_BYTE)
                UNPACKED_BYTES.check(path, size, len(content) * BYTES_PER_BYTE)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Say which file it is that cannot be read as Parquet."""
    import polars as pl

    try:
        yield
    except InputError:
        raise
    except (*_DAMAGED, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(
            f"{path}: not a readable Parquet file ({reason}); write it again"
        ) from None


def read_parquet(path: Path) -> pl.DataFrame:
    """The columns of a Parquet file under their own names."""
    import polars as pl

    with _readable(path):
        _check_parquet(path)
        with path.open("rb") as file:  # any name, also one that is no text
            return pl.read_parquet(file)


def parquet_parts(path: Path, rows: int) -> Iterator[pl.DataFrame]:
    """The same in parts of some rows."""
    import polars as pl

    with _readable(path):
        lazy = pl.scan_parquet(path, glob=False)
        yield from lazy.collect_batches(chunk_size=rows, maintain_order=True)


def parquet_rows(path: Path) -> int:
    """How many rows a Parquet file has, as it says."""
    import polars as pl

    with _readable(path):
        return int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
