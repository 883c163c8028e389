"""A training in a SLURM job: back into the queue when its time is over, and on where it was.

SLURM sends SIGUSR1 before it ends a job that asked for it (``--signal=USR1@120``). A job that is
started again, whoever had it requeued, goes on with the runs that it began.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pytorch_lightning import Callback, LightningModule, Trainer

from lightning_sasv.callbacks.run_folder import own_folder
from lightning_sasv.errors import InputError
from lightning_sasv.files import read_json, write_json
from lightning_sasv.signals import PATIENCE, advise, heard, rank, wait_longer

NOTE = "slurm.json"
"""File in the folder of a run: which job began it, by which command."""

SECONDS = 20.0
"""Time that SLURM, which may be busy, has to answer; a job is told minutes before its end."""


def job_id() -> str | None:
    """The SLURM job of this process, as ``scontrol`` calls it."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    found = f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID", "")
    return found if re.fullmatch(r"[0-9]+(_[0-9]+)?", found) else None


def _restarted() -> bool:
    return os.environ.get("SLURM_RESTART_COUNT", "0") not in ("", "0")


class NoteJob(Callback):
    """Notes in the folder of a run which job began it.

    Args:
        words: The command.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The run has begun."""
        folder = own_folder(trainer)
        if trainer.is_global_zero and job_id() and not trainer.fast_dev_run:  # type: ignore[attr-defined]
            write_json(folder / NOTE, {"job": job_id(), "command": self.words})


def began(folder: Path, words: Sequence[str]) -> bool:
    """Whether this job, before it was started again, began a run by the same command."""
    if not _restarted() or not (folder / NOTE).is_file():
        return False
    with suppress(InputError):  # damaged: somebody else's
        return bool(read_json(folder / NOTE) == {"job": job_id(), "command": list(words)})
    return False


@contextmanager
def requeueing(command: str) -> Iterator[None]:
    """Where SIGUSR1 stops a ``fit``, have SLURM start it again."""
    if command == "fit" and job_id() is not None:
        wait_longer(signal.SIGUSR1, PATIENCE + 2 * SECONDS)
    try:
        yield
    except KeyboardInterrupt:
        said = requeue() if command == "fit" and heard() == signal.SIGUSR1 else None
        if said is not None:
            raise KeyboardInterrupt(said) from None
        raise


def requeue() -> str | None:
    """Put this job back into the queue, once and if it allows that; what to say if so."""
    job = job_id()
    if job is None or _restarted() or rank() != 0:
        return None
    shown = _scontrol("show", "job", job)
    if shown is None or "Requeue=0" in shown:
        return None
    said = f"finished epochs are kept; job {job} is back in the queue and goes on by itself"
    former = advise(said)  # SLURM ends this process, perhaps before its answer is here
    if _scontrol("requeue", job) is None:
        advise(former)
        return None
    return said


def _scontrol(*words: str) -> str | None:
    """What ``scontrol`` answers; nothing where it fails."""
    try:
        done = subprocess.run(
            ["scontrol", *words], capture_output=True, text=True, check=True, timeout=SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
