"""Reading delimited text: fast where the file is plain, careful and exact about it where it is not.

The fast way is polars. Whatever it stumbles over (a row too short or too long, a word among
numbers, a blank line, two blanks between columns) is read again line by line, which either finds
the line that is wrong and names it, or reads what is merely untidy.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import mmap
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias, cast

from lightning_sasv.errors import InputError
from lightning_sasv.limits import BYTES_PER_BYTE, COLUMNS, LINE_BYTES, UNPACKED_BYTES

if TYPE_CHECKING:
    import polars as pl

STDIN = "-"
"""Standard input in the place of a file."""
_NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)", re.I | re.A)
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(?:e[+-]?\d+)?", re.I | re.A)
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
GZIP = b"\x1f\x8b"
_KINDS = {
    GZIP: "compressed by gzip",
    b"BZh": "compressed by bzip2",
    b"\xfd7zX": "compressed by xz",
    b"\x28\xb5\x2f\xfd": "compressed by zstd",
    b"\x89HDF": "an HDF5 file",
    b"\x80": "a pickle",
    b"%PDF": "a PDF file",
    b"\x89PNG": "a picture",
    b"RIFF": "a recording",
    b"fLaC": "a recording",
    b'{"': "JSON",
    b"[{": "JSON",
    **dict.fromkeys((b"{\n", b"{\r", b"[\n", b"[\r"), "JSON"),
    b"<htm": "a page of HTML",
    b"<!DO": "a page of HTML",
}
"""First bytes of files that people take for scores."""

COMMENT = "#"
"""What a line begins with that says nothing of trials."""

_CONVERT = "`lightning convert` mends it: lightning convert FILE --to FORMAT --out NEW"


Grid: TypeAlias = tuple["pl.DataFrame", Callable[[int], int]]
"""Columns by name, numbers as float64, the rest as text, nothing missing; and the line of a row."""


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise InputError(f"{path} is a pipe or device; scores are read from a file")
        with path.open("rb") as file:
            yield file
    except OSError as error:
        hint = "; give a file" if path.is_dir() else ""
        if inside := sorted([*path.glob("*.csv"), *path.glob("scores/*.csv")]):
            hint += f", such as {inside[-1]}"
        raise InputError(f"cannot read {path}: {error.strerror}{hint}") from None


def first_bytes(path: Path) -> bytes:
    """The first four bytes of a file, by which its kind is known."""
    with _opened(path) as file:
        return file.read(4)


class _Unpacked(io.RawIOBase):
    """What a file of gzip holds, no more than its size allows."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path, self._file = path, gzip.GzipFile(fileobj=file)
        self._most = BYTES_PER_BYTE * path.stat().st_size

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        try:
            content = self._file.read(len(room))
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(
                f"{self._path}: not a readable gzip file ({error}); write it again"
            ) from None
        UNPACKED_BYTES.check(self._path, self._file.tell(), self._most)
        room[: len(content)] = content
        return len(content)


def unpacked(path: Path, file: BinaryIO) -> BinaryIO:
    """A file that was opened; what it holds, where it was compressed by gzip."""
    is_packed = cast("io.BufferedReader", file).peek(2).startswith(GZIP)
    return io.BufferedReader(_Unpacked(path, file), 1 << 16) if is_packed else file


def _find(source: Path | bytes, word: bytes) -> int:
    """Number of the line in which some bytes occur first, 0 where they do not."""
    with ExitStack() as stack:
        content: bytes | mmap.mmap
        if isinstance(source, bytes):
            content = source
        else:
            file = stack.enter_context(_opened(source))
            content = stack.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        place = content.find(word)
        return content[:place].count(b"\n") + 1 if place >= 0 else 0


