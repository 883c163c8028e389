"""Running jobs here, in processes of their own, or on a SLURM cluster.

Parameters for submitit may end up as lines of a batch script, which is a program. The user may type
them all. A configuration or sweep file that is not trusted may ask for resources; it gives no
commands, and nothing that could be taken for one.
"""

from __future__ import annotations

import secrets
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning_sasv import gate
from lightning_sasv.errors import InputError, RunError
from lightning_sasv.program import call_as, program, safe_path
from lightning_sasv.signals import held
from lightning_sasv.terminal import clean

if TYPE_CHECKING:
    from lightning_sasv.experiment import Launcher
    from lightning_sasv.experiment.run import Job
    from lightning_sasv.experiment.workers import Workers

Setting = str | int | bool | float
LauncherOptions = dict[str, Setting | list[Setting] | dict[str, Setting]]
"""Parameters for submitit: what they are called there, and values."""

_SHARED = (
    *("name", "timeout_min", "mem_gb", "nodes", "cpus_per_task", "gpus_per_node"),
    *("tasks_per_node", "stderr_to_stdout"),
)
_OF_SLURM = (
    *("account", "array_parallelism", "comment", "constraint", "cpus_per_gpu", "dependency"),
    *("exclude", "exclusive", "gpus_per_task", "gres", "job_name", "mem", "mem_per_cpu"),
    *("mem_per_gpu", "nodelist", "ntasks_per_node", "num_gpus", "partition", "qos"),
    *("signal_delay_s", "time", "wckey"),
)
FROM_FILES = frozenset({*_SHARED, *(f"slurm_{name}" for name in (*_SHARED, *_OF_SLURM))})
"""What an untrusted file may ask for: how much of the cluster, and under which name."""

_QUOTING = "\"'\\`$#"
"""sbatch reads its lines by rules of its own: with these a value could pass for further options."""


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
    from lightning_sasv.experiment.run import begin, run_job

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
    from lightning_sasv.experiment.run import run_job

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


def check_options(options: Mapping[str, object], folder: Path) -> None:
    """Refuse what would become a line of its own in a batch script, and commands from a file.

    Args:
        options: Parameters for submitit.
        folder: Where its scripts and logs go; the script names it.
    """
    place = str(folder.absolute())
    for text in (place, *_texts(options)):
        if clean(text) != text or "\\" in place:
            raise InputError(
                f"--launcher: {clean(text)[:200]!r} holds a line break, a folder a backslash, or "
                "a character that is not seen; a batch script cannot hold it"
            )
    if gate.is_open():
        return
    typed = gate.typed_option("launcher_options")
    for name, value in options.items():
        if typed.get(name) == value:
            continue
        if name not in FROM_FILES or set(_QUOTING) & set(str(value)):
            raise InputError(
                f"launcher_options: {name!r} from a file could run commands of its author; type it "
                "on the command line, or trust the file with --trust-config"
            )


def _texts(value: object) -> Iterator[str]:
    """Every key and value, at any depth."""
    if isinstance(value, Mapping):
        yield from _texts([*value, *value.values()])
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from _texts(item)
    else:
        yield str(value)
