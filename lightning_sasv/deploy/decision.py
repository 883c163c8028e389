"""How a deployed system decides, and what it says of a trial."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from lightning_sasv.checks import Floats
from lightning_sasv.decisions import CostModel, accept
from lightning_sasv.deploy.bounds import Bounds, LLRBounds, dev_bounds
from lightning_sasv.errors import InputError
from lightning_sasv.fitted import FittedSystem, frozen
from lightning_sasv.fusion.base import Fusion
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


def checked_scores(system: FittedSystem, trials: Scores) -> Floats:
    """What a system fuses, (columns, trials); measures of quality are among the further columns."""
    names = system.columns.names[system.columns.scores :]
    quality = np.stack([trials.extra[name] for name in names], axis=1) if names else None
    return system.checked(trials.asv, trials.cm, quality)[1]


def fuse_trials(system: FittedSystem, trials: Scores) -> FusedScores:
    """Scores of trials by a system."""
    return system.fuse_pairs(system.arrays(), checked_scores(system, trials))


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


@dataclass(eq=False)  # to freeze one takes longer than to score a trial
class Verdict:
    """What a scorer says of one trial (plain numbers) or of several (numpy arrays).

    Attributes:
        accepted: True for "accept".
        score: The system's fused score.
        asv_llr: LLR of target against nontarget, bounded; ``None`` if the system has no LLRs.
        cm_llr: LLR of target against spoof, bounded; ``None`` if the system has no LLRs.
        margin: How far the trial is from the boundary between accepting and rejecting, positive
            where it would be accepted. For the Bayes policy the log of the ratio of the two
            expected costs, reject over accept; else score minus threshold.
        unsure: True where neither is said: it would be accepted but is outside, or abstaining
            costs least.
        outside: Whether the scores lie outside what the development trials measured; ``None`` where
            that is not known.

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
    unsure: Any = False
    outside: Any = None

    @property
    def decision(self) -> Any:
        """``accept``, ``reject`` or ``unsure``."""
        if isinstance(self.accepted, bool):
            return "accept" if self.accepted else "unsure" if self.unsure else "reject"
        return np.where(self.accepted, "accept", np.where(self.unsure, "unsure", "reject"))

    def as_json(self, reason: bool = False) -> dict[str, Any]:
        """What is said of one trial, as plain values; the words only where they are asked for."""
        found = {
            "decision": self.decision,
            "score": self.score,
            "asv_llr": self.asv_llr,
            "cm_llr": self.cm_llr,
            "margin": self.margin,
        }
        return found | {"reason": self.reason} if reason else found

    @cached_property
    def reason(self) -> Any:
        """The decision and what it rests on, in words; made when first asked for."""
        words = self._words()
        return str(words[0]) if isinstance(self.accepted, bool) else words
