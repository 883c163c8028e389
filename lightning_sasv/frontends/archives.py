"""Recordings in tar files, as releases ship them; they are read in place and never unpacked."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import NamedTuple

from lightning_sasv.errors import InputError

TAR = ".tar"
_BLOCK = 512


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
    try:
        size = archive.stat().st_size
        with tarfile.open(archive, "r:") as tar:
            while (one := _next(tar)) is not None:
                tar.members.clear()  # type: ignore[attr-defined]  # a release has 68,000 of them
                if one.isreg():
                    found.append(Member(archive, one.name, one.offset_data, one.size))
            end = tar.offset
        with archive.open("rb") as file:
            file.seek(min(end, size))
            whole = file.read(_BLOCK) == bytes(_BLOCK)
    except (tarfile.TarError, OSError) as error:
        return found, f"{archive} cannot be read as a tar file ({error})"
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
