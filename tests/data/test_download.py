"""Downloads against a server on this machine: whole, cut, corrupted, absent, unreachable."""

from __future__ import annotations

import hashlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lightning_sasv.data import download
from lightning_sasv.data.download import fetch
from lightning_sasv.data.protocols import TrialList
from lightning_sasv.data.published import read_published_scores
from lightning_sasv.data.sources import SOURCES, Source, chosen_mirror
from lightning_sasv.errors import InputError
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
    monkeypatch.setattr(download, "PAUSE", 0.0)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    monkeypatch.delenv("SASV_MIRROR", raising=False)


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving({PATH: CONTENT}) as running:
        yield running


def part_of(folder: Path) -> Path:
    return folder / "folder" / "data.bin.part"


def assert_whole(folder: Path) -> None:
    """The file is there with its content, and nothing else is."""
    assert [p.name for p in sorted(folder.rglob("*")) if p.is_file()] == ["data.bin"]
    assert (folder / "folder" / "data.bin").read_bytes() == CONTENT


def test_a_whole_file_arrives_and_is_not_fetched_again(server: FileServer, tmp_path: Path) -> None:
    told: list[int] = []
    for _ in range(2):
        found = fetch(
            [SOURCE], tmp_path, mirror=server.address, progress=lambda _, have: told.append(have)
        )
    assert found == [tmp_path / "folder" / "data.bin"]
    assert_whole(tmp_path)
    assert server.seen == [(PATH, None)]
    assert told == sorted(told)
    assert told[-1] == len(CONTENT)


def test_a_cut_connection_is_taken_up_where_it_broke(server: FileServer, tmp_path: Path) -> None:
    server.faults[PATH] = [("cut", 70_000), ("cut", 50_000)]
    fetch([SOURCE], tmp_path, mirror=server.address)
    assert_whole(tmp_path)
    starts = [start for _, start in server.seen]
    assert starts[0] is None
    assert 0 < starts[1] <= 70_000 < starts[2] <= 120_000  # type: ignore[operator]
    assert starts[1] > 70_000 - download.CHUNK  # type: ignore[operator]


def test_a_server_that_always_breaks_is_given_up_and_the_part_is_kept(
    server: FileServer, tmp_path: Path
) -> None:
    server.faults[PATH] = [("cut", 70_000), *[("cut", 0)] * 20]
    with pytest.raises(InputError, match=r"bytes are kept; check the network and run the same"):
        fetch([SOURCE], tmp_path, mirror=server.address)
    assert len(server.seen) == download.ATTEMPTS
    kept = part_of(tmp_path).read_bytes()
    assert len(kept) > 50_000
    assert kept == CONTENT[: len(kept)]
    assert not (tmp_path / "folder" / "data.bin").exists()
    server.faults.clear()
    fetch([SOURCE], tmp_path, mirror=server.address)
    assert server.seen[-1] == (PATH, len(kept))
    assert_whole(tmp_path)


def test_an_interrupted_download_continues(server: FileServer, tmp_path: Path) -> None:
    def interrupt(_: Source, have: int) -> None:
        if have > 100_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch([SOURCE], tmp_path, mirror=server.address, progress=interrupt)
    have = part_of(tmp_path).stat().st_size
    assert 100_000 < have < len(CONTENT)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["data.bin.part"]
    fetch([SOURCE], tmp_path, mirror=server.address)
    assert server.seen[-1] == (PATH, have)
    assert_whole(tmp_path)


def test_a_killed_process_leaves_a_part_that_continues(server: FileServer, tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from lightning_sasv.data.download import fetch\n"
        "from lightning_sasv.data.sources import Source\n"
        f"source = {SOURCE!r}\n"
        "def slow(_, have):\n"
        "    print(have, flush=True)\n"
        "    time.sleep(0.05 if have < 90000 else 60)\n"
        f"fetch([source], {str(tmp_path)!r}, mirror={server.address!r}, progress=slow)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while int(process.stdout.readline()) < 90_000:
        time.sleep(0)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    have = part_of(tmp_path).stat().st_size
    assert 0 < have < len(CONTENT)
    fetch([SOURCE], tmp_path, mirror=server.address)
    assert server.seen[-1] == (PATH, have)
    assert (tmp_path / "folder" / "data.bin").read_bytes() == CONTENT


def test_a_corrupted_file_is_refused_and_removed(server: FileServer, tmp_path: Path) -> None:
    server.files[PATH] = OTHER
    with pytest.raises(InputError, match="does not have its pinned SHA-256"):
        fetch([SOURCE], tmp_path, mirror=server.address)
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]
    server.files[PATH] = CONTENT
    fetch([SOURCE], tmp_path, mirror=server.address)
    assert_whole(tmp_path)


