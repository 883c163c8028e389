"""Fusion rules: from the pair (ASV score, CM score) to the one SASV score, arrays or tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lightning_sasv.checks import Floats, is_tensor
from lightning_sasv.decisions.policy import nonlinear_rule, nonlinear_score
from lightning_sasv.errors import InputError
from lightning_sasv.numerics import namespace, sigmoid
from lightning_sasv.plugins import Other, Registry, said_of

Rule = Callable[[Any, Any], Any]


def fuse_sum(asv: Any, cm: Any) -> Any:
    """``a + c``: systems B1 and B1c of the paper (eq. fusion_score without its factor)."""
    return asv + cm


def fuse_linear(asv: Any, cm: Any) -> Any:
    """``(a + c) / √6``: second ilr coordinate of the likelihoods (eq. fusionthreegaussians)."""
    return (asv + cm) / math.sqrt(6)


def fuse_nonlinear(asv: Any, cm: Any, rho: Any) -> Any:
    """``−log[(1−ρ) e^(−a) + ρ e^(−c)]`` (eq. fusionthreegaussiansnl).

    Args:
        asv: ASV LLRs.
        cm: CM LLRs.
        rho: Spoof prevalence in [0, 1]; 0 gives plain ASV, 1 plain CM.

    Raises:
        InputError: ``rho`` lies outside [0, 1].
    """
    return nonlinear_score(asv, cm, 1 - check_rho(rho), rho)


def fuse_sigmoid_sum(asv: Any, cm: Any) -> Any:
    """``a + σ(c)``: system B1v2."""
    return asv + sigmoid(cm)


def fuse_sigmoid_product(asv: Any, cm: Any) -> Any:
    """``σ(a) σ(c)``: system Post, the product of two posteriors."""
    return sigmoid(asv) * sigmoid(cm)


def fuse_cascade(asv: Any, cm: Any) -> Any:
    """``min(a, c)``: it exceeds a threshold iff both sides do, as in a cascade (AND)."""
    return namespace(asv).minimum(asv, cm)


def check_rho(rho: Any) -> Any:
    """A spoof prevalence; an error unless it lies in [0, 1]."""
    if not 0 <= rho <= 1:
        raise InputError(f"rho must lie in [0, 1], got {float(rho)}")
    return rho


def as_rule(thing: Any, **settings: Any) -> Rule:
    """A rule of others: a function of two arrays, or a class whose objects are such functions.

    Tensors are turned into arrays and back: no gradient comes through it.

    Raises:
        InputError: It is none.

    Example:
        >>> as_rule(lambda asv, cm: asv * cm)(np.array([2.0]), np.array([3.0]))
        array([6.])
    """
    one = thing(**settings) if isinstance(thing, type) else thing
    if not callable(one) or (settings and one is thing):
        raise InputError("it is no function of two arrays, or no class that takes these init_args")

    def rule(asv: Any, cm: Any) -> Any:
        if is_tensor(asv):
            return asv.new_tensor(rule(asv.numpy(force=True), cm.numpy(force=True)))
        return shaped(call_other(one, asv, cm), np.shape(asv))

    return rule


def call_other(function: Callable[..., Any], *args: Any) -> Any:
    """What a function of others gives; what fails in it is said in a line."""
    try:
        return function(*args)
    except Exception as error:
        name = getattr(function, "__qualname__", type(function).__qualname__)
        raise InputError(f"{name} of another package fails ({said_of(error)})") from None


def shaped(values: Any, shape: tuple[int, ...]) -> Floats:
    """What a part of others gave, as numbers of a shape."""
    found = np.asarray(values, float)
    if found.shape != shape:
        raise InputError(f"a stage of others gives the shape {found.shape}, expected {shape}")
    return found


PLAIN_RULES: Registry[Rule] = Registry(
    {
        "sum": fuse_sum,
        "linear": fuse_linear,
        "sigmoid_sum": fuse_sigmoid_sum,
        "sigmoid_product": fuse_sigmoid_product,
        "cascade": fuse_cascade,
    },
    *("rules", "rule", as_rule, ("nonlinear",)),
)
RULES = (*PLAIN_RULES, "nonlinear")


def rule_at(rule: str | Other, rho: Any) -> Rule:
    """A rule as a function of two LLRs (floats, arrays or tensors); arguments as for :func:`fuse`.

    Example:
        >>> rule_at("nonlinear", 0.0)(2.0, 3.0)
        2.0
    """
    if rule == "nonlinear":
        return nonlinear_rule(1 - check_rho(rho), rho)
    return PLAIN_RULES.find(rule)


def fuse(rule: str | Other, rho: Any, asv: Any, cm: Any) -> Any:
    """The one score by a rule.

    Args:
        rule: One of :data:`RULES`, or a rule of others.
        rho: Spoof prevalence of ``nonlinear``; the others do not look at it.
        asv: ASV scores or LLRs.
        cm: CM scores or LLRs.
    """
    if rule == "nonlinear":
        return fuse_nonlinear(asv, cm, rho)
    return PLAIN_RULES.find(rule)(asv, cm)
