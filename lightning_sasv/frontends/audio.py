"""Recordings: found in files and tar files, read, checked, mono, at one sample rate."""

from __future__ import annotations

import io
import math
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from lightning_sasv.errors import InputError, importing
from lightning_sasv.files import is_file
from lightning_sasv.limits import AUDIO_SAMPLES

if TYPE_CHECKING:
    from torch import Tensor

    Waveforms: TypeAlias = Tensor | Sequence[Tensor] | Sequence[np.ndarray]
else:
    Waveforms = Any  # recordings are read and decided on without torch
"""A batch of recordings: (batch, time), or one 1-D array or tensor for each."""

SAMPLE_RATE = 16_000
SAMPLES = 64_600
"""Samples that the networks of the challenge look at, about four seconds at 16 kHz."""

SUFFIXES = (".flac", ".wav", ".ogg", ".opus", ".mp3", ".aiff", ".aif", ".au")
"""Names that are taken for audio where a folder is searched."""

SHORTEST, LONGEST = 0.5, 600.0
"""Seconds that a recording must and may have that a decision rests on."""

SILENT = 1e-4
"""Swing below which a recording is silence (−80 dB of full scale)."""

LOUD = 16.0
"""Peak beyond which samples are in another unit than full scale, as floats can be."""

RATES = (1_000, 768_000)
"""Sample rates in use, from the lowest to the highest; a header that says another is damaged."""

_UNKNOWN_LENGTH = 2**62
"""Samples by the header of a stream whose length was not known when it was written."""

_ENDLESS = "its header does not say how long it is; save it as a whole file"
_PIPED = 0x7FFF_0000
"""Bytes of a file from which on its length was not known when it was written."""

_MISCOUNTED = 64
"""Bytes by which programs that count their own header, or a byte of padding, miss the length."""

_LARGEST_PAGE = 65_307
"""Bytes of a page of an Ogg file."""

_FILTER_REACH = 10
"""Half-length of ``resample_poly``'s filter, in samples of the slower of the two rates."""

TAR = ".tar"
PACKED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip")
"""Archives that cannot be read in place."""
_BLOCK = 512
_DAMAGE = (tarfile.TarError, OSError, ValueError, OverflowError, MemoryError, RecursionError)
"""What headers with absurd sizes make of the library that reads them."""


class Member(NamedTuple):
    """A file in a tar file.

    Attributes:
        archive: The tar file.
        name: Its name there.
        start: Where its bytes begin.
        size: How many they are.
    """

    archive: Path
    name: str
    start: int
    size: int

    def __str__(self) -> str:
        return f"{self.archive}: {self.name}"

    def read(self) -> bytes:
        """Its bytes.

        Raises:
            InputError: The tar file ends before them.
        """
        with self.archive.open("rb") as file:
            file.seek(self.start)
            found = file.read(self.size)
        if len(found) < self.size:
            raise InputError(f"{self}: the tar file is cut short")
        return found


def members_of(archive: Path) -> tuple[list[Member], str]:
    """Files of a tar file, and what is wrong with its end; nothing where it is whole.

    Only plain files count. Names are names, never places on disk.
    """
    found: list[Member] = []
    if archive.name.lower().endswith(PACKED):
        return found, f"{archive} is compressed and was not looked into: unpack it"
    if not archive.is_file():  # a pipe would be waited for
        return found, f"{archive} is no file"
    try:
        size = archive.stat().st_size
        with tarfile.open(archive, "r:") as tar:
            end = 0
            while (one := _next(tar)) is not None:
                tar.members.clear()  # type: ignore[attr-defined]  # a release has 68,000 of them
                if one.size < 0 or tar.offset <= end:
                    raise tarfile.ReadError(f"{one.name[:100]!r} leads back")
                end = tar.offset
                if one.isreg() and not one.issparse():
                    found.append(Member(archive, one.name, one.offset_data, one.size))
            end = tar.offset
        with archive.open("rb") as file:
            file.seek(min(end, size))
            whole = file.read(_BLOCK) == bytes(_BLOCK)
    except _DAMAGE as error:
        found = [one for one in found if one.start + one.size <= size]
        return found, f"{archive} cannot be read as a tar file ({error or type(error).__name__})"
    cut = bool(found) and found[-1].start + found[-1].size > size
    if whole and not cut:
        return found, ""
    last = found[-1].name if found else "its beginning"
    return found[: len(found) - cut], f"{archive} is cut short at byte {size:,}, in or after {last}"


def _next(tar: tarfile.TarFile) -> tarfile.TarInfo | None:
    """The next member; none at the end, nor where the data of the last one are cut short."""
    try:
        return tar.next()
    except tarfile.ReadError:
        return None


