"""A SLURM of two nodes on this machine: of Debian packages, on the loopback, in its own folder.

Nothing in ``/etc`` or ``/run`` is used, so a SLURM that the machine has goes on beside it. The
daemons are ended by their process numbers.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.packages import installed

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
PROGRAMS = ("slurmctld", "slurmd", "munged", "srun", "sbatch", "squeue", "scontrol", "scancel")
NODES = ("n1", "n2")
COUNTED = ("seat", "desk")
"""Things of which each node has one: jobs that ask for the same are on different nodes, or wait."""
SETTINGS = """\
ClusterName=sasv
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=10
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool/%n
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdParameters=config_overrides
SwitchType=switch/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
SchedulerParameters=bf_interval=2,sched_interval=2,batch_sched_delay=1
KillWait=3
MinJobAge=30
ReturnToService=2
GresTypes=seat,desk
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=60 PriorityTier=5 PreemptMode=OFF
PartitionName=low Nodes=n1,n2 MaxTime=60 PriorityTier=1 PreemptMode=REQUEUE
PartitionName=high Nodes=n1,n2 MaxTime=60 PriorityTier=10 PreemptMode=OFF
"""
NODE = (
    "NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=8 "
    "RealMemory=64000 Gres=seat:1,desk:1\n"
)
"""More processors and memory than there are: cases run side by side, small as they are."""


class NoClusterError(Exception):
    """Why there can be no SLURM here."""


def run(*words: str | Path, **settings: object) -> subprocess.CompletedProcess[str]:
    """Run a program of the system to its end."""
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [str(word) for word in words], capture_output=True, text=True, check=False, **settings
    )


def install(seconds: float) -> None:
    """Install the packages where programs of theirs are missing.

    Raises:
        NoClusterError: Not here, or not in this time.
    """
    if os.geteuid() != 0:
        raise NoClusterError("it needs root, to install packages and to start the daemons")
    said = installed(PACKAGES, lambda: None if _missing() else True, seconds)
    if isinstance(said, str):
        raise NoClusterError(f"{said} (lacking: {', '.join(_missing())})")


def _missing() -> list[str]:
    return [name for name in PROGRAMS if _program(name) is None]


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _free_ports(number: int) -> list[int]:
    """Ports that nobody listens on now."""
    taken = [socket.socket() for _ in range(number)]
    try:
        for one in taken:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in taken]
    finally:
        for one in taken:
            one.close()


@contextmanager
def cluster(folder: Path) -> Iterator[dict[str, str]]:
    """Have a cluster; what it gives is the environment in which programs find it.

    Args:
        folder: An empty folder, which every user may enter.

    Raises:
        NoClusterError: The daemons do not start; with what they say.
    """
    folder.chmod(0o755)
    ports = _free_ports(1 + len(NODES))
    text = SETTINGS.format(folder=folder, ports=ports)
    named = zip(NODES, ports[1:], strict=True)
    text += "".join(NODE.format(name=name, port=port) for name, port in named)
    (folder / "slurm.conf").write_text(text)
    counted = [f"NodeName={node} Name={name} Count=1\n" for node in NODES for name in COUNTED]
    (folder / "gres.conf").write_text("".join(counted))
    for name in ("state", *(f"spool/{node}" for node in NODES)):
        (folder / name).mkdir(parents=True)
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SLURM_", "SBATCH_", "SALLOC_", "SQUEUE_"))
    } | {"SLURM_CONF": str(folder / "slurm.conf")}
    try:
        _start_munge(folder)
        conf = folder / "slurm.conf"
        _start([_program("slurmctld") or "", "-f", conf], environment)
        for node in NODES:
            _start([_program("slurmd") or "", "-f", conf, "-N", node], environment)
        _wait_for_nodes(environment)
        yield environment
    finally:
        run("scancel", "--user=root", env=environment)
        _stop(folder)


def _start_munge(folder: Path) -> None:
    """The daemon that vouches for users, with a key of its own."""
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(1024))
    files = {"socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    places = [f"--{option}={folder}/munge.{end}" for option, end in files.items()]
    _start([_program("munged") or "", f"--key-file={key}", *places], dict(os.environ))


def _start(words: Sequence[str | Path], environment: dict[str, str]) -> None:
    """Start a daemon, which goes to the background by itself."""
    with Path(os.devnull).open("r+b") as nothing:
        done = subprocess.run(
            [str(word) for word in words],
            env=environment,
            stdin=nothing,
            stdout=nothing,
            stderr=subprocess.PIPE,
            timeout=30,
            check=False,
        )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise NoClusterError(f"{Path(words[0]).name} does not start: {(said or ['no reason'])[-1]}")


def _wait_for_nodes(environment: dict[str, str], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    shown = ""
    while time.monotonic() < end:
        shown = run("sinfo", "--noheader", "--format=%t %D", env=environment).stdout
        if shown.split() and set(shown.split()[::2]) == {"idle"}:
            return
        time.sleep(0.2)
    raise NoClusterError(f"the nodes do not come up: {shown.strip() or 'sinfo says nothing'}")


def _stop(folder: Path) -> None:
    """End the daemons: those of SLURM first, since they ask munge."""
    files = [*sorted(folder.glob("slurmd.*.pid")), folder / "slurmctld.pid", folder / "munge.pid"]
    for file in files:
        with suppress(OSError, ValueError):
            _end(int(file.read_text()))


def _end(pid: int) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        for _ in range(50):
            if not Path(f"/proc/{pid}").exists():
                return
            time.sleep(0.1)
