"""The public files that can be fetched: repository, commit, size and SHA-256 of each.

Every address names a commit, and every file is checked against the size and the SHA-256 that it
had there. Objects of Git Large File Storage have an address of their own; their SHA-256 is the
``oid`` of the pointer in the repository.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import quote

from lightning_sasv.errors import InputError

PLAIN_HOST = "https://raw.githubusercontent.com"
LFS_HOST = "https://media.githubusercontent.com"
MIRROR = "SASV_MIRROR"
"""Environment variable with the address of a mirror, in place of both hosts."""


@dataclass(frozen=True)
class Source:
    """One published file.

    Attributes:
        repository: ``owner/name``.
        commit: Full commit hash.
        path: Path within the repository.
        size: Bytes.
        sha256: SHA-256 of the content, in hexadecimal.
        place: Path below the folder of the download, ``/`` between its parts.
        lfs: Whether the repository holds a pointer and the content is a Git LFS object.
    """

    repository: str
    commit: str
    path: str
    size: int
    sha256: str
    place: str
    lfs: bool = False

    def __post_init__(self) -> None:
        place = PurePosixPath(self.place)
        if place.is_absolute() or not place.name or {"..", "\\", ":"} & set(self._letters()):
            raise InputError(f"place {self.place!r} leads out of the folder of the download")

    def _letters(self) -> Iterable[str]:
        return (*PurePosixPath(self.place).parts, *self.place)

    def url(self, mirror: str | None = None) -> str:
        """Address of the file.

        Args:
            mirror: ``http(s)://host[/folder]`` in place of the host; the rest of the address is
                the same there: ``/owner/name/commit/path``, with ``/media`` before it for an LFS
                object.
        """
        host = mirror.rstrip("/") if mirror else LFS_HOST if self.lfs else PLAIN_HOST
        prefix = "/media" if self.lfs else ""
        return f"{host}{prefix}/{self.repository}/{self.commit}/{quote(self.path)}"


def chosen_mirror(mirror: str | None) -> str | None:
    """The mirror asked for, else that of the environment, else none."""
    address = mirror or os.environ.get(MIRROR) or None
    if address is not None and not address.startswith(("http://", "https://")):
        raise InputError(f"mirror {address!r} must begin with https:// or http://")
    return address


_BASELINE = "sasv-challenge/SASVC2022_Baseline", "1545f2bbc5860504cd24003e864fa06adcfdd26e"
_ASVSPOOF5 = "asvspoof-challenge/asvspoof5", "fe23d3053a0889b305d98c9e4cadf418c213d972"
_AASIST = "clovaai/aasist", "a04c9863f63d44471dde8a6abcb3b082b07cd1d1"

Files = dict[str, tuple[int, str]]


def _sources(
    origin: tuple[str, str], folder: str, files: Files, below: str, *, lfs: bool = False
) -> tuple[Source, ...]:
    """Files ``{name: (size, SHA-256)}`` of one folder of a repository, kept in ``below``."""
    return tuple(
        Source(*origin, f"{folder}/{name}", *pin, f"{below}{name}", lfs)
        for name, pin in files.items()
    )


_SCORES: Files = {
    "dev_scores_label.csv": (
        1_245_045,
        "fa4332f810342a2109bf2ed7f6a8f5247c03fd21eda45c1ace4f391f6d8e4dcd",
    ),
    "eval_scores.csv": (
        3_912_671,
        "a9ea37713ba6c5cc45dd4b3f449e6993d8af0d89ad40698b5e9d9e5952e78828",
    ),
}
_PROTOCOLS: Files = {
    "ASVspoof2019.LA.asv.dev.gi.trl.txt": (
        976_804,
        "716031424bd2f90bb912831e0e02224c7b087ecf7ed02487fba031cf3fe5c6b4",
    ),
    "ASVspoof2019.LA.asv.eval.gi.trl.txt": (
        3_512_112,
        "2a742094893202c6324657dd40a1d287ef16de7122a6d7ce265e2a2b77796b17",
    ),
    "ASVspoof2019.LA.cm.dev.trl.txt": (
        822_400,
        "2fedaebf1ba3ae1a9bb7d3ec916804ac237b4eee063a27fa92e6549f03d129c7",
    ),
    "ASVspoof2019.LA.cm.eval.trl.txt": (
        2_358_176,
        "84fce576efff092269a0a6ad247d2e9f2f7b4d4e25a4545efb2518da92708036",
    ),
    "ASVspoof2019.LA.cm.train.trn.txt": (
        840_120,
        "65a289e4009400b42bb4f1e47ac60938d93f7f595452d1f220d35defc3de8ab8",
    ),
}
_EMBEDDINGS: Files = {
    "asv_embd_dev.pk": (
        20_275_627,
        "b0037eca30f868a1ca76802af5f83b18152f97075883c1f7f9e23e7dc7cf0945",
    ),
    "asv_embd_eval.pk": (
        58_137_566,
        "166f1fc2206fb772cad646fe46ae10035688f0e29a627905a364ce3dbc1cd2ab",
    ),
    "asv_embd_trn.pk": (
        20_713_068,
        "fd0d83299e64dcf9238e56d6d07951ead149544f3d73e5650e5e25f72bc4e924",
    ),
    "cm_embd_dev.pk": (
        17_095_163,
        "c2ab34390033d03209cfdc503c05729f6b8db2373fad3c7cafe5b47281c59558",
    ),
    "cm_embd_eval.pk": (
        49_017_997,
        "09404cb93b89a981eb38db78eafb2881416a7448ef1dd55bbe98859b8fb00ed8",
    ),
    "cm_embd_trn.pk": (
        17_463_987,
        "8bce9eb413b4bec340778b5c56da8c5f68d68eabdce2da22b789229014d9d0d8",
    ),
    "spk_model_dev.pk": (
        8_231,
        "c14e4a4cf713d5662d08f618a835dad0b628b2a27bb94838d2488e69c063bec0",
    ),
    "spk_model_eval.pk": (
        39_049,
        "6d84fed3550f1bdd1ed28c4a566b9c37d0677e4ac124a2f66ddda189a3f7096b",
    ),
}
_WEIGHTS: Files = {
    "AASIST.pth": (
        1_281_532,
        "51d2d9cf0738172f61e2a384ec50a54a55363240f67c971ed55a92435bc1a1c0",
    ),
    "AASIST-L.pth": (
        426_428,
        "814331d088032bb4c3fa61cc014789eadeed464209dd094ab3a2dd6ffbdce27a",
    ),
}

SOURCES: dict[str, tuple[Source, ...]] = {
    "sasv2022-scores": _sources(_ASVSPOOF5, "Tool-score-fusion", _SCORES, "published/"),
    "sasv2022-protocols": _sources(_BASELINE, "protocols", _PROTOCOLS, "protocols/"),
    "sasv2022-embeddings": _sources(_BASELINE, "embeddings", _EMBEDDINGS, "embeddings/", lfs=True),
    "aasist-weights": _sources(_AASIST, "models/weights", _WEIGHTS, ""),
}
"""The files of each download, by name."""
