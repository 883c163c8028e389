"""AASIST's layers, at inference: filter bank, residual encoder, graph attention and pooling.

The first layers are wide (32 channels × 24 × 21,490 values a recording, 66 MB), so that a plain
implementation spends most of its time moving them through memory. Here every layer works on
pieces of the time axis that stay in the cache, with the channels innermost, with batch
normalisation folded into the convolution before it, and in place where possible.

Node sets of the graph layers are (batch, nodes, features) throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, max_pool2d, selu

FILTERS, TAPS = 70, 129
POOL = 3
"""Every pooling is by three: over filters and time in the front end, over time in the blocks."""

BANDS = FILTERS // POOL
_CACHED_VALUES = 921_600
"""Values of a feature map that are worked on at once, 3.7 MB; the best of several tried."""


def band_pass_filters(sample_rate: int = 16_000) -> Tensor:
    """The fixed filter bank, (70, 129): differences of windowed sinc low-passes.

    Band edges are equally spaced on the mel scale, m = 2595 log10(1 + f/700), from 0 Hz to half
    the sample rate; the window is Hamming's. As in the published code the sinc is evaluated in
    float32: a filter that differs in the seventh digit can decide between two nodes of almost
    equal score, and then the embedding differs in the second digit.
    """
    top = 2595 * np.log10(1 + sample_rate / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, FILTERS + 1) / 2595) - 1)[:, None]
    steps = (np.arange(TAPS) - TAPS // 2).astype(np.float32)
    phase = (2 * edges).astype(np.float32) * steps / np.float32(sample_rate)
    low_pass = 2 * edges / sample_rate * np.sinc(phase).astype(np.float64)  # (71, 129)
    bank = np.diff(low_pass, axis=0).astype(np.float32) * np.hamming(TAPS).astype(np.float32)
    return torch.from_numpy(bank)


def _norm_scale(norm: nn.Module) -> tuple[Tensor, Tensor]:
    """Batch normalisation at inference as scale and shift of each channel."""
    assert isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    return scale, norm.bias - norm.running_mean * scale


def apply_norm(norm: nn.Module, x: Tensor) -> Tensor:
    """Batch normalisation at inference over the last axis, in place."""
    scale, shift = _norm_scale(norm)
    return x.mul_(scale).add_(shift)


@contextmanager
def in_one_piece() -> Iterator[None]:
    """Layers work on the whole time axis, as in a graph, where pieces would be unrolled."""
    global _CACHED_VALUES  # one size for every layer, which tests and exports alone change
    before, _CACHED_VALUES = _CACHED_VALUES, 1 << 60
    try:
        yield
    finally:
        _CACHED_VALUES = before


def in_pieces(layer: Callable[[Tensor], Tensor], x: Tensor, channels: int) -> Tensor:
    """``layer`` applied to pieces of the time axis, exactly as to the whole.

    Each piece is given three more frames (one pooled frame) on either side, which covers the
    reach of two convolutions of width 3, and the pooled frames made of them are dropped.

    Args:
        layer: Maps (batch, in, bands, time) to (batch, out, bands, time // 3); reaches two
            frames to either side, and pads with zeros at the ends.
        x: (batch, in, bands, time).
        channels: Channels of the widest map inside the layer.
    """
    time = x.shape[-1]
    size = _CACHED_VALUES // (channels * (BANDS + 1)) // POOL * POOL
    if x.device.type != "cpu" or time <= size:
        return layer(x)
    end = time // POOL * POOL
    pieces = []
    for start in range(0, end, size):
        first, stop = max(start - POOL, 0), start + size
        piece = x[..., first : time if stop >= end else stop + POOL]
        y = layer(piece.contiguous(memory_format=torch.channels_last))
        skipped = (start - first) // POOL
        pieces.append(y[..., skipped : skipped + (min(stop, end) - start) // POOL])
    return torch.cat(pieces, dim=-1)


class FilterBank(nn.Module):
    """Band-pass filters, absolute value, 3 × 3 max-pooling: (batch, time) to (batch, 23, frames).

    The filters are stored as three groups, so that the maximum over three neighbouring filters is
    one over the groups. The 70th filter is in no complete group of three and is not computed.
    """

    filters: Tensor

    def __init__(self) -> None:
        super().__init__()
        bank = band_pass_filters()[: BANDS * POOL].view(BANDS, POOL, 1, 1, TAPS)
        bank = bank.transpose(0, 1).flatten(0, 1)  # (69, 1, 1, 129)
        self.register_buffer("filters", bank, persistent=False)

    def forward(self, waveforms: Tensor) -> Tensor:
        """Pooled magnitudes; each piece of the waveform gives its own frames."""
        frames = (waveforms.shape[-1] - TAPS + 1) // POOL
        size = _CACHED_VALUES // self.filters.shape[0] // POOL
        if waveforms.device.type != "cpu":
            size = frames
        pieces = []
        for start in range(0, frames, size):
            stop = min(start + size, frames)
            piece = waveforms[:, None, None, POOL * start : POOL * stop + TAPS - 1]
            y = conv2d(piece.contiguous(memory_format=torch.channels_last), self.filters).abs_()
            groups = max_pool2d(y, (1, POOL)).squeeze(2).chunk(POOL, dim=1)  # 3 × (batch, 23, …)
            pieces.append(torch.maximum(torch.maximum(groups[0], groups[1]), groups[2]))
        return torch.cat(pieces, dim=-1)


class ResidualBlock(nn.Module):
    """Two convolutions of (2, 3) with a skip, then max-pooling by three over time.

    Published checkpoints hold a ``bn1`` in every block but the first. It has no effect: ``conv1``
    is applied to the block's input as it is. It is kept so that the weights load by name.

    Args:
        inputs: Channels of the input.
        outputs: Channels of the output.
        first: Whether this is the first block, which has no ``bn1``.
    """

    def __init__(self, inputs: int, outputs: int, first: bool) -> None:
        super().__init__()
        if not first:
            self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, (2, 3), padding=(1, 1))
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, (2, 3), padding=(0, 1))
        self.conv_downsample = (
            nn.Conv2d(inputs, outputs, (1, 3), padding=(0, 1)) if inputs != outputs else None
        )

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, bands, time) to (batch, outputs, bands, time // 3)."""
        scale, shift = _norm_scale(self.bn2)
        weight = self.conv1.weight * scale[:, None, None, None]
        assert self.conv1.bias is not None
        bias = self.conv1.bias * scale + shift

        def layer(piece: Tensor) -> Tensor:
            y = selu(conv2d(piece, weight, bias, padding=(1, 1)), inplace=True)
            y = self.conv2(y)
            y += piece if self.conv_downsample is None else self.conv_downsample(piece)
            return max_pool2d(y, (1, POOL))

        return in_pieces(layer, x, self.conv1.out_channels)


def _pairs(x: Tensor) -> Tensor:
    """Element-wise products of every two nodes, (batch, nodes, nodes, features)."""
    return x[:, :, None] * x[:, None]


class _Attention(nn.Module):
    """What both kinds of attention have.

    Args:
        inputs: Features of a node.
        outputs: Features of a node afterwards.
        temperature: Divides the attention's logits.
    """

    def __init__(self, inputs: int, outputs: int, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature
        self.att_proj = nn.Linear(inputs, outputs)
        self.proj_with_att = nn.Linear(inputs, outputs)
        self.proj_without_att = nn.Linear(inputs, outputs)
        self.bn = nn.BatchNorm1d(outputs)


class GraphAttention(_Attention):
    """Attention over all pairs of nodes."""

    def __init__(self, inputs: int, outputs: int, temperature: float) -> None:
        super().__init__(inputs, outputs, temperature)
        self.att_weight = nn.Parameter(torch.zeros(outputs, 1))

    def forward(self, x: Tensor) -> Tensor:
        """New nodes; each is attended to with weights that sum to one."""
        logits = torch.tanh(self.att_proj(_pairs(x))) @ self.att_weight / self.temperature
        attention = torch.softmax(logits, dim=-2).squeeze(-1)
        y = self.proj_with_att(attention @ x) + self.proj_without_att(x)
        return selu(apply_norm(self.bn, y), inplace=True)


class GraphPooling(nn.Module):
    """Keeps the nodes of the highest scores, weighted by their scores and in their order.

    Args:
        inputs: Features of a node.
        ratio: Share of the nodes that is kept, at least one.
    """

    def __init__(self, inputs: int, ratio: float) -> None:
        super().__init__()
        self.ratio = ratio
        self.proj = nn.Linear(inputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """The kept nodes."""
        score = torch.sigmoid(self.proj(x))  # (batch, nodes, 1)
        kept = score.topk(max(int(x.shape[1] * self.ratio), 1), dim=1).indices
        return (x * score).gather(1, kept.expand(-1, -1, x.shape[2]))


class Nodes(NamedTuple):
    """Temporal and spectral nodes and the master node that connects them."""

    temporal: Tensor
    spectral: Tensor
    master: Tensor


class HeterogeneousAttention(_Attention):
    """Attention over temporal and spectral nodes together, and between them and the master node."""

    def __init__(self, inputs: int, outputs: int, temperature: float) -> None:
        super().__init__(inputs, outputs, temperature)
        self.proj_type1 = nn.Linear(inputs, inputs)
        self.proj_type2 = nn.Linear(inputs, inputs)
        self.att_projM = nn.Linear(inputs, outputs)
        self.att_weight11 = nn.Parameter(torch.zeros(outputs, 1))
        self.att_weight22 = nn.Parameter(torch.zeros(outputs, 1))
        self.att_weight12 = nn.Parameter(torch.zeros(outputs, 1))
        self.att_weightM = nn.Parameter(torch.zeros(outputs, 1))
        self.proj_with_attM = nn.Linear(inputs, outputs)
        self.proj_without_attM = nn.Linear(inputs, outputs)

    def _pair_weights(self, temporal: int, spectral: int) -> Tensor:
        """Vector that each pair of nodes is scored with, (nodes, nodes, features)."""
        kinds = torch.stack([self.att_weight11, self.att_weight12, self.att_weight22])[..., 0]
        is_spectral = torch.arange(temporal + spectral, device=kinds.device) >= temporal
        kind = is_spectral[:, None].long() + is_spectral[None]
        return kinds[kind]

    def forward(self, nodes: Nodes) -> Nodes:
        """New nodes of each kind and a new master node."""
        temporal, spectral = nodes.temporal.shape[1], nodes.spectral.shape[1]
        x = torch.cat([self.proj_type1(nodes.temporal), self.proj_type2(nodes.spectral)], dim=1)
        weights = self._pair_weights(temporal, spectral)
        logits = (torch.tanh(self.att_proj(_pairs(x))) * weights).sum(-1) / self.temperature
        y = self.proj_with_att(torch.softmax(logits, dim=-1) @ x)
        return self._finish(x, y + self.proj_without_att(x), nodes.master, temporal)

    def _finish(self, x: Tensor, y: Tensor, master: Tensor, temporal: int) -> Nodes:
        logits = torch.tanh(self.att_projM(x * master)) @ self.att_weightM / self.temperature
        attention = torch.softmax(logits, dim=1).transpose(1, 2)  # (batch, 1, nodes)
        master = self.proj_with_attM(attention @ x) + self.proj_without_attM(master)
        y = selu(apply_norm(self.bn, y), inplace=True)
        return Nodes(y[:, :temporal], y[:, temporal:], master)
