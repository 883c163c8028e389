"""Submitted jobs: what a cluster runs and puts back into its queue, and waiting for that."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning_sasv.console import print_notes
from lightning_sasv.errors import RunError
from lightning_sasv.experiment import slurm
from lightning_sasv.experiment.slurm import MORE_TIME, State
from lightning_sasv.program import Program, call_as
from lightning_sasv.terminal import clean

if TYPE_CHECKING:
    from lightning_sasv.experiment.run import Job

MOST_TIMES = 3
"""How often a job that ran into its time limit goes on."""

MOST_RESTARTS = 10
"""How often a job may be put back into the queue, for whatever reason."""

LOOK, ASK_FIRST, ASK_LAST = 0.5, 1.0, 15.0
"""Seconds between two looks at the files, and between two questions to SLURM, more and more."""

GRACE = {"COMPLETED": 60.0}
"""Seconds after its end for a file of a job to be seen on a shared disk; else five."""

TAIL, TAIL_BYTES = 8, 16_000
"""Lines of the log of a failed job that are shown, and bytes that are read for them."""


def times_file(folder: Path, job: str) -> Path:
    """File beside the logs: a character for each time that a job ran into its limit."""
    return folder / f"{job}_out_of_time"


@dataclass(frozen=True)
class Submitted:
    """A call that goes on where it was when it is started again.

    Args:
        said: Options of the program.
        run: Runs a job.
        job: The job.
    """

    said: Program
    run: Callable[[Job], object]
    job: Job

    def __call__(self) -> None:
        """Run the job."""
        restarts = int(os.environ.get("SLURM_RESTART_COUNT") or 0)
        if restarts > MOST_RESTARTS:
            raise RunError(f"it was put back into the queue more than {MOST_RESTARTS} times")
        call_as(self.said, self.run, self.job)

    def checkpoint(self) -> Any:
        """Called by submitit when the time is nearly over: the same once more.

        What is finished is on disk already; only the unfinished epoch is lost.
        """
        import submitit
        from submitit.core.utils import DelayedSubmission

        environment = submitit.JobEnvironment()
        with times_file(environment.paths.folder, environment.job_id).open("a") as file:
            file.write(".")
        return DelayedSubmission(self)


@dataclass
class Waited:
    """A submitted job.

    Attributes:
        job: Of submitit.
        seeds: What it trains.
        state: Where it is.
        times: How often it ran into its time limit.
        ended: When it was first seen to have ended.
        failure: Why it failed.
        done: Nothing more is waited for.
    """

    job: Any
    seeds: Sequence[int]
    state: State = field(default_factory=lambda: State(""))
    times: int = 0
    ended: float | None = None
    failure: str = ""
    done: bool = False

    @property
    def number(self) -> str:
        """Its number in the queue."""
        return str(self.job.job_id)

    def __str__(self) -> str:
        several = "seeds" if len(self.seeds) > 1 else "seed"
        return f"job {self.number} ({several} {', '.join(map(str, self.seeds))})"

    def tell(self, what: str) -> None:
        """Say something of it."""
        print_notes([f"{self}: {what}"])

    def look(self) -> None:
        """See whether it has left a result."""
        result = Path(self.job.paths.result_pickle)
        try:
            os.scandir(result.parent).close()  # so that a shared disk looks again
        except OSError:
            return
        if result.exists():
            self.take()

    def take(self) -> None:
        """Read the result, or what went wrong."""
        try:
            self.job.result()
        except Exception as error:  # of any kind: it was raised in another process
            self.fail(cause(error))
        else:
            self.done = True
            self.tell("COMPLETED")

    def fail(self, why: str) -> None:
        """It has failed."""
        self.done, self.failure = True, why
        self.tell(f"FAILED, {why}")

    def move(self, state: State) -> None:
        """SLURM says where it is."""
        before, self.state = self.state, state
        if state.restarts > before.restarts:
            self.tell(self._restarted(state.restarts))
        if not state.has_ended:
            self.ended = None
            self._show(before)
            return
        now = time.monotonic()
        self.ended = now if self.ended is None else self.ended
        if now - self.ended >= GRACE.get(state.name, 5.0):
            self.fail(f"it {slurm.why_ended(self.number, state)}")
            print_notes([f"  {line}" for line in tail(self.job)])

    def _restarted(self, restarts: int) -> str:
        file = times_file(Path(self.job.paths.folder), self.number)
        before, self.times = self.times, file.stat().st_size if file.exists() else 0
        if self.times > before:
            what, number = "ran into its time limit", f"{self.times} of {MOST_TIMES}"
        else:
            what, number = "was preempted or requeued", f"{restarts} of {MOST_RESTARTS}"
        return f"{what}, goes on from its last epoch ({number})"

    def _show(self, before: State) -> None:
        """Say where it is, where that is new; ends are told with their outcome."""
        state = self.state
        if state == before or state.name == "COMPLETING":
            return
        words = [word for word in (state.name, state.reason) if word]
        advice = "" if state.name == "RUNNING" else slurm.hint(state.reason)
        self.tell(", ".join(words) + f"; {advice}" * bool(advice))


def wait_slurm(jobs: Sequence[Waited]) -> None:
    """Wait until every job has left a result, or is known to have failed."""
    pause, asked, silent = ASK_FIRST, -ASK_LAST, False
    while left := [one for one in jobs if not one.done]:
        for one in left:
            one.look()
        left = [one for one in left if not one.done]
        if left and time.monotonic() - asked >= pause:
            known = slurm.states([one.number for one in left])
            if known is None and not silent:
                print_notes(["SLURM does not say where the jobs are; asking again"])
            silent = known is None
            changed = _move(left, known or {})
            asked, pause = time.monotonic(), ASK_FIRST if changed else min(1.3 * pause, ASK_LAST)
        if left:
            time.sleep(LOOK)


def _move(jobs: Sequence[Waited], known: dict[str, State]) -> bool:
    """Tell the jobs where they are; whether something has changed, or is about to."""
    before = [one.state for one in jobs]
    for one in jobs:
        if one.number in known:
            one.move(known[one.number])
    return before != [one.state for one in jobs] or any(one.ended is not None for one in jobs)


def wait_local(jobs: Sequence[Waited]) -> None:
    """Wait for processes of this machine, one after the other."""
    for one in jobs:
        one.take()


def cause(error: Exception) -> str:
    """What ended a job: the last line of its traceback, which submitit puts between two rules."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    rules = [place for place, line in enumerate(lines) if set(line) == {"-"}]
    found = lines[rules[-1] - 1] if rules and rules[-1] else (lines or [type(error).__name__])[-1]
    if "timed-out too many times" in found:
        return f"it ran into its time limit {MOST_TIMES + 1} times: {MORE_TIME}"
    return found.removeprefix("lightning_sasv.errors.")


def tail(job: Any) -> list[str]:
    """The end of the log of a job: of what it said to standard error, if anything."""
    for file in (Path(job.paths.stderr), Path(job.paths.stdout)):
        try:
            with file.open("rb") as opened:
                opened.seek(max(0, file.stat().st_size - TAIL_BYTES))
                text = opened.read(TAIL_BYTES).decode(errors="replace")
        except OSError:
            continue
        lines = deque((clean(line)[:300] for line in text.splitlines() if line.strip()), TAIL)
        if lines:
            return [f"the end of {file}:", *lines]
    return []
