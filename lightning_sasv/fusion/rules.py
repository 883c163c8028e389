"""Fusion rules: from the pair (ASV score, CM score) to the one SASV score."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from lightning_sasv.decisions.policy import nonlinear_score
from lightning_sasv.errors import InputError

Rule = Callable[[Tensor, Tensor], Tensor]


def fuse_sum(asv: Tensor, cm: Tensor) -> Tensor:
    """``a + c``: systems B1 and B1c of the paper (eq. fusion_score without its factor)."""
    return asv + cm


def fuse_linear(asv: Tensor, cm: Tensor) -> Tensor:
    """``(a + c) / √6``: second ilr coordinate of the likelihoods (eq. fusionthreegaussians)."""
    return (asv + cm) / math.sqrt(6)


def fuse_nonlinear(asv: Tensor, cm: Tensor, rho: float | Tensor) -> Tensor:
    """``−log[(1−ρ) e^(−a) + ρ e^(−c)]`` (eq. fusionthreegaussiansnl).

    Args:
        asv: ASV LLRs.
        cm: CM LLRs.
        rho: Spoof prevalence in [0, 1]; 0 gives plain ASV, 1 plain CM. A tensor broadcasts.

    Raises:
        InputError: ``rho`` lies outside [0, 1].
    """
    check_rho(rho)
    return nonlinear_score(asv, cm, 1 - rho, rho)


def fuse_sigmoid_sum(asv: Tensor, cm: Tensor) -> Tensor:
    """``a + σ(c)``: system B1v2."""
    return asv + torch.sigmoid(cm)


def fuse_sigmoid_product(asv: Tensor, cm: Tensor) -> Tensor:
    """``σ(a) σ(c)``: system Post, the product of two posteriors."""
    return torch.sigmoid(asv) * torch.sigmoid(cm)


def fuse_cascade(asv: Tensor, cm: Tensor) -> Tensor:
    """``min(a, c)``: it exceeds a threshold iff both sides do, as in a cascade (AND)."""
    return torch.minimum(asv, cm)


def check_rho(rho: float | Tensor) -> None:
    """Raise unless every spoof prevalence lies in [0, 1]."""
    values = rho.flatten().tolist() if isinstance(rho, Tensor) else [rho]
    for value in values:
        if not 0 <= value <= 1:
            raise InputError(f"rho must lie in [0, 1], got {value}")


PLAIN_RULES: dict[str, Rule] = {
    "sum": fuse_sum,
    "linear": fuse_linear,
    "sigmoid_sum": fuse_sigmoid_sum,
    "sigmoid_product": fuse_sigmoid_product,
    "cascade": fuse_cascade,
}
RULES = (*PLAIN_RULES, "nonlinear")
