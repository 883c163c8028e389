"""What SLURM says, and what jobs ask of it.

It says its partitions, the states of jobs, why they wait, and why they ended. ``squeue`` knows jobs
that run and, for some minutes, those that have ended; ``sacct`` is asked for older ones, on
clusters that keep accounts. Jobs ask, beside what the user asks for, for time, CPUs, memory, and a
name.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lightning_sasv.console import print_notes
from lightning_sasv.errors import InputError, meant
from lightning_sasv.locks import ENDED, ask_slurm

FORGOTTEN = "FORGOTTEN"
"""State of a job that SLURM does not know any more."""

MINUTES = 120
"""Time limit of a job, unless its partition allows less."""

_MEMORY = ("mem_gb", "mem", "mem_per_cpu", "mem_per_gpu")
_ONE = ("nodes", "tasks_per_node", "ntasks_per_node")

MORE_TIME = "--launcher_options '{timeout_min: …}'"
MORE_MEMORY = "--launcher_options '{mem_gb: …}'"

_FOR_EVER = {
    "PartitionTimeLimit": f"its partition allows less time: {MORE_TIME}",
    "(QOS|Assoc)MaxWallDurationPerJobLimit": f"less time is allowed: {MORE_TIME}",
    "(QOS|Assoc)Max(Cpu|Mem|Node|GRES|TRES)\\w*PerJob": "a job may not ask for so much",
    "PartitionNodeLimit": "its partition allows fewer or more nodes",
    "PartitionDown|PartitionInactive": "its partition is closed: `sinfo` shows others",
    "ReqNodeNotAvail|.*DOWN, DRAINED": "no node for it is up: `sinfo -R` says why",
    "BadConstraints": "no node has what it asks for: `sinfo -N -l` shows what they have",
    "JobHeld|.*requeued held|JobHoldMaxRequeue": "it is held: `scontrol release ID`",
    "DependencyNeverSatisfied": "what it depends on has failed",
    "Invalid(Account|QOS)|AccountNotAllowed|QOSNotAllowed": "ask for another account or QOS",
    "ReservationDeleted": "its reservation is gone",
}
"""Reasons that do not pass by themselves, and what to do."""


class Partition(NamedTuple):
    """A partition of the cluster.

    Attributes:
        minutes: The longest time of a job; nothing where there is no limit.
        default: Jobs go there that ask for none.
    """

    minutes: int | None
    default: bool


class State(NamedTuple):
    """Where a job is.

    Attributes:
        name: As SLURM calls it, e.g. PENDING.
        restarts: How often it was put back into the queue.
        reason: Why it waits or has failed.
    """

    name: str
    restarts: int = 0
    reason: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether it is over."""
        return self.name in ENDED or self.name == FORGOTTEN


def _answer(*words: str) -> str:
    """As ``ask_slurm``: the text alone, none where it fails."""
    said = ask_slurm(*words)
    return said.stdout if said is not None and said.returncode == 0 else ""


def _fields(line: str) -> dict[str, str]:
    """A line of ``scontrol --oneliner``."""
    return {name: value for name, sign, value in (w.partition("=") for w in line.split()) if sign}


def partitions() -> dict[str, Partition]:
    """The partitions by name; none where SLURM does not tell."""
    shown = _answer("scontrol", "--all", "--oneliner", "show", "partition").splitlines()
    found = [fields for line in shown if "PartitionName" in (fields := _fields(line))]
    return {
        one["PartitionName"]: Partition(
            minutes(one.get("MaxTime", "")), one.get("Default") == "YES"
        )
        for one in found
    }


def minutes(text: object) -> int | None:
    """Minutes of a time as SLURM or sbatch writes it, rounded down; nothing for one without an end.

    Example:
        >>> [minutes(text) for text in ("01:00:00", "2-00:30:00", "UNLIMITED")]
        [60, 2910, None]
        >>> [minutes(text) for text in (90, "90", "90:30", "1-12", "1-0:30")]
        [90, 90, 90, 2160, 1470]
    """
    found = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", str(text))
    if found is None:
        return None
    days, first, second, third = found.groups()
    if days is None and third is None:  # minutes, or minutes and seconds
        return int(first)
    return (24 * int(days or 0) + int(first)) * 60 + int(second or 0)


