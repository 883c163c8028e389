"""Processes that tests kill, forked from a server that has imported everything and started nothing.

A fork of the test process itself would inherit the locks of threads that it does not inherit, since
polars and OpenMP keep pools of them, and could wait for them for ever.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

LIMIT = 300.0
"""Seconds after which a process counts as hung."""

ORDERLY = 30.0
"""Seconds that a process may take to end after a signal, on a machine that is busy."""

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["tests.faults.heavy_imports"]
)  # one server, so one list for all tests


def finish(
    work: Callable[..., None],
    *args: object,
    kill_after: float | None = None,
    number: int = signal.SIGKILL,
) -> int | None:
    """Run ``work`` in a process of its own.

    Args:
        work: A function that can be imported.
        args: Its arguments.
        kill_after: Seconds after which the process gets a signal; it may end before.
        number: Which; after any but SIGKILL it has some time.

    Returns:
        The exit code; below 0 the signal that ended it.
    """
    process = FORKS.Process(target=work, args=args)
    process.start()
    process.join(LIMIT if kill_after is None else kill_after)
    if process.is_alive() and kill_after is not None:
        os.kill(process.pid or 0, number)
        process.join(ORDERLY)
    if process.is_alive():
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
        raise TimeoutError(f"{work.__name__}{args} did not end in time")
    return process.exitcode


@contextmanager
def running(folder: Path, *args: str) -> Iterator[subprocess.Popen[str]]:
    """A command that is running in ``folder``; whatever happens, nothing of it is left in the end.

    Its output and its errors are in ``stdout`` and ``stderr``; its processes are a group of their
    own.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "lightning_sasv.cli", *args],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if is_there(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        for one in processes_in(folder):  # a group of its own
            os.kill(one, signal.SIGKILL)


def processes_in(folder: Path) -> list[int]:
    """Processes whose working directory is below ``folder``, whoever started them."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if (place / "cwd").resolve().is_relative_to(folder):
                found.append(int(place.name))
        except OSError:  # it has ended
            continue
    return found


def wait_for(process: subprocess.Popen[str], folder: Path, pattern: str) -> None:
    """Wait until a running command has written a file."""
    deadline = time.monotonic() + 120
    while not list(folder.glob(pattern)) and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.1)


def is_there(group: int) -> bool:
    """Whether anything is left of a process group."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
