"""Recordings that a decision rests on: their length by the header, their content checked."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lightning_sasv.errors import InputError
from lightning_sasv.files import is_file
from lightning_sasv.frontends.audio import (
    _RATES,
    _frames_needed,
    check_size,
    require_soundfile,
    resample,
)

SHORTEST, LONGEST = 0.5, 600.0
"""Seconds that a recording must and may have."""

_ENDLESS = 1e9
"""Seconds by the header of a stream whose length was not known when it was written."""

_PIPED = 0x7FFF_0000
"""Bytes of a wav file from which on its length was not known when it was written."""

SILENT = 1e-4
"""Swing below which a recording is silence (−80 dB of full scale)."""

LOUD = 16.0
"""Peak beyond which samples are in another unit than full scale, as floats can be."""


@dataclass(frozen=True)
class Recording:
    """What a front end is given of a recording.

    Attributes:
        waveform: Mono samples at the rate that was asked for, no more than asked for.
        seconds: Length of the whole recording by its header.
        note: What must be said about it; mostly nothing.
    """

    waveform: np.ndarray
    seconds: float
    note: str = ""


def read_recording(
    source: str | Path | bytes, sample_rate: int, samples: int | None, name: str | None = None
) -> Recording:
    """Read the beginning of a recording, after its header was found sensible.

    Args:
        source: File, or its content.
        sample_rate: Rate to resample to where the recording has another.
        samples: How many samples at that rate are wanted; ``None`` takes them all.
        name: What it is called in messages; by default the file's name.

    Raises:
        InputError: It is no audio, too short, too long, silent, cut short, or holds no numbers.
    """
    name = name or ("the recording" if isinstance(source, bytes) else str(source))
    _check_readable(name, source)
    soundfile, problem = require_soundfile(), "cannot be read as audio; give wav, flac, ogg or mp3"
    opened = io.BytesIO(source) if isinstance(source, bytes) else os.fsencode(source)
    try:
        with soundfile.SoundFile(opened) as it:
            rate, seconds = int(it.samplerate), it.frames / max(it.samplerate, 1)
            _check_length(name, rate, seconds)
            problem = "cut short or damaged; its header is sound, what follows is not"
            most = int(LONGEST * rate) + 1  # whatever the header says
            wanted = most if samples is None else _frames_needed(samples, rate, sample_rate)
            check_size(name, min(wanted, most, it.frames), it.channels)
            data = it.read(min(wanted, most), dtype="float32", always_2d=True)
            missing = min(wanted, it.frames) - len(data)
    except (soundfile.SoundFileError, TypeError, UnicodeError, MemoryError, OSError):
        raise InputError(f"{name}: {problem}") from None  # libsndfile's words name an address
    if missing > 0:
        raise InputError(f"{name}: cut short, {missing} samples of its beginning are missing")
    if len(data) < wanted and _lacks_end(source):
        raise InputError(f"{name}: cut short, its header says that more was to follow")
    mono = data[:, 0] if data.shape[1] == 1 else data.mean(axis=1, dtype=np.float32)
    _check_content(name, mono, rate)
    note = ""
    if rate != sample_rate:
        note = f"{name}: resampled from {rate} Hz, the networks were measured at {sample_rate} Hz"
    return Recording(resample(mono, rate, sample_rate)[:samples], seconds, note)


def _check_readable(name: str, source: str | Path | bytes) -> None:
    if isinstance(source, bytes):
        return
    if not is_file(source):
        raise InputError(f"{name}: no such file")
    if not os.access(source, os.R_OK):
        raise InputError(f"{name}: you may not read this file; ask its owner for the right to")


def _lacks_end(source: str | Path | bytes) -> bool:
    """Whether a wav file is shorter than its header says, which libsndfile passes over.

    Programs that write to a pipe do not know the length, and say the largest there is, or 0.
    """
    if isinstance(source, bytes):
        head, size = source[:12], len(source)
    else:
        with Path(source).open("rb") as file:
            head, size = file.read(12), os.fstat(file.fileno()).st_size
    said = int.from_bytes(head[4:8], "little") + 8
    return (head[:4], head[8:]) == (b"RIFF", b"WAVE") and size + 1 < said < _PIPED


def _check_length(name: str, rate: int, seconds: float) -> None:
    """Refuse by the header alone what would say too little, or take too long."""
    if not _RATES[0] <= rate <= _RATES[1]:
        raise InputError(f"{name}: damaged, its header says {rate} samples a second")
    if seconds < SHORTEST:
        raise InputError(
            f"{name}: {int(100 * seconds) / 100:.2f} s of audio are too little; at least "
            f"{SHORTEST:g} s are needed"
        )
    if seconds > _ENDLESS:
        raise InputError(f"{name}: its header does not say how long it is; save it as a whole file")
    if seconds > LONGEST:
        raise InputError(
            f"{name}: {seconds / 60:.0f} minutes of audio are too much; at most "
            f"{LONGEST / 60:.0f} are taken"
        )


def _check_content(name: str, mono: np.ndarray, rate: int) -> None:
    if not np.isfinite(mono).all():
        raise InputError(f"{name}: holds NaN or infinite samples")
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
