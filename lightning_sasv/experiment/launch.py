"""Running jobs here, in processes of their own, or on a SLURM cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from lightning_sasv.errors import InputError
from lightning_sasv.experiment.run import Job, run_job

Launcher = Literal["here", "local", "slurm"]


def split_job(job: Job, seeds_per_job: int) -> list[Job]:
    """Jobs of at most ``seeds_per_job`` seeds each."""
    if seeds_per_job < 1:
        raise InputError(f"--seeds_per_job must be at least 1, got {seeds_per_job}")
    starts = range(0, len(job.seeds), seeds_per_job)
    return [replace(job, seeds=job.seeds[start : start + seeds_per_job]) for start in starts]


def launch(
    job: Job,
    launcher: Launcher = "here",
    seeds_per_job: int = 6,
    options: dict[str, str | int] | None = None,
) -> str:
    """Run a job, split by seeds unless it runs here, and return the key of its results.

    Args:
        job: What to run.
        launcher: ``here`` in this process; ``local`` in processes of their own; ``slurm`` as jobs
            of a cluster. The last two go through submitit (extra ``slurm``).
        seeds_per_job: Seeds of one submitted job.
        options: Parameters for submitit, e.g. ``{"slurm_partition": "gpu", "timeout_min": 60}``.
    """
    if launcher == "here":
        return run_job(job)
    try:
        import submitit
    except ImportError:
        raise InputError(
            f"--launcher {launcher} needs submitit: pip install 'lightning-sasv[slurm]'"
        ) from None
    executor = submitit.AutoExecutor(folder=job.out / "jobs", cluster=launcher)
    executor.update_parameters(**{"timeout_min": 120, **(options or {})})
    parts = [replace(part, progress=False) for part in split_job(job, seeds_per_job)]
    submitted = [executor.submit(run_job, part) for part in parts]
    return _results(submitted, job.out / "jobs")


def _results(submitted: Sequence[object], logs: Path) -> str:
    """Key of the results when every submitted job has ended well."""
    keys = []
    for one in submitted:
        try:
            keys.append(one.result())  # type: ignore[attr-defined]
        except Exception as error:
            last = str(error).strip().splitlines()[-1:] or ["no message"]
            raise InputError(f"a submitted job failed: {last[0]}; its logs are in {logs}") from None
    return str(keys[0])
