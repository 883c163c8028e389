"""What SLURM says: its partitions, the states of jobs, why they wait, and why they ended.

``squeue`` knows jobs that run and, for some minutes, those that have ended; ``sacct`` is asked for
older ones, on clusters that keep accounts.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

SECONDS = 20.0
"""Time that SLURM has to answer."""

ENDED = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"}
    | {"PREEMPTED", "REVOKED", "TIMEOUT"}
)
"""States of jobs that do not run and are not started again."""

FORGOTTEN = "FORGOTTEN"
"""State of a job that SLURM does not know any more."""

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


def ask(*words: str) -> subprocess.CompletedProcess[str] | None:
    """What a program of SLURM answers; nothing where it cannot be run or does not end."""
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None


def _answer(*words: str) -> str:
    """As ``ask``: the text alone, none where it fails."""
    said = ask(*words)
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
    said = ask("squeue", "--noheader", "--states=all", f"--jobs={','.join(ids)}", form)
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
    said = ask("scancel", *ids)
    return said is not None and said.returncode == 0
