"""What densities and calibrations have in common: they learn, and keep it in buffers."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Stage(nn.Module):
    """A step on the way of a score pair: a density or a calibration.

    Subclasses add float64 buffers whose first axis counts stacked seeds, ``fit``, and ``forward``
    from pairs (copies, 2, trials) to pairs of the same shape.
    """

    def fit(self, scores: Tensor, labels: Tensor) -> None:
        """Fit each stacked seed to its own row.

        Args:
            scores: Score pairs, (copies, 2, trials).
            labels: ``TrialClass`` codes, (copies, trials).
        """
        raise NotImplementedError


def store(module: nn.Module, **values: Tensor) -> None:
    """Fill buffers of a module by name.

    In place where that is possible, so that whoever holds the buffers (as DDP does) sees the new
    values; by a new buffer where the shape changes or the old one was made in inference mode.
    """
    for name, value in values.items():
        buffer = module.get_buffer(name)
        if buffer.shape == value.shape and not buffer.is_inference():
            buffer.copy_(value)
        else:
            setattr(module, name, torch.empty_like(value, dtype=buffer.dtype).copy_(value))
