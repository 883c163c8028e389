"""Compositional data analysis on the three-part simplex (Aitchison geometry).

A composition is a vector of positive parts of which only the ratios matter. Here the parts are,
in this order, [spoof, nontarget, target]: posteriors, priors, or likelihoods of the three classes.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from lightning_sasv.errors import InputError


def closure(parts: Any) -> Tensor:
    """Parts divided by their sum, so that they add up to one.

    Args:
        parts: Positive parts, (..., 3).

    Raises:
        InputError: A part is not positive and finite.
    """
    vector = _composition(parts)
    return vector / vector.sum(dim=-1, keepdim=True)


def perturb(first: Any, second: Any) -> Tensor:
    """Perturbation x ⊕ y: the closed product part by part, the addition of the simplex.

    Bayes' formula is one: posterior = prior ⊕ likelihood.
    """
    # In logarithms, because products of densities leave the range of floats.
    return torch.softmax(_composition(first).log() + _composition(second).log(), dim=-1)


def ilr(parts: Any) -> Tensor:
    """Isometric log-ratio coordinates of compositions [P₁, P₂, P₃] (eq. p2 of the paper).

    ``P̃₁ = log(P₂/P₁)/√2`` and ``P̃₂ = log(P₃²/(P₁P₂))/√6``. Sums of coordinates are perturbations,
    so ilr(posterior) = ilr(prior) + ilr(likelihood), and distances are Aitchison distances.

    Args:
        parts: Positive parts, (..., 3), closed or not.

    Returns:
        Coordinates, (..., 2), float64.

    Raises:
        InputError: A part is not positive and finite.
    """
    first, second, third = _composition(parts).log().unbind(dim=-1)
    return torch.stack(
        [(second - first) / math.sqrt(2), (2 * third - first - second) / math.sqrt(6)], dim=-1
    )


def inverse_ilr(coordinates: Any) -> Tensor:
    """Closed composition (..., 3) of ilr coordinates (..., 2)."""
    tensor = torch.as_tensor(coordinates, dtype=torch.float64)
    if tensor.ndim == 0 or tensor.shape[-1] != 2:
        raise InputError(f"coordinates must have the shape (..., 2), got {tuple(tensor.shape)}")
    first, second = tensor.unbind(dim=-1)
    half, third = first / math.sqrt(2), second / math.sqrt(6)
    return torch.softmax(torch.stack([-half - third, half - third, 2 * third], dim=-1), dim=-1)


def ilr_of_llrs(asv_llr: Any, cm_llr: Any) -> Tensor:
    """Coordinates (..., 2) of the likelihoods [p(x|spf), p(x|non), p(x|tar)] from two LLRs.

    ``w̃₁ = (c − a)/√2`` and ``w̃₂ = (a + c)/√6`` (eq. w2): the second is the linear fusion.
    """
    asv = torch.as_tensor(asv_llr, dtype=torch.float64)
    cm = torch.as_tensor(cm_llr, dtype=torch.float64)
    return torch.stack([(cm - asv) / math.sqrt(2), (asv + cm) / math.sqrt(6)], dim=-1)


def _composition(parts: Any) -> Tensor:
    """Parts as float64, checked."""
    vector = torch.as_tensor(parts, dtype=torch.float64)
    if vector.ndim == 0 or vector.shape[-1] != 3:
        raise InputError(f"parts must have the shape (..., 3), got {tuple(vector.shape)}")
    bad = ~(torch.isfinite(vector) & (vector > 0))
    if bool(bad.any()):
        raise InputError(f"parts must be positive and finite, got {vector[bad][0].item()}")
    return vector