def largest_memory(names: Sequence[str]) -> float | None:
    """GB of the largest node of some partitions, or of all where none is named.

    Nothing where SLURM does not tell, or was not told.
    """
    which = f"--partition={','.join(names)}" if names else "--all"  # both at once are refused
    shown = _answer("sinfo", "--noheader", "--format=%m", which)
    sizes = [int(size) for size in re.findall(r"^(\d+)\+?\s*$", shown, re.M)]
    return max(sizes) / 1024 if sizes and max(sizes) > 1 else None


def states(ids: Sequence[str]) -> dict[str, State] | None:
    """States of jobs, also of those that SLURM has forgotten; nothing where it does not answer."""
    form = "--Format=JobID:32,State:32,RestartCnt:16,Reason:240"
    said = ask_slurm("squeue", "--noheader", "--states=all", f"--jobs={','.join(ids)}", form)
    if said is None or (said.returncode and "Invalid job id" not in said.stderr):
        return None
    found = {}
    for line in said.stdout.splitlines():
        number, name, restarts, *reason = line.split(None, 3)
        why = "".join(reason).strip()
        found[number] = State(name, int(restarts), "" if why in ("None", "(null)") else why)
    return {one: found.get(one) or _remembered(one) for one in ids}


def _remembered(job: str) -> State:
    """State of a job that ``squeue`` does not know: from the accounts, if there are any."""
    kept = re.search(
        r"^AccountingStorageType\s*=\s*(\S+)", _answer("scontrol", "show", "config"), re.M
    )
    if kept is None or kept[1].endswith("/none"):
        return State(FORGOTTEN)
    words = ("--noheader", "--parsable2", "--allocations", "--format=State", f"--jobs={job}")
    return State((_answer("sacct", *words).split() or [FORGOTTEN])[0])


def hint(reason: str) -> str:
    """What to do where a reason does not pass by itself; else nothing."""
    fits = (advice for pattern, advice in _FOR_EVER.items() if re.match(pattern, reason))
    return next(fits, "")


def why_ended(job: str, state: State) -> str:
    """Why a job ended without a result, in words."""
    known = {
        "CANCELLED": "was cancelled",
        "COMPLETED": "ended well and left no result: is its folder on a disk that nodes share?",
        "OUT_OF_MEMORY": f"ran out of memory: {MORE_MEMORY}",
        "TIMEOUT": f"ran into its time limit: {MORE_TIME}",
        "NODE_FAIL": "lost its node",
        "PREEMPTED": "was preempted, and is not started again",
        FORGOTTEN: "is not known to SLURM any more, and left no result",
    }
    if state.name in known:
        return known[state.name]
    shown = _fields(_answer("scontrol", "--oneliner", "show", "job", job))
    code, _, number = shown.get("ExitCode", "0:0").partition(":")
    ended_by = int(number or 0) or max(int(code) - 128, 0)
    if ended_by:
        return f"was killed by signal {ended_by}" + " (out of memory?)" * (ended_by == 9)
    said = [state.reason] * bool(state.reason) + [f"exit code {code}"] * (code != "0")
    return f"ended as {state.name}" + f" ({', '.join(said)})" * bool(said)


def cancel(ids: Sequence[str]) -> bool:
    """Cancel jobs; whether SLURM took it."""
    said = ask_slurm("scancel", *ids)
    return said is not None and said.returncode == 0


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
    known = partitions()
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
        longest = given(options, "time", "timeout_min") or asked["timeout_min"]
        asked["slurm_signal_delay_s"] = margin(minutes(longest))
    return asked


def _partitions(options: Mapping[str, Any], known: Mapping[str, Partition]) -> list[str]:
    """The partitions that a job may go to: sbatch takes its variable before what a script says."""
    asked = os.environ.get("SBATCH_PARTITION") or given(options, "partition")
    return str(asked).split(",") if asked else [name for name in known if known[name].default]


def margin(limit: int | None) -> int:
    """Seconds before the end of its minutes at which a job is told: a fifth, at most 90."""
    return 90 if limit is None else min(90, 12 * max(limit, 1))


def _minutes(options: Mapping[str, Any], limits: Sequence[int | None], names: Sequence[str]) -> int:
    """The time limit of a job; more than the partition allows would wait for ever."""
    most = None if None in limits or not limits else max(one for one in limits if one is not None)
    said = given(options, "time", "timeout_min")
    asked = None if said is None else minutes(said)
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
    most = largest_memory(names) if isinstance(asked, int | float) else None
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
    most = largest_memory(_partitions(options, partitions()))
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