@pytest.mark.parametrize("kept", [OTHER[:60_000], OTHER, CONTENT + b"x", CONTENT[:1] * 10])
def test_a_spoilt_part_is_fetched_anew(kept: bytes, server: FileServer, tmp_path: Path) -> None:
    part_of(tmp_path).parent.mkdir()
    part_of(tmp_path).write_bytes(kept)
    fetch([SOURCE], tmp_path, mirror=server.address)
    assert server.seen[-1] == (PATH, None)
    assert_whole(tmp_path)


def test_a_complete_part_needs_no_server(tmp_path: Path) -> None:
    part_of(tmp_path).parent.mkdir()
    part_of(tmp_path).write_bytes(CONTENT)
    fetch([SOURCE], tmp_path, mirror="http://127.0.0.1:9")
    assert_whole(tmp_path)


def test_a_server_without_ranges_sends_everything_again(server: FileServer, tmp_path: Path) -> None:
    server.ranges = False
    server.faults[PATH] = [("cut", 70_000)]
    fetch([SOURCE], tmp_path, mirror=server.address)
    assert len(server.seen) == 2
    assert_whole(tmp_path)


def test_a_server_that_continues_elsewhere_or_refuses_to_is_asked_for_everything(
    server: FileServer, tmp_path: Path
) -> None:
    server.faults[PATH] = [("cut", 70_000), ("shift", 1_000)]
    fetch([SOURCE], tmp_path / "shift", mirror=server.address)
    assert_whole(tmp_path / "shift")
    server.faults[PATH] = [("cut", 70_000), ("status", 416)]
    fetch([SOURCE], tmp_path / "416", mirror=server.address)
    assert_whole(tmp_path / "416")
    assert [start is None for _, start in server.seen] == [True, False, True] * 2


