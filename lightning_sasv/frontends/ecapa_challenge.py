"""The ECAPA-TDNN of the SASV 2022 challenge, which differs from SpeechBrain's.

The challenge's embeddings come from another implementation of the same paper. Its weights would
fit into SpeechBrain's model after renaming, but not its computation: the inputs of a block are
the sum of all earlier outputs, convolutions pad with zeros (SpeechBrain reflects), the pooling
uses the unbiased variance clamped at 1e-4, the aggregation has 1536 channels and the attention
256, and the features have pre-emphasis, an FFT of 512, 20 to 7,600 Hz and ln(x + 1e-6). Hence
this second network, with the names of those checkpoints.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, pad

from lightning_sasv.frontends.audio import SAMPLES
from lightning_sasv.frontends.base import Embedder, State, load_weights, read_state

_ENCODER, _LOSS = "speaker_encoder.", "speaker_loss."
"""Prefixes of training checkpoints: the network, and the classifier it was trained with."""

_LEAST_VARIANCE = 1e-4
_DIM, _AGGREGATED, _ATTENTION, _BOTTLENECK = 192, 1536, 256, 128
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


class SqueezeExcitation(nn.Module):
    """Rescales the channels by a function of their means over time."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.se = nn.Sequential(
            nn.AdaptiveAvgPool1d(1),
            nn.Conv1d(channels, _BOTTLENECK, 1),
            nn.ReLU(),
            nn.Conv1d(_BOTTLENECK, channels, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, frames) to the same shape."""
        return x * self.se(x)


class Res2Block(nn.Module):
    """Res2Net block: channel groups are convolved one after the other, each with the last's sum.

    Args:
        channels: Channels in and out.
        dilation: Dilation of the convolutions of width 3.
        scale: Number of channel groups.
    """

    def __init__(self, channels: int, dilation: int, scale: int = 8) -> None:
        super().__init__()
        self.width = channels // scale
        self.conv1 = nn.Conv1d(channels, self.width * scale, 1)
        self.bn1 = nn.BatchNorm1d(self.width * scale)
        self.convs = nn.ModuleList(
            nn.Conv1d(self.width, self.width, 3, dilation=dilation, padding=dilation)
            for _ in range(scale - 1)
        )
        self.bns = nn.ModuleList(nn.BatchNorm1d(self.width) for _ in range(scale - 1))
        self.conv3 = nn.Conv1d(self.width * scale, channels, 1)
        self.bn3 = nn.BatchNorm1d(channels)
        self.se = SqueezeExcitation(channels)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, frames) to the same shape; the input is added at the end."""
        *groups, last = self.bn1(self.conv1(x).relu_()).split(self.width, dim=1)
        done: list[Tensor] = []
        for group, conv, norm in zip(groups, self.convs, self.bns, strict=True):
            group = group + done[-1] if done else group
            done.append(norm(conv(group).relu_()))
        y = self.bn3(self.conv3(torch.cat([*done, last], dim=1)).relu_())
        return self.se(y) + x


class ECAPAChallenge(Embedder):
    """The challenge's speaker network, 192-d.

    Args:
        channels: Channels of the three blocks.
        samples: Length that each recording is repeated or cut to; ``None`` takes it whole.
    """

    def __init__(self, channels: int = 1024, samples: int | None = SAMPLES) -> None:
        super().__init__(_DIM, samples)
        self.torchfbank = nn.Sequential(PreEmphasis(), MelSpectrogram(80))
        self.conv1 = nn.Conv1d(80, channels, 5, padding=2)
        self.bn1 = nn.BatchNorm1d(channels)
        self.layer1 = Res2Block(channels, dilation=2)
        self.layer2 = Res2Block(channels, dilation=3)
        self.layer3 = Res2Block(channels, dilation=4)
        self.layer4 = nn.Conv1d(3 * channels, _AGGREGATED, 1)
        self.attention = nn.Sequential(
            nn.Conv1d(3 * _AGGREGATED, _ATTENTION, 1),
            nn.ReLU(),
            nn.BatchNorm1d(_ATTENTION),
            nn.Tanh(),
            nn.Conv1d(_ATTENTION, _AGGREGATED, 1),
            nn.Softmax(dim=2),
        )
        self.bn5 = nn.BatchNorm1d(2 * _AGGREGATED)
        self.fc6 = nn.Linear(2 * _AGGREGATED, _DIM)
        self.bn6 = nn.BatchNorm1d(_DIM)

    @classmethod
    def from_checkpoint(cls, path: str | Path, samples: int | None = SAMPLES) -> ECAPAChallenge:
        """The network of a checkpoint of the challenge's implementation.

        Args:
            path: The checkpoint; names may have the prefix ``speaker_encoder.``, and the
                classifier of the training (``speaker_loss.``) is left out.
            samples: Length that each recording is repeated or cut to; ``None`` takes it whole.
        """
        path = Path(path)
        state = _network_state(read_state(path))
        first = state.get("conv1.weight")
        model = cls(1024 if first is None else first.shape[0], samples)
        return load_weights(model, _with_features(model, state), path)

    def forward(self, waveforms: Tensor) -> Tensor:
        """Embeddings of waveforms of one length, (batch, time)."""
        bands = (self.torchfbank(waveforms) + 1e-6).log()
        x = self.bn1(self.conv1(bands - bands.mean(dim=-1, keepdim=True)).relu_())
        x1 = self.layer1(x)
        x2 = self.layer2(x + x1)
        x3 = self.layer3(x + x1 + x2)
        x = self.layer4(torch.cat([x1, x2, x3], dim=1)).relu_()
        deviation = x.var(dim=2, keepdim=True).clamp(min=_LEAST_VARIANCE).sqrt()
        context = [x, x.mean(dim=2, keepdim=True).expand_as(x), deviation.expand_as(x)]
        weight = self.attention(torch.cat(context, dim=1))
        mean = (x * weight).sum(dim=2)
        variance = (x.square() * weight).sum(dim=2) - mean.square()
        pooled = torch.cat([mean, variance.clamp(min=_LEAST_VARIANCE).sqrt()], dim=1)
        return self.bn6(self.fc6(self.bn5(pooled)))


def _network_state(state: State) -> State:
    """The network's own entries, without the prefix of training checkpoints."""
    return {
        name.removeprefix(_ENCODER): value
        for name, value in state.items()
        if not name.startswith(_LOSS)
    }


def _with_features(model: ECAPAChallenge, state: State) -> State:
    """The state with the fixed filters of the features, where the checkpoint left them all out."""
    own = {k: v for k, v in model.state_dict().items() if k.startswith("torchfbank.")}
    return state if own.keys() & state.keys() else state | own
