"""A job as it is submitted: what a cluster runs, and puts back into its queue."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning_sasv.errors import RunError
from lightning_sasv.program import Program, call_as

if TYPE_CHECKING:
    from lightning_sasv.experiment.run import Job

MOST_TIMES = 3
"""How often a job that ran into its time limit goes on."""

MOST_RESTARTS = 10
"""How often a job may be put back into the queue, for whatever reason."""


def times_file(folder: Path, job: str) -> Path:
    """File beside the logs: a character for each time that a job ran into its limit."""
    return folder / f"{job}_out_of_time"


@dataclass(frozen=True)
class Submitted:
    """A call that goes on where it was when it is started again.

    Args:
        said: Options of the program.
        run: Runs a job.
        job: The job.
    """

    said: Program
    run: Callable[[Job], object]
    job: Job

    def __call__(self) -> None:
        """Run the job."""
        restarts = int(os.environ.get("SLURM_RESTART_COUNT") or 0)
        if restarts > MOST_RESTARTS:
            raise RunError(f"it was put back into the queue more than {MOST_RESTARTS} times")
        call_as(self.said, self.run, self.job)

    def checkpoint(self) -> Any:
        """Called by submitit when the time is nearly over: the same once more.

        What is finished is on disk already; only the unfinished epoch is lost.
        """
        import submitit
        from submitit.core.utils import DelayedSubmission

        environment = submitit.JobEnvironment()
        with times_file(environment.paths.folder, environment.job_id).open("a") as file:
            file.write(".")
        return DelayedSubmission(self)
