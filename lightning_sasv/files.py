"""Files: they appear whole or not at all; what is wrong with one is said in a line."""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from lightning_sasv.errors import InputError
from lightning_sasv.limits import TEXT_BYTES, parse_json, parse_yaml

_CHUNK = 2**20


def ensure_directory(path: str | Path) -> Path:
    """Make ``path`` a directory that can be written to, or say why it cannot be."""
    path = _named(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError as error:
        raise InputError(
            f"cannot write to output directory {path}: {error.strerror}; choose another one"
        ) from None


def _named(path: str | Path) -> Path:
    """A path, unless no file can have that name."""
    if "\0" in str(path):
        raise InputError(f"{path} is no name of a file; choose another one")
    return Path(path)


@contextmanager
def atomic_path(path: str | Path, mode: int = 0o666) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; on success it is flushed and renamed to ``path``.

    On an exception the temporary file is removed and an older ``path`` stays as it was. ``mode`` is
    what the user's mask is taken from; until then nobody else can read the file.
    """
    path = _named(path)
    ensure_directory(path.parent)
    temporary = _beside(path)
    try:  # from its first moment on: a signal may come at any
        temporary.touch(0o600, exist_ok=False)
        with _writing(path):
            yield temporary
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            _publish(temporary, path, mode)
    finally:
        temporary.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    """A name beside ``path`` that nobody can foresee."""
    return path.absolute().parent / f".{path.name}.{secrets.token_hex(4)}.tmp"


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Name the file that cannot be written."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


@contextmanager
def atomic_folder(path: str | Path, replace: bool = False) -> Iterator[Path]:
    """Yield a temporary folder beside ``path`` that becomes ``path`` at the end.

    ``path`` must not hold anything yet, unless it is to be replaced as a whole; on an exception
    nothing is left behind, and an older ``path`` stays as it was.
    """
    path = _named(path)
    held = path.exists() and not (path.is_dir() and not any(path.iterdir()))
    if path.is_symlink() or (held and not replace):
        raise InputError(f"{path} is there already; remove it or choose another --out")
    ensure_directory(path.absolute().parent)
    temporary = _beside(path)
    before = Path(f"{temporary}.before")
    try:
        temporary.mkdir(0o700)
        with _writing(path):
            yield temporary
            if held:
                path.rename(before)
            _publish(temporary, path, 0o777)  # replaces an empty folder, and nothing else
    finally:
        if before.exists() and not path.exists():
            before.rename(path)
        for rest in (temporary, before):
            shutil.rmtree(rest, ignore_errors=True)


def _publish(temporary: Path, path: Path, mode: int) -> None:
    """Rename to ``path``, with the rights that a new file of this user has."""
    umask = os.umask(0)
    os.umask(umask)
    temporary.chmod(mode & ~umask)
    temporary.replace(path)


def is_address(path: object) -> bool:
    """Whether a path leads to another file system than this machine's.

    Example:
        >>> [is_address(path) for path in ("x.ckpt", "file:///x.ckpt", "filecache::x")]
        [False, True, True]
    """
    return "://" in str(path) or "::" in str(path)


def is_inside(folder: str | Path, path: str | Path) -> bool:
    """Whether a path, links followed, lies in ``folder``; addresses lie nowhere.

    Example:
        >>> is_inside("runs", "runs/B1/config.yaml"), is_inside("runs", "runs/../x")
        (True, False)
    """
    if is_address(path):
        return False
    try:
        return Path(path).resolve().is_relative_to(Path(folder).resolve())
    except (OSError, RuntimeError, ValueError):  # a loop of links, a name that is none
        return False


def inside(folder: str | Path, path: str | Path) -> Path:
    """``path``, unless a link in it leads out of ``folder``.

    Raises:
        InputError: It does: somebody who sends a folder could have files elsewhere replaced.
    """
    if not is_inside(folder, path):
        raise InputError(
            f"{path} is a link that leads out of {folder}; put the file itself there, or remove it"
        )
    return Path(path)


def unshare(path: Path) -> None:
    """Make a file one of its own that has other names (hard links), so that it can be written to.

    What is written in place would change the file under its other names too, wherever they are.
    """
    if path.is_file() and not path.is_symlink() and path.stat().st_nlink > 1:
        with atomic_path(path) as temporary:
            shutil.copyfile(path, temporary)


def write_text(path: str | Path, text: str) -> Path:
    """Write ``text`` to ``path`` atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")  # names of files
    return Path(path)


def is_file(path: str | Path) -> bool:
    """Whether there is such a file; none has a name that no file can have."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def open_at_once(path: str | Path) -> BufferedReader:
    """Open a file to read its bytes; a pipe that nobody writes to is empty, and not waited for."""

    def opened(name: str, flags: int) -> int:
        handle = os.open(name, flags | getattr(os, "O_NONBLOCK", 0))
        os.set_blocking(handle, True)
        return handle

    return open(path, "rb", opener=opened)


def _read(path: str | Path, what: str = "") -> bytes:
    """Content of a file; ``what`` it is, e.g. "sweep file", is part of the message if it fails.

    A device or pipe without end is left where the limit is reached.
    """
    parts: list[bytes] = []
    try:
        with open_at_once(path) as file:
            while part := file.read(_CHUNK):
                parts.append(part)
                TEXT_BYTES.check(path, _CHUNK * (len(parts) - 1) + len(part))
            if not parts and stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
                raise InputError(f"cannot read {path}: a pipe, and nobody writes to it")
    except OSError as error:
        raise InputError(f"cannot read {what}{' ' * bool(what)}{path}: {error.strerror}") from None
    return b"".join(parts)


def read_text(path: str | Path, what: str = "") -> str:
    """Content of a text file."""
    try:
        return _read(path, what).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text; save the file as UTF-8") from None


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


def read_json(path: str | Path) -> Any:
    """Content of a JSON file."""
    return parse_json(_read(path), path)


def write_json(path: str | Path, value: Any, *, indent: int = 1, sort_keys: bool = True) -> Path:
    """Write a JSON file atomically; NaN and infinity become null."""
    text = json.dumps(finite(value), indent=indent, sort_keys=sort_keys, allow_nan=False)
    return write_text(path, text + "\n")


def read_yaml(path: str | Path, what: str = "") -> Any:
    """Content of a YAML file; a mistake in it is reported by file and line."""
    return parse_yaml(_read(path, what), path)


def read_arrays(path: str | Path, header: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrays of a safetensors file by name, and the object that its head has under ``header``.

    Raises:
        ValueError: It is damaged, or of types that numpy lacks.
        OSError: It cannot be read.
    """
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:  # where a bundle alone is run
        metadata, arrays = _plain_arrays(Path(path).read_bytes())
        about = parse_json(metadata.get(header, "{}"), path)
    else:
        try:
            with safe_open(path, framework="numpy") as file:
                about = parse_json((file.metadata() or {}).get(header, "{}"), path)
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, AttributeError, TypeError) as error:
            raise ValueError(" ".join(str(error).split())[:200]) from None
    if not isinstance(about, dict):
        raise ValueError("its head is no object")
    return about, arrays


