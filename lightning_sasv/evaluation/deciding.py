"""Decisions on a table of trials, each with the numbers that it rests on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Floats
from lightning_sasv.decisions import (
    POLICIES,
    CostModel,
    EmpiricalCost,
    abstain,
    compared,
    empirical_cost,
    expected_cost,
    reason_words,
)
from lightning_sasv.errors import InputError, check_name
from lightning_sasv.files import atomic_path
from lightning_sasv.scores import ScoreTable
from lightning_sasv.scores.columns import matrices, of_network, read_columns
from lightning_sasv.scores.reading import ReadingOptions, reading, takes_reading_options
from lightning_sasv.scores.sources import Tell, read_costs, read_key, silent
from lightning_sasv.scores.write import check_same
from lightning_sasv.trials import CLASS_ORDER, FusedScores

if TYPE_CHECKING:
    import polars as pl

    from lightning_sasv.fitted import FittedSystem
    from lightning_sasv.fusion.base import Fusion

Flags = NDArray[np.bool_]
Outside = Callable[[Floats], Flags]

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
        unsure: Share of trials on which nothing was decided.
    """

    accepted: float
    expected: float
    expected_at_priors: float | None
    actual: EmpiricalCost | None
    unsure: float = 0.0


@dataclass(frozen=True)
class Decisions:
    """Decisions of one system under one policy.

    Attributes:
        system: Name of the system.
        policy: The policy.
        frame: One row per trial: ids and labels as far as known, scores, LLRs, ``score``,
            ``threshold``, ``decision`` and ``reason``.
        results: What they cost by system and policy, others included where they were asked for.
        simulated: Whether the system was fitted on simulated trials.
    """

    system: str
    policy: str
    frame: pl.DataFrame
    results: dict[str, dict[str, PolicyResult]]
    simulated: bool = False

    @property
    def note(self) -> str | None:
        """What whoever uses the decisions must know."""
        if not self.simulated:
            return None
        return f"{self.system} was fitted on the twin, which is simulated: not for real speech"

    def write(self, path: str | Path) -> Path:
        """Write the decisions as CSV, atomically."""
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            file.write(f"# {self.note}\n".encode() if self.note else b"")
            self.frame.write_csv(file)
        return Path(path)


@takes_reading_options
def decide(
    file: str,
    fitted: str | None = None,
    system: str | None = None,
    costs: str = "a-dcf1",
    policy: Literal["bayes", "linear", "utility"] = "bayes",
    out: str = "decisions.csv",
    compare: bool = False,
    level: float | None = None,
    key: str | None = None,
    key_format: str | None = None,
    format: str | None = None,
    allow_missing: bool = False,
    overwrite: bool = False,
    *,
    tell: Tell = silent,
    **said: Unpack[ReadingOptions],
) -> Decisions:
    """Accept or reject each trial at given costs and priors; print expected and actual cost.

    With c_abstain among the costs, or with --level, the decision can also be unsure.

    Args:
        file: ASV and CM scores of any known format (docs/formats.md), or asv=FILE,cm=FILE.
        fitted: Folder of results with the fitted systems, from `lightning fuse --out` or `fit`.
        system: System that decides; by default L3t where it is there.
        costs: Costs and priors: equal, a-dcf1, asvspoof5, or a JSON or YAML file with c_miss,
            c_fa_nontarget, c_fa_spoof, p_target, p_nontarget, p_spoof and, if wanted, c_abstain.
        policy: Decision policy; bayes costs least where the LLRs are right.
        out: CSV file to write: LLRs, score, threshold, decision and reason of each trial.
        compare: Show every policy, of all fitted systems that give LLRs unless one is named.
        level: What the dev scores of the folder did not measure, at this level (0.01, say), is not
            accepted but unsure.
        key: Key with the labels, where the scores have none.
        key_format: Format of the key; recognised when not given.
        format: Format of the file; recognised when not given.
        allow_missing: Leave out trials without a score instead of stopping.
        overwrite: Replace OUT though it holds decisions on other scores, or something else.
        tell: Told how the files were read and what was left out.
        **said: What is said of the file, :class:`..scores.reading.ReadingOptions`.

    Returns:
        What was written, and what it costs.
    """
    from lightning_sasv.fitted import read_fitted_systems
    from lightning_sasv.fusion import warning_lines

    if fitted is None:
        raise InputError("--fitted DIR is needed: the folder that `lightning fuse --out DIR` wrote")
    model, systems = read_costs(costs, tell), read_fitted_systems(fitted)
    choose_system(systems, system)  # before the work of reading
    how = reading(format, allow_missing, **said)
    labels = read_key(key, key_format, how=how, tell=tell)
    table = read_columns(file, labels, how, tell)
    check_same(Path(out), table, overwrite, also=("decision", "reason"))
    able = {name: one.warnings for name, one in systems.items() if one.gives_llrs}
    chosen = [choose_system(systems, system)] if system or not compare else list(able)
    tell(warning_lines({name: able[name] for name in chosen}))
    chosen_one = systems[choose_system(systems, system)]
    measured = None if level is None else _measured(fitted, chosen_one, level, tell)
    decisions = decide_trials(table, systems, model, policy, system, compare, measured)
    tell([one for one in (decisions.note, model.idle_c_abstain) if one])
    decisions.write(out)
    return decisions


