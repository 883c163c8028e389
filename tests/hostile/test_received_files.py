"""Descriptions of corpora, shards, archives, speaker models and requests of somebody else."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import torch

from lightning_sasv.data.embeddings import SUFFIX, EmbeddingStore
from lightning_sasv.frontends.archives import members_of
from lightning_sasv.frontends.manifest import FORMAT, MANIFEST
from tests.hostile.conftest import Attack

TRIALS = "asvspoof5-trials"


def corpus(here: Path, **more: Any) -> str:
    """A description of a corpus of two lists, with something else in it."""
    sets = {name: {"lists": {f"{name}.txt": TRIALS}} for name in ("dev", "eval")}
    (here / "x.yaml").write_text(json.dumps(sets | more))
    return "x.yaml"


OUT_OF_THE_FOLDER = ("../../x.txt", "/outside.txt", "a/../../x.txt", "..", "", "a\0b", "**/**/x")


@pytest.mark.parametrize("name", OUT_OF_THE_FOLDER)
def test_lists_of_a_corpus_stay_in_its_folder(name: str, here: Path, attack: Attack) -> None:
    """``simulate --corpus`` would write them wherever the description says."""
    listed = {"dev.txt": TRIALS}
    places: list[dict[str, Any]] = [
        {"lists": {name: TRIALS}},
        {"lists": listed, "details": {name: TRIALS}},
    ]
    if name and "\0" not in name:
        places += [{"lists": listed, "enrolment": name}, {"lists": listed, "audio": name}]
    for place in places:
        file = corpus(here, dev=place)
        words = ("--scale=0.005", "--out=out", f"--corpus={file}")
        assert "x.yaml: corpus x, dev: " in attack("simulate", *words)


DESCRIPTIONS: dict[str, dict[str, Any]] = {
    "no lists": {"dev": {"lists": {}}},
    "a list of lists": {"dev": {"lists": ["dev.txt"]}},
    "details of another kind": {"dev": {"lists": {"dev.txt": TRIALS}, "details": ["x"]}},
    "an ending that nothing has": {"ending": "moon"},
    "an open group": {"values": {"utterance": "(a"}},
    "a range the wrong way round": {"values": {"utterance": "[z-a]"}},
    "years of trying": {"values": {"utterance": r"(\w+)+!"}},
    "years of trying without groups": {"values": {"utterance": r"\w?" * 40 + "!"}},
    "a number": {"values": {"utterance": 5}},
}


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_descriptions_of_corpora(name: str, here: Path, attack: Attack) -> None:
    file = corpus(here, **DESCRIPTIONS[name])
    assert "corpus x" in attack("simulate", "--scale=0.005", "--out=out", f"--corpus={file}")


def shards(here: Path, stem: str = "cm_embd", **changes: Any) -> tuple[str, str]:
    """Two folders of an extraction, in folders of their own; the second has one thing changed."""
    folders = [here / parent / "shard" for parent in ("a", "b")]
    for number, folder in enumerate(folders, 1):
        folder.mkdir(parents=True)
        store = EmbeddingStore([f"u{number}"], torch.ones(1, 2 + number * ("dim" in changes)), "x")
        store.save((folder / f"{stem}{SUFFIX}").resolve())
        entry = {"utterances": 1, "failures": {}} | (changes if number == 2 else {})
        stores = {stem: 5 if "entry" in entry else entry}
        content = {"format": FORMAT, "stores": stores, "shard": f"{number}/2"}
        (folder / MANIFEST).write_text(json.dumps(content))
    return f"{folders[0]}", f"{folders[1]}"


@pytest.mark.parametrize(
    "changes",
    [
        {"stem": "../x"},
        {"stem": "../../outside"},
        {"failures": ["u9"]},
        {"failures": None},
        {"utterances": "many"},
        {"entry": 5},
        {"dim": 3},
    ],
)
def test_shards_of_an_extraction(changes: Any, here: Path, attack: Attack) -> None:
    """A manifest names stores, which are read and written under that name."""
    attack("import", *shards(here, **changes), "--out=out")
    assert not list(here.parent.glob(f"*{SUFFIX}"))


def entry(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """The head of a member of a tar file, with any size."""
    head = bytearray(tarfile.TarInfo(name).tobuf(tarfile.GNU_FORMAT))
    head[124:136] = (b"\xff" if size < 0 else b"\x80") + (size % (1 << 88)).to_bytes(11, "big")
    head[156:157], head[148:156] = kind, b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


def extended(**records: str) -> bytes:
    """A header that says more of the member behind it."""
    lines = [f" {name.replace('_', '.')}={value}\n" for name, value in records.items()]
    text = "".join(f"{len(line) + 2}{line}" for line in lines).encode()
    return entry("x", len(text), tarfile.XHDTYPE) + text.ljust(512, b"\0") + entry("a.wav", 0)


TARS = {
    "back to itself": entry("b.wav", 0) + entry("a.wav", -512),
    "before the beginning": entry("a.wav", -1024),
    "huge": entry("a.wav", 2**60),
    "beyond any file": entry("a.wav", 2**80),
    "a huge header": entry("x", 2**60, tarfile.XHDTYPE),
    "a header beyond any file": entry("x", 2**80, tarfile.XHDTYPE),
    "a huge name": entry("x", 2**60, tarfile.GNUTYPE_LONGNAME),
    "headers of headers": entry("x", 0, tarfile.XHDTYPE) * 3000,
    "sparse": extended(GNU_sparse_size="x"),
    "a size below nothing": extended(size="-5"),
}
TARS = {name: data + bytes(4096) for name, data in TARS.items()}
"""Archives whose headers lie about sizes."""


@pytest.mark.parametrize("name", TARS)
def test_archives_of_recordings(name: str, here: Path) -> None:
    """Python's own reader goes round in circles, or asks for all memory."""
    (here / "x.tar").write_bytes(TARS[name])
    members, wrong = members_of(here / "x.tar")
    assert wrong.startswith(f"{here / 'x.tar'} ")
    assert all(0 <= one.size <= len(TARS[name]) for one in members)
