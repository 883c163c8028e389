"""What the cases need: commands, jobs and their processes, references to compare with."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tests.helpers import content
from tests.slurm.cluster import run

Found = TypeVar("Found")

LIGHTNING = (sys.executable, "-P", "-m", "lightning_sasv.cli")
TINY = ("--data.scale=0.02", "--systems=L3c", "--replicates=0", "--seeds_per_job=1")
SHORT = (*TINY, "--epochs=2", "--seeds=1,2")
LONG = (*TINY, "--epochs=250", "--seeds=1")
"""Long enough to be met in the middle, with a checkpoint."""
ENDLESS = (*TINY, "--epochs=100000", "--seeds=1")
SLURM = ("--launcher=slurm",)
HELD = ("--launcher_options={slurm_additional_parameters: {hold: true}}",)
"""A job that waits in the queue and costs nothing."""


PATIENCE = float(os.environ.get("SASV_SLURM_PATIENCE", "1"))
"""Factor on every limit, for a machine that has other things to do."""
OVER = threading.Event()
"""There is no time left: nothing more is waited for."""


class CaseError(Exception):
    """A case that does not hold."""


def check(holds: object, what: str) -> None:
    """Fail unless something holds."""
    if not holds:
        raise CaseError(what)


def until(find: Callable[[], Found | None], seconds: float, what: str) -> Found:
    """Wait for something; what is found."""
    seconds *= PATIENCE
    end = time.monotonic() + seconds
    while time.monotonic() < end and not OVER.is_set():
        if found := find():
            return found
        time.sleep(0.2)
    raise CaseError(f"not within {seconds:.0f} s, or in all: {what}")


@dataclass
class Command:
    """A command that runs, with what it has said so far."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def said(self) -> str:
        """Standard output and error."""
        return self.log.read_text(errors="replace")

    def hears(self, words: str, seconds: float = 90) -> str:
        """Wait until the command says something, a regular expression; what stands there."""
        return until(lambda: _found(words, self.said), seconds, f"{words!r} in: {self.said[-600:]}")

    def job(self, seconds: float = 90) -> str:
        """Number of its first job."""
        return self.hears(r"(?<=^job )\d+", seconds)

    def ends(self, code: int, seconds: float = 90) -> str:
        """Wait for its end, with this code; what it said."""
        try:
            until(lambda: self.process.poll() is not None, seconds, "its end")
        except CaseError as error:
            raise CaseError(f"{error}; it said: {self.said[-600:]}") from None
        ended = self.process.returncode
        check(ended == code, f"exit code {ended}, not {code}: {self.said[-600:]}")
        return self.said

    def tell(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)


def _found(words: str, text: str) -> str | None:
    found = re.search(words, text, re.M)
    return found[0] if found else None


