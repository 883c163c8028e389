"""AASIST's graph layers, at inference: attention, pooling, heterogeneous attention.

Node sets are (batch, nodes, features) throughout.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import selu

from lightning_sasv.frontends.aasist_encoder import apply_norm


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
