"""Reading recordings of every kind, resampling, repeating, and what cannot be read."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_sasv.errors import InputError
from lightning_sasv.frontends.audio import read_audio, resample
from lightning_sasv.frontends.base import as_batch, repeat_pad


def tone(rate: int, seconds: float = 0.5, frequency: float = 440.0) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * frequency * np.arange(int(rate * seconds)) / rate)


@pytest.mark.parametrize(
    ("name", "subtype", "tolerance"),
    [
        ("a.wav", "PCM_16", 1e-4),
        ("a.wav", "PCM_U8", 1e-2),
        ("a.wav", "PCM_24", 1e-6),
        ("a.wav", "FLOAT", 1e-6),
        ("a.flac", "PCM_16", 1e-4),
        ("a.flac", "PCM_S8", 1e-2),
        ("a.ogg", "VORBIS", 0.1),
    ],
)
def test_formats(tmp_path: Path, name: str, subtype: str, tolerance: float) -> None:
    wanted = tone(16_000)
    soundfile.write(tmp_path / name, wanted, 16_000, subtype=subtype)
    found = read_audio(tmp_path / name)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, atol=tolerance)


def test_channels_are_averaged(tmp_path: Path) -> None:
    left, right = tone(16_000), tone(16_000, frequency=660.0)
    soundfile.write(tmp_path / "a.wav", np.stack([left, right], 1), 16_000, subtype="FLOAT")
    np.testing.assert_allclose(read_audio(tmp_path / "a.wav"), (left + right) / 2, atol=1e-6)


@pytest.mark.parametrize("rate", [8_000, 11_025, 22_050, 44_100, 48_000])
def test_other_rates_are_resampled(tmp_path: Path, rate: int) -> None:
    soundfile.write(tmp_path / "a.wav", tone(rate), rate, subtype="FLOAT")
    found = read_audio(tmp_path / "a.wav")
    assert abs(len(found) - 8_000) <= 1
    inside = slice(400, 7_600)  # the filter sees silence beyond the ends
    np.testing.assert_allclose(found[inside], tone(16_000)[inside], atol=2e-3)


def test_resampling_removes_what_the_lower_rate_cannot_hold() -> None:
    found = resample(tone(48_000, frequency=11_000.0).astype(np.float32), 48_000, 16_000)
    assert np.abs(found[400:-400]).max() < 0.01
    same = tone(16_000).astype(np.float32)
    assert resample(same, 16_000, 16_000) is same
    with pytest.raises(InputError, match="from 0 Hz"):
        resample(same, 0, 16_000)


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100, 48_000])
def test_the_start_alone_is_the_start_of_the_whole(tmp_path: Path, rate: int) -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, 2 * rate)
    soundfile.write(tmp_path / "a.wav", noise, rate, subtype="FLOAT")
    whole = read_audio(tmp_path / "a.wav")
    for samples in (1, 1_000, 20_000, len(whole), 2 * len(whole)):
        np.testing.assert_array_equal(
            read_audio(tmp_path / "a.wav", samples=samples), whole[:samples]
        )


def nan_samples(path: Path) -> None:
    soundfile.write(path, np.array([0.1, np.nan, 0.2]), 16_000, subtype="FLOAT")


def cut_flac(path: Path) -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, 32_000)
    soundfile.write(path, noise, 16_000)
    path.write_bytes(path.read_bytes()[:20_000])


def write_noise(path: Path) -> bytes:
    """Four seconds of noise, whose bytes are returned."""
    noise = np.random.default_rng(0).normal(0, 0.1, 64_000)
    opus = {"format": "OGG", "subtype": "OPUS"} if path.suffix == ".opus" else {}
    soundfile.write(path, noise, 16_000, **opus)
    return path.read_bytes()


def cut(path: Path) -> None:
    """Noise without its end; of what is left libsndfile says mostly that it is all there is."""
    whole = write_noise(path)
    path.write_bytes(whole[: 9 * len(whole) // 10])


def endless_flac(path: Path) -> None:
    """A stream whose header does not say how long it is."""
    soundfile.write(path, tone(16_000), 16_000)
    content = bytearray(path.read_bytes())
    content[21:26] = bytes([content[21] & 0xF0]) + bytes(4)
    path.write_bytes(content)


def odd_rate(path: Path) -> None:
    """A sound file whose header says two thousand million samples a second."""
    soundfile.write(path, np.zeros(100), 16_000, subtype="PCM_16")
    content = bytearray(path.read_bytes())
    content[24:28] = (2_000_000_011).to_bytes(4, "little")
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "make", "says"),
    [
        ("zero.wav", lambda p: soundfile.write(p, np.zeros(0), 16_000), "holds no samples"),
        ("nan.wav", nan_samples, "holds NaN or infinite samples"),
        ("text.flac", lambda p: p.write_text("this is no audio\n" * 99), "cannot be read as audio"),
        ("empty.flac", lambda p: p.touch(), "cannot be read as audio"),
        ("cut.flac", cut_flac, "cut short|cannot be read as audio"),
        ("cut.wav", cut, "cut short, its header says that more was to follow"),
        ("cut.aiff", cut, "cut short, its header says that more was to follow"),
        ("cut.au", cut, "cut short, its header says that more was to follow"),
        ("cut.ogg", cut, "cut short, the page that ends it is missing"),
        ("cut.opus", cut, "cut short, the page that ends it is missing"),
        ("cut.mp3", cut, "cut short, "),
        ("endless.flac", endless_flac, "does not say how long it is; save it as a whole file"),
        ("missing.flac", lambda p: None, "no such file"),
        ("folder.flac", lambda p: p.mkdir(), "no such file"),
        ("rate.wav", odd_rate, "damaged, its header says 2000000011 samples a second"),
        ("bytes.raw", lambda p: p.write_bytes(bytes(400)), "cannot be read as audio"),
        ("x" * 300 + ".wav", lambda p: None, "File name too long"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, name: str, make: object, says: str) -> None:
    make(tmp_path / name)  # type: ignore[operator]
    with pytest.raises(InputError, match=says) as found:
        read_audio(tmp_path / name)
    assert name in str(found.value)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("name", ["a.ogg", "a.opus"])
def test_an_ogg_file_is_whole_with_its_last_page_alone(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    whole = write_noise(path)
    assert len(read_audio(path)) == 64_000
    pages = [match.start() for match in re.finditer(b"OggS", whole)]
    for at in (*pages[-3:], pages[-1] + 20, pages[-1] + 27, len(whole) - 1):
        path.write_bytes(whole[:at])
        with pytest.raises(InputError, match="the page that ends it is missing"):
            read_audio(path)
        assert len(read_audio(path, samples=1_000)) == 1_000  # what is wanted is there
    path.write_bytes(whole + b"TAG" + bytes(125))
    assert len(read_audio(path)) == 64_000


def test_a_header_that_counts_itself_is_no_sign_of_a_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    whole = write_noise(path)
    path.write_bytes(whole[:4] + len(whole).to_bytes(4, "little") + whole[8:])  # 8 too many
    assert len(read_audio(path)) == 64_000


@settings(deadline=None, max_examples=50)
@given(length=st.integers(1, 200), samples=st.integers(1, 500))
def test_repeat_pad_repeats_end_to_end(length: int, samples: int) -> None:
    x = torch.arange(2.0 * length).view(2, length)
    found = repeat_pad(x, samples)
    assert found.shape == (2, samples)
    assert torch.equal(found, x[:, torch.arange(samples) % length])


def test_batches() -> None:
    long, short = torch.zeros(70_000), np.ones(3, dtype=np.float32)
    (batch,) = as_batch([long, torch.from_numpy(short)], 64_600)
    assert batch.shape == (2, 64_600)
    assert [x.shape for x in as_batch([long, torch.from_numpy(short)], None)] == [
        (1, 70_000),
        (1, 3),
    ]
    assert as_batch(torch.zeros(2, 5), None)[0].shape == (2, 5)


@pytest.mark.parametrize(
    ("waveforms", "says"),
    [
        ([], "the batch is empty"),
        ([torch.zeros(0)], "holds no samples"),
        (torch.zeros(2, 3, 4), r"shape \(3, 4\)"),
        ([torch.zeros(4, dtype=torch.int16)], "type torch.int16"),
        (torch.zeros(4), r"shape \(\)"),
    ],
)
@pytest.mark.parametrize("samples", [None, 8])
def test_batches_that_cannot_be(waveforms: object, says: str, samples: int | None) -> None:
    with pytest.raises(InputError, match=says):
        as_batch(waveforms, samples)  # type: ignore[arg-type]
