"""The pipeline: workers side by side, reading ahead, bounded memory, and no way to hang."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from lightning_sasv.data import EmbeddingStore
from lightning_sasv.errors import InputError
from lightning_sasv.frontends import AASIST
from lightning_sasv.frontends.audio import Waveforms
from lightning_sasv.frontends.lists import AudioFolder
from lightning_sasv.frontends.pipeline import Resources, embed_files
from lightning_sasv.frontends.stores import extract_store as extract
from tests.frontends.toys import CPU, Moments, named


class Together(Moments):
    """Goes on only when two batches are being embedded at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.both = threading.Barrier(2, timeout=60)

    def embed(self, waveforms: Waveforms) -> torch.Tensor:
        self.both.wait()
        assert torch.get_num_threads() == 1
        return super().embed(waveforms)


def test_batches_and_workers(audio: AudioFolder, tmp_path: Path) -> None:
    front_end = Together()
    torch.set_num_threads(2)
    extract(front_end, named(*range(30)), audio.find, tmp_path / "x.safetensors", CPU)
    assert sorted(front_end.calls) == [2, 4, 4, 4, 4, 4, 4, 4]
    assert len(front_end.threads) == 2
    assert torch.get_num_threads() == 2


def test_no_more_than_a_few_batches_are_in_memory(audio: AudioFolder) -> None:
    """Reading waits for the network: the audio in memory does not grow with the corpus."""
    front_end = Moments(seconds=0.03)
    found: list[str] = []
    lead = []

    def find(place: str) -> Path:
        found.append(place)
        lead.append(len(found) - sum(front_end.calls))
        return audio.find(place)

    for _ in embed_files(front_end, named(*range(30)), find, Resources(2, 1, "cpu")):
        pass
    assert len(found) == 30
    assert max(lead) <= 2 * (1 + 2)  # batches of two: one in the network, two ahead


def test_reading_overlaps_with_the_network(audio: AudioFolder) -> None:
    """No batch is embedded before the next one is being read."""
    begun = [threading.Event() for _ in range(24)]

    def find(place: str) -> Path:
        begun[int(place[1:])].set()
        return audio.find(place)

    class Patient(Moments):
        def embed(self, waveforms: Waveforms) -> torch.Tensor:
            following = min(2 * len(self.calls) + 2, 23)
            assert begun[following].wait(timeout=60), "the next batch is not being read"
            return super().embed(waveforms)

    batches = list(embed_files(Patient(), named(*range(24)), find, Resources(2, 1, "cpu")))
    assert [name for batch in batches for name in batch.ids] == [u.id for u in named(*range(24))]


HUNG = """
import sys, time
from lightning_sasv.errors import RunError
from lightning_sasv.frontends import pipeline
from lightning_sasv.frontends.stores import extract_store as extract
from lightning_sasv.frontends.lists import AudioFolder
from lightning_sasv.frontends.pipeline import Resources
from tests.frontends.toys import Moments, named

audio, pipeline.READ_SECONDS = AudioFolder(sys.argv[1]), 1.0

def find(place):
    if place == "u06":
        time.sleep(3_600)  # a network share that does not answer
    return audio.find(place)

try:
    extract(Moments(), named(*range(30)), find, sys.argv[2], Resources(2, 2, "cpu"), shard_size=2)
except RunError as error:
    sys.exit(str(error))
"""


def test_a_file_that_cannot_be_read_to_its_end_ends_the_run(
    audio: AudioFolder, tmp_path: Path, repository: Path
) -> None:
    """The program says which, and ends, although a thread of it still hangs."""
    path = tmp_path / "x.safetensors"
    command = [sys.executable, "-c", HUNG, str(audio.root), str(path)]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert done.stderr.startswith("reading u06, u07 took longer than 1 s: does the disk or network")
    assert done.stderr.count("\n") == 1
    again = extract(Moments(), named(*range(30)), audio.find, path, CPU)
    assert again.computed == 24  # the first three batches are kept


def test_threads_end_when_a_part_cannot_be_written(
    audio: AudioFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(store: EmbeddingStore, path: Path) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(EmbeddingStore, "save", full)
    torch.set_num_threads(2)
    names = named(*range(30))
    with pytest.raises(OSError, match="No space left") as error:
        extract(Moments(), names, audio.find, tmp_path / "x.safetensors", CPU, shard_size=2)
    assert error.traceback  # which holds the frames, and with them the generator
    assert not [t for t in threading.enumerate() if t.name.startswith("embed")]
    assert torch.get_num_threads() == 2


def test_without_soundfile_nothing_is_tried(
    audio: AudioFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(InputError, match=r"pip install 'lightning-sasv\[audio\]'"):
        extract(Moments(), named(0, 1), audio.find, tmp_path / "x.safetensors", CPU)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"workers": -1}, "workers must be at least 1, got -1"),
        ({"device": "abacus"}, "device 'abacus' cannot be used"),
    ],
)
def test_resources_that_make_no_sense(settings: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Resources(**settings).torch_device()


def test_a_gpu_is_used_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert Resources().torch_device() == torch.device("cuda")
    assert (Resources().batch(), Resources().worker_count()) == (32, 1)
    assert Resources(device="cpu").torch_device() == torch.device("cpu")


@pytest.mark.gpu
def test_a_gpu_gives_the_same_embeddings(audio: AudioFolder) -> None:
    if not torch.cuda.is_available():
        pytest.skip("this machine has no GPU")
    model = AASIST().eval()
    found = [
        torch.cat([b.vectors for b in embed_files(model, named(*range(6)), audio.find, where)])
        for where in (CPU, Resources(3, device="cuda"))
    ]
    torch.testing.assert_close(found[0], found[1], rtol=1e-3, atol=1e-3)


def test_a_device_that_is_not_there() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(InputError, match="device 'cuda' cannot be used"):
        Resources(device="cuda").torch_device()
    assert Resources().torch_device().type == "cpu"
    assert Resources().worker_count() >= 1
    assert Resources().batch() == 4