def load(path: Path, mend: bool = True) -> tuple[Path | bytes, list[str]]:
    """What to read, the file itself or its content, unpacked and mended, and a word about it.

    Args:
        path: A text file, which may be compressed by gzip.
        mend: Read files with a byte-order mark or Windows line ends; else they are refused.
    """
    source: Path | bytes = path
    with _opened(path) as file:
        text = unpacked(path, file)
        if text is not file or not _is_text(str(path)):
            source = text.read()
    start = source[:4] if isinstance(source, bytes) else first_bytes(path)
    if not start:
        raise InputError(f"{path}, line 1: the file is empty; write it again")
    refuse_other_kinds(path, start)
    if not start.startswith(UTF16) and (nul := _find(source, b"\0")):
        raise InputError(f"{path}, line {nul}: a NUL byte, which no text has; write it again")
    line = _find(source, b"\r")
    marked = start.startswith((codecs.BOM_UTF8, *UTF16))
    notes = [f"{path}: lines that begin with {COMMENT} are left out"] if commented(source) else []
    if not marked and not line:
        return source, notes
    windows = "Windows line ends (CR LF)" if contains(source, b"\r\n") else "line ends of one CR"
    found = "the file begins with a byte-order mark" if marked else windows
    if not mend:
        raise InputError(f"{path}, line {1 if marked else line}: {found}; {_CONVERT}")
    content = source if isinstance(source, bytes) else path.read_bytes()
    return _mended(path, content), [f"{path}: {found}; read all the same", *notes]


def _is_text(name: str) -> bool:
    """Whether a name can be given to programs that know text only."""
    return name.encode("utf-8", "ignore").decode() == name


def refuse_other_kinds(path: Path, start: bytes) -> None:
    """Refuse what is no text, by its first bytes."""
    for magic, kind in _KINDS.items():
        if start.startswith(magic):
            unpack = "unpack it first" if "compressed" in kind else "write the scores as text"
            raise InputError(f"{path}: this is {kind}, no table; {unpack}")


