"""The scorer of a bundle: a pair of scores in, a decision with its reason out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch

from lightning_sasv.decisions import (
    CostModel,
    compared,
    reason_sentences,
    threshold_sentences,
)
from lightning_sasv.deploy.policy import BAYES, DecisionRule, fuse_llrs
from lightning_sasv.errors import InputError
from lightning_sasv.fusion import FusionSystem
from lightning_sasv.trials import FusedScores


@dataclass(frozen=True, eq=False)
class Verdict:
    """What a scorer says of one trial (plain numbers) or of several (numpy arrays).

    Attributes:
        accepted: True for "accept".
        score: The system's fused score.
        asv_llr: LLR of target against nontarget, bounded; ``None`` if the system has no LLRs.
        cm_llr: LLR of target against spoof, bounded; ``None`` if the system has no LLRs.
        margin: How far the trial is from the decision boundary, positive iff accepted. For the
            Bayes policy the log of the ratio of the two expected costs, reject over accept; else
            score minus threshold.
    """

    accepted: Any
    score: Any
    asv_llr: Any
    cm_llr: Any
    margin: Any
    _words: Callable[[], Any] = field(repr=False)

    @property
    def decision(self) -> Any:
        """``accept`` or ``reject``."""
        words = np.where(self.accepted, "accept", "reject")
        return words if words.ndim else str(words)

    @cached_property
    def reason(self) -> Any:
        """The decision and what it rests on, in words; made when first asked for."""
        words = self._words()
        return str(words[0]) if np.ndim(self.accepted) == 0 else words


class Scorer:
    """A deployed fusion system: call it with an ASV and a CM score, or with arrays of them.

    Args:
        system: Fitted system of one seed.
        rule: How it decides.
        costs: Costs and priors of the application.
        metadata: Where all this comes from.
        bounds: Whether LLRs are kept within their bounds.

    Example:
        >>> verdict = load("bundle")(0.71, 9.3)  # doctest: +SKIP
        >>> verdict.decision, verdict.reason  # doctest: +SKIP
        ('accept', 'accepted: target, ASV LLR 7.05 above -0.59, CM LLR 9.72 above 0.11')
    """

    def __init__(
        self,
        system: FusionSystem,
        rule: DecisionRule,
        costs: CostModel,
        metadata: Mapping[str, Any],
        *,
        bounds: bool = True,
    ) -> None:
        self.system, self.rule, self.costs = system, rule, costs
        self.metadata, self.bounds = metadata, bounds

    def __call__(self, asv: Any, cm: Any, *, bounds: bool | None = None) -> Verdict:
        """Score and decide.

        Args:
            asv: ASV score of a trial, or scores (trials,) as list, array or tensor.
            cm: CM score, or scores, of the same shape.
            bounds: Whether LLRs are kept within their bounds; by default as loaded.

        Raises:
            InputError: A score that is not a finite number, or shapes that do not agree.
        """
        given = _numbers("asv", asv), _numbers("cm", cm)
        if given[0].shape != given[1].shape:
            raise InputError(f"asv and cm differ in shape: {given[0].shape} and {given[1].shape}")
        single = given[0].ndim == 0
        with torch.inference_mode():
            fused = self.system(*(np.atleast_1d(values) for values in given))
            if self.rule.kind == BAYES:
                return self._bayes(fused, self.bounds if bounds is None else bounds, single)
            return self._threshold(fused, single)

    def _bayes(self, fused: FusedScores, bounds: bool, single: bool) -> Verdict:
        """The optimal policy on both LLRs."""
        raw_asv, raw_cm, score = fused
        asv, cm, costs = raw_asv, raw_cm, self.costs
        if bounds and self.rule.bounds is not None:
            asv = raw_asv.clamp(*self.rule.bounds.asv_llr)
            cm = raw_cm.clamp(*self.rule.bounds.cm_llr)
            score = fuse_llrs(self.system, asv, cm)
        risk, threshold = compared(FusedScores(asv, cm, score), costs)
        accepted = risk > threshold
        words = partial(
            reason_sentences,
            accepted.numpy(),
            (asv.numpy(), cm.numpy()),
            ((asv != raw_asv).numpy(), (cm != raw_cm).numpy()),
            costs,
        )
        shown = accepted, score, asv, cm, risk - threshold
        return Verdict(*(_plain(part, single) for part in shown), words)  # type: ignore[call-arg]

    def _threshold(self, fused: FusedScores, single: bool) -> Verdict:
        """A threshold on the fused score, for systems without LLRs."""
        margin = fused.sasv - self.rule.threshold
        accepted = margin > 0
        words = partial(
            threshold_sentences, accepted.numpy(), fused.sasv.numpy(), self.rule.threshold
        )
        score = _plain(fused.sasv, single)
        return Verdict(_plain(accepted, single), score, None, None, _plain(margin, single), words)


def _numbers(name: str, values: Any) -> Any:
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().double().numpy()
    try:
        array = np.array(values, dtype=np.float64)  # a copy: torch wants to be able to write
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number or numbers, got {values!r:.60}") from None
    if array.ndim > 1:
        raise InputError(f"{name} must be a number or one-dimensional, got shape {array.shape}")
    return array


def _plain(values: torch.Tensor, single: bool) -> Any:
    return values[0].item() if single else values.numpy()
