"""Odd ground: environments, names and streams that every command has to bear."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

NAME = "a b\n[bold]{c}*'\"\N{GRINNING FACE}\udcff,=e\u0301"
"""Name of a file or folder with all that a careless program would stumble over."""

NAMES = {
    "blanks": " a  b ",
    "line break": "a\nb",
    "brackets": "a[/b]c",
    "braces": "{a: b}",
    "star": "*?",
    "quotes": "'\"",
    "emoji": "\N{GRINNING FACE}",
    "no UTF-8": "a\udcff",
    "option": "--out",
    "comma": "a,b=c",
    "escape": "a\x1b[2Jb",
}


def _few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


@dataclass(frozen=True)
class Environment:
    """What a process finds.

    Attributes:
        variables: Set; those of ``None`` are taken away.
        begin: Called in the process before the program.
        shell: What stands after the command in a shell, e.g. where its output goes.
        codes: Codes that it may end with where it would end with 0.
    """

    variables: Mapping[str, str | None] = field(default_factory=dict)
    begin: Callable[[], None] | None = None
    shell: str = ""
    codes: tuple[int, ...] = (0,)


ENVIRONMENTS = {
    "C locale": Environment({"LC_ALL": "C", "LANG": "C"}),
    "ASCII": Environment({"PYTHONIOENCODING": "ascii"}),
    "Latin-1": Environment({"PYTHONIOENCODING": "latin-1"}),
    "no HOME": Environment({"HOME": None}),
    "foreign HOME": Environment({"HOME": "/nonexistent"}),
    "few files": Environment(begin=_few_files),
    "one column": Environment({"COLUMNS": "1", "LINES": "1"}),
    "no TMPDIR": Environment({"TMPDIR": "/nonexistent"}),
    "no colour": Environment({"NO_COLOR": "1", "FORCE_COLOR": None}),
    "dumb": Environment({"TERM": "dumb"}),
    "no TERM": Environment({"TERM": None}),
    "full device": Environment(shell=">/dev/full", codes=(0, 1)),
    "full device for errors": Environment(shell="2>/dev/full", codes=(0, 1)),
    "closed output": Environment(shell=">&-"),
    "closed errors": Environment(shell="2>&-"),
    "all closed": Environment(shell="<&- >&- 2>&-"),
    "head": Environment(shell="| head -c 1 >/dev/null; exit ${PIPESTATUS[0]}"),
    "reader gone": Environment(shell="| true; exit ${PIPESTATUS[0]}"),
}
"""Each of them alone."""

TOGETHER = Environment(
    {
        name: value
        for one in ("ASCII", "C locale", "no HOME", "one column", "no TMPDIR", "no colour", "dumb")
        for name, value in ENVIRONMENTS[one].variables.items()
    },
    _few_files,
)
"""All that can hold at once."""


def run(
    words: list[str], environment: Environment, folder: Path, timeout: float = 300
) -> subprocess.CompletedProcess[bytes]:
    """Run ``lightning`` with these words in a folder; no terminal, no input."""
    variables = dict(os.environ) | {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    for name, value in environment.variables.items():
        variables.pop(name, None)
        variables |= {} if value is None else {name: value}
    command = [sys.executable, "-m", "lightning_sasv.cli", *words]
    if environment.shell:
        command = ["bash", "-c", f'"$@" {environment.shell}', "bash", *command]
    return subprocess.run(
        command,
        cwd=folder,
        env=variables,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=timeout,
        preexec_fn=environment.begin,
    )
