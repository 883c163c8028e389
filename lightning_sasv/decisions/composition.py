"""Compositional data analysis on the three-part simplex (Aitchison geometry).

A composition is a vector of positive parts of which only the ratios matter. Here the parts are,
in this order, [spoof, nontarget, target]: posteriors, priors, or likelihoods of the three classes.
Arrays (or lists) give arrays, tensors give tensors.
"""

from __future__ import annotations

import math
from typing import Any

from lightning_sasv.errors import InputError
from lightning_sasv.numerics import double, namespace, softmax


def closure(parts: Any) -> Any:
    """Parts divided by their sum, so that they add up to one.

    Args:
        parts: Positive parts, (..., 3).

    Raises:
        InputError: A part is not positive and finite.

    Example:
        >>> closure([1.0, 1.0, 2.0])
        array([0.25, 0.25, 0.5 ])
    """
    vector = _composition(parts)
    return vector / vector.sum(-1)[..., None]


def perturb(first: Any, second: Any) -> Any:
    """Perturbation x ⊕ y: the closed product part by part, the addition of the simplex.

    Bayes' formula is one: posterior = prior ⊕ likelihood.

    Example:
        >>> perturb([0.5, 0.25, 0.25], [1.0, 1.0, 2.0])
        array([0.4, 0.2, 0.4])
    """
    # In logarithms, because products of densities leave the range of floats.
    return softmax([x + y for x, y in zip(_logs(first), _logs(second), strict=True)])


def ilr(parts: Any) -> Any:
    """Isometric log-ratio coordinates of compositions [P₁, P₂, P₃] (eq. p2 of the paper).

    ``P̃₁ = log(P₂/P₁)/√2`` and ``P̃₂ = log(P₃²/(P₁P₂))/√6``. Sums of coordinates are perturbations,
    so ilr(posterior) = ilr(prior) + ilr(likelihood), and distances are Aitchison distances.

    Args:
        parts: Positive parts, (..., 3), closed or not.

    Returns:
        Coordinates, (..., 2), float64.

    Raises:
        InputError: A part is not positive and finite.

    Example:
        >>> ilr([0.2, 0.2, 0.6]).round(3)
        array([0.   , 0.897])
    """
    first, second, third = _logs(parts)
    pair = (second - first) / math.sqrt(2), (2 * third - first - second) / math.sqrt(6)
    return namespace(first).stack(pair, -1)


def inverse_ilr(coordinates: Any) -> Any:
    """Closed composition (..., 3) of ilr coordinates (..., 2).

    Example:
        >>> inverse_ilr([0.0, 0.0]).round(3)
        array([0.333, 0.333, 0.333])
    """
    first, second = _columns("coordinates", coordinates, 2)
    half, third = first / math.sqrt(2), second / math.sqrt(6)
    return softmax([-half - third, half - third, 2 * third])


def ilr_of_llrs(asv_llr: Any, cm_llr: Any) -> Any:
    """Coordinates (..., 2) of the likelihoods [p(x|spf), p(x|non), p(x|tar)] from two LLRs.

    ``w̃₁ = (c − a)/√2`` and ``w̃₂ = (a + c)/√6`` (eq. w2): the second is the linear fusion.

    Example:
        >>> ilr_of_llrs([1.0], [1.0]).round(3)
        array([[0.   , 0.816]])
    """
    asv, cm = double(asv_llr), double(cm_llr)
    return namespace(asv).stack([(cm - asv) / math.sqrt(2), (asv + cm) / math.sqrt(6)], -1)


def _columns(name: str, values: Any, size: int) -> list[Any]:
    """The columns of vectors (..., size), checked."""
    vector = double(values)
    if vector.ndim == 0 or vector.shape[-1] != size:
        raise InputError(f"{name} must have the shape (..., {size}), got {tuple(vector.shape)}")
    return [vector[..., k] for k in range(size)]


def _composition(parts: Any) -> Any:
    """Parts as float64, checked."""
    _columns("parts", parts, 3)
    vector = double(parts)
    bad = ~(namespace(vector).isfinite(vector) & (vector > 0))
    if bad.any():
        raise InputError(f"parts must be positive and finite, got {vector[bad][0].item()}")
    return vector


def _logs(parts: Any) -> list[Any]:
    """Logarithms of the parts, column by column."""
    vector = _composition(parts)
    return _columns("parts", namespace(vector).log(vector), 3)
