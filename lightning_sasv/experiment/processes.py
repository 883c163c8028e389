"""Several pieces of work at once on this machine: the first here, the others in processes.

The processes are spawned, not forked: a fork would inherit the locks of threads that it does not
inherit. They end with this process, however it ends, and leave Ctrl-C to it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

import torch

from lightning_sasv.errors import InputError, RunError

MOST = 4
"""Processes that are used unless the user wants more: each holds the corpus in memory."""

SPAWN = multiprocessing.get_context("spawn")


def usable_processes(pieces: int, wanted: int | None, threads: int) -> int:
    """How many processes to use.

    Args:
        pieces: Pieces of work.
        wanted: What the user asks for; by default as many as there are cores, one on a GPU, which
            the processes would only share.
        threads: Threads of each process.
    """
    if wanted is not None and wanted < 1:
        raise InputError(f"--processes must be at least 1, got {wanted}")
    if wanted is None:
        wanted = 1 if torch.cuda.is_available() else min(MOST, _cores() // threads)
    return max(1, min(pieces, wanted))


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_at_once(
    here: Callable[[], None], work: Callable[..., None], others: Sequence[tuple[Any, ...]]
) -> None:
    """Call ``here``, and meanwhile ``work`` in a process for each of ``others``.

    A failure here ends the processes; one of theirs is reported when the rest has ended.

    Args:
        here: What this process does.
        work: What each process does; a function that can be imported.
        others: Its arguments, for each process.
    """
    started = [_start(work, args) for args in others]
    try:
        here()
        failures = [text for process, end in started if (text := _outcome(process, end))]
    finally:
        for process, _ in started:
            process.kill()
            process.join()
    if failures:
        raise RunError(
            f"a process of this run failed: {failures[0]}; what is finished is kept: the same "
            "command goes on"
        )


def _start(work: Callable[..., None], args: tuple[Any, ...]) -> tuple[SpawnProcess, Connection]:
    end, other = SPAWN.Pipe(duplex=False)
    process = SPAWN.Process(target=_child, args=(other, work, args), daemon=True)
    process.start()
    other.close()  # so that the end of the process is the end of the pipe
    return process, end


def _outcome(process: SpawnProcess, end: Connection) -> str | None:
    """Wait for a process; what went wrong in it, or nothing."""
    try:
        found: str | None = end.recv()
    except EOFError:
        process.join()
        found = f"it ended with code {process.exitcode} and without a word"
    return found


def _child(end: Connection, work: Callable[..., None], args: tuple[Any, ...]) -> None:
    """Do the work of a process and send what went wrong, if anything."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        work(*args)
    except Exception as error:  # of any kind: it is told in the other process
        end.send(str(error) or type(error).__name__)
        if not isinstance(error, (InputError, RunError)):
            raise
    else:
        end.send(None)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
