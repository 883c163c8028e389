"""What processes do in the tests of ``Workers``; they import this module, and nothing heavy."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from lightning_sasv.errors import InputError
from lightning_sasv.experiment.workers import Workers


def no_preparation() -> None:
    """Nothing."""


def ready(word: str) -> str:
    return f"ready for {word}"


def note(path: Path, prepared: object = None) -> None:
    path.write_text(f"{os.getpid()} {prepared}")


def refuse(what: str, prepared: object = None) -> None:
    raise InputError(f"no {what}")


def sleep(path: Path, prepared: object = None) -> None:
    note(path)
    time.sleep(600)


def run_at_once(
    here: Callable[[], None], work: Callable[..., None], others: list[tuple[Path | str]]
) -> None:
    Workers(no_preparation).run(here, work, others)


def number_in(path: Path) -> int:
    return int(path.read_text().split()[0])


def wait_for(path: Path) -> int:
    deadline = time.monotonic() + 60
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline, f"nobody wrote {path}"
        time.sleep(0.05)
    return number_in(path)


def start_and_wait(path: Path) -> None:
    run_at_once(lambda: time.sleep(600), sleep, [(path,)])