def preferred(systems: Mapping[str, Fusion], known: Sequence[str] = PREFERRED) -> str | None:
    """The first known one of the systems that give LLRs, else the first of them, if there is."""
    able = [name for name, system in systems.items() if system.gives_llrs]
    return next((name for name in (*known, *able) if name in able), None)


def choose_system(systems: Mapping[str, FittedSystem], name: str | None) -> str:
    """The system that decides: the named one, or the best known of those that give LLRs."""
    if name is None:
        if (found := preferred(systems)) is None:
            raise InputError(f"none of the fitted systems ({', '.join(systems)}) gives LLRs")
        return found
    check_name(name, systems, "--system: no fitted system")
    if not systems[name].gives_llrs:
        able = [one for one, system in systems.items() if system.gives_llrs]
        raise InputError(
            f"--system: {name} fuses scores that are no log-likelihood ratios, so costs and priors "
            f"say nothing about its threshold; choose one of {', '.join(able) or 'none'}"
        )
    return name


def decide_trials(
    table: ScoreTable,
    systems: Mapping[str, FittedSystem],
    costs: CostModel,
    policy: str = "bayes",
    name: str | None = None,
    compare: bool = False,
    outside: Outside | None = None,
) -> Decisions:
    """Accept or reject each trial.

    Args:
        table: Trials with ``asv_score`` and ``cm_score``; labels are used for the cost alone.
        systems: Fitted systems.
        costs: Costs and priors.
        policy: ``bayes``, ``linear`` or ``utility``.
        name: The system that decides; by default the best known of those that give LLRs.
        compare: Whether the costs of every policy are wanted, of all systems unless one is named.
        outside: Says of scores (columns, trials) which lie outside what dev measured.
    """
    import polars as pl

    chosen, given = choose_system(systems, name), table
    table, fused = of_network(given, chosen), fused_by(chosen, systems[chosen], given)
    score, threshold = compared(fused, costs, policy)
    far = _far(table, systems[chosen], outside)
    unsure = _undecided(fused, costs, policy, score > threshold, far)
    decision = (score > threshold) & ~unsure
    words = np.where(decision, "accept", np.where(unsure, "unsure", "reject"))
    known = [column for column in ("speaker", "utterance", "attack", "label") if column in table]
    frame = table.frame.select(*known, *systems[chosen].columns.names).with_columns(
        pl.Series("asv_llr", fused.asv_llr),
        pl.Series("cm_llr", fused.cm_llr),
        pl.Series("score", score),
        pl.lit(threshold).alias("threshold"),
        pl.Series("decision", words.tolist()),
        pl.Series("reason", reason_words(decision, fused.asv_llr, fused.cm_llr, costs).tolist()),
    )
    results = {chosen: {policy: policy_result(fused, table, costs, policy, far)}}
    if compare:
        able = {n: s for n, s in systems.items() if s.gives_llrs and name in (None, n)}
        all_fused = {n: fused_by(n, s, given) for n, s in able.items()}
        results = {
            n: {policy: policy_result(one, table, costs, policy, far) for policy in POLICIES}
            for n, one in all_fused.items()
        }
    return Decisions(chosen, policy, frame, results, systems[chosen].simulated)


