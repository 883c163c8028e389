"""The program as the campaign's processes run it; they import this and little else."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from lightning_sasv.cli import main


def begin(words: list[str], folder: Path, log: Path, variables: dict[str, str]) -> None:
    """Be the program, in a group of processes of one's own; what it says goes to a file."""
    os.setsid()
    os.chdir(folder)
    output = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update(variables)
    sys.argv = ["lightning", *words]
    log.with_suffix(".begun").touch()
    main()
