"""Recordings in tar files, as releases ship them; they are read in place and never unpacked."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import NamedTuple

from lightning_sasv.errors import InputError

TAR = ".tar"
PACKED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip")
"""Archives that cannot be read in place."""
_BLOCK = 512
_DAMAGE = (tarfile.TarError, OSError, ValueError, OverflowError, MemoryError, RecursionError)
"""What headers with absurd sizes make of the library that reads them."""


class Member(NamedTuple):
    """A file in a tar file.

    Attributes:
        archive: The tar file.
        name: Its name there.
        start: Where its bytes begin.
        size: How many they are.
    """

    archive: Path
    name: str
    start: int
    size: int

    def __str__(self) -> str:
        return f"{self.archive}: {self.name}"

    def read(self) -> bytes:
        """Its bytes.

        Raises:
            InputError: The tar file ends before them.
        """
        with self.archive.open("rb") as file:
            file.seek(self.start)
            found = file.read(self.size)
        if len(found) < self.size:
            raise InputError(f"{self}: the tar file is cut short")
        return found


def members_of(archive: Path) -> tuple[list[Member], str]:
    """Files of a tar file, and what is wrong with its end; nothing where it is whole.

    Only plain files count. Names are names, never places on disk.
    """
    found: list[Member] = []
    if archive.name.lower().endswith(PACKED):
        return found, f"{archive} is compressed and was not looked into: unpack it"
    if not archive.is_file():  # a pipe would be waited for
        return found, f"{archive} is no file"
    try:
        size = archive.stat().st_size
        with tarfile.open(archive, "r:") as tar:
            end = 0
            while (one := _next(tar)) is not None:
                tar.members.clear()  # type: ignore[attr-defined]  # a release has 68,000 of them
                if one.size < 0 or tar.offset <= end:
                    raise tarfile.ReadError(f"{one.name[:100]!r} leads back")
                end = tar.offset
                if one.isreg() and not one.issparse():
                    found.append(Member(archive, one.name, one.offset_data, one.size))
            end = tar.offset
        with archive.open("rb") as file:
            file.seek(min(end, size))
            whole = file.read(_BLOCK) == bytes(_BLOCK)
    except _DAMAGE as error:
        found = [one for one in found if one.start + one.size <= size]
        return found, f"{archive} cannot be read as a tar file ({error or type(error).__name__})"
    cut = bool(found) and found[-1].start + found[-1].size > size
    if whole and not cut:
        return found, ""
    last = found[-1].name if found else "its beginning"
    return found[: len(found) - cut], f"{archive} is cut short at byte {size:,}, in or after {last}"


def _next(tar: tarfile.TarFile) -> tarfile.TarInfo | None:
    """The next member; none at the end, nor where the data of the last one are cut short."""
    try:
        return tar.next()
    except tarfile.ReadError:
        return None
