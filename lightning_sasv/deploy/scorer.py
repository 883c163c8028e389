"""The scorer of a bundle: the scores of a trial in, a decision with its reason out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from lightning_sasv.checks import is_tensor
from lightning_sasv.decisions import (
    CostModel,
    accept,
    compared,
    reason_sentences,
    threshold_sentences,
)
from lightning_sasv.deploy.bounds import Bounds, LLRBounds, dev_bounds
from lightning_sasv.errors import InputError
from lightning_sasv.fitted import FittedSystem, frozen
from lightning_sasv.fusion.base import Fusion
from lightning_sasv.fusion.rules import fuse
from lightning_sasv.metrics.functional import a_dcf
from lightning_sasv.trials import FusedScores, Scores

BAYES, THRESHOLD = "bayes", "threshold"
MEANING = {
    BAYES: "accept iff -log[(1 - r) exp(-asv_llr) + r exp(-cm_llr)] > threshold, r the spoof "
    "share of the cost-weighted priors; threshold = -log(beta) of the costs",
    THRESHOLD: "accept iff the fused score > threshold, the least costly one on the dev trials",
}


class DecisionRule(NamedTuple):
    """How a deployed system decides.

    Attributes:
        kind: ``bayes`` (the optimal policy on two LLRs) or ``threshold`` (on the fused score).
        threshold: For ``bayes``, ``−log β`` of the costs, to which the LLRs are compared when they
            are fused with the costs' own spoof share; for ``threshold``, the value of the fused
            score that cost least on the development trials. Accepted is what lies above.
        bounds: Bounds of the LLRs; ``None`` where there are no LLRs.

    Example:
        >>> DecisionRule("threshold", 2.5, None).kind
        'threshold'
    """

    kind: str
    threshold: float
    bounds: LLRBounds | None


def choose_rule(system: Fusion, dev: Scores, costs: CostModel) -> DecisionRule:
    """The decision rule of a fitted system, from costs and development trials.

    Args:
        system: Fitted system, as a module or as it was read.
        dev: Development trials, the ones it was fitted to; of several columns ``asv`` and ``cm``
            are (trials, columns).
        costs: Costs and priors of the application.

    Raises:
        InputError: Costs with which nothing is to be decided, a class without trials, or raw
            scores on which no threshold is better than treating everyone alike.

    Example:
        >>> from lightning_sasv.fitted import FittedSystem
        >>> system = FittedSystem("B1", {"rule": "sum"}, {"fitted": np.array(True)})
        >>> asv, cm = np.array([0.0, 1.0, 0.5]), np.array([1.0, 2.0, -3.0])
        >>> choose_rule(system, Scores(asv, cm, np.array([2, 1, 0])), CostModel())
        DecisionRule(kind='threshold', threshold=1.0, bounds=None)
    """
    if costs.default_cost <= 0:
        raise InputError(
            "at these costs there is nothing to decide: C_miss π_tar is "
            f"{costs.weight_miss:g}, C_fa,non π_non + C_fa,spf π_spf is "
            f"{costs.weight_fa_nontarget + costs.weight_fa_spoof:g}; both must be above 0"
        )
    fused = fuse_trials(frozen(system), dev)
    if system.gives_llrs:
        bounds = dev_bounds(fused.asv_llr, fused.cm_llr, dev.label)
        return DecisionRule(BAYES, -costs.log_beta, bounds)
    found = a_dcf(fused.sasv, dev.label, costs)
    if not (found.min < 1 and math.isfinite(found.threshold)):
        raise InputError(
            "at these costs no threshold on the fused score is better on dev than accepting or "
            "rejecting everyone; choose other costs, or a system with LLRs (L3c, L3t)"
        )
    return DecisionRule(THRESHOLD, found.threshold, None)


def fuse_trials(system: FittedSystem, trials: Scores) -> FusedScores:
    """Scores of trials by a system; measures of quality are among the further columns."""
    names = system.columns.names[system.columns.scores :]
    quality = np.stack([trials.extra[name] for name in names], axis=1) if names else None
    return system(trials.asv, trials.cm, quality)


def read_rule(content: Mapping[str, Any]) -> DecisionRule:
    """The rule of a bundle's description."""
    decision, limits = content["decision"], content["bounds"]
    if decision["kind"] not in MEANING:
        raise InputError(f"the bundle asks for the unknown decision {decision['kind']!r}")
    bounds = None
    if limits is not None:
        bounds = LLRBounds(*(Bounds(*map(float, limits[side])) for side in LLRBounds._fields))
    return DecisionRule(decision["kind"], float(decision["threshold"]), bounds)


