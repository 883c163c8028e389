"""Descriptions of corpora, shards, archives, speaker models and requests of somebody else."""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save

from lightning_sasv.cli import main
from lightning_sasv.data.embeddings import SUFFIX, EmbeddingStore
from lightning_sasv.decisions import PRESETS
from lightning_sasv.deploy.before_fusion import Head
from lightning_sasv.deploy.bundle import load, write_bundle
from lightning_sasv.deploy.speakers import SpeakerModels
from lightning_sasv.errors import InputError
from lightning_sasv.experiment.search import open_study, suggest
from lightning_sasv.files import read_json, read_yaml, sha256
from lightning_sasv.fitted import read_fitted
from lightning_sasv.frontends.audio import members_of, read_audio, read_recording
from lightning_sasv.frontends.graphs import Fbank, GraphFrontEnd
from lightning_sasv.frontends.manifest import FORMAT, MANIFEST
from lightning_sasv.fusion import build_system
from lightning_sasv.locks import lock
from lightning_sasv.places import LOCK
from lightning_sasv.program import Program, using
from lightning_sasv.scores import read_table
from tests.hostile.conftest import Attack
from tests.hostile.corpus import altered_bundle, safetensors
from tests.scores.samples import toy_scores

TRIALS = "asvspoof5-trials"


SETS: dict[str, Any] = {name: {"lists": {f"{name}.txt": TRIALS}} for name in ("dev", "eval")}


def corpus(here: Path, **more: Any) -> str:
    """A description of a corpus of two lists, with something else in it."""
    (here / "x.yaml").write_text(json.dumps(SETS | more))
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
    "out of its folder": {"dev": {"lists": {OUT_OF_THE_FOLDER[0]: TRIALS}}},
    "enrolment out of its folder": {"dev": SETS["dev"] | {"enrolment": "../../x"}},
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


HEADS = {
    "a list": "[]",
    "nothing": "null",
    "no JSON": "{",
    "deep": "[" * 100_000,
    "no settings": "{}",
    "another type": json.dumps({"made_by": 1, "negative_slope": [], "hop": {}}),
}


def headed(text: str) -> bytes:
    """A file of arrays with this in its head."""
    arrays = {"model": np.ones(3, np.float32), "window": np.ones(4), "mel": np.ones((3, 2))}
    return save(arrays, {"lightning_sasv": text})


LACKED = {"model": {"dtype": "F8_E4M3", "shape": [2], "data_offsets": [0, 2]}}
SMALL_FILES = {name: headed(text) for name, text in HEADS.items()}
SMALL_FILES["numbers that numpy lacks"] = safetensors(LACKED, b"ab")


@pytest.mark.parametrize("name", SMALL_FILES)
def test_small_files(name: str, here: Path) -> None:
    """Fits, speaker models, CM heads and features: what is wrong with them is told in a line."""
    (here / "anna.safetensors").write_bytes(SMALL_FILES[name])
    for read in (
        lambda: SpeakerModels(here).read("anna", {}),
        lambda: read_fitted(here / "anna.safetensors"),
        lambda: Head.load(here / "anna.safetensors"),
        lambda: Fbank.read(here / "anna.safetensors"),
    ):
        with pytest.raises(InputError, match=r"anna\.safetensors"):
            read()


LINES = {
    "deep": b"[" * 200_000,
    "no UTF-8": b'\xff{"asv": 1}',
    "no UTF-8 in a name": b'{"probe": "\xff", "name": "anna"}',
    "long": b"x" * 3_000_000,
    "a number of many digits": b'{"asv": ' + b"1" * 5_000 + b', "cm": 1}',
    "beyond numbers": b'{"asv": 1' + b"0" * 400 + b', "cm": 1}',
    "no numbers": b'{"asv": [1], "cm": {}}',
    "a name of another folder": b'{"probe": "a.wav", "name": "../x"}',
    "a long name": b'{"probe": "a.wav", "name": "' + b"x" * 5_000 + b'"}',
}


