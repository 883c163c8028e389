"""What a job asks of the cluster, beside what the user asks for: time, CPUs, memory, a name."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lightning_sasv.console import print_notes
from lightning_sasv.errors import InputError, meant
from lightning_sasv.experiment import slurm

MINUTES = 120
"""Time limit of a job, unless its partition allows less."""

_MEMORY = ("mem_gb", "mem", "mem_per_cpu", "mem_per_gpu")
_ONE = ("nodes", "tasks_per_node", "ntasks_per_node")


def given(options: Mapping[str, Any], *names: str) -> Any:
    """The value of the first of some options that is set; for SLURM alone or for every launcher."""
    wanted = (key for name in names for key in (f"slurm_{name}", name))
    return next((options[key] for key in wanted if options.get(key) is not None), None)


def check_alone(options: Mapping[str, Any]) -> None:
    """Refuse several tasks: each would train the same seeds into the same folder."""
    for name in _ONE:
        value = given(options, name)
        if value not in (None, 1, "1"):
            raise InputError(
                f"--launcher_options: {name} {value}: a job is one process and would only be run "
                "so many times over; --seeds_per_job shares the seeds out over jobs"
            )


def for_slurm(options: Mapping[str, Any], threads: int) -> dict[str, Any]:
    """What all jobs ask for that the user left open; what no partition allows is refused.

    Args:
        options: What the user asks for.
        threads: CPU threads of a job.
    """
    partition = os.environ.get("SBATCH_PARTITION") or given(options, "partition")
    known = slurm.partitions()
    wanted = str(partition).split(",") if partition else [n for n in known if known[n].default]
    for name in wanted if known else ():
        if name not in known:
            raise InputError(
                f"--launcher slurm: there is no partition {name} (partitions: "
                f"{', '.join(known)}){meant(name, known)}"
            )
    _check_memory(given(options, "mem_gb"), partition)
    limits = [known[name].minutes for name in wanted if name in known]
    asked = {"timeout_min": _minutes(options, limits, wanted)}
    if given(options, "cpus_per_task", "cpus_per_gpu") is None:
        asked["cpus_per_task"] = threads
    if given(options, "signal_delay_s") is None:
        minutes = given(options, "time", "timeout_min") or asked["timeout_min"]
        asked["slurm_signal_delay_s"] = margin(minutes)
    return asked


def margin(minutes: object) -> int:
    """Seconds before the end of its time at which a job is told: a fifth, at most 90."""
    return min(90, 12 * minutes) if isinstance(minutes, int) else 90


def _minutes(options: Mapping[str, Any], limits: Sequence[int | None], names: Sequence[str]) -> int:
    """The time limit of a job; more than the partition allows would wait for ever."""
    most = None if None in limits or not limits else max(one for one in limits if one is not None)
    asked = given(options, "time", "timeout_min")
    if asked is None:
        if most is not None and most < MINUTES:
            print_notes([f"time limit of a job: {most} minutes, as partition {names[0]} has it"])
        return MINUTES if most is None else max(1, min(most, MINUTES))
    allowed = given(options, "qos") is not None  # which may go beyond that of the partition
    if isinstance(asked, int) and most is not None and asked > most and not allowed:
        raise InputError(
            f"--launcher slurm: partition {', '.join(names)} allows {most} minutes, {asked} asked: "
            f"--launcher_options '{{timeout_min: {most}}}'"
        )
    return MINUTES


def _check_memory(asked: object, partition: str | None) -> None:
    most = slurm.largest_memory(partition) if isinstance(asked, int | float) else None
    if most is not None and isinstance(asked, int | float) and asked > most:
        raise InputError(
            f"--launcher slurm: mem_gb {asked}: no node of "
            f"{f'partition {partition}' if partition else 'the default partition'} has more than "
            f"{math.floor(most)} GB"
        )


def memory(options: Mapping[str, Any]) -> dict[str, Any]:
    """Memory of a job: twice what this process took, which has read the same corpus, and 2 GB.

    Nothing where the user asks, or where SLURM does not know what its nodes have.
    """
    partition = os.environ.get("SBATCH_PARTITION") or given(options, "partition")
    if given(options, *_MEMORY) is not None or slurm.largest_memory(partition) is None:
        return {}
    import resource  # not on every system

    unit = 1 if sys.platform == "darwin" else 1024
    used = unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"mem_gb": math.ceil(2 * used / 2**30) + 2}


def job_name(out: Path, seeds: Sequence[int]) -> str:
    """The name of a job in the queue.

    Example:
        >>> job_name(Path("results/table1"), [1986]), job_name(Path("my table"), [1, 2, 5])
        ('sasv-table1-1986', 'sasv-my_table-1-5')
    """
    place = re.sub(r"[^\w.-]", "_", out.resolve().name)[:60]
    numbers = dict.fromkeys((seeds[0], seeds[-1]))
    return "-".join(["sasv", place, *map(str, numbers)])
