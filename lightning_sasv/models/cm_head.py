"""The countermeasure head: a small MLP on AASIST embeddings, one copy per seed."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from lightning_sasv.data.corpus import ASV_DIM
from lightning_sasv.models.stacked import MLPHead

IN_DIM = 160
"""Size of an AASIST embedding."""


class CMHead(MLPHead):
    """MLP with LeakyReLU after each hidden layer and two logits (0 spoof, 1 bona fide).

    The default widths 258-128-64 have 83,074 parameters; 256-128-64 have 82,496, the "82.5 k" of
    the paper. It sees the CM embedding alone.

    Args:
        in_dim: Size of the embedding.
        hidden_dims: Widths of the hidden layers.
        negative_slope: Slope of the LeakyReLU.
        seeds: Seed of each copy's initialisation.
        dropout: Share of the hidden units that are left out of a training step.

    Example:
        >>> import torch
        >>> head = CMHead()
        >>> head(torch.zeros(4, 160)).shape
        torch.Size([4, 2])
        >>> CMHead(seeds=(1, 2, 3))(torch.zeros(3, 4, 160)).shape
        torch.Size([3, 4, 2])
    """

    joint = False

    def __init__(
        self,
        in_dim: int = IN_DIM,
        hidden_dims: Sequence[int] = (258, 128, 64),
        negative_slope: float = 0.3,
        seeds: Sequence[int] = (0,),
        dropout: float = 0.0,
    ) -> None:
        settings = (in_dim, ASV_DIM, hidden_dims, negative_slope, dropout)
        super().__init__(*settings, logits=2, seeds=seeds)
        self.make_layers(in_dim)

    @property
    def in_dim(self) -> int:
        """Size of the embedding."""
        return self.cm_dim

    def forward(self, x: Tensor) -> Tensor:
        """Logits of embeddings.

        Args:
            x: (batch, dim) for all copies, or (copies, batch, dim).

        Returns:
            (copies, batch, 2), or (batch, 2) when ``x`` is (batch, dim) and there is one copy.
        """
        plain = x.ndim == 2 and len(self.seeds) == 1
        if x.ndim == 2:
            x = x.expand(len(self.seeds), *x.shape)
        logits = self.through(x)
        return logits[0] if plain else logits

    def of_trials(self, x: Tensor) -> Tensor:
        """Logits of CM embeddings."""
        found: Tensor = self(x)
        return found