@pytest.mark.parametrize("name", LINES)
def test_a_bad_line_does_not_end_the_service(
    name: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_bundle(here / "x", build_system("B1"), toy_scores(90), PRESETS["equal"], name="B1")
    content = LINES[name] + b'\n{"asv": 1, "cm": 1}\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), "utf-8"))
    main(["serve", "--bundle=x", "--stdin"])
    bad, good = capsys.readouterr().out.splitlines()
    assert json.loads(bad).keys() == {"error"}
    assert json.loads(good)["decision"] in ("accept", "reject")


DESCRIBED = {
    "no rate": {"sample_rate": 0},
    "a rate beyond any": {"sample_rate": 2**70},
    "no samples": {"samples": 0},
    "fewer than none": {"samples": -1},
    "samples beyond memory": {"samples": 2**70},
    "infinity": {"samples": float("inf")},
    "another size": {"dim": 3},
    "another input": {"samples": 7},
}


@pytest.mark.parametrize("name", DESCRIBED)
def test_what_a_bundle_says_of_its_graphs(name: str, here: Path) -> None:
    pytest.importorskip("onnxruntime")
    helper = pytest.importorskip("onnx").helper
    shapes = {"values": [1, 8], "y": [1, 8]}
    values = [helper.make_tensor_value_info(key, 1, shape) for key, shape in shapes.items()]
    graph = helper.make_graph(
        [helper.make_node("Neg", ["values"], ["y"])], "g", values[:1], values[1:]
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    (here / "cm.onnx").write_bytes(model.SerializeToString())
    files = {"cm.onnx": sha256(here / "cm.onnx")}
    about = {"dim": 8, "sample_rate": 16_000, "samples": 8, "files": files}
    assert GraphFrontEnd(here, "cm", about).embed([np.ones(5)]).shape == (1, 8)
    with pytest.raises(InputError, match="cm"):
        GraphFrontEnd(here, "cm", about | DESCRIBED[name]).embed([np.ones(5)])
    (here / "cm.onnx").rename(here.parents[1] / "cm.onnx")
    (here / "cm.onnx").symlink_to(here.parents[1] / "cm.onnx")
    with pytest.raises(InputError, match="leads out of"):
        GraphFrontEnd(here, "cm", about)


def test_names_that_no_recording_can_have(here: Path) -> None:
    for name in ("x" * 5_000, "a\0b"):
        with pytest.raises(InputError, match="no such file"):
            read_recording(name, 16_000, None)


@pytest.mark.parametrize("value", ["x", 5, [[]], {"cm": 1}])
def test_front_ends_of_a_bundle_are_described(value: Any, here: Path) -> None:
    with pytest.raises(InputError, match=r"bundle\.json"):
        load(altered_bundle(here / "x", ["front_ends"], value))


def test_silence_of_hours_is_not_read(here: Path) -> None:
    """A flac file of 30 kB that would be 2 GB in memory, were it not for the limit."""
    soundfile = pytest.importorskip("soundfile")
    with soundfile.SoundFile(here / "x.flac", "w", 16_000, 8, "PCM_16") as file:
        file.write(np.zeros((16_000 * 30, 8), np.int16))
    with using(Program(limits=0.01)):
        for read in (read_audio, lambda path: read_recording(path, 16_000, None)):
            with pytest.raises(InputError, match=r"x\.flac: more than 2,000,000 samples"):
                read(here / "x.flac")
        assert read_audio(here / "x.flac", samples=64_600).shape == (64_600,)


ROW = {"speaker": "S", "utterance": "U", "label": "target", "asv_score": 1, "cm_score": 1}
ROWS = {
    "half a character": ROW | {"speaker": "\ud800"},
    "half a character of a recording": ROW | {"wav": ["\udc00", "b"]},
    "half a character as a key": ROW | {"\udfff": 1},
    "too many columns": ROW | {f"k{n}": 1 for n in range(10_000)},
    "deep": ROW | {"speaker": json.loads("[" * 100 + "]" * 100)},
    "beyond numbers": ROW | {"cm_score": 10**400},
    "an object": ROW | {"speaker": {"class_path": "os.system"}},
}


@pytest.mark.parametrize("name", ROWS)
def test_json_lines(name: str, here: Path, attack: Attack) -> None:
    (here / "x.jsonl").write_text(json.dumps(ROWS[name]) + "\n")
    assert "x.jsonl" in attack("evaluate", "x.jsonl")


def test_many_columns_take_no_time(here: Path) -> None:
    (here / "x.jsonl").write_text(json.dumps(ROW | {f"k{n}": 1 for n in range(5_000)}) + "\n")
    start = time.process_time()
    assert len(read_table("x.jsonl").frame.columns) == 5_005
    assert time.process_time() - start < 5


def test_a_page_of_claims_holds_no_html(here: Path, attack: Attack) -> None:
    script = "<script>alert(1)</script>"
    claim = {"system": script, "metric": "cm_eer", "published": "1.0", "note": script}
    content = {"title": script, "about": script, "claims": [claim | {"source": script}]}
    (here / "x.yaml").write_text(json.dumps(content))
    attack("referee", "x.yaml", "--markdown=out/x.md", refused=False)
    assert "<" not in (here / "out" / "x.md").read_text()


def test_pipes_in_a_folder_are_not_waited_for(here: Path, attack: Attack) -> None:
    """A tar file can hold some; one that somebody writes to is read, as ``--config <(…)`` is."""
    for place in ("x/metrics.json", f"x/{LOCK}", "x.tar", "config.yaml"):
        (here / place).parent.mkdir(exist_ok=True)
        os.mkfifo(here / place)
    with pytest.raises(InputError, match="nobody writes to it"):
        read_json(here / "x" / "metrics.json")
    assert "nobody writes to it" in attack("init", "--config=config.yaml")
    with pytest.raises(InputError, match="does not say who"):
        lock(here / "x").__enter__()
    assert members_of(here / "x.tar") == ([], f"{here / 'x.tar'} is no file")
    end, start = os.pipe()

    def write() -> None:
        os.write(start, b"a: 1")
        os.close(start)

    threading.Timer(0.2, write).start()
    assert read_yaml(f"/dev/fd/{end}") == {"a": 1}
    os.close(end)


def test_a_name_that_no_folder_can_have(configured: Attack) -> None:
    configured('folder: "a\\0b"\n', "init")


JOURNALS = {
    "no JSON": b"x\n",
    "a pickle": b"\x80\x04K\x01.\n",
    "no object": b"[]\n",
    "no operation": b'{"op_code": 99, "worker_id": "x"}\n',
    "cut short": b'{"op_code": 0, "worker_id": "x", "study_na',
}


def test_journals_of_searches(here: Path) -> None:
    """Lines of JSON in a folder of runs, which may be somebody else's."""
    pytest.importorskip("optuna")
    journal = here / "runs" / "x.journal"
    journal.parent.mkdir()
    for content in JOURNALS.values():
        journal.write_bytes(content)
        with pytest.raises(InputError, match=r"x\.journal is damaged"):
            open_study(str(journal), "x", "minimize")
    journal.unlink()
    (here / "mine").write_text("")
    journal.symlink_to(here / "mine")
    with pytest.raises(InputError, match="leads out of"):
        open_study(str(journal), "x", "minimize")
    journal.unlink()
    journal.hardlink_to(here / "mine")
    open_study(str(journal), "x", "minimize")
    assert not (here / "mine").read_text()


@pytest.mark.parametrize("ends", [(-(10**400), 10**400), (float("-inf"), 1), (float("nan"), 1)])
def test_ranges_of_a_search(ends: tuple[float, float]) -> None:
    trial = pytest.importorskip("optuna").create_study().ask()
    with pytest.raises(InputError, match="between min and max"):
        suggest(trial, {"model.lr": dict(zip(("min", "max"), ends, strict=True))})