@pytest.mark.parametrize("lengths", [True, False])
@pytest.mark.parametrize("body", [CONTENT + b"more", CONTENT * 2])
def test_a_longer_file_is_refused(
    body: bytes, lengths: bool, server: FileServer, tmp_path: Path
) -> None:
    server.files[PATH], server.lengths = body, lengths
    with pytest.raises(InputError, match=r"bytes or more where 200,000 are pinned"):
        fetch([SOURCE], tmp_path, mirror=server.address)
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_a_shorter_file_is_refused(server: FileServer, tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n"
    server.files[PATH] = pointer
    with pytest.raises(InputError, match="where 200,000 are pinned"):
        fetch([SOURCE], tmp_path, mirror=server.address)
    server.lengths = False
    with pytest.raises(InputError, match=r"the connection ended early|refuses to continue"):
        fetch([SOURCE], tmp_path, mirror=server.address)
    assert not (tmp_path / "folder" / "data.bin").exists()


@pytest.mark.parametrize("status", [404, 403, 429])
def test_a_refusal_of_the_server_is_reported_at_once(
    status: int, server: FileServer, tmp_path: Path
) -> None:
    server.faults[PATH] = [("status", status)]
    with pytest.raises(InputError, match=f"answers {status} .*--mirror URL or SASV_MIRROR"):
        fetch([SOURCE], tmp_path, mirror=server.address)
    assert len(server.seen) == 1


def test_a_fault_of_the_server_is_waited_out(server: FileServer, tmp_path: Path) -> None:
    server.faults[PATH] = [("status", 503), ("status", 500)]
    fetch([SOURCE], tmp_path, mirror=server.address)
    assert_whole(tmp_path)
    server.faults[PATH] = [("status", 503)] * 20
    with pytest.raises(InputError, match="answers 503"):
        fetch([SOURCE], tmp_path / "again", mirror=server.address)


def test_no_network_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    with serving({}) as gone:
        address = gone.address
    with pytest.raises(InputError) as caught:
        fetch([SOURCE], tmp_path, mirror=address)
    message = str(caught.value)
    assert "\n" not in message
    assert re.fullmatch(
        r"cannot fetch data\.bin from 127\.0\.0\.1:\d+: Connection refused; check the network and "
        r"run the same command again, or choose another address \(--mirror URL or SASV_MIRROR\)",
        message,
    )
    unknown = "http://host.invalid"
    with pytest.raises(InputError, match=r"cannot fetch data\.bin from host\.invalid: "):
        fetch([SOURCE], tmp_path, mirror=unknown)


def test_somebodys_own_file_is_never_overwritten(server: FileServer, tmp_path: Path) -> None:
    first, second = pinned(OTHER, "first.bin"), SOURCE
    server.files[first.url("")] = OTHER
    (tmp_path / "folder").mkdir()
    for own in (b"mine", OTHER):
        (tmp_path / "folder" / "data.bin").write_bytes(own)
        with pytest.raises(InputError, match=r"data\.bin is there already and differs"):
            fetch([first, second], tmp_path, mirror=server.address)
        assert (tmp_path / "folder" / "data.bin").read_bytes() == own
    assert not server.seen
    assert not (tmp_path / "first.bin").exists()


def test_a_folder_that_cannot_be_written_is_named(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InputError, match="cannot write to output directory"):
        fetch([SOURCE], tmp_path / "file" / "out", mirror=server.address)
    assert not server.seen


def test_a_full_disk_is_named(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(download.ResumingDownloader, "_append", full)
    with pytest.raises(InputError, match=r"data\.bin\.part: No space left on device"):
        fetch([SOURCE], tmp_path, mirror=server.address)


@pytest.mark.parametrize(
    "place", ["../x", "/etc/x", "a/../../x", "", ".", "a/..", "C:x", "a\\..\\x", "..", "//x"]
)
def test_no_name_leads_out_of_the_folder(place: str) -> None:
    with pytest.raises(InputError, match="leads out of"):
        pinned(CONTENT, place)


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
        if re.match(r"\| (sasv2022|aasist)-", line)
    ]
    published = {
        (row[0].removesuffix(" (LFS)"), *row[1:4], int(row[4]), row[5], row[0].endswith("(LFS)"))
        for row in rows
    }
    ours = {
        (name, s.repository, s.commit, s.path, s.size, s.sha256, s.lfs)
        for name, sources in SOURCES.items()
        for s in sources
    }
    assert len(published) == len(rows) == 17
    assert ours == published
    places = [s.place for name, sources in SOURCES.items() for s in sources if "sasv" in name]
    assert len(set(places)) == len(places)


TRIALS = TrialList(
    np.array(["s1", "s1", "s2"]),
    np.array(["u1", "u2", "u3"]),
    np.array(["-", "A07", "-"]),
    np.array([1, 0, 2], dtype=np.int8),
)


def test_published_scores_get_the_trials_of_the_protocol(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    for text in (
        "asv_score,cm_score,sasv_label\n.5,9,1.0\n.25,-3,0.0\n0,1,2.0\n",
        "asv_score,cm_score\n.5,9\n.25,-3\n0,1\n",
    ):
        path.write_text(text)
        scores = read_published_scores(path, TRIALS)
        assert scores.asv.tolist() == [0.5, 0.25, 0]
        assert scores.cm.tolist() == [9, -3, 1]
        assert scores.label.tolist() == [1, 0, 2]
        assert scores.utterance is TRIALS.utterance


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("asv_score,cm_score\n.5,9\n.25,-3\n", "2 rows of 2 columns, the protocol 3 trials"),
        ("asv_score,cm_score,sasv_label\n.5,9,1\n.25,-3,2\n0,1,2\n", "line 3: label 2"),
        ("asv_score,cm_score\n.5,9\n.25,nan\n0,1\n", "line 3: a score is not a finite"),
        ("asv_score,cm_score\n.5,9\n.25,x\n0,1\n", "cannot read published scores"),
        ("a,b\n.5,9\n", "has the columns"),
    ],
)
def test_published_scores_that_do_not_belong_are_refused(
    text: str, match: str, tmp_path: Path
) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=match):
        read_published_scores(path, TRIALS)
