"""Networks with the published weights, loaded once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from lightning_sasv.frontends import AASIST, ECAPA
from lightning_sasv.frontends.audio import read_audio
from lightning_sasv.frontends.lists import AudioFolder
from tests.frontends.toys import write_tone


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Whole tests side by side use the CPUs better than threads inside one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def weights(shared: Path) -> Path:
    return shared / "data" / "weights"


@pytest.fixture(scope="session")
def aasist(weights: Path) -> AASIST:
    return AASIST.from_checkpoint(weights / "AASIST.pth")


@pytest.fixture(scope="session")
def ecapa(weights: Path) -> ECAPA:
    return ECAPA.from_checkpoint(weights / "ecapa")


@pytest.fixture(scope="session")
def golden_aasist(shared: Path) -> dict[str, np.ndarray]:
    return dict(np.load(shared / "golden" / "aasist.npz", allow_pickle=False))


@pytest.fixture(scope="session")
def golden_ecapa(shared: Path) -> dict[str, np.ndarray]:
    return dict(np.load(shared / "golden" / "ecapa.npz", allow_pickle=False))


@pytest.fixture(scope="session")
def recordings(shared: Path, golden_aasist: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The 21 recordings of the golden embeddings, whole."""
    return [read_audio(shared / "data" / str(file)) for file in golden_aasist["files"]]


@pytest.fixture
def audio(tmp_path: Path) -> AudioFolder:
    """Thirty tones, u00 to u29."""
    for number in range(30):
        write_tone(tmp_path / "audio" / f"u{number:02d}.wav", 100 + 13 * number)
    return AudioFolder(tmp_path / "audio")
