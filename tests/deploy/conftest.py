"""Small development sets and fitted systems."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import soundfile

from lightning_sasv.fusion import SYSTEMS, FusionSystem, fit_systems
from lightning_sasv.models.heads import CMHead
from lightning_sasv.scores import read_scores
from lightning_sasv.trials import Scores
from tests.deploy.recordings import export_whole, write_training, write_voice, write_weights

MEANS = {0: (0.45, -5.0), 1: (0.7, 6.0), 2: (0.1, 5.5)}  # (ASV, CM) of spoof, target, nontarget


def draw(seed: int, counts: tuple[int, int, int] = (400, 150, 250), wide: float = 1.0) -> Scores:
    """Score pairs of the three classes, in random order."""
    rng = np.random.default_rng(seed)
    label = rng.permutation(np.repeat([0, 1, 2], counts))
    centre = np.array([MEANS[code] for code in label.tolist()])
    asv, cm = (centre + wide * rng.normal(size=centre.shape) * [0.12, 3.0]).T
    names = np.array([f"u{row}" for row in range(len(label))])
    return Scores(asv, cm, label, speaker=np.full(len(label), "s"), utterance=names)


@pytest.fixture(scope="session")
def dev() -> Scores:
    return draw(0)


@pytest.fixture(scope="session")
def far() -> Scores:
    """Trials that reach far beyond the development set."""
    return draw(1, wide=4.0)


@pytest.fixture(scope="session")
def real(shared: Path) -> tuple[Scores, Scores]:
    """The real scores of SASV 2022, dev and eval."""
    dev, new = (read_scores(shared / f"data/sasv2022/{s}_scores.csv") for s in ("dev", "eval"))
    return dev, new


@pytest.fixture(scope="session")
def systems(dev: Scores) -> dict[str, FusionSystem]:
    """Every named system, fitted."""
    speakers = np.arange(len(dev.label)) % 4  # those of the trials themselves are one
    return fit_systems(dev.asv, dev.cm, dev.label, SYSTEMS, speakers=speakers)


class Place(NamedTuple):
    """A folder with a training, weights, a bundle, and recordings a, b and x."""

    folder: Path
    training: Path
    asv: Path
    cm: Path
    bundle: Path

    def __getitem__(self, name: str) -> Path:  # type: ignore[override]
        return self.folder / f"{name}.flac"


HEAD = CMHead(hidden_dims=(32, 16), seeds=(3,))


@pytest.fixture(scope="session")
def place(
    systems: dict[str, FusionSystem],
    dev: Scores,
    shared: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Place:
    folder = tmp_path_factory.mktemp("verify")
    training = write_training(folder / "training", systems, dev, HEAD)
    weights, cm = write_weights(folder / "ecapa"), shared / "data/weights/AASIST-L.pth"
    for seed, name in enumerate("abx"):
        write_voice(folder / f"{name}.flac", seed)
    return Place(folder, training, weights, cm, export_whole(training, weights, cm, folder / "b"))


@pytest.fixture(scope="session")
def hours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three hours of silence in half a megabyte."""
    path = tmp_path_factory.mktemp("hours") / "hours.flac"
    with soundfile.SoundFile(path, "w", 16_000, 1) as file:
        for _ in range(180):
            file.write(np.zeros(960_000, np.float32))
    return path
