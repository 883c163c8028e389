"""Isotonic calibration (pool adjacent violators) of the two scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from torch import Tensor

from lightning_sasv.fusion.calibration import split_sides
from lightning_sasv.fusion.stage import Stage, store

Knots = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Abscissae and ordinates of a piecewise linear map."""


class IsotonicCalibration(Stage):
    """The increasing map of each score that fits its LLR best, without any other assumption.

    The posterior is constant on each pooled block of scores, straight between blocks and constant
    beyond the ends. One positive below all scores and one negative above them (a misleading trial
    at either end) keep the LLRs finite. The number of knots is that of the data, so a state dict
    of any number of them can be loaded.

    Args:
        cm_positives: Positive class of the CM side, ``bonafide`` or ``target``.
        copies: Number of stacked seeds.
    """

    knots: Tensor
    llrs: Tensor

    def __init__(self, cm_positives: str = "bonafide", copies: int = 1) -> None:
        super().__init__()
        self.cm_positives = cm_positives
        identity = torch.tensor([-1.0, 1.0], dtype=torch.float64).repeat(copies, 2, 1)
        self.register_buffer("knots", identity)
        self.register_buffer("llrs", identity.clone())

    def fit(self, scores: Tensor, labels: Tensor) -> None:
        """Pool adjacent violators on both sides; see :class:`Stage`."""
        curves = [
            pav_llrs(positives.numpy(force=True), negatives.numpy(force=True))
            for row in zip(scores, labels, strict=True)
            for positives, negatives in split_sides(*row, self.cm_positives).values()
        ]
        longest = max(len(knots) for knots, _ in curves)
        padded = np.stack(
            [
                [np.pad(part, (0, longest - len(part)), mode="edge") for part in curve]
                for curve in curves
            ]
        )
        both = torch.from_numpy(padded).view(-1, 2, 2, longest).to(scores.device)
        store(self, knots=both[:, :, 0].contiguous(), llrs=both[:, :, 1].contiguous())

    def forward(self, scores: Tensor) -> Tensor:
        """Calibrated pairs of score pairs (copies, 2, trials)."""
        copies = max(scores.shape[0], self.knots.shape[0])
        knots, llrs = (part.expand(copies, -1, -1).contiguous() for part in (self.knots, self.llrs))
        inside = scores.expand(copies, -1, -1).clamp(knots[..., :1], knots[..., -1:]).contiguous()
        upper = torch.searchsorted(knots, inside).clamp(1, knots.shape[-1] - 1)
        x0, x1 = knots.gather(-1, upper - 1), knots.gather(-1, upper)
        y0, y1 = llrs.gather(-1, upper - 1), llrs.gather(-1, upper)
        width = x1 - x0
        share = torch.where(width > 0, (inside - x0) / torch.where(width > 0, width, 1.0), 0.0)
        return torch.lerp(y0, y1, share)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Take the number of knots from the state dict."""
        for name in ("knots", "llrs"):
            incoming = state_dict.get(prefix + name)
            if incoming is not None:
                buffer = self.get_buffer(name)
                shape = (*buffer.shape[:2], incoming.shape[-1])
                setattr(self, name, buffer.new_empty(shape))
        super()._load_from_state_dict(state_dict, prefix, *args)


def pav_llrs(positives: NDArray[np.float64], negatives: NDArray[np.float64]) -> Knots:
    """LLRs of the isotonic regression of the class on the score.

    Args:
        positives: Scores of the positive class.
        negatives: Scores of the negative class.

    Returns:
        First and last score of every pooled block, and the block's LLR
        ``log(n₊/n₋) − log(N₊/N₋)``, the counts with one misleading trial at each end.
    """
    values, index = np.unique(np.concatenate([positives, negatives]), return_inverse=True)
    n_pos = np.bincount(index[: len(positives)], minlength=len(values))
    n_all = np.bincount(index, minlength=len(values))
    hits = np.concatenate([[1], n_pos, [0]])
    trials = np.concatenate([[1], n_all, [1]])
    blocks = isotonic_regression(hits / trials, weights=trials).blocks
    starts, ends = blocks[:-1], blocks[1:] - 1
    block_hits = np.add.reduceat(hits, starts)
    block_misses = np.add.reduceat(trials - hits, starts)
    prior = np.log(len(positives) + 1) - np.log(len(negatives) + 1)
    llrs = np.log(block_hits) - np.log(block_misses) - prior
    edges = np.concatenate([values[:1], values, values[-1:]])
    knots = np.stack([edges[starts], edges[ends]], axis=1).ravel()
    return knots, np.repeat(llrs, 2)
