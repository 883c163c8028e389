"""Log-mel features of the challenge's ECAPA-TDNN, with the names of its checkpoints."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, pad

N_FFT, WINDOW, HOP = 512, 400, 160


def mel_filters(bands: int, low: float, high: float, sample_rate: int = 16_000) -> Tensor:
    """Triangular filters, equally spaced on the mel scale 2595 log10(1 + f/700), height 1.

    Returns:
        (frequencies, bands), for the frequencies of an FFT of 512 samples.
    """
    frequency = torch.linspace(0, sample_rate // 2, N_FFT // 2 + 1, dtype=torch.float64)
    bottom, top = (2595 * math.log10(1 + value / 700) for value in (low, high))
    mels = torch.linspace(bottom, top, bands + 2, dtype=torch.float64)
    edge = 700 * (10 ** (mels / 2595) - 1)
    distance = edge[None] - frequency[:, None]  # (frequencies, bands + 2)
    width = edge.diff()
    rising, falling = -distance[:, :-2] / width[:-1], distance[:, 2:] / width[1:]
    return torch.minimum(rising, falling).clamp(min=0).float()


class PreEmphasis(nn.Module):
    """y[n] = x[n] − 0.97 x[n−1], reflected at the start."""

    flipped_filter: Tensor

    def __init__(self, coefficient: float = 0.97) -> None:
        super().__init__()
        self.register_buffer("flipped_filter", torch.tensor([[[-coefficient, 1.0]]]))

    def forward(self, waveforms: Tensor) -> Tensor:
        """(batch, time) to (batch, time)."""
        x = pad(waveforms[:, None], (1, 0), mode="reflect")
        return conv1d(x, self.flipped_filter).squeeze(1)


class _Spectrogram(nn.Module):
    window: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hamming_window(WINDOW))

    def forward(self, waveforms: Tensor) -> Tensor:
        spectrum = torch.stft(
            waveforms, N_FFT, HOP, WINDOW, self.window, center=True, return_complex=True
        )
        return spectrum.abs().square()  # (batch, frequencies, frames)


class _MelScale(nn.Module):
    fb: Tensor

    def __init__(self, bands: int, low: float, high: float) -> None:
        super().__init__()
        self.register_buffer("fb", mel_filters(bands, low, high))

    def forward(self, power: Tensor) -> Tensor:
        return self.fb.T @ power


class MelSpectrogram(nn.Module):
    """Mel power spectrogram: 25 ms Hamming windows every 10 ms, FFT of 512, 20 to 7,600 Hz."""

    def __init__(self, bands: int = 80, low: float = 20.0, high: float = 7600.0) -> None:
        super().__init__()
        self.spectrogram = _Spectrogram()
        self.mel_scale = _MelScale(bands, low, high)

    def forward(self, waveforms: Tensor) -> Tensor:
        """(batch, time) to (batch, bands, frames)."""
        return self.mel_scale(self.spectrogram(waveforms))
