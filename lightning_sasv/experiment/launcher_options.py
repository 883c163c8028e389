"""Parameters for submitit: some end up as lines of a batch script, which is a program.

The user may type them all. A configuration or sweep file that is not trusted may ask for resources;
it gives no commands, and nothing that could be taken for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lightning_sasv import gate
from lightning_sasv.errors import InputError
from lightning_sasv.terminal import clean

Setting = str | int | bool | float
LauncherOptions = dict[str, Setting | list[Setting] | dict[str, Setting]]
"""Parameters for submitit: what they are called there, and values."""

_SHARED = (
    *("name", "timeout_min", "mem_gb", "nodes", "cpus_per_task", "gpus_per_node"),
    *("tasks_per_node", "stderr_to_stdout"),
)
_OF_SLURM = (
    *("account", "array_parallelism", "comment", "constraint", "cpus_per_gpu", "dependency"),
    *("exclude", "exclusive", "gpus_per_task", "gres", "job_name", "mem", "mem_per_cpu"),
    *("mem_per_gpu", "nodelist", "ntasks_per_node", "num_gpus", "partition", "qos"),
    *("signal_delay_s", "time", "wckey"),
)
FROM_FILES = frozenset({*_SHARED, *(f"slurm_{name}" for name in (*_SHARED, *_OF_SLURM))})
"""What an untrusted file may ask for: how much of the cluster, and under which name."""

_QUOTING = "\"'\\`$#"
"""sbatch reads its lines by rules of its own: with these a value could pass for further options."""


def check_options(options: Mapping[str, object], folder: Path) -> None:
    """Refuse what would become a line of its own in a batch script, and commands from a file.

    Args:
        options: Parameters for submitit.
        folder: Where its scripts and logs go; the script names it.
    """
    place = str(folder.absolute())
    for text in (place, *_texts(options)):
        if clean(text) != text or "\\" in place:
            raise InputError(
                f"--launcher: {clean(text)[:200]!r} holds a line break, a folder a backslash, or "
                "a character that is not seen; a batch script cannot hold it"
            )
    if gate.is_open():
        return
    typed = gate.typed_option("launcher_options")
    for name, value in options.items():
        if typed.get(name) == value:
            continue
        if name not in FROM_FILES or set(_QUOTING) & set(str(value)):
            raise InputError(
                f"launcher_options: {name!r} from a file could run commands of its author; type it "
                "on the command line, or trust the file with --trust-config"
            )


def _texts(value: object) -> Iterator[str]:
    """Every key and value, at any depth."""
    if isinstance(value, Mapping):
        yield from _texts([*value, *value.values()])
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from _texts(item)
    else:
        yield str(value)
