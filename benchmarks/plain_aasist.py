"""AASIST written down straightforwardly, the peer of `bench_extract.py`.

Each layer as the published description (Jung et al., ICASSP 2022) states it, with PyTorch's own
modules, channels first, a whole batch at once, nothing folded or done in place.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, max_pool2d, selu

from lightning_sasv.frontends.aasist_layers import band_pass_filters


class PlainBlock(nn.Module):
    """Residual block as published."""

    def __init__(self, inputs: int, outputs: int, first: bool) -> None:
        super().__init__()
        if not first:
            self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, (2, 3), padding=(1, 1))
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, (2, 3), padding=(0, 1))
        if inputs != outputs:
            self.conv_downsample = nn.Conv2d(inputs, outputs, (1, 3), padding=(0, 1))

    def forward(self, x: Tensor) -> Tensor:
        skip = self.conv_downsample(x) if hasattr(self, "conv_downsample") else x
        return max_pool2d(self.conv2(selu(self.bn2(self.conv1(x)))) + skip, (1, 3))


class PlainAttention(nn.Module):
    """Graph attention as published."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.att_weight = nn.Parameter(torch.zeros(outputs, 1))
        self.att_proj = nn.Linear(inputs, outputs)
        self.proj_with_att = nn.Linear(inputs, outputs)
        self.proj_without_att = nn.Linear(inputs, outputs)
        self.bn = nn.BatchNorm1d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        pairs = x[:, :, None] * x[:, None]
        attention = torch.softmax(torch.tanh(self.att_proj(pairs)) @ self.att_weight / 2, dim=-2)
        y = self.proj_with_att(attention.squeeze(-1) @ x) + self.proj_without_att(x)
        return selu(self.bn(y.flatten(0, 1)).view_as(y))


class PlainPooling(nn.Module):
    """Graph pooling as published."""

    def __init__(self, inputs: int, ratio: float) -> None:
        super().__init__()
        self.ratio = ratio
        self.proj = nn.Linear(inputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        score = torch.sigmoid(self.proj(x))
        kept = torch.topk(score, max(int(x.shape[1] * self.ratio), 1), dim=1)[1]
        return torch.gather(x * score, 1, kept.expand(-1, -1, x.shape[2]))


class PlainHeterogeneous(nn.Module):
    """Heterogeneous attention as published."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        for kind in ("11", "22", "12", "M"):
            self.register_parameter(f"att_weight{kind}", nn.Parameter(torch.zeros(outputs, 1)))
        for name, size in (("proj_type1", inputs), ("proj_type2", inputs), ("att_proj", outputs)):
            self.add_module(name, nn.Linear(inputs, size))
        for name in ("att_projM", "proj_with_att", "proj_without_att", "proj_with_attM"):
            self.add_module(name, nn.Linear(inputs, outputs))
        self.proj_without_attM = nn.Linear(inputs, outputs)
        self.bn = nn.BatchNorm1d(outputs)

    def forward(self, temporal: Tensor, spectral: Tensor, master: Tensor) -> tuple[Tensor, ...]:
        n = temporal.shape[1]
        x = torch.cat([self.proj_type1(temporal), self.proj_type2(spectral)], dim=1)
        hidden = torch.tanh(self.att_proj(x[:, :, None] * x[:, None]))
        logits = hidden.new_zeros((*hidden.shape[:3], 1))
        logits[:, :n, :n] = hidden[:, :n, :n] @ self.att_weight11
        logits[:, n:, n:] = hidden[:, n:, n:] @ self.att_weight22
        logits[:, :n, n:] = hidden[:, :n, n:] @ self.att_weight12
        logits[:, n:, :n] = hidden[:, n:, :n] @ self.att_weight12
        attention = torch.softmax(logits / 100, dim=-2).squeeze(-1)
        of_master = torch.softmax(
            torch.tanh(self.att_projM(x * master)) @ self.att_weightM / 100, -2
        )
        master = self.proj_with_attM(of_master.transpose(1, 2) @ x) + self.proj_without_attM(master)
        y = self.proj_with_att(attention @ x) + self.proj_without_att(x)
        y = selu(self.bn(y.flatten(0, 1)).view_as(y))
        return y[:, :n], y[:, n:], master


class PlainAASIST(nn.Module):
    """AASIST written down straightforwardly; names as in the published checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        widths = (1, 32, 32, 64, 64, 64, 64)
        self.register_buffer("filters", band_pass_filters()[:, None], persistent=False)
        self.first_bn = nn.BatchNorm2d(1)
        blocks = [PlainBlock(widths[i], widths[i + 1], i == 0) for i in range(6)]
        self.encoder = nn.Sequential(*(nn.Sequential(block) for block in blocks))
        self.pos_S = nn.Parameter(torch.zeros(1, 23, 64))
        self.master1 = nn.Parameter(torch.zeros(1, 1, 64))
        self.master2 = nn.Parameter(torch.zeros(1, 1, 64))
        self.GAT_layer_S, self.GAT_layer_T = PlainAttention(64, 64), PlainAttention(64, 64)
        self.pool_S, self.pool_T = PlainPooling(64, 0.5), PlainPooling(64, 0.7)
        for branch in "12":
            self.add_module(f"HtrgGAT_layer_ST{branch}1", PlainHeterogeneous(64, 32))
            self.add_module(f"HtrgGAT_layer_ST{branch}2", PlainHeterogeneous(32, 32))
            self.add_module(f"pool_hS{branch}", PlainPooling(32, 0.5))
            self.add_module(f"pool_hT{branch}", PlainPooling(32, 0.5))
        self.out_layer = nn.Linear(160, 2)

    def branch(self, t: Tensor, s: Tensor, m: Tensor, name: str) -> tuple[Tensor, ...]:
        t, s, m = getattr(self, f"HtrgGAT_layer_ST{name}1")(t, s, m)
        t, s = getattr(self, f"pool_hT{name}")(t), getattr(self, f"pool_hS{name}")(s)
        added = getattr(self, f"HtrgGAT_layer_ST{name}2")(t, s, m)
        return t + added[0], s + added[1], m + added[2]

    def forward(self, waveforms: Tensor) -> Tensor:
        x = conv1d(waveforms[:, None], self.filters).abs()
        x = selu(self.first_bn(max_pool2d(x[:, None], (3, 3))))
        e = self.encoder(x).abs()
        s = self.pool_S(self.GAT_layer_S(e.amax(3).transpose(1, 2) + self.pos_S))
        t = self.pool_T(self.GAT_layer_T(e.amax(2).transpose(1, 2)))
        branches = self.branch(t, s, self.master1, "1"), self.branch(t, s, self.master2, "2")
        t, s, m = (torch.maximum(*pair) for pair in zip(*branches, strict=True))
        return torch.cat([t.abs().amax(1), t.mean(1), s.abs().amax(1), s.mean(1), m[:, 0]], dim=1)
