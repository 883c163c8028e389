"""Several pieces of work at once on this machine: the first here, the others in processes.

The processes are spawned, not forked: a fork would inherit the locks of threads that it does not
inherit. They end with this process, however it ends, and leave signals to it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from lightning_sasv.errors import InputError, RunError
from lightning_sasv.program import Program, collect_rarely, cores, program, safe_path, using
from lightning_sasv.signals import ALL, PATIENCE, Stopped, add_helper, held, ignore_signals

MOST = 4
"""Processes that are used unless the user wants more: each holds the corpus in memory."""


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
        import torch

        wanted = 1 if torch.cuda.is_available() else min(MOST, cores() // threads)
    return max(1, min(pieces, wanted))


@contextmanager
def deaf() -> Iterator[None]:
    """Processes started here hear no signal, not even while they import; this one does after.

    The tracker of shared resources, which a first process needs, would lift the block.
    """
    from multiprocessing import resource_tracker  # not before it is needed

    if not hasattr(signal, "pthread_sigmask"):  # not on every system
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ALL)
    try:
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, ALL)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Workers:
    """Processes that get ready for work before it is known what there is to do.

    To be used in a ``with`` statement, which leaves none of them behind.

    Args:
        prepare: What each of them does first; a function that can be imported. A failure is left
            to the work to find.
        args: Its arguments.
    """

    def __init__(self, prepare: Callable[..., Any], *args: Any) -> None:
        self._ready = (prepare, args)
        self._started: list[tuple[SpawnProcess, Connection]] = []
        add_helper(self._kill)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.keep(0)

    def keep(self, number: int) -> None:
        """Have so many of them: start what is lacking, end what is too much."""
        spawn = multiprocessing.get_context("spawn")
        while len(self._started) < number:
            end, other = spawn.Pipe()
            process = spawn.Process(
                target=_child, args=(other, program(), *self._ready), daemon=True
            )
            with safe_path(), held(), deaf():
                process.start()
                other.close()  # so that the end of the process is the end of the pipe
                self._started.append((process, end))
        for process, _ in self._started[number:]:
            process.kill()
            process.join()
        del self._started[number:]

    def _kill(self, _: int) -> None:
        for process, _end in self._started:
            process.kill()

    def run(
        self, here: Callable[[], None], work: Callable[..., None], others: Sequence[tuple[Any, ...]]
    ) -> None:
        """Call ``here``, and meanwhile ``work`` in a process for each of ``others``.

        A failure here ends the processes; one of theirs is reported when the rest has ended.

        Args:
            here: What this process does.
            work: What each process does; a function that can be imported. Its last argument is
                what the preparation gave, or ``None``.
            others: Its other arguments, for each process.
        """
        self.keep(len(others))
        for (_, end), args in zip(self._started, others, strict=True):
            with suppress(OSError):  # it has died: the outcome tells
                end.send((work, args))
        with self:
            here()
            failures = [text for one in self._started if (text := _outcome(*one))]
        if failures:
            raise RunError(
                f"a process of this run failed: {failures[0]}; what is finished is kept: the same "
                "command goes on"
            )


def _outcome(process: SpawnProcess, end: Connection) -> str | None:
    """Wait for a process; what went wrong in it, or nothing."""
    try:
        found: str | None = end.recv()
    except (EOFError, OSError):
        process.join()
        found = f"it ended with code {process.exitcode} and without a word"
    return found


def _child(
    end: Connection, said: Program, prepare: Callable[..., Any], first: tuple[Any, ...]
) -> None:
    """Do in another process what comes through the pipe, as the options of the program say."""
    collect_rarely()
    ignore_signals()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with using(said):
        _serve(end, prepare, first)


def _serve(end: Connection, prepare: Callable[..., Any], first: tuple[Any, ...]) -> None:
    """Get ready, do the work that comes through the pipe, and send what went wrong, if anything."""
    ready = None
    with suppress(Exception):  # of any kind: the work finds it again
        ready = prepare(*first)
    try:
        work, args = end.recv()
        work(*args, ready)
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


def run_child(words: Sequence[str], environment: Mapping[str, str], folder: Path) -> int:
    """Run a command to its end, and return its exit code.

    Its processes are a group of their own, so that each hears a signal once: from here. After one
    they have time for an orderly end, not longer.

    Args:
        words: The command.
        environment: Its environment.
        folder: Its working directory.
    """
    process: subprocess.Popen[bytes] | None = None
    try:
        with held():
            process = subprocess.Popen(words, env=environment, cwd=folder, process_group=0)
            add_helper(lambda number: _tell(process, number))
        return process.wait()
    except KeyboardInterrupt as error:
        if not isinstance(error, Stopped):  # nobody else hands it on
            _tell(process, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            if process is not None:
                process.wait(PATIENCE - 1)
        _tell(process, signal.SIGKILL)
        raise


def _tell(process: subprocess.Popen[bytes] | None, number: int) -> None:
    """Send a signal to every process of a command that runs."""
    if process is not None and process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
