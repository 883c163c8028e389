"""Decisions on a table of trials, each with the numbers that it rests on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from lightning_sasv.decisions import (
    POLICIES,
    CostModel,
    EmpiricalCost,
    accept,
    compared,
    empirical_cost,
    expected_cost,
    reason_words,
)
from lightning_sasv.errors import InputError
from lightning_sasv.files import atomic_path
from lightning_sasv.fusion import FusionSystem
from lightning_sasv.scores import ScoreTable
from lightning_sasv.trials import FusedScores, TrialClass

if TYPE_CHECKING:
    import polars as pl

PREFERRED = ("L3t", "L3", "L3c")
"""Which of several fitted systems decides when none is named."""


@dataclass(frozen=True)
class PolicyResult:
    """What a policy costs on a table of trials.

    Attributes:
        accepted: Share of accepted trials.
        expected: Mean posterior risk of the trials as they are; needs no labels.
        expected_at_priors: The same with each class weighted by its prior: what the LLRs promise
            for the actual cost. ``None`` without labels, or without trials of a class.
        actual: What the decisions cost by the labels. ``None`` without labels.
    """

    accepted: float
    expected: float
    expected_at_priors: float | None
    actual: EmpiricalCost | None


@dataclass(frozen=True)
class Decisions:
    """Decisions of one system under one policy.

    Attributes:
        frame: One row per trial: ids and labels as far as known, scores, LLRs, ``score``,
            ``threshold``, ``decision`` and ``reason``.
        result: What they cost.
    """

    frame: pl.DataFrame
    result: PolicyResult


def write_decisions(path: str | Path, decisions: Decisions) -> Path:
    """Write the decisions as CSV, atomically."""
    with atomic_path(path) as temporary:
        decisions.frame.write_csv(temporary)
    return Path(path)


def choose_system(systems: dict[str, FusionSystem], name: str | None) -> str:
    """The system that decides: the named one, or the best known of those that give LLRs."""
    able = [one for one, system in systems.items() if system.gives_llrs]
    if name is None:
        if not able:
            raise InputError(f"none of the fitted systems ({', '.join(systems)}) gives LLRs")
        return next((one for one in PREFERRED if one in able), able[0])
    if name not in systems:
        raise InputError(f"--system: no fitted system {name!r}; there are {', '.join(systems)}")
    if name not in able:
        raise InputError(
            f"--system: {name} fuses scores that are no log-likelihood ratios, so costs and priors "
            f"say nothing about its threshold; choose one of {', '.join(able) or 'none'}"
        )
    return name


def decide_trials(
    table: ScoreTable, system: FusionSystem, costs: CostModel, policy: str = "bayes"
) -> Decisions:
    """Accept or reject each trial.

    Args:
        table: Trials with ``asv_score`` and ``cm_score``; labels are used for the cost alone.
        system: A fitted system that gives LLRs.
        costs: Costs and priors.
        policy: ``bayes``, ``linear`` or ``utility``.
    """
    import polars as pl

    fused = fuse_table(table, system)
    score, threshold = compared(fused, costs, policy)
    decision = (score > threshold).numpy()
    llrs = fused.asv_llr.numpy(), fused.cm_llr.numpy()
    reasons = reason_words(decision, *llrs, costs).tolist()
    known = [name for name in ("speaker", "utterance", "attack", "label") if name in table]
    frame = table.frame.select(*known, "asv_score", "cm_score").with_columns(
        pl.Series("asv_llr", llrs[0]),
        pl.Series("cm_llr", llrs[1]),
        pl.Series("score", score.numpy()),
        pl.lit(threshold).alias("threshold"),
        pl.Series("decision", np.where(decision, "accept", "reject").tolist()),
        pl.Series("reason", reasons),
    )
    return Decisions(frame, policy_result(fused, table, costs, policy))


def fuse_table(table: ScoreTable, system: FusionSystem) -> FusedScores:
    """LLRs and fused scores of a table."""
    table.need(["asv_score", "cm_score"], "a decision")
    return system(table.numbers("asv_score"), table.numbers("cm_score"))


def policy_result(
    fused: FusedScores, table: ScoreTable, costs: CostModel, policy: str
) -> PolicyResult:
    """Expected and actual cost of a policy."""
    decision = accept(fused, costs, policy)
    risks = expected_cost(fused, costs, policy)
    accepted, expected = float(decision.double().mean()), float(risks.mean())
    if "label" not in table or table.has_cm_labels:
        return PolicyResult(accepted, expected, None, None)
    labels = torch.from_numpy(table.labels())
    try:
        actual = empirical_cost(decision, labels, costs)
    except InputError as error:
        raise InputError(
            f"{table.path}: {error}; give some, or costs without weight on that class"
        ) from None
    return PolicyResult(accepted, expected, _risk_at_priors(risks, labels, costs), actual)


def _risk_at_priors(risks: torch.Tensor, labels: torch.Tensor, costs: CostModel) -> float | None:
    """Mean risk with each class at its prior; ``None`` where a class with a prior has no trials."""
    priors = {
        TrialClass.TARGET: costs.p_target,
        TrialClass.NONTARGET: costs.p_nontarget,
        TrialClass.SPOOF: costs.p_spoof,
    }
    means = [p * float(risks[labels == int(code)].mean()) for code, p in priors.items() if p > 0]
    total = math.fsum(means)
    return None if math.isnan(total) else total


def compare_all(
    table: ScoreTable, systems: dict[str, FusionSystem], costs: CostModel
) -> dict[str, dict[str, PolicyResult]]:
    """Every policy of every system on the same trials."""
    found = {}
    for name, system in systems.items():
        fused = fuse_table(table, system)
        found[name] = {policy: policy_result(fused, table, costs, policy) for policy in POLICIES}
    return found
