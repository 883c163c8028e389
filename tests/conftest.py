"""Fixtures shared by all tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from lightning_sasv.data import Corpus, make_twin

torch.set_num_threads(1)  # also where it was imported before tests/__init__.py

settings.register_profile("unhurried", settings.default, deadline=None)  # 100 examples each
settings.load_profile("unhurried")

for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:  # in the background, or under nohup: commands
        signal.signal(number, usual)  # under test would inherit it, and be deaf

REPOSITORY = Path(__file__).parents[1]

os.environ["PATH"] += f"{os.pathsep}{Path(__file__).parent / 'login_node'}"  # has a program srun

for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):  # of the make that runs the tests, not of those
    os.environ.pop(name, None)  # that they run

OF_ONE_RUN = (
    "WANDB_SERVICE",
    "LOCAL_RANK",
    "NODE_RANK",
    "WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)
"""Variables that W&B and Lightning leave in the environment of a process that ran a command."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no process waits for another in the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
    gc.freeze()  # modules and tests are there to stay: nobody looks through them for garbage


@pytest.fixture(autouse=True)
def _own_environment() -> Iterator[None]:
    """A test goes on with no run of another: neither its variables nor its open W&B run."""
    for name in OF_ONE_RUN:
        os.environ.pop(name, None)
    yield
    if (wandb := sys.modules.get("wandb")) is not None and wandb.run is not None:
        wandb.finish()
    for name in OF_ONE_RUN:
        os.environ.pop(name, None)


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