_DTYPES = {
    **{f"{kind}{bits}": f"<{kind.lower()}{bits // 8}" for kind in "IU" for bits in (8, 16, 32, 64)},
    **{f"F{bits}": f"<f{bits // 8}" for bits in (16, 32, 64)},
    "BOOL": "?",
}
"""Types of safetensors that numpy has."""


def _plain_arrays(content: bytes) -> tuple[dict[str, str], dict[str, Any]]:
    """Texts and arrays of a safetensors file, by numpy alone.

    The length of the head in eight bytes, the head as JSON (type, shape, and first and last byte of
    each array), then the arrays.

    Raises:
        ValueError: It is damaged, or of types that numpy lacks.
    """
    import numpy as np

    size = int.from_bytes(content[:8], "little")
    if len(content) < 8 + size:
        raise ValueError("it is shorter than its head says")
    head = parse_json(content[8 : 8 + size], "its head")
    try:
        texts, values, arrays, read = head.pop("__metadata__", {}), content[8 + size :], {}, 0
        for name, one in head.items():
            (first, last), kind = one["data_offsets"], np.dtype(_DTYPES[one["dtype"]])
            part = values[first:last] if 0 <= first <= last else b""
            arrays[name] = np.frombuffer(part, kind).reshape(one["shape"]).copy()
            read += arrays[name].nbytes
        texts = {name: text for name, text in texts.items() if isinstance(text, str)}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"its head makes no sense ({error})") from None
    if read != len(values):
        raise ValueError(f"its arrays take {read} bytes, not {len(values)}")
    return texts, arrays


def write_arrays(
    path: str | Path,
    arrays: Mapping[str, Any],
    metadata: Mapping[str, str] | None = None,
    mode: int = 0o666,
) -> Path:
    """Write arrays as a safetensors file, atomically.

    Args:
        path: File to write.
        arrays: Arrays by name.
        metadata: Texts of its head; the order of several differs from file to file.
        mode: What the user's mask is taken from.

    Raises:
        InputError: It cannot be written.
    """
    import numpy as np

    try:
        from safetensors import SafetensorError
        from safetensors.numpy import save_file
    except ImportError:
        raise InputError(f"{path} is written with safetensors: pip install safetensors") from None

    plain = {name: np.asarray(one, order="C") for name, one in arrays.items()}
    with atomic_path(path, mode) as temporary:
        try:
            save_file(plain, temporary, None if metadata is None else dict(metadata))
        except SafetensorError as error:  # a full disk
            raise OSError(str(error)) from None
    return Path(path)


def sha256(path: str | Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    try:
        with open_at_once(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
