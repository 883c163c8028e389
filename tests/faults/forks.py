"""Processes that tests kill, forked from a server that has imported everything and started nothing.

A fork of the test process itself would inherit the locks of threads that it does not inherit, since
polars and OpenMP keep pools of them, and could wait for them for ever.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable

LIMIT = 300.0
"""Seconds after which a process counts as hung."""

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["tests.faults.heavy_imports"]
)  # one server, so one list for all tests


def finish(work: Callable[..., None], *args: object, kill_after: float | None = None) -> int | None:
    """Run ``work`` in a process of its own.

    Args:
        work: A function that can be imported.
        args: Its arguments.
        kill_after: Seconds after which the process is killed with SIGKILL; it may end before.

    Returns:
        The exit code; below 0 the signal that ended it.
    """
    process = FORKS.Process(target=work, args=args)
    process.start()
    process.join(LIMIT if kill_after is None else kill_after)
    if process.is_alive():
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
        if kill_after is None:
            raise TimeoutError(f"{work.__name__}{args} did not end within {LIMIT:.0f} s")
    return process.exitcode
