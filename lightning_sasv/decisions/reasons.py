"""Why a trial was accepted or rejected: in one word, or in a sentence."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Floats
from lightning_sasv.decisions.costs import CostModel

Flags = NDArray[np.bool_]
Words = NDArray[np.str_]


class _Side(NamedTuple):
    """One of the two LLRs of each trial, its name, and what it must exceed for an acceptance.

    The limit holds whatever the other LLR says: ``a > log(w_non/w_tar)``, ``c > log(w_spf/w_tar)``.
    """

    name: str
    llr: Floats
    bounded: Flags
    limit: float

    def said(self, where: Flags) -> Words:
        """``CM LLR 9.584 (bounded) above 0.1054`` for the trials asked for."""
        return _compared(self.name, self.llr[where], self.limit, self.bounded[where])


def reason_words(accepted: Flags, asv_llr: Floats, cm_llr: Floats, costs: CostModel) -> Words:
    """``target`` for what is accepted, else the class that speaks more against the trial.

    That is ``spoof`` where ``w_spf e^(−c) > w_non e^(−a)``, else ``nontarget``.

    Args:
        accepted: Decisions.
        asv_llr: ASV LLRs.
        cm_llr: CM LLRs.
        costs: Costs and priors.

    Example:
        >>> llrs = np.array([3.0, -5.0, 4.0]), np.array([4.0, 2.0, -1.0])
        >>> reason_words(np.array([True, False, False]), *llrs, CostModel()).tolist()
        ['target', 'nontarget', 'spoof']
    """
    _, nontarget, spoof = costs.log_weights
    against = np.where(spoof - cm_llr > nontarget - asv_llr, "spoof", "nontarget")
    return np.where(accepted, "target", against)


def reason_sentences(
    accepted: Flags, llrs: tuple[Floats, Floats], bounded: tuple[Flags, Flags], costs: CostModel
) -> Words:
    """Reasons of the Bayes policy ``w_tar > w_non e^(−a) + w_spf e^(−c)``.

    Each term alone must stay below ``w_tar``. A rejected trial fails one of these, both, or only
    their sum. It is said to be a nontarget or a spoof after the greater term.

    Args:
        accepted: Decisions.
        llrs: ASV and CM LLRs.
        bounded: For each of the two, whether it was moved to its bound.
        costs: Costs and priors, with weight on misses.

    Example:
        >>> llrs, untouched = (np.array([3.0]), np.array([-2.0])), np.array([False])
        >>> reason_sentences(np.array([False]), llrs, (untouched, untouched), CostModel()).tolist()
        ['rejected: spoof, CM LLR -2 below 0']
    """
    target, nontarget, spoof = costs.log_weights
    asv = _Side("ASV LLR", llrs[0], bounded[0], nontarget - target)
    cm = _Side("CM LLR", llrs[1], bounded[1], spoof - target)
    more_nontarget = asv.limit - asv.llr >= cm.limit - cm.llr
    asv_low, cm_low = ~accepted & (asv.llr <= asv.limit), ~accepted & (cm.llr <= cm.limit)
    words: Any = np.empty(accepted.shape, dtype=object)
    for where, first, second, text in (
        (accepted, asv, cm, ("accepted: target, ", ", ", "")),
        (~accepted & ~asv_low & ~cm_low, asv, cm, ("rejected: both risks add up, ", ", ", "")),
        (asv_low & cm_low & more_nontarget, asv, cm, ("rejected: nontarget, ", "; ", " too")),
        (asv_low & cm_low & ~more_nontarget, cm, asv, ("rejected: spoof, ", "; ", " too")),
        (asv_low & ~cm_low, asv, None, ("rejected: nontarget, ", "", "")),
        (cm_low & ~asv_low, cm, None, ("rejected: spoof, ", "", "")),
    ):
        other = second.said(where) if second is not None else ""
        words[where] = _join(text[0], first.said(where), text[1], other, text[2])
    return np.asarray(words.astype(str))


def threshold_sentences(accepted: Flags, scores: Floats, threshold: float) -> Words:
    """Reasons of a threshold on the fused score.

    Example:
        >>> threshold_sentences(np.array([True]), np.array([2.5]), 1.0).tolist()
        ['accepted: score 2.5 above 1']
    """
    verdict = np.where(accepted, "accepted: ", "rejected: ")
    return _join(verdict, _compared("score", scores, threshold, np.zeros_like(accepted)))


def unsure_sentences(said: Words, positive: Flags, abstained: Flags, outside: Flags) -> Words:
    """Reasons where a third verdict is possible.

    Args:
        said: Reasons of accepting or rejecting.
        positive: What would be accepted.
        abstained: Where deciding nothing costs least.
        outside: What lies outside what the development trials measured.

    Example:
        >>> said, yes, no = np.array(["accepted: target"]), np.array([True]), np.array([False])
        >>> unsure_sentences(said, yes, no, yes).tolist()
        ['unsure: not measured here; otherwise accepted: target']
    """
    far, words = outside & ~abstained, said.astype(object)
    words[abstained] = "unsure: deciding nothing costs least; otherwise " + words[abstained]
    words[far & positive] = "unsure: not measured here; otherwise " + words[far & positive]
    words[far & ~positive] = words[far & ~positive] + " (not measured here)"
    return np.asarray(words.astype(str))


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
