"""Which signals there are; helper processes leave them to their command, and end with it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1")
ALL = tuple(signal.Signals[name] for name in _NAMES if hasattr(signal, name))

PARENT = "LIGHTNING_SASV_PARENT"
"""Variable for the processes of one training: the one that starts the others, and ends them."""


def exit_code(number: int) -> int:
    """What a command that was stopped by a signal exits with; SIGUSR1 asks for a checkpoint."""
    return 75 if number == getattr(signal, "SIGUSR1", None) else 128 + number


def importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported."""
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None


def rank() -> int:
    """Number of this process among those of one training."""
    variables = ("RANK", "LOCAL_RANK", "SLURM_PROCID")
    return next((int(os.environ[v]) for v in variables if os.environ.get(v, "").isdigit()), 0)


def ignore_signals() -> None:
    """Leave signals to another process, which ends this one."""
    for one in ALL:
        signal.signal(one, signal.SIG_IGN)


def obey() -> None:
    """In a process that another one started for its training, leave signals to it and end with it.

    The Trainer starts such a process by the same command line; it is told from others by its
    environment.
    """
    if os.environ.get("LOCAL_RANK", "0") != "0" and os.environ.get(PARENT):
        ignore_signals()
        arguments = (int(os.environ[PARENT]),)
        threading.Thread(target=_end_with, args=arguments, name="parent", daemon=True).start()
    else:
        os.environ[PARENT] = str(os.getpid())


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


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
