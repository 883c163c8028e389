"""AASIST, the countermeasure network whose embeddings the CM head is trained on.

Written from the published description (Jung et al., "AASIST: audio anti-spoofing using integrated
spectro-temporal graph attention networks", ICASSP 2022). It loads the published checkpoints by
name and computes what they compute; it is for inference only (dropout is left out, and batch
normalisation always uses the running statistics).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import selu

from lightning_sasv.errors import InputError
from lightning_sasv.frontends.aasist_layers import (
    BANDS,
    FilterBank,
    GraphAttention,
    GraphPooling,
    HeterogeneousAttention,
    Nodes,
    ResidualBlock,
    apply_norm,
)
from lightning_sasv.frontends.audio import SAMPLES, Waveforms
from lightning_sasv.frontends.base import (
    Embedder,
    State,
    load_weights,
    read_state,
    torch_cache,
)

_NO_WEIGHTS = (
    "no AASIST weights: fetch them with `lightning download aasist-weights` (or from models/weights"
    " of clovaai/aasist on GitHub) and give their path, or put AASIST.pth into {cache}"
)


@dataclass(frozen=True)
class AASISTSizes:
    """What distinguishes the published variants.

    Attributes:
        channels: Output channels of the six encoder blocks.
        graph_dims: Features of a node in the first and in the heterogeneous graphs.
        spectral_ratio: Share of the spectral nodes that is kept.
        temporal_ratio: Share of the temporal nodes that is kept.
        ratio: Share of the nodes that is kept in the heterogeneous graphs.
    """

    channels: tuple[int, ...] = (32, 32, 64, 64, 64, 64)
    graph_dims: tuple[int, int] = (64, 32)
    spectral_ratio: float = 0.5
    temporal_ratio: float = 0.7
    ratio: float = 0.5


VARIANTS = {
    "AASIST": AASISTSizes(),
    "AASIST-L": AASISTSizes((32, 32, 24, 24, 24, 24), (24, 32), 0.4, 0.5, 0.7),
}


class AASISTOutput(NamedTuple):
    """Embedding (batch, 160) and logits (batch, 2; index 1 is bona fide)."""

    embedding: Tensor
    logits: Tensor


class AASIST(Embedder):
    """The network; :meth:`from_checkpoint` makes one with the published weights.

    Args:
        sizes: Sizes of the layers.
    """

    def __init__(self, sizes: AASISTSizes = VARIANTS["AASIST"]) -> None:
        first, second = sizes.graph_dims
        super().__init__(5 * second, SAMPLES)
        last = sizes.channels[-1]
        self.filter_bank = FilterBank()
        self.first_bn = nn.BatchNorm2d(1)
        widths = enumerate(pairwise((1, *sizes.channels)))
        blocks = (ResidualBlock(*width, first=number == 0) for number, width in widths)
        self.encoder = nn.Sequential(*map(nn.Sequential, blocks))
        self.pos_S = nn.Parameter(torch.zeros(1, BANDS, last))
        self.GAT_layer_S = GraphAttention(last, first, temperature=2.0)
        self.GAT_layer_T = GraphAttention(last, first, temperature=2.0)
        self.pool_S = GraphPooling(first, sizes.spectral_ratio)
        self.pool_T = GraphPooling(first, sizes.temporal_ratio)
        for branch in "12":
            for number, inputs in ("1", first), ("2", second):
                layer = HeterogeneousAttention(inputs, second, 100.0)
                self.add_module(f"HtrgGAT_layer_ST{branch}{number}", layer)
            for kind in "ST":
                self.add_module(f"pool_h{kind}{branch}", GraphPooling(second, sizes.ratio))
            self.register_parameter(f"master{branch}", nn.Parameter(torch.zeros(1, 1, first)))
        self.out_layer = nn.Linear(self.dim, 2)

    @classmethod
    def from_checkpoint(cls, path: str | Path | None = None) -> AASIST:
        """The network of a published checkpoint; the variant is known by its shapes.

        Args:
            path: ``AASIST.pth`` or ``AASIST-L.pth``; by default ``AASIST.pth`` in PyTorch's
                cache of checkpoints (``~/.cache/torch/hub/checkpoints``, see ``$TORCH_HOME``).
        """
        cached = torch_cache() / "AASIST.pth"
        if path is None and not cached.is_file():
            raise InputError(_NO_WEIGHTS.format(cache=cached.parent))
        path = Path(path) if path is not None else cached
        state = read_state(path)
        return load_weights(cls(_sizes(state, path)), state, path)

    @torch.inference_mode()
    def classify(self, waveforms: Waveforms) -> AASISTOutput:
        """Embeddings and logits of 16 kHz waveforms, each repeated or cut to 64,600 samples."""
        embedding = self.embed(waveforms)
        return AASISTOutput(embedding, self.out_layer(embedding))

    def forward(self, waveforms: Tensor) -> Tensor:
        """Embeddings of waveforms (batch, 64,600)."""
        return self._embed(self.encode(waveforms))

    def encode(self, waveforms: Tensor) -> Tensor:
        """The encoder's map, (batch, channels, 23, time)."""
        x = self.filter_bank(waveforms)[..., None]
        x = selu(apply_norm(self.first_bn, x), inplace=True)
        return self.encoder(x.permute(0, 3, 1, 2))

    def _embed(self, encoded: Tensor) -> Tensor:
        """Embedding of encoder maps, (batch, dim)."""
        magnitude = encoded.abs()
        spectral = magnitude.amax(3).transpose(1, 2) + self.pos_S
        spectral = self.pool_S(self.GAT_layer_S(spectral))
        temporal = self.pool_T(self.GAT_layer_T(magnitude.amax(2).transpose(1, 2)))
        branches = [self._branch(temporal, spectral, name) for name in "12"]
        nodes = Nodes(*(torch.maximum(*both) for both in zip(*branches, strict=True)))
        parts = [
            nodes.temporal.abs().amax(1),
            nodes.temporal.mean(1),
            nodes.spectral.abs().amax(1),
            nodes.spectral.mean(1),
            nodes.master.squeeze(1),
        ]
        return torch.cat(parts, dim=1)

    def _branch(self, temporal: Tensor, spectral: Tensor, name: str) -> Nodes:
        """One of the two parallel heterogeneous graphs."""
        master = self.get_parameter(f"master{name}")
        first, second = (self.get_submodule(f"HtrgGAT_layer_ST{name}{number}") for number in "12")
        pool_temporal, pool_spectral = (self.get_submodule(f"pool_h{kind}{name}") for kind in "TS")
        nodes = first(Nodes(temporal, spectral, master))
        pooled = Nodes(pool_temporal(nodes.temporal), pool_spectral(nodes.spectral), nodes.master)
        added = second(pooled)
        return Nodes(*(a + b for a, b in zip(pooled, added, strict=True)))


def _sizes(state: State, source: Path) -> AASISTSizes:
    """The variant whose shapes a checkpoint has."""
    positions = state.get("pos_S")
    if positions is None:  # loading will say what is missing
        return VARIANTS["AASIST"]
    for sizes in VARIANTS.values():
        if positions.shape[-1:] == (sizes.channels[-1],):
            return sizes
    raise InputError(
        f"{source} is neither {' nor '.join(VARIANTS)}: pos_S has shape {tuple(positions.shape)}"
    )
