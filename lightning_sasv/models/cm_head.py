"""The countermeasure head: a small MLP on AASIST embeddings, one copy per seed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from lightning_sasv.errors import InputError

IN_DIM = 160
"""Size of an AASIST embedding."""


class CMHead(nn.Module):
    """MLP with LeakyReLU after each hidden layer and two logits (0 spoof, 1 bona fide).

    The default widths 258-128-64 have 83,074 parameters; 256-128-64 have 82,496, the "82.5 k" of
    the paper. Several independent heads can be stacked: their parameters are (copies, in, out)
    tensors, and one batched product serves them all. Each copy is initialised from its own seed,
    so that it does not depend on its neighbours.

    Args:
        in_dim: Size of the embedding.
        hidden_dims: Widths of the hidden layers.
        negative_slope: Slope of the LeakyReLU.
        seeds: Seed of each copy's initialisation.

    Example:
        >>> head = CMHead()
        >>> head(torch.zeros(4, 160)).shape
        torch.Size([4, 2])
        >>> CMHead(seeds=(1, 2, 3))(torch.zeros(3, 4, 160)).shape
        torch.Size([3, 4, 2])
    """

    def __init__(
        self,
        in_dim: int = IN_DIM,
        hidden_dims: Sequence[int] = (258, 128, 64),
        negative_slope: float = 0.3,
        seeds: Sequence[int] = (0,),
    ) -> None:
        super().__init__()
        if min((in_dim, *hidden_dims)) < 1:
            raise InputError(
                f"widths of the CM head must be at least 1, got {in_dim} and {list(hidden_dims)}"
            )
        self.in_dim = in_dim
        self.hidden_dims = tuple(hidden_dims)
        self.negative_slope = negative_slope
        self.seeds = tuple(seeds)
        widths = (in_dim, *self.hidden_dims, 2)
        for layer, (fan_in, fan_out) in enumerate(pairwise(widths)):
            shapes = {"weight": (fan_in, fan_out), "bias": (1, fan_out)}
            if layer == len(self.hidden_dims):  # the logits have no bias
                del shapes["bias"]
            for name, shape in shapes.items():
                parameter = nn.Parameter(torch.empty(len(self.seeds), *shape))
                self.register_parameter(f"{name}_{layer}", parameter)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw weights and biases from U(−1/√fan_in, 1/√fan_in), as ``nn.Linear`` does."""
        for copy, seed in enumerate(self.seeds):
            generator = torch.Generator().manual_seed(seed)
            for name, parameter in self.named_parameters():
                if name.startswith("weight"):
                    bound = parameter.shape[1] ** -0.5
                parameter[copy].uniform_(-bound, bound, generator=generator)

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
        # weight, bias, weight, bias, …, weight; quicker than attribute look-ups
        *hidden, last = cast("Iterable[Tensor]", self._parameters.values())
        for weight, bias in zip(hidden[::2], hidden[1::2], strict=True):
            x = leaky_relu(torch.baddbmm(bias, x, weight), self.negative_slope)
        logits = torch.bmm(x, last)
        return logits[0] if plain else logits

    @property
    def dtype(self) -> torch.dtype:
        """Type of the parameters."""
        return self.get_parameter("weight_0").dtype

    def score(self, x: Tensor) -> Tensor:
        """CM score logit(bona fide) − logit(spoof), shaped as ``forward`` without the last axis."""
        spoof, bonafide = self(x).unbind(-1)
        return bonafide - spoof

    def select(self, copy: int) -> CMHead:
        """One of the stacked heads as a head of its own."""
        head = CMHead(
            self.in_dim, self.hidden_dims, self.negative_slope, seeds=(self.seeds[copy],)
        ).to(self.get_parameter("weight_0"))
        with torch.no_grad():
            for mine, own in zip(self.parameters(), head.parameters(), strict=True):
                own.copy_(mine[copy : copy + 1])
        return head