def require_soundfile() -> ModuleType:
    """The library that reads audio, or an error that says how to install it."""
    with importing("audio is read with soundfile", "audio"):
        import soundfile
    return soundfile


def read_audio(
    path: str | Path | Member, sample_rate: int = SAMPLE_RATE, samples: int | None = None
) -> np.ndarray:
    """A recording as mono float32 in [−1, 1] at ``sample_rate``; channels are averaged.

    Args:
        path: File in any format that libsndfile reads (flac, wav, ogg, mp3, …), on disk or in a
            tar file.
        sample_rate: Rate to resample to.
        samples: How many samples at ``sample_rate`` are wanted, counted from the start: no more
            than needed is read. By default all.

    Raises:
        InputError: The file is missing, empty, cut short, not audio, or holds NaN or infinity.
    """
    path = path if isinstance(path, Member) else Path(path)
    soundfile = require_soundfile()
    try:
        if isinstance(path, Path) and not path.is_file():
            raise InputError(f"{path}: no such file")
        source = path.read() if isinstance(path, Member) else path
        with soundfile.SoundFile(_openable(source)) as file:
            rate = _checked_rate(path, file)
            mono, missing = _read_start(path, source, file, sample_rate, samples)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (soundfile.SoundFileError, TypeError, UnicodeError, MemoryError) as error:
        reason = str(getattr(error, "error_string", error)).rstrip(".") or type(error).__name__
        raise InputError(f"{path}: cannot be read as audio ({reason})") from None
    if missing:
        raise InputError(
            f"{path}: cut short, {len(mono)} of {len(mono) + missing} samples could be read"
        )
    if not len(mono):
        raise InputError(f"{path}: holds no samples")
    return resample(mono, rate, sample_rate)[:samples]


def read_recording(
    source: str | Path | bytes, sample_rate: int, samples: int | None, name: str | None = None
) -> tuple[np.ndarray, str]:
    """Read the beginning of a recording that a decision rests on, after its header was checked.

    Args:
        source: File, or its content.
        sample_rate: Rate to resample to where the recording has another.
        samples: How many samples at that rate are wanted; ``None`` takes them all.
        name: What it is called in messages; by default the file's name.

    Returns:
        Mono samples, no more than asked for, and what must be said about them; mostly nothing.

    Raises:
        InputError: It is no audio, too short, too long, silent, cut short, or holds no numbers.
    """
    name = name or ("the recording" if isinstance(source, bytes) else str(source))
    if not (isinstance(source, bytes) or is_file(source)):
        raise InputError(f"{name}: no such file")
    if not (isinstance(source, bytes) or os.access(source, os.R_OK)):
        raise InputError(f"{name}: you may not read this file; ask its owner for the right to")
    soundfile, problem = require_soundfile(), "cannot be read as audio; give wav, flac, ogg or mp3"
    try:
        with soundfile.SoundFile(_openable(source)) as file:
            rate, length = _checked_rate(name, file), int(file.frames)
            if length < SHORTEST * rate:
                _check_whole(name, source)  # or the advice would be wrong
            _check_length(name, length, length / rate)
            problem = "cut short or damaged; its header is sound, what follows is not"
            mono, missing = _read_start(name, source, file, sample_rate, samples)
    except (soundfile.SoundFileError, TypeError, UnicodeError, MemoryError, OSError):
        raise InputError(f"{name}: {problem}") from None  # libsndfile's words name an address
    if missing:
        raise InputError(f"{name}: cut short, {missing} samples of its beginning are missing")
    _check_content(name, mono, rate)
    note = ""
    if rate != sample_rate:
        note = f"{name}: resampled from {rate} Hz, the networks were measured at {sample_rate} Hz"
    return resample(mono, rate, sample_rate)[:samples], note


def _openable(source: str | Path | bytes) -> io.BytesIO | bytes:
    """What libsndfile opens: the content of a file, or its name."""
    return io.BytesIO(source) if isinstance(source, bytes) else os.fsencode(source)


def _checked_rate(name: object, file: Any) -> int:
    rate = int(file.samplerate)
    if not RATES[0] <= rate <= RATES[1]:
        raise InputError(f"{name}: damaged, its header says {rate} samples a second")
    return rate


def _check_length(name: str, length: int, seconds: float) -> None:
    """Refuse by the header alone what would say too little, or take too long."""
    if seconds < SHORTEST:
        raise InputError(
            f"{name}: {int(100 * seconds) / 100:.2f} s of audio are too little; at least "
            f"{SHORTEST:g} s are needed"
        )
    if length >= _UNKNOWN_LENGTH:
        raise InputError(f"{name}: {_ENDLESS}")
    if seconds > LONGEST:
        raise InputError(
            f"{name}: {seconds / 60:.0f} minutes of audio are too much; at most "
            f"{LONGEST / 60:.0f} are taken"
        )


