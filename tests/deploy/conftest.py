"""Small development sets and fitted systems."""

from __future__ import annotations

import numpy as np
import pytest

from lightning_sasv.fusion import SYSTEMS, FusionSystem, fit_systems
from lightning_sasv.trials import Scores

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
def systems(dev: Scores) -> dict[str, FusionSystem]:
    """Every named system, fitted."""
    speakers = np.arange(len(dev.label)) % 4  # those of the trials themselves are one
    return fit_systems(dev.asv, dev.cm, dev.label, SYSTEMS, speakers=speakers)
