"""What every head is: copies of one network side by side, a seed each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Self, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from lightning_sasv.errors import InputError


class Head(nn.Module):
    """Embeddings of a trial in, two or three logits out.

    Several independent heads are stacked: their parameters are (copies, in, out) tensors, made by
    :meth:`layer`, and one batched product serves them all. Each copy is initialised from its own
    seed, so that it does not depend on its neighbours. A head of your own is a subclass that makes
    its layers in ``__init__`` and has ``forward(enrolment, probe, cm)``: ASV embeddings of the
    enrolled speaker and of the probe and the CM embedding of the probe, (copies, batch, dim) each,
    to logits (copies, batch, ``logits``).

    Args:
        cm_dim: Size of the CM embedding.
        asv_dim: Size of an ASV embedding.
        hidden_dims: Widths of the hidden layers.
        negative_slope: Slope of the LeakyReLU.
        dropout: Share of the hidden units that are left out of a training step.
        logits: Two (0 the rest, 1 target), or three in the order of ``TrialClass``.
        seeds: Seed of each copy's initialisation.

    Attributes:
        joint: Whether it sees the ASV embeddings, too.
    """

    joint = True

    def __init__(
        self,
        cm_dim: int,
        asv_dim: int,
        hidden_dims: Sequence[int],
        negative_slope: float = 0.3,
        dropout: float = 0.0,
        logits: int = 2,
        seeds: Sequence[int] = (0,),
    ) -> None:
        super().__init__()
        if min((cm_dim, asv_dim, *hidden_dims)) < 1:
            raise InputError(
                f"widths of a head must be at least 1, got {cm_dim} (CM), {asv_dim} (ASV) and "
                f"{list(hidden_dims)}"
            )
        if not 0 <= dropout < 1:
            raise InputError(f"model.dropout must lie in [0, 1), got {dropout}")
        if not math.isfinite(negative_slope):
            raise InputError(f"model.negative_slope must be finite, got {negative_slope}")
        self.cm_dim, self.asv_dim, self.hidden_dims = cm_dim, asv_dim, tuple(hidden_dims)
        self.negative_slope, self.dropout, self.logits = negative_slope, dropout, logits
        self.seeds = tuple(seeds)
        self._made: dict[str, bool] = {}  # parameters of our layers, and whether they start at zero
        self._drawn: tuple[list[torch.Generator], int, slice] | None = None

    def layer(
        self, name: str | int, fan_in: int, fan_out: int, bias: bool = True, zero: bool = False
    ) -> None:
        """Make a linear layer, for :meth:`linear`.

        Args:
            name: Its name.
            fan_in: Inputs.
            fan_out: Outputs.
            bias: Whether it has a bias.
            zero: Start with nothing but zeros.
        """
        shapes = {f"weight_{name}": (fan_in, fan_out), f"bias_{name}": (1, fan_out)}
        for full, shape in list(shapes.items())[: 1 + bias]:
            parameter = nn.Parameter(torch.empty(len(self.seeds), *shape))
            self.register_parameter(full, parameter)
            self._made[full] = zero

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw weights and biases from U(−1/√fan_in, 1/√fan_in), as ``nn.Linear`` does.

        Those that a head did not make by :meth:`layer` stay as they are.
        """
        for copy, seed in enumerate(self.seeds):
            generator = torch.Generator().manual_seed(seed)
            for name, zero in self._made.items():
                parameter = self.get_parameter(name)
                if parameter.is_meta:  # of which only the shape is wanted
                    continue
                if name.startswith("weight"):
                    bound = parameter.shape[1] ** -0.5
                if zero:
                    parameter[copy].zero_()
                else:
                    parameter[copy].uniform_(-bound, bound, generator=generator)

    def linear(self, name: str | int, x: Tensor) -> Tensor:
        """A layer of inputs (copies, batch, in)."""
        weight, bias = (self._parameters.get(f"{part}_{name}") for part in ("weight", "bias"))
        assert weight is not None
        return torch.bmm(x, weight) if bias is None else torch.baddbmm(bias, x, weight)

    def activated(self, x: Tensor) -> Tensor:
        """LeakyReLU, and in a training step dropout."""
        x = leaky_relu(x, self.negative_slope)
        return self._dropped(x) if self.dropout and self.training else x

    def begin_step(self, step: int, batch: int, share: slice) -> None:
        """Choose what dropout leaves out: a pure function of seed and step.

        Args:
            step: Number of the step.
            batch: Trials of the step, over all processes.
            share: Those of this process.
        """
        if self.dropout:
            keys = [np.random.SeedSequence([seed, step]) for seed in self.seeds]
            states = [int(key.generate_state(1, np.uint64)[0] >> 1) for key in keys]
            drawn = [torch.Generator().manual_seed(state) for state in states]
            self._drawn = drawn, batch, share

    def _dropped(self, x: Tensor) -> Tensor:
        if self._drawn is None:  # outside of a training of ours
            return nn.functional.dropout(x, self.dropout)
        generators, batch, share = self._drawn
        masks = [torch.rand(batch, x.shape[-1], generator=one)[share] for one in generators]
        kept = torch.stack(masks).to(x.device) >= self.dropout
        return x * kept / (1 - self.dropout)

    @property
    def dtype(self) -> torch.dtype:
        """Type of the parameters."""
        return next(self.parameters()).dtype

    def of_trials(self, x: Tensor) -> Tensor:
        """Logits (copies, batch, logits) of embeddings in a row: enrolment, probe, CM."""
        if x.ndim == 2:
            x = x.expand(len(self.seeds), *x.shape)
        parts = torch.split(x, [self.asv_dim, self.asv_dim, self.cm_dim], -1)
        found: Tensor = self(*parts)
        return found

    def score(self, x: Tensor) -> Tensor:
        """Logit 1 − logit 0 of two, (copies, batch); three as they are, (copies, batch, 3)."""
        logits = self.of_trials(x)
        if self.logits == 3:
            return logits
        low, high = logits.unbind(-1)
        return high - low

    def select(self, copy: int) -> Self:
        """One of the stacked heads as a head of its own."""
        head = deepcopy(self)
        head.seeds = (self.seeds[copy],)
        for own in head.parameters():
            own.data = own.data[copy : copy + 1].clone()
        return head


class MLPHead(Head):
    """A head that is an MLP: LeakyReLU after each hidden layer, logits without a bias."""

    def make_layers(self, in_dim: int) -> None:
        """Make the layers, for inputs of this size."""
        widths = (in_dim, *self.hidden_dims, self.logits)
        for number in range(len(widths) - 1):
            last = number == len(self.hidden_dims)
            self.layer(number, widths[number], widths[number + 1], bias=not last)
        self.reset_parameters()

    def through(self, x: Tensor) -> Tensor:
        """Logits of inputs (copies, batch, in)."""
        # weight, bias, weight, bias, …, weight; quicker than attribute look-ups
        *hidden, last = cast("Iterable[Tensor]", self._parameters.values())
        for weight, bias in zip(hidden[::2], hidden[1::2], strict=True):
            x = self.activated(torch.baddbmm(bias, x, weight))
        return torch.bmm(x, last)
