"""Running jobs here, in processes of their own, or on a SLURM cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lightning_sasv.errors import InputError, RunError
from lightning_sasv.experiment import Launcher
from lightning_sasv.experiment.run import Job, add_intervals, begin, run_job
from lightning_sasv.experiment.workers import Workers


def split_job(job: Job) -> list[Job]:
    """Jobs of as many seeds as are trained together."""
    starts = range(0, len(job.seeds), job.stack)
    return [replace(job, seeds=job.seeds[start : start + job.stack]) for start in starts]


def launch(
    job: Job,
    launcher: Launcher = "here",
    processes: int | None = None,
    options: dict[str, str | int] | None = None,
    overwrite: bool = False,
    workers: Workers | None = None,
) -> str:
    """Run a job and return the key of its results.

    Args:
        job: What to run.
        launcher: ``here`` on this machine; ``local`` and ``slurm`` as jobs of their own, one for
            each stack of seeds, submitted through submitit (extra ``slurm``).
        processes: Processes of launcher ``here``; by default as many as there are cores.
        options: Parameters for submitit, e.g. ``{"slurm_partition": "gpu", "timeout_min": 60}``.
        overwrite: Remove the results that are in ``job.out`` first.
        workers: Processes that are getting ready already, for launcher ``here``.
    """
    if job.stack < 1:
        raise InputError(f"--seeds_per_job must be at least 1, got {job.stack}")
    if launcher == "here":
        return run_job(job, overwrite, processes, workers)
    executor = _executor(launcher, job.out / "jobs", options or {})
    _, key, missing = begin(job, overwrite)  # a mistake is reported before anything is submitted
    parts = [replace(part, progress=False) for part in split_job(job)]
    wanted = [part for part in parts if set(part.seeds) & set(missing)]
    try:
        submitted = [executor.submit(run_job, part) for part in wanted]
    except Exception as error:  # whatever the cluster has against it
        raise RunError(f"--launcher {launcher}: cannot submit: {_last_line(error)}") from None
    _wait(submitted, job.out / "jobs")
    add_intervals(job, key)
    return key


def _executor(launcher: str, folder: Path, options: Mapping[str, str | int]) -> Any:
    """The executor of submitit."""
    try:
        import submitit
    except ImportError:
        raise InputError(
            f"--launcher {launcher} needs submitit: pip install 'lightning-sasv[slurm]'"
        ) from None
    try:
        executor = submitit.AutoExecutor(folder=folder, cluster=launcher)
        executor.update_parameters(**{"timeout_min": 120, **options})
    except RuntimeError as error:
        raise InputError(f"--launcher {launcher}: {_last_line(error)}") from None
    except (NameError, TypeError, ValueError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"--launcher_options: {reason}") from None
    return executor


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]


def _cause(error: Exception) -> str:
    """What ended a job: the last line of its traceback, which submitit puts between two rules."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    rules = [place for place, line in enumerate(lines) if set(line) == {"-"}]
    return lines[rules[-1] - 1] if rules and rules[-1] else _last_line(error)


def _wait(submitted: Sequence[Any], logs: Path) -> None:
    """Wait for every submitted job; when some failed, say so once the others have ended."""
    failures = []
    for one in submitted:
        try:
            one.result()
        except KeyboardInterrupt:
            for other in submitted:
                other.cancel()
            raise KeyboardInterrupt(
                "the submitted jobs were cancelled, what is finished is kept: the same command "
                "goes on"
            ) from None
        except Exception as error:  # of any kind: it was raised in another process
            failures.append(f"job {one.job_id}: {_cause(error)}")
    if failures:
        raise RunError(
            f"{len(failures)} of {len(submitted)} submitted jobs failed ({failures[0]}); see their "
            f"logs in {logs}; what is finished is kept: the same command goes on"
        )
