"""Running jobs in processes of their own, or on a SLURM cluster.

Parameters for submitit may end up as lines of a batch script, which is a program. The user may type
them all. A configuration or sweep file that is not trusted may ask for resources; it gives no
commands, and nothing that could be taken for one.
"""

from __future__ import annotations

import io
import re
import secrets
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning_sasv import gate
from lightning_sasv.errors import InputError, RunError
from lightning_sasv.experiment import slurm
from lightning_sasv.experiment.jobs import MOST_TIMES, Submitted, Waited, wait_local, wait_slurm
from lightning_sasv.experiment.slurm import MINUTES, check_alone, for_slurm, given
from lightning_sasv.program import program, safe_path
from lightning_sasv.signals import held
from lightning_sasv.terminal import clean

if TYPE_CHECKING:
    from lightning_sasv.experiment import LauncherOptions
    from lightning_sasv.experiment.run import Job

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
    job: Job, launcher: str, options: LauncherOptions | None = None, overwrite: bool = False
) -> None:
    """Run a job as several, one for each stack of seeds, submitted through submitit.

    Args:
        job: What to run.
        launcher: ``local``, on this machine, or ``slurm``.
        options: Parameters for submitit, e.g. ``{"slurm_partition": "gpu", "timeout_min": 60}``.
        overwrite: Remove the results that are in ``job.out`` first.
    """
    from lightning_sasv.experiment.run import begin

    folder, options = _fresh(job.out / "jobs"), options or {}
    executor = _executor(launcher, folder, options, job.recipe.threads)
    jobs: list[Waited] = []
    with _leaving_nothing(job.out, jobs):
        _, _, missing = begin(job, overwrite)  # a mistake is reported before any submission
        parts = [replace(part, progress=False) for part in split_job(job)]
        wanted = [part for part in parts if set(part.seeds) & set(missing)]
        if launcher == "slurm" and wanted:
            executor.update_parameters(**slurm.memory(options))
        named = given(options, "name", "job_name") is not None
        with _cancelling(jobs, launcher), safe_path():
            for part in wanted:
                name = {} if named else {"name": slurm.job_name(part.out, part.seeds)}
                executor.update_parameters(**name)
                with held():  # until it is known whom to cancel
                    jobs.append(Waited(_submit(executor, part, launcher), part.seeds))
                jobs[-1].tell("submitted")
            _wait(jobs, launcher, folder)


@contextmanager
def _leaving_nothing(out: Path, jobs: Sequence[Waited]) -> Iterator[None]:
    """Where no job could be submitted, leave the folder as it was."""
    before = set(out.iterdir()) if out.is_dir() else set()
    try:
        yield
    except _SubmitError:
        for path in set() if jobs else set(out.iterdir()) - before:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        raise


@contextmanager
def _cancelling(jobs: Sequence[Waited], launcher: str) -> Iterator[None]:
    """Cancel what was submitted when the waiting is broken off, or the rest cannot be submitted."""
    try:
        yield
    except BaseException as error:
        left = [one for one in jobs if not one.done]
        said = _cancel(left, launcher) if left else ""
        if isinstance(error, KeyboardInterrupt):
            kept = "what is finished is kept: the same command goes on"
            raise KeyboardInterrupt(f"{said}, {kept}" if said else kept) from None
        if isinstance(error, _SubmitError):
            error.args = ("; ".join(filter(None, (str(error), said))),)
        raise


def _cancel(jobs: Sequence[Waited], launcher: str) -> str:
    """Cancel jobs; what to say of it."""
    numbers = [one.number for one in jobs]
    if launcher != "slurm":
        for one in jobs:
            one.job.cancel(check=False)
    elif not slurm.cancel(numbers):
        return f"the submitted jobs could not be cancelled: scancel {' '.join(numbers)}"
    return f"the submitted jobs were cancelled ({', '.join(numbers)})"


class _SubmitError(RunError):
    """The cluster does not take a job."""


def _submit(executor: Any, job: Job, launcher: str) -> Any:
    from lightning_sasv.experiment.run import run_job

    said = replace(program(), wait=True)  # for a job before it, which needs a moment to end
    try:
        with redirect_stderr(io.StringIO()):  # where submitit repeats what the error says
            return executor.submit(Submitted(said, run_job, job))
    except Exception as error:  # whatever the cluster has against it
        raise _SubmitError(f"--launcher {launcher}: cannot submit: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """What the cluster has against a job, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = (re.sub(r"^sbatch: (error: )?|Batch job submission failed: ", "", one) for one in lines)
    return "; ".join(dict.fromkeys(ours)) or type(error).__name__


def _fresh(folder: Path) -> Path:
    """A name that nobody can foresee: what jobs leave there is unpickled, so it must be theirs."""
    return folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"


def _executor(launcher: str, folder: Path, options: LauncherOptions, threads: int = 1) -> Any:
    """The executor of submitit; its jobs import nothing from the current folder."""
    check_options(options, folder)
    check_alone(options)
    try:
        import submitit
    except ImportError:
        raise InputError(
            f"--launcher {launcher} needs submitit: pip install 'lightning-sasv[slurm]'"
        ) from None
    try:
        safe = {
            f"{launcher}_python": f"{shlex.quote(sys.executable)} -P",
            "slurm_max_num_timeout": MOST_TIMES,
        }
        made = safe | {name: value for name, value in options.items() if name in safe}
        executor = submitit.AutoExecutor(folder=folder, cluster=launcher, **made)
        rest = {name: value for name, value in options.items() if name not in safe}
        executor.update_parameters(**rest)  # a wrong one is found before SLURM is asked
        asked = for_slurm(options, threads) if launcher == "slurm" else {"timeout_min": MINUTES}
        executor.update_parameters(**asked | rest)
    except RuntimeError as error:
        raise InputError(f"--launcher {launcher}: {_reason(error)}") from None
    except (NameError, TypeError, ValueError, AssertionError) as error:
        if isinstance(error, InputError):
            raise
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"--launcher_options: {reason}") from None
    if launcher == "slurm":
        _settle(executor.parameters)
    return executor


def _settle(parameters: dict[str, Any]) -> None:
    """Jobs may be requeued, and have no workload key, which not every cluster knows."""
    parameters["wckey"] = parameters.get("wckey")  # submitit has one where nothing is said
    more = parameters.get("additional_parameters") or {}
    if not {"no-requeue", "no_requeue"} & set(more):
        parameters["additional_parameters"] = {"requeue": True, **more}


def _wait(jobs: Sequence[Waited], launcher: str, logs: Path) -> None:
    """Wait for every submitted job; when some failed, say so once the others have ended."""
    (wait_slurm if launcher == "slurm" else wait_local)(jobs)
    failed = [one for one in jobs if one.failure]
    if failed:
        raise RunError(
            f"{len(failed)} of {len(jobs)} submitted jobs failed ({failed[0]}: "
            f"{failed[0].failure}); see their logs in {logs}; what is finished is kept: the same "
            "command goes on"
        )


def check_options(options: Mapping[str, object], folder: Path) -> None:
    """Refuse what would become a line of its own in a batch script, and commands from a file.

    Args:
        options: Parameters for submitit.
        folder: Where its scripts and logs go; the script names it.
    """
    place = str(folder.absolute())
    for text in (place, *gate.texts(options)):
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
