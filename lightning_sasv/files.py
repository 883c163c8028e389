"""Files: they appear whole or not at all; what is wrong with one is said in a line."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lightning_sasv.errors import InputError


def ensure_directory(path: str | Path) -> Path:
    """Make ``path`` a directory that can be written to, or say why it cannot be."""
    path = Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError as error:
        raise InputError(
            f"cannot write to output directory {path}: {error.strerror}; choose another one"
        ) from None


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; on success it is flushed and renamed to ``path``.

    On an exception the temporary file is removed and an older ``path`` stays as it was.
    """
    path = Path(path)
    ensure_directory(path.parent)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        _publish(temporary, path, 0o666)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """Yield a temporary folder beside ``path`` that becomes ``path`` at the end.

    ``path`` must not hold anything yet; on an exception nothing is left behind.
    """
    path = Path(path)
    if path.is_symlink() or (path.exists() and not (path.is_dir() and not any(path.iterdir()))):
        raise InputError(f"{path} is there already; remove it or choose another --out")
    parent = ensure_directory(path.absolute().parent)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=parent))
    try:
        yield temporary
        _publish(temporary, path, 0o777)  # replaces an empty folder, and nothing else
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _publish(temporary: Path, path: Path, mode: int) -> None:
    """Rename to ``path``, with the rights that a new file of this user has."""
    umask = os.umask(0)
    os.umask(umask)
    temporary.chmod(mode & ~umask)
    temporary.replace(path)


def write_text(path: str | Path, text: str) -> Path:
    """Write ``text`` to ``path`` atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return Path(path)


def is_file(path: str | Path) -> bool:
    """Whether there is such a file."""
    return Path(path).is_file()


def _read(path: str | Path, what: str) -> bytes:
    """Content of a file; ``what`` it is, e.g. "sweep file", is part of the message if it fails."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {what}{' ' * bool(what)}{path}: {error.strerror}") from None


def finite(value: Any) -> Any:
    """The same value for JSON, which lacks NaN and infinity: they become ``None``.

    Example:
        >>> finite({"cllr": float("nan"), "eers": (0.5, float("inf"))})
        {'cllr': None, 'eers': [0.5, None]}
    """
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: str | Path, what: str = "") -> Any:
    """Content of a JSON file."""
    content = _read(path, what)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON ({error}); write it again") from None


def write_json(path: str | Path, value: Any, *, indent: int = 1, sort_keys: bool = True) -> Path:
    """Write a JSON file atomically; NaN and infinity become null."""
    text = json.dumps(finite(value), indent=indent, sort_keys=sort_keys, allow_nan=False)
    return write_text(path, text + "\n")


def read_yaml(path: str | Path, what: str = "") -> Any:
    """Content of a YAML file; a mistake in it is reported by file and line."""
    import yaml

    content = _read(path, what)
    try:
        return yaml.safe_load(content)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise InputError(f"{path}{where}: not valid YAML: {problem}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid YAML: {error}") from None


def sha256(path: str | Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def cores() -> int:
    """Processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
