"""Programs of the system that tests need: Debian's packages, installed where they are missing."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")

PATIENT = ("-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=120")
"""A network that fails once, and somebody else who installs, are no reason to give up."""


def installed(
    packages: Sequence[str], find: Callable[[], Found | None], seconds: float = 600
) -> Found | str:
    """What the packages give, installed if that is missing; or why not.

    Parallel test processes come here together: only one may install, the others wait and look
    again.

    Args:
        packages: Names of Debian's packages.
        find: Looks for what they give.
        seconds: For their installation.
    """
    lock = Path(tempfile.gettempdir()) / f"lightning-sasv-tests-apt-{os.getuid()}.lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed, or by a crash
        if (found := find()) is not None:
            return found
        if shutil.which("apt-get") is None:
            return f"no {packages[0]} and no apt-get to install it with"
        why = _install(packages, time.monotonic() + seconds)
        return find() or why or f"{packages[0]} is not on the path after its installation"


def _install(packages: Sequence[str], end: float) -> str:
    """Install packages; why that failed. Where lists cannot be renewed, old ones may do."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    why = ""
    for words in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        try:
            done = subprocess.run(
                ["apt-get", "--quiet", *words, *PATIENT],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=max(1.0, end - time.monotonic()),
            )
        except subprocess.TimeoutExpired:
            return f"apt-get {words[0]} does not end in time"
        last = (done.stderr.strip().splitlines() or ["it fails without a word"])[-1]
        why = f"apt-get {words[0]} failed: {last}" if done.returncode else ""
    return why
