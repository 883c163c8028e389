"""Reading recordings: mono, one sample rate, and the challenge's 64,600 samples."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from lightning_sasv.errors import InputError
from lightning_sasv.frontends.archives import Member
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

_UNKNOWN_LENGTH = 2**62
_RATES = (1_000, 768_000)
"""Sample rates in use, from the lowest to the highest; a header that says another is damaged."""

_FILTER_REACH = 10
"""Half-length of ``resample_poly``'s filter, in samples of the slower of the two rates."""


def require_soundfile() -> ModuleType:
    """The library that reads audio, or an error that says how to install it."""
    try:
        import soundfile
    except (ImportError, OSError) as error:
        raise InputError(
            f"audio is read with soundfile, which cannot be imported ({error}); "
            "install it with: pip install 'lightning-sasv[audio]'"
        ) from None
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
    try:
        if isinstance(path, Path) and not path.is_file():
            raise InputError(f"{path}: no such file")
        data, rate, missing = _read_samples(path, sample_rate, samples)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    if missing > 0:
        raise InputError(
            f"{path}: cut short, {len(data)} of {len(data) + missing} samples could be read"
        )
    if not len(data):
        raise InputError(f"{path}: holds no samples")
    if not np.isfinite(data).all():
        raise InputError(f"{path}: holds NaN or infinite samples")
    mono = data[:, 0] if data.shape[1] == 1 else data.mean(axis=1, dtype=np.float32)
    return resample(mono, rate, sample_rate)[:samples]


def _read_samples(
    path: Path | Member, sample_rate: int, samples: int | None
) -> tuple[np.ndarray, int, int]:
    """Samples (time, channels) at the file's own rate, that rate, and how many are missing."""
    soundfile = require_soundfile()
    try:
        opened = io.BytesIO(path.read()) if isinstance(path, Member) else path
        with soundfile.SoundFile(opened) as file:
            rate, length = int(file.samplerate), int(file.frames)
            if not _RATES[0] <= rate <= _RATES[1]:
                raise InputError(f"{path}: damaged, its header says {rate} samples a second")
            wanted = -1 if samples is None else _frames_needed(samples, rate, sample_rate)
            check_size(path, length if wanted < 0 else min(wanted, length), file.channels)
            data = file.read(wanted, dtype="float32", always_2d=True)
    except (soundfile.SoundFileError, TypeError, UnicodeError, MemoryError) as error:
        reason = str(getattr(error, "error_string", error)).rstrip(".") or type(error).__name__
        raise InputError(f"{path}: cannot be read as audio ({reason})") from None
    expected = length if wanted < 0 else min(wanted, length)
    return data, rate, expected - len(data) if expected < _UNKNOWN_LENGTH else 0


def check_size(name: object, frames: int, channels: int) -> None:
    """Refuse what would take all memory: silence of days is a few bytes of flac."""
    if frames < _UNKNOWN_LENGTH:
        AUDIO_SAMPLES.check(name, frames * channels)


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


def repeat_pad(waveform: Tensor, samples: int = SAMPLES) -> Tensor:
    """Exactly ``samples`` samples: the first ones, or the recording repeated end to end.

    Args:
        waveform: (…, time), at least one sample.
        samples: Length to make.
    """
    length = waveform.shape[-1]
    if length == 0:
        raise InputError("waveform holds no samples")
    if length >= samples:
        return waveform[..., :samples]
    repeats = [1] * (waveform.ndim - 1) + [math.ceil(samples / length)]
    return waveform.repeat(repeats)[..., :samples]


def as_batch(waveforms: Waveforms, samples: int | None) -> list[Tensor]:
    """Waveforms as (batch, time) tensors of equal length, in order; one tensor where possible.

    Args:
        waveforms: (batch, time), or a sequence of 1-D tensors or arrays of any lengths.
        samples: Length to repeat or cut each to; ``None`` leaves the lengths alone, so that
            recordings of different length come as batches of one.
    """
    import torch

    rows = [torch.as_tensor(row) for row in waveforms]
    if not rows:
        raise InputError("waveforms: the batch is empty")
    for number, row in enumerate(rows):
        if row.ndim != 1 or not row.is_floating_point():
            raise InputError(
                f"waveforms: number {number} has shape {tuple(row.shape)} and type {row.dtype}; "
                "expected one axis of floats"
            )
    if samples is not None:
        rows = [repeat_pad(row, samples) for row in rows]
    elif any(len(row) == 0 for row in rows):
        raise InputError("waveforms: one of them holds no samples")
    if len({len(row) for row in rows}) == 1:
        return [torch.stack(rows)]
    return [row[None] for row in rows]
