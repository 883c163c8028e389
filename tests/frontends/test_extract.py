"""Extraction: order, failures, resuming, manifest, speaker models."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile
import torch

from lightning_sasv.data import EmbeddingStore
from lightning_sasv.errors import InputError
from lightning_sasv.frontends.lists import AudioFolder, Utterance
from lightning_sasv.frontends.manifest import Manifest
from lightning_sasv.frontends.pipeline import Resources
from lightning_sasv.frontends.stores import extract_store as extract
from lightning_sasv.frontends.stores import speaker_models
from tests.frontends.toys import CPU, Moments, Trained, named, write_tone


def expected(audio: AudioFolder, front_end: Moments, names: list[Utterance]) -> torch.Tensor:
    waves = [soundfile.read(audio.find(u.place), dtype="float32")[0] for u in names]
    return front_end.embed([torch.from_numpy(wave) for wave in waves])


@pytest.mark.parametrize("workers", [1, 3])
def test_store_has_the_embeddings_in_the_order_of_the_list(
    audio: AudioFolder, tmp_path: Path, workers: int
) -> None:
    names = named(*range(29, -1, -1))
    resources = Resources(4, workers, "cpu")
    done = extract(Moments(), names, audio.find, tmp_path / "out" / "x.safetensors", resources)
    store = EmbeddingStore.load(tmp_path / "out" / "x.safetensors")
    assert store.ids == [u.id for u in names]
    torch.testing.assert_close(store.vectors, expected(audio, Moments(), names))
    assert (done.computed, done.failures) == (30, {})
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"manifest.json", "x.safetensors"}


def test_progress_counts_every_utterance(audio: AudioFolder, tmp_path: Path) -> None:
    told: list[object] = []

    def begin(text: str, total: int, before: int) -> Callable[..., object]:
        told.append((text.strip(), total, before))
        return told.append

    names = [*named(*range(10)), Utterance("absent", "absent")]
    path = tmp_path / "x.safetensors"
    extract(Moments(), names, audio.find, path, CPU, begin=begin)
    extract(Moments(), names, audio.find, path, CPU, begin=begin)
    assert told == [("x", 11, 0), 4, 4, 3, ("x", 11, 10), 1]


def break_files(audio: AudioFolder) -> dict[str, str]:
    (audio.root / "u03.wav").write_bytes(b"")
    (audio.root / "u04.wav").write_text("text")
    soundfile.write(audio.root / "u05.wav", torch.zeros(0).numpy(), 16_000)
    soundfile.write(audio.root / "u06.wav", torch.tensor([0.1, torch.nan]), 16_000, "FLOAT")
    return {
        "u03": "cannot be read",
        "u04": "cannot be read",
        "u05": "no samples",
        "u06": "NaN",
        "gone": "no recording of that name",
        "../x": "leads out of the audio folder",
        "long" * 1_500: "File name too long",
    }


def test_broken_files_are_reported_and_do_not_stop_the_rest(
    audio: AudioFolder, tmp_path: Path
) -> None:
    reasons = break_files(audio)
    names = [*named(*range(10)), *(Utterance(x, x) for x in ("gone", "../x", "long" * 1_500))]
    done = extract(Moments(), names, audio.find, tmp_path / "out" / "x.safetensors", CPU)
    assert done.failures.keys() == reasons.keys()
    for name, reason in reasons.items():
        assert reason in done.failures[name]
    assert done.store is not None
    assert done.store.ids == ["u00", "u01", "u02", "u07", "u08", "u09"]
    listed = json.loads((tmp_path / "out" / "manifest.json").read_text())["stores"]["x"]
    assert listed["failures"] == done.failures
    assert listed["utterances"] == 6
    assert not (tmp_path / "x").exists()  # nothing was written outside of the folder


def test_strict_makes_a_failure_an_error_and_keeps_the_rest(
    audio: AudioFolder, tmp_path: Path
) -> None:
    break_files(audio)
    path = tmp_path / "x.safetensors"
    with pytest.raises(
        InputError, match=r"4 of 10 recordings .*\(--strict\), first u03: .*u03.wav"
    ):
        extract(Moments(), named(*range(10)), audio.find, path, CPU, strict=True)
    assert not path.exists()
    for number in (3, 4, 5, 6):
        write_tone(audio.root / f"u{number:02d}.wav", 100)
    done = extract(Moments(), named(*range(10)), audio.find, path, CPU, strict=True)
    assert done.computed == 4
    assert done.store is not None
    assert len(done.store) == 10


class Picky(Moments):
    """Fails on one recording, and gives NaN for another."""

    def embed(self, waveforms: object) -> torch.Tensor:
        rows = [torch.as_tensor(row) for row in waveforms]  # type: ignore[attr-defined]
        if any(len(row) == 4_800 for row in rows):
            raise RuntimeError("does not like short recordings")
        result = super().embed(rows)
        result[[len(row) == 1_600 for row in rows]] = torch.nan
        return result


def test_a_network_that_fails_on_a_recording(audio: AudioFolder, tmp_path: Path) -> None:
    write_tone(audio.root / "u01.wav", 100, seconds=0.3)
    write_tone(audio.root / "u02.wav", 100, seconds=0.1)
    done = extract(Picky(), named(0, 1, 2, 3), audio.find, tmp_path / "x.safetensors", CPU)
    assert done.failures == {
        "u01": "the network failed: does not like short recordings",
        "u02": "the network gave NaN or infinity",
    }
    assert done.store is not None
    assert done.store.ids == ["u00", "u03"]


def test_a_network_of_the_wrong_size_is_an_error(audio: AudioFolder, tmp_path: Path) -> None:
    front_end = Moments()
    front_end.dim = 7  # type: ignore[misc]
    front_end.embed = lambda waveforms: torch.zeros(len(waveforms), 8)  # type: ignore[method-assign]
    with pytest.raises(InputError, match=r"shape \(4, 8\) for 4 waveforms; expected \(4, 7\)"):
        extract(front_end, named(0, 1, 2, 3), audio.find, tmp_path / "x.safetensors", CPU)


def test_what_is_there_is_not_computed_again(audio: AudioFolder, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    extract(Moments(), named(0, 1, 2), audio.find, path, CPU)
    again = Moments()
    done = extract(again, named(5, 2, 1, 0, 4), audio.find, path, CPU)
    assert sum(again.calls) == done.computed == 2
    store = EmbeddingStore.load(path)
    assert store.ids == ["u05", "u02", "u01", "u00", "u04"]
    torch.testing.assert_close(store.vectors, expected(audio, Moments(), named(5, 2, 1, 0, 4)))


def test_embeddings_of_other_weights_are_not_mixed(audio: AudioFolder, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    extract(Moments(), named(0, 1), audio.find, path, CPU)
    other = Moments(gain=2.0)
    with pytest.raises(InputError, match="made by another front end or with other weights"):
        extract(other, named(0, 1, 2), audio.find, path, CPU)
    done = extract(other, named(0, 1, 2), audio.find, path, CPU, overwrite=True)
    assert done.computed == 3
    torch.testing.assert_close(
        EmbeddingStore.load(path).vectors, expected(audio, other, named(0, 1, 2))
    )


def test_parts_of_other_weights_are_not_mixed(audio: AudioFolder, tmp_path: Path) -> None:
    break_files(audio)
    path = tmp_path / "x.safetensors"
    with pytest.raises(InputError, match="--strict"):
        extract(Moments(), named(*range(10)), audio.find, path, CPU, strict=True)
    with pytest.raises(InputError, match=r"x.parts holds parts from another front end"):
        extract(Moments(gain=2.0), named(*range(10)), audio.find, path, CPU)
    done = extract(Moments(gain=2.0), named(*range(10)), audio.find, path, CPU, overwrite=True)
    assert done.computed == 6


KILLED = """
import sys, time
from lightning_sasv.frontends.stores import extract_store as extract
from lightning_sasv.frontends.lists import AudioFolder
from lightning_sasv.frontends.pipeline import Resources
from tests.frontends.toys import Moments, named

