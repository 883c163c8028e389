"""Trials for the tests of fusion: overlapping classes, so that every optimum is finite."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lightning_sasv.decisions import CostModel, simulate
from lightning_sasv.fusion import SYSTEMS, build_system


@pytest.fixture(scope="session")
def trials() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """ASV scores, CM scores and labels of 4,000 simulated trials of unequal classes."""
    priors = CostModel(p_target=0.2, p_nontarget=0.3, p_spoof=0.5)
    drawn = simulate(4_000, priors, seed=3)
    asv, cm, labels = map(torch.from_numpy, drawn[:3])
    return asv / 5, 2 * cm + 1, labels


ALONE = [name for name in SYSTEMS if not build_system(name).needs_speakers]
"""Systems that are fitted to scores and labels alone."""


@pytest.fixture(scope="session")
def pairs(trials: tuple[torch.Tensor, ...]) -> np.ndarray:
    """The same scores as pairs, (2, trials)."""
    return np.stack(trials[:2])
