"""Whether trials are held in memory or counted: by their number, and by the memory there is."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from lightning_sasv.errors import InputError
from lightning_sasv.evaluation.compare import Options
from lightning_sasv.places import is_counts
from lightning_sasv.scores.parquet import MAGIC
from lightning_sasv.scores.sources import names_of_files, roles_of
from lightning_sasv.scores.text import GZIP, STDIN, first_bytes

ROW_BYTES = 160
"""Memory that a trial takes where all are held in it."""
KEY_BYTES = 170
"""Memory that a trial of a key takes."""
MANY = 2_000_000
"""Trials above which intervals are made from counts unless --exact true."""
STATES = "a state holds no trials"
"""Why states are counted."""
_SIZES = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def is_counted(
    files: Any, options: Options, exact: str | bool, state: str | None, memory: str | None
) -> str | None:
    """Why trials are to be counted rather than held in memory; nothing where they are not."""
    given = [files] if isinstance(files, str | Path) else files
    if not isinstance(given, list) or not all(isinstance(one, str | Path) for one in given):
        return None
    sources = names_of_files([str(one) for one in given]).values()
    paths = [path for source in sources for _, path in roles_of(source)]
    if any(map(is_counts, paths)):
        return STATES
    if state is not None or STDIN in paths or exact is False or exact == "false":
        return "asked for"
    if exact is True or exact == "true" or not all(Path(path).is_file() for path in paths):
        return None
    if memory is None and all(map(_has_few, paths)):
        return None
    from lightning_sasv.scores.stream import rows_of

    rows, columns = max(rows_of(path) for path in paths), 2 + len(sources)
    if options.ci not in (None, "none") and rows > MANY:
        return f"{rows:,} rows with intervals"
    needed = ROW_BYTES * rows * (1 + 0.25 * (columns - 1))
    return f"{rows:,} rows" if needed > memory_for(memory) / 2 else None


def _has_few(path: str) -> bool:
    """Whether a file is too small for many trials: of plain text a row has ten bytes at least."""
    packed = first_bytes(Path(path)).startswith((MAGIC, GZIP))
    return Path(path).stat().st_size < 10 * MANY and not packed


def memory_for(text: str | None) -> float:
    """Bytes that this process may take, as far as the user allows it."""
    return read_size(text) if text else available_memory()


def available_memory(root: str = "/") -> float:
    """Bytes that this process may take: what is free, and the limits of all its cgroups.

    Args:
        root: Where the system's own files are.
    """
    groups = Path(root, "sys/fs/cgroup")
    own = re.search(r"^0::/(.*)$", _text(Path(root, "proc/self/cgroup")), re.MULTILINE)
    inner = groups / (own[1] if own else "")
    limits = [
        group / "memory.max" for group in (inner, *inner.parents) if group.is_relative_to(groups)
    ]
    limits += [groups / "memory/memory.limit_in_bytes"]
    found = [int(match[1]) for path in limits if (match := re.match(r"(\d+)", _text(path)))]
    free = re.search(r"MemAvailable:\s+(\d+)", _text(Path(root, "proc/meminfo")))
    return min([math.inf, *found, *([int(free[1]) * 1024] if free else [])])


def _text(path: Path) -> str:
    """The content of a file; nothing where it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""


def read_size(text: str) -> float:
    """Bytes of a size in words.

    Example:
        >>> read_size("8GB"), read_size("500 mb")
        (8000000000.0, 500000000.0)
    """
    match = re.fullmatch(r"\s*([\d.]+)\s*([A-Za-z]*)\s*", text)
    if match is None or match[2].upper() not in _SIZES:
        raise InputError(f"--memory {text}: expected a size such as 8GB")
    return float(match[1]) * _SIZES[match[2].upper()]
