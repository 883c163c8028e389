"""Fixtures of the metric tests."""

from __future__ import annotations

import numpy as np
import pytest

from lightning_sasv.metrics.functional import all_metrics
from tests.metrics.metric_classes import Columns


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers that are the same in every run."""
    return np.random.default_rng(1986)


@pytest.fixture(scope="session")
def simulated() -> Columns:
    """A small tandem with ties, speakers and attacks: asv, cm, sasv, labels, speaker, attack."""
    rng = np.random.default_rng(7)
    size = 1200
    labels = rng.choice([0, 1, 2], size, p=[0.5, 0.2, 0.3])
    asv = np.where(labels == 1, 0.7, np.where(labels == 2, 0.2, 0.55)) + rng.normal(0, 0.2, size)
    cm = np.where(labels == 0, -2.0, 2.0) + rng.normal(0, 1.2, size)
    speaker = rng.choice([f"S{k:02d}" for k in range(12)], size)
    attack = np.where(labels == 0, rng.choice(["A1", "A2", "A3", "A4"], size), "-")
    columns = {"asv": asv.round(2), "cm": cm.round(2), "sasv": (4 * asv + cm).round(2)}
    return {**columns, "labels": labels, "speaker": speaker, "attack": attack}


@pytest.fixture(scope="session")
def pair(simulated: Columns) -> tuple[np.ndarray, ...]:
    """ASV scores, CM scores and labels of the simulated tandem."""
    return tuple(simulated[name] for name in ("asv", "cm", "labels"))


@pytest.fixture(scope="session")
def columns(simulated: Columns) -> Columns:
    """The three columns of scores of the simulated tandem."""
    return {name: simulated[name] for name in ("asv", "cm", "sasv")}


@pytest.fixture(scope="session")
def expected(columns: Columns, simulated: Columns) -> dict[str, float]:
    """Every metric of the simulated tandem."""
    return all_metrics(**columns, labels=simulated["labels"], llrs=True)
