"""Work for helper processes; they import this and little else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from lightning_sasv.program import program


def nothing() -> None:
    """No preparation."""


def note_job(job: Any) -> None:
    """The same, in a submitted job."""
    note(job.out / "noted")


def note(path: Path, prepared: object = None) -> None:
    """Write what holds in this process, and the end of its module path."""
    import random  # noqa: F401  # not from the current folder

    path.write_text(f"{program()}\n{sys.path[-1]}")