def _read_start(
    name: object, source: str | Path | bytes, file: Any, sample_rate: int, samples: int | None
) -> tuple[np.ndarray, int]:
    """Mono samples that the first ``samples`` depend on, and how many of them are missing."""
    length = int(file.frames)
    needed = length + 1  # the end too
    if samples is not None:
        needed = _frames_needed(samples, int(file.samplerate), sample_rate)
    wanted = min(needed, length)
    if wanted >= _UNKNOWN_LENGTH:
        raise InputError(f"{name}: {_ENDLESS}")
    AUDIO_SAMPLES.check(name, wanted * file.channels)  # silence of days is a few bytes of flac
    try:
        data = file.read(wanted, dtype="float32", always_2d=True)
    except RuntimeError:
        if length < _UNKNOWN_LENGTH:
            raise
        raise InputError(f"{name}: {_ENDLESS}") from None
    missing = wanted - len(data)
    if needed > length and not missing:
        _check_whole(name, source)
    if not np.isfinite(data).all():
        raise InputError(f"{name}: holds NaN or infinite samples")
    return data[:, 0] if data.shape[1] == 1 else data.mean(axis=1, dtype=np.float32), missing


def _check_whole(name: object, source: str | Path | bytes) -> None:
    """Refuse a file that lacks its end, which libsndfile passes over.

    Headers of wav, aiff and au say how long the file is; programs that write to a pipe do not know
    it, and say the largest there is, or 0. The last page of an Ogg stream is flagged (RFC 3533).
    """
    with io.BytesIO(source) if isinstance(source, bytes) else Path(source).open("rb") as file:
        head, size = file.read(12), file.seek(0, os.SEEK_END)
        if head[:4] == b"OggS":
            file.seek(max(0, size - 2 * _LARGEST_PAGE))
            if not _ends_stream(file.read()):
                raise InputError(f"{name}: cut short, the page that ends it is missing")
    little, big = (int.from_bytes(head[4:8], order) for order in ("little", "big"))
    au = big + int.from_bytes(head[8:], "big")
    said = {b"RIFF": little + 8, b"FORM": big + 8, b".snd": au}.get(head[:4], 0)
    if size + _MISCOUNTED < said < _PIPED:
        raise InputError(f"{name}: cut short, its header says that more was to follow")


def _ends_stream(tail: bytes) -> bool:
    """Whether the last page of an Ogg file is whole, and flagged as the last of its stream."""
    page = tail[tail.rfind(b"OggS") :]
    if len(page) < 27:
        return False
    segments = page[27 : 27 + page[26]]
    return bool(page[5] & 4) and len(page) >= 27 + page[26] + sum(segments)


def _check_content(name: str, mono: np.ndarray, rate: int) -> None:
    peak = np.abs(mono).max(initial=0.0)
    if not len(mono) or np.ptp(mono) < 2 * SILENT:  # a value that stands still is no sound either
        raise InputError(
            f"{name}: nothing but silence in its first {len(mono) / rate:.1f} s, which is what "
            "would be listened to"
        )
    if peak > LOUD:
        raise InputError(
            f"{name}: samples reach {peak:.3g}, where full scale is 1; save it as 16-bit audio, or "
            "with floats from -1 to 1"
        )


def _frames_needed(samples: int, rate: int, sample_rate: int) -> int:
    """Samples at ``rate`` that the first ``samples`` at ``sample_rate`` depend on."""
    if rate == sample_rate:
        return samples
    reach = _FILTER_REACH * max(1.0, rate / sample_rate)
    return math.ceil(samples * rate / sample_rate + reach) + 1


def resample(waveform: np.ndarray, rate: int, sample_rate: int) -> np.ndarray:
    """``waveform`` at another sample rate, by polyphase filtering (``scipy.signal``)."""
    if rate == sample_rate:
        return waveform
    if rate < 1 or sample_rate < 1:
        raise InputError(f"cannot resample from {rate} Hz to {sample_rate} Hz")
    try:
        from scipy.signal import resample_poly
    except ImportError as error:
        raise InputError(
            f"a recording of {rate} Hz is resampled to {sample_rate} Hz with scipy, which cannot "
            f"be imported ({error}); install it, or save the recording at {sample_rate} Hz"
        ) from None
    common = math.gcd(rate, sample_rate)
    result = resample_poly(waveform, sample_rate // common, rate // common)
    return np.asarray(result, dtype=np.float32)
