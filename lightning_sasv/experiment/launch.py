"""Running jobs here, in processes of their own, or on a SLURM cluster."""

from __future__ import annotations

import secrets
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from lightning_sasv.errors import InputError, RunError
from lightning_sasv.experiment import Launcher
from lightning_sasv.experiment.launcher_options import LauncherOptions, check_options
from lightning_sasv.experiment.run import Job, add_intervals, begin, run_job
from lightning_sasv.experiment.workers import Workers
from lightning_sasv.program import call_as, program, safe_path
from lightning_sasv.signals import held


def split_job(job: Job) -> list[Job]:
    """Jobs of as many seeds as are trained together."""
    starts = range(0, len(job.seeds), job.stack)
    return [replace(job, seeds=job.seeds[start : start + job.stack]) for start in starts]


def launch(
    job: Job,
    launcher: Launcher = "here",
    processes: int | None = None,
    options: LauncherOptions | None = None,
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
    folder = _fresh(job.out / "jobs")
    executor = _executor(launcher, folder, options or {})
    _, key, missing = begin(job, overwrite)  # a mistake is reported before anything is submitted
    parts = [replace(part, progress=False) for part in split_job(job)]
    wanted = [part for part in parts if set(part.seeds) & set(missing)]
    submitted: list[Any] = []
    with _cancelling(submitted), safe_path():
        for part in wanted:
            with held():  # until it is known whom to cancel
                submitted.append(_submit(executor, part, launcher))
        _wait(submitted, folder)
    add_intervals(job, key)
    return key


@contextmanager
def _cancelling(submitted: Sequence[Any]) -> Iterator[None]:
    """Cancel what was submitted when the waiting is broken off, or the rest cannot be submitted."""
    try:
        yield
    except (KeyboardInterrupt, _SubmitError) as error:
        for one in submitted:
            one.cancel()
        if isinstance(error, _SubmitError):
            raise
        raise KeyboardInterrupt(
            "the submitted jobs were cancelled, what is finished is kept: the same command goes on"
        ) from None


class _SubmitError(RunError):
    """The cluster does not take a job."""


def _submit(executor: Any, job: Job, launcher: str) -> Any:
    try:
        return executor.submit(call_as, program(), run_job, job)
    except Exception as error:  # whatever the cluster has against it
        raise _SubmitError(f"--launcher {launcher}: cannot submit: {_last_line(error)}") from None


def _fresh(folder: Path) -> Path:
    """A name that nobody can foresee: what jobs leave there is unpickled, so it must be theirs."""
    return folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"


def _executor(launcher: str, folder: Path, options: LauncherOptions) -> Any:
    """The executor of submitit; its jobs import nothing from the current folder."""
    check_options(options, folder)
    try:
        import submitit
    except ImportError:
        raise InputError(
            f"--launcher {launcher} needs submitit: pip install 'lightning-sasv[slurm]'"
        ) from None
    try:
        safe = {f"{launcher}_python": f"{shlex.quote(sys.executable)} -P"}
        made = safe | {name: value for name, value in options.items() if name in safe}
        executor = submitit.AutoExecutor(folder=folder, cluster=launcher, **made)
        rest = {name: value for name, value in options.items() if name not in safe}
        executor.update_parameters(**{"timeout_min": 120, **rest})
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
        except Exception as error:  # of any kind: it was raised in another process
            failures.append(f"job {one.job_id}: {_cause(error)}")
    if failures:
        raise RunError(
            f"{len(failures)} of {len(submitted)} submitted jobs failed ({failures[0]}); see their "
            f"logs in {logs}; what is finished is kept: the same command goes on"
        )
