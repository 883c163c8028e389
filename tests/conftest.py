"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from lightning_sasv.data import Corpus, make_twin

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the processes that tests start
torch.set_num_threads(1)  # several threads on so small a model only wait for each other

settings.register_profile("unhurried", settings.default, deadline=None)  # 100 examples each
settings.load_profile("unhurried")

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def repository() -> Path:
    """Root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder with the real scores, protocols, weights and golden values.

    Its place is ``../shared`` beside the checkout, or ``$SASV_SHARED``. Tests that need it are
    skipped where it is absent, except in CI, where its absence is a failure.
    """
    folder = Path(os.environ.get("SASV_SHARED", REPOSITORY.parent / "shared"))
    if not (folder / "data").is_dir():
        reason = f"the reference data are not at {folder}; set SASV_SHARED to their folder"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return folder


@pytest.fixture(scope="session")
def twin() -> Corpus:
    """A small twin corpus."""
    return make_twin(0.03)
