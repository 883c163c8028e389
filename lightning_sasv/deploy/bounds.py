"""Bounds of log-likelihood ratios: no evidence beyond what the development data support.

A density reaches into regions where there were no trials to fit it to, and its LLRs grow there
without limit. The empirical lower and upper bounds (ELUB) of Vergeer et al., "Numerical likelihood
ratios outputted by LR systems are often based on extrapolation: when to stop extrapolating?",
Science & Justice 56 (2016), 482-491, stop where the data can no longer tell that using the LLRs is
better than ignoring them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from lightning_sasv.checks import Floats, as_finite, as_labels, as_trials, check_not_empty, split
from lightning_sasv.errors import InputError
from lightning_sasv.trials import TASKS, TrialClass

METHOD = "ELUB, one misleading trial per class (Vergeer et al. 2016)"
MISLEADING = 1
"""Trials of each class that are imagined on the wrong side of every threshold."""


class Bounds(NamedTuple):
    """Lower and upper bound of an LLR; 0 lies between them.

    Example:
        >>> Bounds(-1.0, 2.0).upper
        2.0
    """

    lower: float
    upper: float


class LLRBounds(NamedTuple):
    """Bounds of both LLRs of a fusion system.

    Example:
        >>> LLRBounds(Bounds(-1.0, 2.0), Bounds(-3.0, 4.0)).cm_llr
        Bounds(lower=-3.0, upper=4.0)
    """

    asv_llr: Bounds
    cm_llr: Bounds


def elub(positive: Any, negative: Any) -> Bounds:
    """Empirical lower and upper bound of two-class LLRs, exact.

    At the threshold ``τ`` (prior log-odds ``−τ``) the decision "LLR > τ" costs, up to a factor,
    ``E(τ) = P_miss(τ) + e^τ P_fa(τ)``, and a system whose LLR is always 0 costs ``min(1, e^τ)``.
    Both error rates are taken with one more trial of each class on the wrong side,
    ``P_miss = (#{positive ≤ τ} + 1)/(N₊ + 1)`` and ``P_fa = (#{negative > τ} + 1)/(N₋ + 1)``.
    The upper bound is the first ``τ ≥ 0`` beyond which ``E(τ) > 1``, the lower bound its mirror
    image. Hence the bounds never leave ``−log(N₊ + 1) … log(N₋ + 1)``, nor the range of the LLRs
    themselves, and LLRs that are worse than none at all are bounded to 0.

    Between two neighbouring LLRs the error rates are constant and E grows with τ, so the crossing
    is found in closed form instead of on a grid of thresholds.

    Args:
        positive: LLRs of trials of the positive class, (n,).
        negative: LLRs of trials of the negative class, (m,).

    Raises:
        InputError: An empty class, or an LLR that is not finite.

    Example:
        >>> lower, upper = elub([99.0] * 50, [-99.0] * 200)
        >>> round(lower, 2), round(upper, 2)
        (-3.93, 5.28)
    """
    classes = {"positive": positive, "negative": negative}
    pos, neg = (np.sort(as_finite(llrs, f"{name} LLRs")) for name, llrs in classes.items())
    for name, llrs in zip(classes, (pos, neg), strict=True):
        check_not_empty(llrs, f"{name} trials")
    return Bounds(-_upper(-neg[::-1], -pos[::-1]), _upper(pos, neg))


def dev_bounds(asv_llr: Any, cm_llr: Any, labels: Any) -> LLRBounds:
    """Bounds of both LLRs from development trials.

    The ASV LLR is bounded by targets against nontargets, the CM LLR by targets against spoofs: the
    two hypotheses that each of them compares.

    Args:
        asv_llr: ASV LLR of each trial.
        cm_llr: CM LLR of each trial.
        labels: ``TrialClass`` code of each trial.

    Raises:
        InputError: A class without trials, or an LLR that is not finite.

    Example:
        >>> found = dev_bounds([9.0, -9.0, 9.0], [9.0, 9.0, -9.0], ["target", "nontarget", "spoof"])
        >>> found.asv_llr == found.cm_llr
        True
    """
    codes, bounds = as_labels(labels), []
    for code in TrialClass:
        if not (codes == code).any():
            raise InputError(f"the development trials have no {code} among them")
    for task, llrs in (("sv", asv_llr), ("spf", cm_llr)):
        values, _ = as_trials(llrs, codes, "LLRs")
        bounds.append(elub(*split(values, codes, *TASKS[task][1:])))
    return LLRBounds(*bounds)


def _upper(pos: Floats, neg: Floats) -> float:
    """Upper bound from ascending LLRs of both classes."""
    knots = np.unique(np.concatenate([pos, neg]))
    knots = np.concatenate([[0.0], knots[knots > 0]])  # the rates are constant on [knot, next)
    hits = len(pos) - np.searchsorted(pos, knots, side="right")
    false = len(neg) - np.searchsorted(neg, knots, side="right") + MISLEADING
    with np.errstate(divide="ignore"):  # no hit: every threshold is too high
        limit = np.log(hits) - math.log(len(pos) + MISLEADING)
    limit -= np.log(false) - math.log(len(neg) + MISLEADING)
    following = np.append(knots[1:], np.inf)
    first = int(np.argmax(limit < following))
    return float(max(knots[first], limit[first]))
