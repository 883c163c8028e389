"""Decisions in words, for many trials at once."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.decisions import CostModel

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Words = NDArray[np.str_]


class Side(NamedTuple):
    """One of the two LLRs of each trial.

    Attributes:
        name: What it is called.
        llr: Its values.
        bounded: Whether each was moved to its bound.
        limit: What it must exceed for an acceptance, whatever the other LLR says.
    """

    name: str
    llr: Floats
    bounded: Flags
    limit: float

    def said(self, where: Flags) -> Words:
        """``CM LLR 9.584 (bounded) above 0.1054`` for the trials asked for."""
        return _compared(self.name, self.llr[where], self.limit, self.bounded[where])


def bayes_reasons(
    accepted: Flags, llrs: tuple[Floats, Floats], bounded: tuple[Flags, Flags], costs: CostModel
) -> Words:
    """Reasons of the Bayes policy ``w_tar > w_non e^(−a) + w_spf e^(−c)``.

    Each term alone must stay below ``w_tar``: ``a > log(w_non/w_tar)`` and
    ``c > log(w_spf/w_tar)``. A rejected trial fails one of these, both, or only their sum. It is
    said to be a nontarget or a spoof after the greater term.

    Args:
        accepted: Decisions.
        llrs: ASV and CM LLRs.
        bounded: For each of the two, whether it was moved to its bound.
        costs: Costs and priors.
    """
    asv = Side("ASV LLR", llrs[0], bounded[0], _log_ratio(costs.weight_fa_nontarget, costs))
    cm = Side("CM LLR", llrs[1], bounded[1], _log_ratio(costs.weight_fa_spoof, costs))
    nontarget = asv.limit - asv.llr >= cm.limit - cm.llr
    asv_low, cm_low = ~accepted & (asv.llr <= asv.limit), ~accepted & (cm.llr <= cm.limit)
    words: Any = np.empty(accepted.shape, dtype=object)
    for where, first, second, text in (
        (accepted, asv, cm, ("accepted: target, ", ", ", "")),
        (~accepted & ~asv_low & ~cm_low, asv, cm, ("rejected: both risks add up, ", ", ", "")),
        (asv_low & cm_low & nontarget, asv, cm, ("rejected: nontarget, ", "; ", " too")),
        (asv_low & cm_low & ~nontarget, cm, asv, ("rejected: spoof, ", "; ", " too")),
        (asv_low & ~cm_low, asv, None, ("rejected: nontarget, ", "", "")),
        (cm_low & ~asv_low, cm, None, ("rejected: spoof, ", "", "")),
    ):
        other = second.said(where) if second is not None else ""
        words[where] = _join(text[0], first.said(where), text[1], other, text[2])
    return words.astype(str)


def threshold_reasons(accepted: Flags, scores: Floats, threshold: float) -> Words:
    """Reasons of a threshold on the fused score."""
    verdict = np.where(accepted, "accepted: ", "rejected: ")
    return _join(verdict, _compared("score", scores, threshold, np.zeros_like(accepted)))


def _compared(name: str, values: Floats, limit: float, bounded: Flags) -> Words:
    shown = np.char.mod(f"{name} %.4g", values)
    side = np.where(values > limit, f" above {limit:.4g}", f" below {limit:.4g}")
    return _join(shown, np.where(bounded, " (bounded)", ""), side)


def _join(*parts: Any) -> Words:
    """Texts and arrays of text, put together element by element."""
    joined: Words = np.asarray(parts[0])
    for part in parts[1:]:
        if not (isinstance(part, str) and not part):
            joined = np.char.add(joined, part)
    return joined


def _log_ratio(weight: float, costs: CostModel) -> float:
    """``log(weight / w_tar)``, −inf for a weight of 0."""
    return math.log(weight / costs.weight_miss) if weight > 0 else -math.inf
