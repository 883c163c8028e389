"""PyTorch's files as data: tensors and plain values, of no more bytes than the file has.

A file of ``torch.save`` is a zip archive of a pickle and the bytes of its tensors. What the pickle
asks for is compared with a short list, and what the archive unpacks to with the file's size, before
PyTorch reads any of it; what comes out is copied into plain containers.
"""

from __future__ import annotations

import pickletools
import zipfile
from pathlib import Path

import torch
from torch import Tensor, nn

from lightning_sasv.errors import InputError
from lightning_sasv.program import program

MOST_VALUES = 200_000
MOST_DEPTH = 50
MOST_BYTES_OF_PICKLE = 8 * 2**20
_SHARED = 4
"""Tensors may share memory, so that together they may have more bytes than the file."""

_NUMBERS = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
_ADMITTED = {
    "collections OrderedDict",
    "collections Counter",
    "torch Size",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter",
    *(f"torch {name}Storage" for name in _NUMBERS),
}


class _RefusedError(Exception):
    """What is wrong with a file."""


def read_tensor_file(path: str | Path, what: str = "checkpoint") -> object:
    """Content of a file of ``torch.save``, on the CPU: tensors, numbers, texts and containers.

    Args:
        path: The file.
        what: What it should be, for messages.

    Raises:
        InputError: There is no such file, it is damaged, too large for what it says, or asks for
            anything but tensors and plain values; nothing of it is executed in that case.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"no {what} at {path}")
    try:
        _check_pickle(_read_pickle(path))
        content = torch.load(path, map_location="cpu", weights_only=True)
        return _Copy(path.stat().st_size).of(content)
    except _RefusedError as refused:
        raise InputError(
            f"{path} is refused: it {refused}; such a file holds tensors and plain values, "
            "nothing of it was run"
        ) from None
    except Exception:  # a damaged file can raise nearly anything
        raise InputError(
            f"{path} is damaged, or no {what} that PyTorch wrote since its version 1.6"
        ) from None


def _read_pickle(path: Path) -> bytes:
    """The pickle in the archive, once nothing in the archive can swell."""
    with zipfile.ZipFile(path) as archive:
        records = archive.infolist()
        names = [record.filename.lower() for record in records]
        size = sum(record.file_size for record in records)
        packed = any(record.compress_type != zipfile.ZIP_STORED for record in records)
        if packed or size > path.stat().st_size:
            raise _RefusedError(f"would unpack to {size:,} bytes from {path.stat().st_size:,}")
        pickles = [r for r, name in zip(records, names, strict=True) if name.endswith("data.pkl")]
        if len(pickles) != 1 or len(set(names)) < len(names) or archive.comment:
            raise _RefusedError("is an archive that could be read in two ways")
        if pickles[0].file_size > MOST_BYTES_OF_PICKLE * program().limits:
            raise _RefusedError(
                f"describes its tensors in {pickles[0].file_size:,} bytes (--limits)"
            )
        return archive.read(pickles[0])


def _check_pickle(content: bytes) -> None:
    """Refuse a pickle that asks for anything but tensors and containers."""
    for code, argument, _ in pickletools.genops(content):
        if code.name in ("STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4"):
            raise _RefusedError("asks for something by a way that PyTorch does not use")
        if code.name == "GLOBAL" and argument not in _ADMITTED:
            raise _RefusedError(f"asks for {str(argument).replace(' ', '.')[:200]}")


class _Copy:
    """Copies into plain containers, and keeps count.

    Args:
        size: Bytes of the file.
    """

    def __init__(self, size: int) -> None:
        self.bytes_left = size * _SHARED * program().limits
        self.values_left = MOST_VALUES * program().limits

    def of(self, value: object, depth: int = 0) -> object:
        """A copy of ``value``."""
        self.values_left -= 1
        if self.values_left < 0 or depth > MOST_DEPTH:
            raise _RefusedError("holds too many values, or too deep in one another (see --limits)")
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, dict):
            items = ((self.of(k, depth + 1), self.of(v, depth + 1)) for k, v in value.items())
            return dict(items)
        if isinstance(value, list):
            return [self.of(item, depth + 1) for item in value]
        if isinstance(value, tuple):
            return tuple(self.of(item, depth + 1) for item in value)
        if value is None or isinstance(value, bool | float | str):
            return value
        if isinstance(value, int) and value.bit_length() < 64:
            return value
        raise _RefusedError(f"holds a {type(value).__name__} that is no plain value")

    def _tensor(self, value: Tensor) -> Tensor:
        size = value.numel() * value.element_size()
        self.bytes_left -= size
        if value.layout != torch.strided or value.device.type != "cpu":
            raise _RefusedError(f"holds a tensor of layout {value.layout} on {value.device}")
        if self.bytes_left < 0 or size > value.untyped_storage().nbytes():
            raise _RefusedError(f"holds a tensor of {size:,} bytes, which it has not")
        return value.detach() if isinstance(value, nn.Parameter) else value
