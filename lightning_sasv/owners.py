"""Who holds a lock: a process on a machine, perhaps of a SLURM job, and whether it still runs."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

_RUNNING = ("PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "REQUEUED", "STOPPED")


@dataclass(frozen=True)
class Owner:
    """Who holds a lock.

    Attributes:
        host: Name of the machine.
        pid: The process.
        since: When it took the lock.
        job: Its SLURM job, if any.
        restarts: How often SLURM had begun that job again.
        system: Boot and process namespace: where numbers of processes mean the same.
        birth: When the process was started, since its number is used again one day.
    """

    host: str
    pid: int
    since: str
    job: str = ""
    restarts: str = ""
    system: str = ""
    birth: str = ""

    def __str__(self) -> str:
        job = f", SLURM job {self.job}" if self.job else ""
        return f"process {self.pid} on {self.host}{job}, since {self.since.replace('T', ' ')}"

    @property
    def has_ended(self) -> bool:
        """Whether it certainly does not run any more."""
        me = myself()
        if self.job and self.job == me.job and self.restarts != me.restarts:
            return True
        if (self.host, self.system) == (me.host, me.system):
            return _birth(self.pid) not in ("?", self.birth)
        return bool(self.job) and _job_has_ended(self.job)


def myself() -> Owner:
    """This process."""
    return Owner(
        host=socket.gethostname(),
        pid=os.getpid(),
        since=datetime.now().astimezone().isoformat(timespec="seconds"),
        job=os.environ.get("SLURM_JOB_ID", ""),
        restarts=os.environ.get("SLURM_RESTART_COUNT", "0"),
        system=_system(),
        birth=_birth(os.getpid()),
    )


def _system() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:  # not on every system
        return ""


def _birth(pid: int) -> str:
    """When a process was started; "" if it has ended, "?" where only that it runs is known."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        pass
    try:
        os.kill(pid, 0)
    except PermissionError:
        return "?"
    except (OSError, OverflowError):
        return ""
    return "?"


def _job_has_ended(job: str) -> bool:
    """What SLURM says, where it can be asked."""
    if shutil.which("squeue") is None or not job.isdigit():
        return False
    try:
        words = ["squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}"]
        said = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    if said.returncode:
        return "Invalid job id" in said.stderr
    return not any(state in _RUNNING for state in said.stdout.split())
