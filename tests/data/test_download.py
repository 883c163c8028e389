"""Downloads against a server on this machine: whole, cut, corrupted, absent, unreachable."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from lightning_sasv.data import download
from lightning_sasv.data.downloads import RETRIES, SOURCES, Name, Source, chosen_mirror, fetch
from lightning_sasv.errors import InputError, RunError
from tests.data.file_server import FileServer, serving

CONTENT = np.random.default_rng(0).integers(0, 256, 200_000, dtype=np.uint8).tobytes()
OTHER = bytes(reversed(CONTENT))


def pinned(content: bytes, place: str = "folder/data.bin", **kwargs: bool) -> Source:
    digest = hashlib.sha256(content).hexdigest()
    return Source("owner/name", "0" * 40, f"dir/{place}", len(content), digest, place, **kwargs)


SOURCE = pinned(CONTENT)
PATH = SOURCE.url("http://x").removeprefix("http://x")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pauses, no proxy between the tests and their server, no mirror from outside."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    monkeypatch.delenv("SASV_MIRROR", raising=False)


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving({PATH: CONTENT}) as running:
        yield running


def assert_whole(folder: Path) -> None:
    """The file is there with its content, and nothing else is."""
    assert files_in(folder) == ["data.bin"]
    assert (folder / "folder" / "data.bin").read_bytes() == CONTENT


def files_in(folder: Path) -> list[str]:
    return [p.name for p in folder.rglob("*") if p.is_file()]


def test_a_whole_file_arrives_and_is_not_fetched_again(server: FileServer, tmp_path: Path) -> None:
    told: list[int] = []
    for _ in range(2):
        found = fetch([SOURCE], tmp_path, server.address, lambda name, size: told.append)
    assert found == [tmp_path / "folder" / "data.bin"]
    assert_whole(tmp_path)
    assert server.seen == [PATH]
    assert sum(told) == len(CONTENT)
    umask = os.umask(0)
    os.umask(umask)
    assert found[0].stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.parametrize("lengths", [True, False])
def test_a_cut_connection_is_tried_again(lengths: bool, server: FileServer, tmp_path: Path) -> None:
    server.lengths = lengths
    server.faults[PATH] = [("cut", 70_000), ("cut", 0), ("status", 503), ("status", 500)]
    fetch([SOURCE], tmp_path, server.address)
    assert_whole(tmp_path)
    assert server.seen == [PATH] * 5


@pytest.mark.parametrize("fault", [("cut", 70_000), ("status", 503)])
def test_a_server_that_always_breaks_is_given_up(
    fault: tuple[str, int], server: FileServer, tmp_path: Path
) -> None:
    server.faults[PATH] = [fault] * 20
    with pytest.raises(RunError, match=r"cannot fetch data\.bin from 127.* run the same command"):
        fetch([SOURCE], tmp_path, server.address)
    assert len(server.seen) == 1 + RETRIES
    assert not files_in(tmp_path)


def test_an_interrupted_download_leaves_nothing(server: FileServer, tmp_path: Path) -> None:
    def interrupt(new: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch([SOURCE], tmp_path, server.address, lambda name, size: interrupt)
    assert not files_in(tmp_path)


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n"
SIZE, HASH = "where 200,000 are pinned", "does not have its pinned SHA-256"
MORE = f"bytes or more {SIZE}"


@pytest.mark.parametrize(
    ("body", "said", "said_without_length"),
    [
        (OTHER, HASH, HASH),
        (POINTER, SIZE, HASH),
        (CONTENT + b"more", MORE, MORE),
        (CONTENT * 2, MORE, MORE),
    ],
    ids=["corrupted", "shorter", "longer", "twice"],
)
def test_another_file_is_refused_and_removed(
    body: bytes, said: str, said_without_length: str, server: FileServer, tmp_path: Path
) -> None:
    server.files[PATH] = body
    for server.lengths, message in ((True, said), (False, said_without_length)):
        with pytest.raises(InputError, match=message):
            fetch([SOURCE], tmp_path, server.address)
        assert not files_in(tmp_path)
    server.files[PATH] = CONTENT
    fetch([SOURCE], tmp_path, server.address)
    assert_whole(tmp_path)


@pytest.mark.parametrize("status", [404, 403, 429])
def test_a_refusal_of_the_server_is_reported_at_once(
    status: int, server: FileServer, tmp_path: Path
) -> None:
    server.faults[PATH] = [("status", status)]
    with pytest.raises(InputError, match=f"answers {status} .*--mirror URL or SASV_MIRROR"):
        fetch([SOURCE], tmp_path, server.address)
    assert len(server.seen) == 1


def test_no_network_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    with serving({}) as gone:
        address = gone.address
    said = (
        r"^cannot fetch data\.bin from 127\.0\.0\.1:\d+: Connection refused; check the network and "
        r"run the same command again, or choose another address \(--mirror URL or SASV_MIRROR\)$"
    )
    with pytest.raises(RunError, match=said):
        fetch([SOURCE], tmp_path, address)
    with pytest.raises(RunError, match=r"cannot fetch data\.bin from host\.invalid: "):
        fetch([SOURCE], tmp_path, "http://host.invalid")


def test_somebodys_own_file_is_never_overwritten(server: FileServer, tmp_path: Path) -> None:
    first, second = pinned(OTHER, "first.bin"), SOURCE
    server.files[first.url("")] = OTHER
    (tmp_path / "folder").mkdir()
    for own in (b"mine", OTHER):
        (tmp_path / "folder" / "data.bin").write_bytes(own)
        with pytest.raises(InputError, match=r"data\.bin is there already and differs"):
            fetch([first, second], tmp_path, server.address)
        assert (tmp_path / "folder" / "data.bin").read_bytes() == own
    assert not server.seen
    assert not (tmp_path / "first.bin").exists()


def test_a_folder_that_cannot_be_written_and_a_full_disk_are_named(
    server: FileServer, tmp_path: Path
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InputError, match="cannot write to output directory"):
        fetch([SOURCE], tmp_path / "file" / "out", server.address)
    assert not server.seen
    with pytest.raises(InputError, match=r"cannot write .*data\.bin: No space left on device"):
        fetch([SOURCE], tmp_path, server.address, lambda name, size: full)


def test_addresses_are_those_of_the_hosts_or_the_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    tail = f"owner/name/{'0' * 40}/dir/folder/data.bin"
    assert SOURCE.url() == f"https://raw.githubusercontent.com/{tail}"
    large = pinned(CONTENT, lfs=True)
    assert large.url() == f"https://media.githubusercontent.com/media/{tail}"
    assert large.url("https://my.org/sasv/") == f"https://my.org/sasv/media/{tail}"
    assert chosen_mirror(None) is None
    monkeypatch.setenv("SASV_MIRROR", "https://my.org")
    assert chosen_mirror(None) == "https://my.org"
    assert chosen_mirror("http://here") == "http://here"
    for wrong in ("file:///etc", "my.org", "ftp://my.org"):
        with pytest.raises(InputError, match="must begin with https://"):
            chosen_mirror(wrong)


def test_the_table_is_the_published_one(shared: Path) -> None:
    rows = [
        [cell.strip() for cell in line.strip("| \n").split("|")]
        for line in (shared / "downloads.md").read_text().splitlines()
        if line.startswith(("| sasv2022-", "| aasist-", "| referee"))
    ]
    published = {
        (row[0].split()[0], *row[1:4], int(row[4]), row[5], "LFS" in row[0], "non-c" in row[0])
        for row in rows
    }
    ours = {
        (name, s.repository, s.commit, s.path, s.size, s.sha256, s.lfs, "non-c" in s.terms)
        for name, sources in SOURCES.items()
        for s in sources
    }
    assert len(published) == 27
    assert ours == published
    places = [s.place for name, sources in SOURCES.items() for s in sources if "sasv" in name]
    assert len(set(places)) == len(places)
    assert all(re.fullmatch(r"([\w-]+/)?\w[\w.-]*", place) for place in places)


def test_an_unknown_download_is_named() -> None:
    with pytest.raises(InputError, match="unknown download 'moon'; there are sasv2022-scores, "):
        download("moon")  # type: ignore[arg-type]
    assert get_args(Name) == tuple(SOURCES)