def _mended(path: Path, content: bytes) -> bytes:
    if content.startswith(UTF16):
        try:
            content = content.decode("utf-16").encode()
        except UnicodeDecodeError as error:
            raise InputError(f"{path}, line 1: not valid UTF-16 ({error.reason})") from None
    content = content.removeprefix(codecs.BOM_UTF8)
    return content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def lines_of(path: Path, source: Path | bytes, before: int = 0) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, without their ends, each with its number, after some others."""
    with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb") as file:
        stream = file if isinstance(source, bytes) else unpacked(source, file)
        lines = iter(lambda: stream.readline(LINE_BYTES.now + 1), b"")
        for number, raw in enumerate(lines, before + 1):
            LINE_BYTES.check(f"{path}, line {number}", len(raw))
            try:
                text = raw.decode("utf-8").rstrip("\n")
            except UnicodeDecodeError:
                raise InputError(
                    f"{path}, line {number}: not UTF-8 text; save the file as UTF-8"
                ) from None
            if text.strip() and not text.startswith(COMMENT):
                yield number, text


def commented(source: Path | bytes) -> bool:
    """Whether a file has lines of comment."""
    start = source[:1] if isinstance(source, bytes) else first_bytes(source)[:1]
    return start == COMMENT.encode() or contains(source, f"\n{COMMENT}".encode())


def contains(source: Path | bytes, word: bytes) -> bool:
    """Whether some bytes occur in a file."""
    return _find(source, word) > 0


def split(path: Path, line: int, text: str, separator: str) -> list[str]:
    """The cells of one line; white space of any length separates where ``separator`` is blank."""
    COLUMNS.check(f"{path}, line {line}", text.count(separator))
    if separator != ",":
        return text.split(None if separator == " " else separator)
    try:
        return next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error as error:
        raise InputError(f"{path}, line {line}: {error}; mend this line") from None


class Shape(NamedTuple):
    """What is known of a file before it is read.

    Attributes:
        names: Name of each column.
        numbers: Those that hold numbers.
        separator: ``" "``, tab or comma.
        header: Number of the header line, 0 where there is none.
        before: Lines of the file before what is read.
    """

    names: Sequence[str]
    numbers: Sequence[str]
    separator: str
    header: int
    before: int = 0


def read_grid(path: Path, source: Path | bytes, shape: Shape) -> Grid:
    """The cells of a file of known columns.

    Args:
        path: The file, for messages.
        source: What to read, from :func:`load`.
        shape: Its columns.

    Raises:
        InputError: A row of another length, a word where a number is expected, no row at all, or
            text that is not UTF-8; with the line.
    """
    import polars as pl

    quoted = shape.separator == "," and contains(source, b'"')
    untidy = {",": b", ", " ": b"\t"}.get(shape.separator)  # other white space between columns
    if commented(source) or (untidy and contains(source, untidy)):
        return _read_carefully(path, source, shape)
    kinds = {name: pl.Float64 if name in shape.numbers else pl.String for name in shape.names}
    try:
        frame = pl.read_csv(
            source,
            has_header=False,
            skip_rows=shape.header,
            separator=shape.separator,
            quote_char='"' if quoted else None,
            schema=kinds,
            glob=False,  # a name with brackets or a star is a name
        ).rechunk()  # rows are gathered later, which is slow across chunks
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return _read_carefully(path, source, shape)
    incomplete = not frame.height or any(frame.null_count().row(0))
    if incomplete or (quoted and _has_line_breaks(frame)):
        return _read_carefully(path, source, shape)
    return frame, lambda row: row + 1 + shape.header + shape.before


def _has_line_breaks(frame: pl.DataFrame) -> bool:
    """Whether a quoted cell goes over a line: then rows are not lines."""
    import polars as pl

    text = frame.select(pl.col(pl.String).str.contains("\n", literal=True).any())
    return bool(text.width) and any(text.row(0))


def _read_carefully(path: Path, source: Path | bytes, shape: Shape) -> Grid:
    import polars as pl

    rows: list[list[str]] = []
    lines: list[int] = []
    for number, text in lines_of(path, source, shape.before):
        if number <= shape.header:
            continue
        cells = split(path, number, text, shape.separator)
        if len(cells) != len(shape.names):
            raise InputError(_wrong_length(path, number, len(cells), shape))
        rows.append(cells)
        lines.append(number)
    if not rows:
        raise InputError(f"{path}, line 1: the file has no trials; write it again")
    columns = dict(zip(shape.names, map(list, zip(*rows, strict=True)), strict=True))
    series = [
        pl.Series(name, _floats(path, name, cells, lines), pl.Float64)
        if name in shape.numbers
        else pl.Series(name, cells, pl.String)
        for name, cells in columns.items()
    ]
    return pl.DataFrame(series), lines.__getitem__


def _floats(path: Path, name: str, cells: Sequence[str], lines: Sequence[int]) -> list[float]:
    for line, cell in zip(lines, cells, strict=True):
        if not _NUMBER.fullmatch(cell.strip()):
            raise InputError(not_a_number(f"{path}, line {line}", name, cell))
    return [float(cell) for cell in cells]


def _wrong_length(path: Path, line: int, cells: int, shape: Shape) -> str:
    hint = "mend or remove this line"
    if shape.separator == "," and cells > len(shape.names):
        hint = "numbers need a decimal point, not a comma, and text with a comma needs quotes"
    return (
        f"{path}, line {line}: {cells} columns where {len(shape.names)} are expected "
        f"({', '.join(name.lstrip('_') for name in shape.names)}); {hint}"
    )


def not_a_number(where: str, name: str, cell: str) -> str:
    """Message about a cell that should hold a number."""
    remedy = "score the trial again, or take it out and pass --allow-missing"
    if _DECIMAL_COMMA.fullmatch(cell.strip()):
        remedy = f"write a decimal point: {cell.strip().replace(',', '.')}"
    return f"{where}, column {name}: {cell!r} is not a finite number; {remedy}"