def fused_by(name: str, system: FittedSystem, table: ScoreTable) -> FusedScores:
    """LLRs and fused scores of a table, from a system's own network where it has one."""
    table.need(system.columns.names, "a decision")
    fused = system(*matrices(of_network(table, name), system.columns.names))
    return FusedScores(*(np.asarray(column) for column in fused))


def _measured(fitted: str, system: FittedSystem, level: float, tell: Tell) -> Outside:
    """What lies outside of what the dev scores of a folder measured."""
    from lightning_sasv.fusion.conformal import measure, outside_in_words
    from lightning_sasv.results import scores_file
    from lightning_sasv.scores import read_table

    path = scores_file(Path(fitted), "dev")
    if not path.is_file():
        raise InputError(f"--level needs dev scores, and there are none at {path}")
    columns, table = system.columns.without_quality(), of_network(read_table(path), system.name)
    table.need([*columns.names, "label"], "--level")
    scores = np.stack([table.numbers(name) for name in columns.names])
    found = measure(scores, table.labels(), columns)
    if not found.least_level <= level < 1:
        raise InputError(
            f"--level must lie in [{found.least_level:.4g}, 1), the least possible one for the "
            f"smallest class of {path}; got {level:g}"
        )
    tell([f"unsure: would be accepted, but lies {outside_in_words(level)}"])
    return partial(found.outside, level=level)


def _far(table: ScoreTable, system: FittedSystem, outside: Outside | None) -> Flags:
    """Which trials lie outside what dev measured."""
    if outside is None:
        return np.zeros(len(table), dtype=bool)
    names = system.columns.without_quality().names
    return np.asarray(outside(np.stack([table.numbers(name) for name in names])))


def _undecided(
    fused: FusedScores, costs: CostModel, policy: str, positive: Flags, far: Flags
) -> Flags:
    """Where nothing is decided: outside and not rejected, or where that costs least (Bayes)."""
    nothing = abstain(fused, costs) if policy == "bayes" else np.zeros(len(far), dtype=bool)
    return np.asarray(nothing | (positive & far))


def policy_result(
    fused: FusedScores, table: ScoreTable, costs: CostModel, policy: str, far: Flags
) -> PolicyResult:
    """Expected and actual cost of a policy."""
    score, threshold = compared(fused, costs, policy)
    unsure = _undecided(fused, costs, policy, score > threshold, far)
    decision, risks = (score > threshold) & ~unsure, expected_cost(fused, costs, policy)
    accepted, expected = float(decision.mean()), float(risks.mean())
    share = float(unsure.mean())
    if "label" not in table or table.has_cm_labels:
        return PolicyResult(accepted, expected, None, None, share)
    labels = table.labels()
    try:
        actual = empirical_cost(decision, labels, costs, unsure)
    except InputError as error:
        raise InputError(
            f"{table.path}: {error}; give some, or costs without weight on that class"
        ) from None
    return PolicyResult(accepted, expected, _risk_at_priors(risks, labels, costs), actual, share)


def _risk_at_priors(risks: Any, labels: np.ndarray, costs: CostModel) -> float | None:
    """Mean risk with each class at its prior; ``None`` where a class with a prior has no trials."""
    priors = zip(CLASS_ORDER, costs.priors, strict=True)
    parts = [(prior, risks[labels == code]) for code, prior in priors if prior > 0]
    if not all(part.size for _, part in parts):
        return None
    return math.fsum(prior * float(part.mean()) for prior, part in parts)
