"""Fetching pinned files: what is there stays, what was cut off continues, what is wrong is refused.

A file is received into ``NAME.part``, which outlives an interruption, and takes its own name only
when its size and SHA-256 are right. Nothing that was fetched is executed.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lightning_sasv.data.sources import MIRROR, Source, chosen_mirror
from lightning_sasv.errors import InputError
from lightning_sasv.files import ensure_directory

if TYPE_CHECKING:
    from requests import Response

Progress = Callable[[Source, int], None]
"""Told of each file how many of its bytes are there."""

CHUNK = 1 << 14
TIMEOUT = (10.0, 30.0)
"""Seconds to connect, and between two pieces of an answer."""
ATTEMPTS = 5
"""Connections in a row that may break without having brought anything new."""
PAUSE = 1.0
"""Seconds before the first new attempt; doubled each time."""
RANGE_REFUSED, PARTIAL, SERVER_FAULT = 416, 206, 500


class BrokenConnectionError(Exception):
    """A connection that ended early; another one may bring the rest."""


class ResumingDownloader:
    """Receives one file for pooch, from where an earlier attempt was cut off.

    Args:
        source: The file.
        part: Where its bytes are gathered.
        progress: Told how many bytes are there.
    """

    def __init__(self, source: Source, part: Path, progress: Progress) -> None:
        self.source, self.part, self.progress = source, part, progress

    def __call__(self, url: str, output_file: Any, pooch: Any, check_only: bool = False) -> None:
        """Receive ``url`` into ``output_file``; the name and order of arguments are pooch's."""
        with _file_errors(self.part):
            fresh = self._have() == 0
            self._receive_all(url)
            if (
                not self._is_right() and not fresh
            ):  # pieces of two attempts: once more, from scratch
                self.part.unlink()
                self._receive_all(url)
            if not self._is_right():
                self.part.unlink()
                raise InputError(
                    f"{url} does not have its pinned SHA-256 ({self.source.sha256[:12]}…): it was "
                    "altered on the way or at the server; nothing was kept, try again or choose "
                    f"another address ({_REMEDY})"
                )
            self.part.replace(output_file)

    def _have(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _is_right(self) -> bool:
        return self._have() == self.source.size and _sha256(self.part) == self.source.sha256

    def _receive_all(self, url: str) -> None:
        """Connect as often as it takes, as long as something new arrives now and then."""
        if self._have() > self.source.size:
            self.part.unlink()
        failures, most = 0, self._have()
        while self._have() < self.source.size:
            try:
                self._connect(url)
            except BrokenConnectionError as error:
                failures = 1 if self._have() > most else failures + 1
                most = max(most, self._have())
                if failures >= ATTEMPTS:
                    raise InputError(self._broken(url, error)) from None
                time.sleep(PAUSE * 2 ** (failures - 1))

    def _broken(self, url: str, error: Exception) -> str:
        have = self._have()
        kept = f"; {have:,} of {self.source.size:,} bytes are kept" if have else ""
        return (
            f"cannot fetch {self.part.stem} from {urlsplit(url).netloc}: {error}{kept}; check the "
            f"network and run the same command again, or choose another address ({_REMEDY})"
        )

    def _connect(self, url: str) -> None:
        """One connection: ask for what is missing and append it."""
        import requests

        start = self._have()
        headers = {"Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
        try:
            with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
                if answer.status_code == RANGE_REFUSED and start:
                    self.part.unlink()
                    raise BrokenConnectionError("the server refuses to continue")
                _check_status(answer, url)
                start = self._agreed_start(answer, start, url)
                self._append(answer.iter_content(CHUNK), start, url)
        except requests.RequestException as error:
            raise BrokenConnectionError(_cause(error)) from None
        if self._have() < self.source.size:
            raise BrokenConnectionError("the connection ended early")

    def _agreed_start(self, answer: Response, start: int, url: str) -> int:
        """Where the answer begins, and whether it has the right length."""
        if answer.status_code != PARTIAL:
            start = 0  # the server does not know ranges, and sends everything
        elif not answer.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            self.part.unlink(missing_ok=True)
            raise BrokenConnectionError("the server continues at the wrong place")
        length = answer.headers.get("Content-Length", "")
        if length.isdigit() and not answer.headers.get("Content-Encoding"):
            self._check_size(start + int(length), url)
        return start

    def _append(self, chunks: Iterable[bytes], start: int, url: str) -> None:
        have = start
        with self.part.open("r+b" if start else "wb") as file:
            file.seek(start)
            for chunk in chunks:
                have += len(chunk)
                if have > self.source.size:
                    self._check_size(have, url)
                file.write(chunk)
                self.progress(self.source, have)

    def _check_size(self, size: int, url: str) -> None:
        if size != self.source.size:
            self.part.unlink(missing_ok=True)
            raise InputError(
                f"{url} has {size:,} bytes or more where {self.source.size:,} are pinned: this is "
                f"another file; nothing was kept, choose another address ({_REMEDY})"
            )


_REMEDY = f"--mirror URL or {MIRROR}"


def fetch(
    sources: Iterable[Source],
    out: str | Path,
    *,
    mirror: str | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Fetch files into a folder, each checked against its pinned size and SHA-256.

    Files that are there and right are left alone. One that is there and differs is somebody's own:
    it is reported before anything is fetched, never overwritten.

    Args:
        sources: The files.
        out: Folder of the download.
        mirror: Address in place of GitHub's; by default ``$SASV_MIRROR``, if set.
        progress: Told of each file how many of its bytes are there.

    Returns:
        The files, in the order of ``sources``.

    Raises:
        InputError: A file cannot be fetched, is not what was pinned, or stands in the way.
    """
    import pooch

    wanted, address = tuple(sources), chosen_mirror(mirror)
    folder = ensure_directory(out)
    tell = progress or (lambda source, have: None)
    for source in wanted:
        _refuse_other(folder / source.place, source)
    pooch.get_logger().setLevel("WARNING")
    store = pooch.create(
        path=folder,
        base_url="",
        registry={source.place: f"sha256:{source.sha256}" for source in wanted},
        urls={source.place: source.url(address) for source in wanted},
        allow_updates=False,
    )
    paths = []
    for source in wanted:
        path = folder / source.place
        ensure_directory(path.parent)
        receiver = ResumingDownloader(source, path.with_name(path.name + ".part"), tell)
        paths.append(Path(store.fetch(source.place, downloader=receiver)))
        tell(source, source.size)
    return paths


def _refuse_other(path: Path, source: Source) -> None:
    """Raise where another file has the name of ours."""
    if not path.exists():
        return
    if path.is_file() and path.stat().st_size == source.size and _sha256(path) == source.sha256:
        return
    raise InputError(
        f"{path} is there already and differs from the published file; move it away or choose "
        "another --out"
    )


def _check_status(answer: Response, url: str) -> None:
    status = answer.status_code
    if status >= SERVER_FAULT:
        raise BrokenConnectionError(f"the server answers {status} {answer.reason}")
    if not answer.ok:
        raise InputError(
            f"{url}: the server answers {status} {answer.reason}; try again later or choose "
            f"another address ({_REMEDY})"
        )


def _cause(error: BaseException) -> str:
    """The innermost reason of a network error, in a few words."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())[:120]


def _sha256(path: Path) -> str:
    with _file_errors(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _file_errors(path: Path) -> Iterator[None]:
    """Report an error of the file system with the name of the file."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