def unreachable(rule: DecisionRule, costs: CostModel) -> str | None:
    """``"accept"`` or ``"reject"`` if no pair of bounded LLRs can lead to that decision."""
    if rule.bounds is None:
        return None
    asv, cm = np.array(rule.bounds)  # (lower, upper) of each
    low, high = accept(FusedScores(asv, cm, asv), costs).tolist()
    if low:
        return "reject"
    return None if high else "accept"


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

    Example:
        >>> Verdict(True, 2.5, None, None, 0.5, lambda: np.array(["because"])).decision
        'accept'
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

    One of several scores is called with a mapping from the names of its columns (``columns``) to
    scores of one trial or of several.

    Args:
        system: Fitted system, as a module or as it was read.
        rule: How it decides.
        costs: Costs and priors of the application.
        metadata: Where all this comes from.
        bounds: Whether LLRs are kept within their bounds.

    Example:
        >>> from lightning_sasv.fitted import FittedSystem
        >>> system = FittedSystem("B1", {"rule": "sum"}, {"fitted": np.array(True)})
        >>> scorer = Scorer(system, DecisionRule("threshold", 2.0, None), CostModel(), {})
        >>> scorer(0.5, 2.0).decision, scorer(0.5, 2.0).reason
        ('accept', 'accepted: score 2.5 above 2')
    """

    def __init__(
        self,
        system: Fusion,
        rule: DecisionRule,
        costs: CostModel,
        metadata: Mapping[str, Any],
        *,
        bounds: bool = True,
    ) -> None:
        self.system, self.rule, self.costs = frozen(system), rule, costs
        self.metadata, self.bounds = metadata, bounds

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the scores that it takes."""
        return self.system.columns.names

    def __call__(self, asv: Any, cm: Any = None, *, bounds: bool | None = None) -> Verdict:
        """Score and decide.

        Args:
            asv: ASV score of a trial, or scores (trials,) as list, array or tensor; or a mapping
                from the name of each column to its score, or scores, and nothing else.
            cm: CM score, or scores, of the same shape.
            bounds: Whether LLRs are kept within their bounds; by default as loaded.

        Raises:
            InputError: A score that is not a finite number, shapes that do not agree, or names
                that are missing or unknown.
        """
        fused, single = self._named(asv) if isinstance(asv, Mapping) else self._pair(asv, cm)
        return self.decide(fused, bounds=bounds, single=single)

    def decide(
        self, fused: FusedScores, *, bounds: bool | None = None, single: bool = False
    ) -> Verdict:
        """Decide on what the system says of trials; ``single`` gives plain numbers of one trial."""
        if self.rule.kind == BAYES:
            return self._bayes(fused, self.bounds if bounds is None else bounds, single)
        return self._threshold(fused, single)

    def _named(self, scores: Mapping[str, Any]) -> tuple[FusedScores, bool]:
        """Fused scores of columns by name, and whether they are of one trial alone."""
        fused = self.system(*self.system.columns.take(scores))
        return fused, all(np.ndim(_listed(values)) == 0 for values in scores.values())

    def _pair(self, asv: Any, cm: Any) -> tuple[FusedScores, bool]:
        """Fused scores of a pair, and whether it is of one trial alone."""
        if not self.system.columns.is_pair:
            raise InputError(
                f"this scorer takes {', '.join(self.columns)}; give a mapping from these names "
                "to scores"
            )
        if cm is None:
            raise InputError("cm is missing: give an ASV and a CM score, or a mapping of names")
        sides = [_listed(side) for side in (asv, cm)]
        ranks = {np.ndim(side) for side in sides}
        if ranks == {0, 1}:
            raise InputError("asv and cm differ in shape: one is a number, the other is not")
        for name, side in zip(("asv", "cm"), sides, strict=True):
            if np.ndim(side) > 1:
                raise InputError(f"{name} must be one-dimensional, got shape {np.shape(side)}")
        single = ranks == {0}
        return self.system(*([side] if single else side for side in sides)), single

    def _bayes(self, fused: FusedScores, bounds: bool, single: bool) -> Verdict:
        """The optimal policy on both LLRs."""
        asv, cm, score = fused
        if bounds and self.rule.bounds is not None:
            asv, cm = np.clip(asv, *self.rule.bounds.asv_llr), np.clip(cm, *self.rule.bounds.cm_llr)
            score = fuse(self.system.rule, self.system.rho, asv, cm)
        risk, threshold = compared(FusedScores(asv, cm, score), self.costs)
        moved = asv != fused.asv_llr, cm != fused.cm_llr
        words = partial(reason_sentences, risk > threshold, (asv, cm), moved, self.costs)
        shown = risk > threshold, score, asv, cm, risk - threshold
        return Verdict(*(_plain(part, single) for part in shown), words)  # type: ignore[call-arg]

    def _threshold(self, fused: FusedScores, single: bool) -> Verdict:
        """A threshold on the fused score, for systems without LLRs."""
        margin = fused.sasv - self.rule.threshold
        words = partial(threshold_sentences, margin > 0, fused.sasv, self.rule.threshold)
        accepted, score, gap = (_plain(part, single) for part in (margin > 0, fused.sasv, margin))
        return Verdict(accepted, score, None, None, gap, words)


def _listed(values: Any) -> Any:
    return values.tolist() if is_tensor(values) else values


def _plain(values: Any, single: bool) -> Any:
    return values[0].item() if single else values
