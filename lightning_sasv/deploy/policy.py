"""Which decision a fitted system supports: the Bayes policy of LLRs, or a threshold on a score."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lightning_sasv.decisions import CostModel, accept
from lightning_sasv.deploy.bounds import LLRBounds, dev_bounds
from lightning_sasv.errors import InputError
from lightning_sasv.fusion import FusionSystem
from lightning_sasv.fusion.rules import fuse
from lightning_sasv.metrics.functional import a_dcf
from lightning_sasv.trials import FusedScores, Scores

BAYES, THRESHOLD = "bayes", "threshold"


class DecisionRule(NamedTuple):
    """How a deployed system decides.

    Attributes:
        kind: ``bayes`` (the optimal policy on two LLRs) or ``threshold`` (on the fused score).
        threshold: For ``bayes``, ``−log β`` of the costs, to which the LLRs are compared when they
            are fused with the costs' own spoof share; for ``threshold``, the value of the fused
            score that cost least on the development trials. Accepted is what lies above.
        bounds: Bounds of the LLRs; ``None`` where there are no LLRs.
    """

    kind: str
    threshold: float
    bounds: LLRBounds | None


def fuse_llrs(system: FusionSystem, asv_llr: Tensor, cm_llr: Tensor) -> Tensor:
    """The rule of a system alone, on LLRs that were bounded after its other stages."""
    return fuse(system.rule, system.rho, asv_llr, cm_llr)


def choose_rule(system: FusionSystem, dev: Scores, costs: CostModel) -> DecisionRule:
    """The decision rule of a fitted system, from costs and development trials.

    Args:
        system: Fitted system of one seed.
        dev: Development trials, the ones it was fitted to.
        costs: Costs and priors of the application.

    Raises:
        InputError: Costs with which nothing is to be decided, a class without trials, or raw
            scores on which no threshold is better than treating everyone alike.
    """
    if costs.default_cost <= 0:
        raise InputError(
            "at these costs there is nothing to decide: C_miss π_tar is "
            f"{costs.weight_miss:g}, C_fa,non π_non + C_fa,spf π_spf is "
            f"{costs.weight_fa_nontarget + costs.weight_fa_spoof:g}; both must be above 0"
        )
    fused = system(np.array(dev.asv), np.array(dev.cm))  # copies: torch wants writable arrays
    if system.gives_llrs:
        bounds = dev_bounds(fused.asv_llr.numpy(), fused.cm_llr.numpy(), dev.label)
        return DecisionRule(BAYES, -costs.log_beta, bounds)
    found = a_dcf(fused.sasv, dev.label, costs)
    if not (found.min < 1 and math.isfinite(found.threshold)):
        raise InputError(
            "at these costs no threshold on the fused score is better on dev than accepting or "
            "rejecting everyone; choose other costs, or a system with LLRs (L3c, L3t)"
        )
    return DecisionRule(THRESHOLD, found.threshold, None)


def unreachable(rule: DecisionRule, costs: CostModel) -> str | None:
    """``"accept"`` or ``"reject"`` if no pair of bounded LLRs can lead to that decision."""
    if rule.bounds is None:
        return None
    corners = torch.from_numpy(np.array(rule.bounds).T.copy())  # (lower, upper), (asv, cm)
    low, high = accept(FusedScores(corners[:, 0], corners[:, 1], corners[:, 0]), costs).tolist()
    if low:
        return "reject"
    return None if high else "accept"
