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
    known = slurm.partitions()
    wanted = _partitions(options, known)
    for name in wanted if known else ():
        if name not in known:
            raise InputError(
                f"--launcher slurm: there is no partition {name} (partitions: "
                f"{', '.join(known)}){meant(name, known)}"
            )
    _check_memory(given(options, "mem_gb"), wanted)
    limits = [known[name].minutes for name in wanted if name in known]
    asked = {"timeout_min": _minutes(options, limits, wanted)}
    if given(options, "cpus_per_task", "cpus_per_gpu") is None:
        asked["cpus_per_task"] = threads
    if given(options, "signal_delay_s") is None:
        minutes = slurm.minutes(given(options, "time", "timeout_min") or asked["timeout_min"])
        asked["slurm_signal_delay_s"] = margin(minutes)
    return asked


def _partitions(options: Mapping[str, Any], known: Mapping[str, slurm.Partition]) -> list[str]:
    """The partitions that a job may go to: sbatch takes its variable before what a script says."""
    asked = os.environ.get("SBATCH_PARTITION") or given(options, "partition")
    return str(asked).split(",") if asked else [name for name in known if known[name].default]


def margin(minutes: int | None) -> int:
    """Seconds before the end of its time at which a job is told: a fifth, at most 90."""
    return 90 if minutes is None else min(90, 12 * max(minutes, 1))


def _minutes(options: Mapping[str, Any], limits: Sequence[int | None], names: Sequence[str]) -> int:
    """The time limit of a job; more than the partition allows would wait for ever."""
    most = None if None in limits or not limits else max(one for one in limits if one is not None)
    said = given(options, "time", "timeout_min")
    asked = None if said is None else slurm.minutes(said)
    if said is None:
        if most is not None and most < MINUTES:
            print_notes([f"time limit of a job: {most} min, as partition {names[0]} has it"])
        return MINUTES if most is None else max(1, min(most, MINUTES))
    allowed = given(options, "qos") is not None  # which may go beyond that of the partition
    if asked is not None and most is not None and asked > most and not allowed:
        raise InputError(
            f"--launcher slurm: partition {', '.join(names)} allows {most} minutes, {asked} asked: "
            f"--launcher_options '{{timeout_min: {most}}}'"
        )
    return MINUTES if asked is None else asked


def _check_memory(asked: object, names: Sequence[str]) -> None:
    most = slurm.largest_memory(names) if isinstance(asked, int | float) else None
    if most is not None and isinstance(asked, int | float) and asked > most:
        place = f" of partition {', '.join(names)}" if names else ""
        raise InputError(
            f"--launcher slurm: mem_gb {asked}: no node{place} has more than "
            f"{math.floor(10 * most) / 10:g} GB"
        )


def memory(options: Mapping[str, Any]) -> dict[str, Any]:
    """Memory of a job: twice what this process took, which has read the same corpus, and 2 GB.

    No more than the largest node has; nothing where the user asks, or where SLURM does not know.
    """
    if given(options, *_MEMORY) is not None:
        return {}
    most = slurm.largest_memory(_partitions(options, slurm.partitions()))
    if most is None:
        return {}
    import resource  # not on every system

    unit = 1 if sys.platform == "darwin" else 1024
    used = unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"mem_gb": min(math.ceil(2 * used / 2**30) + 2, most)}


def job_name(out: Path, seeds: Sequence[int]) -> str:
    """The name of a job in the queue.

    Example:
        >>> job_name(Path("results/table1"), [1986]), job_name(Path("my table"), [1, 2, 5])
        ('sasv-table1-1986', 'sasv-my_table-1-5')
    """
    place = re.sub(r"[^\w.-]", "_", out.resolve().name)[:60]
    numbers = dict.fromkeys((seeds[0], seeds[-1]))
    return "-".join(["sasv", place, *map(str, numbers)])
