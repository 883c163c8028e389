"""One writer at a time: a lock file in the folder that is written to, which names its owner.

The file appears by a hard link, which succeeds for one process alone, on network shares too, and
with its whole content; it goes with the command, however that ends. A killed command leaves it
behind: the next one sees that its owner is gone, and takes it over.
"""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from lightning_sasv.errors import InputError
from lightning_sasv.files import ensure_directory, open_at_once
from lightning_sasv.places import LOCK, check_links
from lightning_sasv.program import program

POLL_SECONDS = 0.5
"""How often one who waits looks again."""
_LARGEST = 10_000
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
SLURM_SECONDS = 20.0
"""Time that SLURM, which may be busy, has to answer."""

ENDED = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"}
    | {"PREEMPTED", "REVOKED", "TIMEOUT"}
)
"""States of SLURM's jobs that do not run and are not started again."""


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


def ask_slurm(*words: str) -> subprocess.CompletedProcess[str] | None:
    """What a program of SLURM answers; nothing where it cannot be run or does not end."""
    try:
        return subprocess.run(
            words, capture_output=True, text=True, timeout=SLURM_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None


def _job_has_ended(job: str) -> bool:
    """What SLURM says, where it can be asked."""
    words = ("squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}")
    said = ask_slurm(*words) if job.isdigit() else None
    if said is None:
        return False
    if said.returncode:
        return "Invalid job id" in said.stderr
    return ENDED.issuperset(said.stdout.split())


def owner_of(folder: str | Path) -> Owner | None:
    """Who is writing to a folder; nobody where there is no lock, or one of a process that ended."""
    owner = _read(Path(folder) / LOCK)
    return None if owner is None or owner.has_ended else owner


def _read(file: Path) -> Owner | None:
    """The owner of a lock file; nobody where there is none."""
    try:
        with open_at_once(file) as opened:
            content = json.loads(opened.read(_LARGEST))
        owner = Owner(**content)
        texts = {**content, "pid": ""}.values()
        if not (isinstance(owner.pid, int) and owner.pid > 0) or set(map(type, texts)) != {str}:
            raise ValueError
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, RecursionError):
        raise InputError(
            f"{file} is there, and does not say who is writing to the folder; if nobody is, "
            "remove that file"
        ) from None
    return owner


@contextmanager
def lock(*folders: str | Path, name: str = "", wait: bool = False) -> Iterator[None]:
    """Be the only one who writes to some folders, which are made where they are not there.

    Folders that were made, and are empty at the end, go again.

    Args:
        folders: What is written; in what stands below or above them others may write.
        name: The one thing in the folder that is written, where others may write beside it.
        wait: Wait for somebody else, who needs a moment only.

    Raises:
        InputError: Somebody else is writing to one of them, and nobody said ``--wait``; or a link
            in one leads out of it.
    """
    with ExitStack() as stack:
        for folder in dict.fromkeys(Path(folder).resolve() for folder in folders):
            stack.enter_context(_lock(check_links(folder), f"{LOCK}.{name}".rstrip("."), wait))
        yield


@contextmanager
def _lock(folder: Path, name: str, wait: bool) -> Iterator[None]:
    me = myself()
    with _made(folder):
        file = folder / name
        try:
            _wait_for(file, me, wait)
            yield
        finally:
            if os.getpid() == me.pid:  # and not a fork of it
                with suppress(OSError, InputError):
                    if _read(file) == me:
                        file.unlink()


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make a folder where it is not there; what was made, and is empty at the end, goes again."""
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    ensure_directory(folder)
    try:
        yield
    finally:
        remove_empty(made)


def remove_empty(places: Sequence[Path]) -> None:
    """Remove folders up to the first that holds anything."""
    with suppress(OSError):
        for place in places:
            place.rmdir()


@contextmanager
def next_version(root: Path) -> Iterator[int]:
    """Make the next folder ``version_<N>``; of several who do so at once each has its own.

    It goes again if it is empty at the end.
    """
    with _made(root):
        while True:
            numbers = (re.fullmatch(r"version_(\d+)", path.name) for path in root.iterdir())
            number = max((int(found[1]) for found in numbers if found), default=-1) + 1
            folder = root / f"version_{number}"
            with suppress(FileExistsError):
                folder.mkdir()
                break
        try:
            yield number
        finally:
            remove_empty([folder])


def _wait_for(file: Path, me: Owner, wait: bool) -> None:
    """Take a lock, as soon as nobody else holds it if the user wants to wait, or never."""
    told = False
    while (owner := _take(file, me)) is not None:
        if not wait and not program().wait:
            raise InputError(
                f"{file.parent} is being written to by another command ({owner}); wait for its "
                f"end, e.g. with --wait, or choose another folder{_remedy(file, owner, me)}"
            )
        if not told and not wait:
            _tell(f"waiting for {owner}, to write to {file.parent}")
        told = True
        time.sleep(POLL_SECONDS)


def _tell(note: str) -> None:
    from lightning_sasv.console import print_notes

    print_notes([note])


def _remedy(file: Path, owner: Owner, me: Owner) -> str:
    """What to do where it cannot be seen from here whether the other one still runs."""
    if (owner.host, owner.system) == (me.host, me.system):
        return ""
    return f"; if that process is no more, remove {file}"


def _take(file: Path, me: Owner) -> Owner | None:
    """Make the lock file; who holds it where that is somebody who runs."""
    try:
        handle, name = tempfile.mkstemp(prefix=f"{LOCK}.", dir=file.parent)
        temporary = Path(name)
        try:
            with os.fdopen(handle, "w") as opened:
                json.dump(asdict(me), opened)
            if _link(temporary, file):
                return None
            owner = _read(file)
            if owner is not None and not owner.has_ended:
                return owner
            if owner is not None and _replace(temporary, file, owner):
                _tell(f"took over {file.parent} from a command that was killed ({owner})")
                return None
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"cannot write {file}: {error.strerror or error}") from error
    if file.is_symlink():
        raise InputError(f"{file} is a link, which no command made; remove it")
    return _take(file, me)  # it has gone meanwhile, or has a new owner


def _link(temporary: Path, file: Path) -> bool:
    """Give the file its name, unless there is one of that name."""
    try:
        file.hardlink_to(temporary)
    except FileExistsError:
        return temporary.stat().st_nlink == 2  # a share may answer twice
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        try:
            with file.open("x") as opened:  # no links on this file system
                opened.write(temporary.read_text())
        except FileExistsError:
            return False
    return True


def _replace(temporary: Path, file: Path, owner: Owner) -> bool:
    """Put our lock in the place of a dead one, unless somebody else was faster.

    Of several who see a dead lock at the same moment, one at a time looks again and replaces it.
    """
    try:
        dead = open_at_once(file)
    except FileNotFoundError:
        return False
    with dead:
        with suppress(ImportError, OSError):  # a system or share without them leaves a tiny risk
            import fcntl

            fcntl.flock(dead, fcntl.LOCK_EX)
        if _read(file) != owner:
            return False
        temporary.replace(file)
        return True