@dataclass
class Lab:
    """A cluster to work with.

    Attributes:
        environment: In which programs find it.
        folder: For the cases.
    """

    environment: dict[str, str]
    folder: Path
    commands: list[Command] = field(default_factory=list)
    references: dict[str, Future[Path]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def place(self, name: str) -> Path:
        """A folder to work in."""
        place = self.folder / name
        place.mkdir(parents=True, exist_ok=True)
        return place

    def start(self, place: Path, words: Sequence[str | Path], **more: str) -> Command:
        """Start a program in a folder."""
        log = place / f"said{time.monotonic_ns()}"
        with log.open("wb") as opened:
            process = subprocess.Popen(
                [str(word) for word in words],
                cwd=place,
                env=self.environment | more,
                stdin=subprocess.DEVNULL,
                stdout=opened,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        command = Command(process, log)
        self.commands.append(command)
        return command

    def table(self, place: Path, *words: str, **more: str) -> Command:
        """Start ``lightning table`` into ``out`` of a folder."""
        return self.start(place, [*LIGHTNING, "table", "--out=out", *words], **more)

    def ask(self, *words: str | Path) -> str:
        """What a program of SLURM answers."""
        return str(run(*words, env=self.environment).stdout)

    def state(self, job: str) -> str:
        """State of a job, as SLURM has it."""
        return self.ask(
            "squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}"
        ).strip()

    def until_state(self, job: str, *states: str, seconds: float = 90) -> None:
        """Wait until a job is in one of these states."""
        until(lambda: self.state(job) in states, seconds, f"job {job} {'/'.join(states)}")

    def batch(self, place: Path, script: str) -> str:
        """Submit a script; the number of its job."""
        (place / "script.sh").write_text(f"#!/bin/bash\n{script}")
        done = run("sbatch", "--parsable", "script.sh", cwd=place, env=self.environment)
        check(done.returncode == 0, done.stderr)
        return done.stdout.strip()

    def process(self, job: str) -> int:
        """The process of a job that trains."""
        mine = {f"SLURM_JOB_ID={job}", f"SLURM_CONF={self.environment['SLURM_CONF']}"}
        return until(lambda: _trains(mine), 90, f"a process of job {job}")

    def pause_at_epoch(self, job: str, place: Path) -> int:
        """Stop the process of a job once it has kept an epoch, until a signal lets it go on."""
        until(lambda: [*place.rglob("last.ckpt")], 120, f"a checkpoint of job {job} in {place}")
        number = self.process(job)
        os.kill(number, signal.SIGSTOP)
        return number

    def reference(self, name: str, words: Sequence[str]) -> Path:
        """The folder of an undisturbed run here, made once for all cases."""
        with self.lock:
            mine = name not in self.references
            made = self.references.setdefault(name, Future())
        if mine:
            try:
                place = self.place(f"reference-{name}")
                self.start(place, [*LIGHTNING, *words]).ends(0, 150)
                made.set_result(place)
            except BaseException as error:
                made.set_exception(error)
        return made.result(180 * PATIENCE)

    def table_here(self, name: str, words: Sequence[str]) -> Path:
        """The folder of an undisturbed table."""
        words = ("table", "--out=out", "--processes=1", *words)
        return self.reference(name, words) / "out"

    def hurry(self) -> None:
        """Have requeued jobs start now instead of minutes later, until it is over.

        Not in the second of their requeue: nodes still refuse what was ended then.
        """
        seen: dict[str, int] = {}
        while not OVER.wait(1):
            shown = self.ask("squeue", "--noheader", "--format=%i %r").splitlines()
            waiting = {line.split()[0] for line in shown if line.endswith("BeginTime")}
            seen = {job: seen.get(job, 0) + 1 for job in waiting}
            for job in (job for job, times in seen.items() if times > 3):
                self.ask("scontrol", "update", f"jobid={job}", "starttime=now")

    def end(self) -> None:
        """End every command that still runs."""
        for one in self.commands:
            with suppress(ProcessLookupError, PermissionError):
                if one.process.poll() is None:
                    os.killpg(one.process.pid, signal.SIGKILL)
                    one.process.wait()


def _trains(mine: set[str]) -> int | None:
    """The youngest Python with these variables: other clusters have jobs of the same number."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (place / "cmdline").read_bytes().split(b"\0")
            variables = (place / "environ").read_bytes().decode(errors="replace").split("\0")
            if mine <= set(variables) and b"python" in words[0]:
                found.append(int(place.name))
    return max(found, default=None)


def same(there: Path, here: Path) -> None:
    """Fail unless two tables are equal bit for bit: the table, all metrics and scores."""
    names = [path.relative_to(here) for path in sorted(here.rglob("*")) if path.is_file()]
    wanted = [n for n in names if n.name in ("table.csv", "metrics.json") or "scores" in n.parts]
    check(len(wanted) >= 4, f"{here} holds {len(wanted)} files to compare")
    for name in wanted:
        check((there / name).is_file(), f"{there} lacks {name}")
        check(content(there / name) == content(here / name), f"{name} differs from a run here")
