"""Commands that a command starts: a signal is handed on, and none of them is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from lightning_sasv import signals


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
        with signals.held():
            process = subprocess.Popen(words, env=environment, cwd=folder, process_group=0)
            signals.add_helper(lambda number: _tell(process, number))
        return process.wait()
    except KeyboardInterrupt as error:
        if not isinstance(error, signals.Stopped):  # nobody else hands it on
            _tell(process, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            if process is not None:
                process.wait(signals.PATIENCE - 1)
        _tell(process, signal.SIGKILL)
        raise


def _tell(process: subprocess.Popen[bytes] | None, number: int) -> None:
    """Send a signal to every process of a command that runs."""
    if process is not None and process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