class Stopping(Moments):
    def embed(self, waveforms):
        if len(self.calls) == 7:
            time.sleep(600)  # is killed here
        return super().embed(waveforms)

audio = AudioFolder(sys.argv[1])
Stopping.__module__, Stopping.__qualname__ = Moments.__module__, Moments.__qualname__
names, resources = named(*range(30)), Resources(2, 1, "cpu")
extract(Stopping(), names, audio.find, sys.argv[2], resources, shard_size=4)
"""


def test_a_killed_extraction_goes_on_where_it_was(
    audio: AudioFolder, tmp_path: Path, repository: Path
) -> None:
    path = tmp_path / "out" / "x.safetensors"
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(audio.root), str(path)], cwd=repository
    )
    parts = path.with_suffix(".parts")
    deadline = time.monotonic() + 300
    while len(list(parts.glob("*.safetensors"))) < 3 and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not path.exists()
    for part in parts.glob("*.safetensors"):
        assert len(EmbeddingStore.load(part)) == 4  # whole, each of them
    assert len(list(parts.glob("*.safetensors"))) == 3
    front_end = Moments()
    done = extract(front_end, named(*range(30)), audio.find, path, CPU)
    assert sum(front_end.calls) == done.computed == 30 - 3 * 4
    assert not parts.exists()
    whole = tmp_path / "whole.safetensors"
    extract(Moments(), named(*range(30)), audio.find, whole, CPU)
    assert path.read_bytes() == whole.read_bytes()


def test_manifest_says_what_made_the_embeddings(audio: AudioFolder, tmp_path: Path) -> None:
    extract(Moments(), named(0, 1), audio.find, tmp_path / "x.safetensors", CPU)
    extract(Trained(2.0), named(0, 1), audio.find, tmp_path / "y.safetensors", CPU)
    extract(Trained(2.0), named(0, 1), audio.find, tmp_path / "z.safetensors", CPU)
    content = json.loads((tmp_path / "manifest.json").read_text())
    stores = content["stores"]
    assert stores["x"]["front_end"] == {
        "class_path": "tests.frontends.toys.Moments",
        "dim": 160,
        "sample_rate": 16_000,
        "samples": None,
        "weights_sha256": {"gain": "1.0"},
    }
    assert stores["x"]["settings"] == {"batch_size": 4, "workers": 2, "device": "cpu"}
    assert stores["x"]["versions"]["torch"] == torch.__version__
    assert {"lightning_sasv", "python", "numpy", "soundfile"} <= stores["x"]["versions"].keys()
    digest = stores["y"]["front_end"]["weights_sha256"]["state_dict"]
    assert len(digest) == 64
    assert digest == stores["z"]["front_end"]["weights_sha256"]["state_dict"]
    with pytest.raises(InputError, match="other weights"):
        extract(Trained(3.0), named(0), audio.find, tmp_path / "y.safetensors", CPU)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "other", "stores": {}}', "{"])
def test_a_damaged_manifest(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(InputError, match=r"manifest.json is damaged or not a manifest"):
        Manifest(tmp_path)


def test_speaker_models_are_means_of_enrolment_embeddings(tmp_path: Path) -> None:
    vectors = torch.randn(4, 3)
    store = EmbeddingStore(["a", "b", "c", "d"], vectors)
    enrolment = {"s1": ["a", "c"], "s2": ["d", "lost"], "s3": ["lost"]}
    problems = speaker_models(store, enrolment, tmp_path / "m.safetensors")
    models = EmbeddingStore.load(tmp_path / "m.safetensors")
    assert models.ids == ["s1", "s2"]
    torch.testing.assert_close(models.vectors, torch.stack([vectors[[0, 2]].mean(0), vectors[3]]))
    assert problems == {
        "s2": "1 enrolment recordings failed; the model is the mean of the other 1",
        "s3": "1 enrolment recordings failed; no model",
    }
