"""Systems that were scored on the same trials, and their metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lightning_sasv.errors import InputError
from lightning_sasv.metrics.functional import Settings, all_metrics, by_group
from lightning_sasv.scores import ScoreTable
from lightning_sasv.scores.join import join_key
from lightning_sasv.scores.layouts import SCORES
from lightning_sasv.trials import TrialClass

PAIR = "asv+cm"
"""Name of the pair of scores in a table that has several fused scores."""


@dataclass(frozen=True)
class System:
    """One system's scores.

    Attributes:
        name: What it is called.
        columns: Its scores of each trial: ``sasv``, ``asv``, ``cm``, as far as it has them.
    """

    name: str
    columns: dict[str, np.ndarray]


@dataclass(frozen=True)
class Trials:
    """What all systems share: the trials.

    Attributes:
        table: The trials with their labels.
        labels: ``TrialClass`` codes; bona fide speech of unknown speaker counts as target, which
            is right for countermeasures' metrics, and only these are computed then.
        cm_only: Whether labels only say bona fide or spoof.
    """

    table: ScoreTable
    labels: np.ndarray
    cm_only: bool

    def column(self, name: str, what: str) -> np.ndarray:
        """A column of text, e.g. the speaker of each trial."""
        self.table.need([name], what)
        return self.table.text(name)

    def counts(self) -> dict[str, int]:
        """Trials of each label."""
        words = self.table.frame["label"].value_counts(sort=True)
        return {str(word): int(count) for word, count in words.iter_rows()}


@dataclass(frozen=True)
class Evaluated:
    """Systems on the trials that all of them scored.

    Attributes:
        trials: The trials.
        systems: The systems.
        notes: What was left out.
    """

    trials: Trials
    systems: tuple[System, ...]
    notes: tuple[str, ...] = ()


def gather(
    tables: Mapping[str, ScoreTable],
    allow_missing: bool = False,
    only: Sequence[str] | None = None,
) -> Evaluated:
    """Put the systems of one or more tables on the same trials.

    Args:
        tables: Labelled tables by name. The trials of the first are the ones that count; the
            others are joined to them by trial id.
        allow_missing: Keep to the trials that all tables have, instead of raising.
        only: Names of systems to keep.
    """
    notes: list[str] = []
    names = list(tables)
    joined = {names[0]: tables[names[0]]}
    for name in names[1:]:
        base = next(iter(joined.values())).without_scores()
        found = join_key(tables[name], base, allow_missing)
        if found.extra and not allow_missing:
            join_key(base, tables[name])  # raises and names the trials that the first table lacks
        if found.missing:
            joined = {one: table.take(found.rows) for one, table in joined.items()}
        joined[name] = found.table
        notes += found.notes
    trials = _trials(next(iter(joined.values())))
    systems = [s for name, table in joined.items() for s in _systems(name, table, len(joined) > 1)]
    systems, dropped = _usable(systems, trials)
    return Evaluated(
        trials, tuple(_chosen(systems, only)), (*notes, *dropped, *_pooled(trials.table))
    )


def _pooled(table: ScoreTable) -> list[str]:
    """A word on keys whose subsets are usually evaluated one by one."""
    subsets = sorted(table.frame["subset"].unique().to_list()) if "subset" in table else []
    if len(subsets) < 2:
        return []
    return [f"subsets {', '.join(subsets)} are pooled; --where subset={subsets[0]} keeps one"]


def _trials(table: ScoreTable) -> Trials:
    table.need(["label"], "a metric (or give --key)")
    codes = table.frame["label"].to_physical().to_numpy().astype(np.int64)
    cm_only = table.has_cm_labels
    labels = np.where(codes == len(TrialClass), int(TrialClass.TARGET), codes)
    return Trials(table, labels, cm_only)


def _systems(file: str, table: ScoreTable, several: bool) -> list[System]:
    """The systems of one table: each fused score, and the pair of scores behind them."""
    scores = table.score_columns
    if not scores:
        raise InputError(
            f"{table.where()}: no scores among {', '.join(table.frame.columns)}; expected "
            f"{', '.join(SCORES)} or sasv_<system>"
        )
    fused = [name for name in scores if name.startswith("sasv_")]
    pair = {role: table.numbers(f"{role}_score") for role in ("asv", "cm") if _has(table, role)}
    if len(fused) <= 1:
        columns = pair | ({"sasv": table.numbers(fused[0])} if fused else {})
        return [System(_name(file, fused, several), columns)]
    prefix = f"{file}:" if several else ""
    systems = [
        System(prefix + name.removeprefix("sasv_"), {"sasv": table.numbers(name)}) for name in fused
    ]
    return systems + ([System(prefix + PAIR, pair)] if pair else [])


def _name(file: str, fused: Sequence[str], several: bool) -> str:
    """The file's name, or that of the system whose fused score is its only one."""
    if several or not fused or fused[0] in SCORES:
        return file
    return fused[0].removeprefix("sasv_")


def _has(table: ScoreTable, role: str) -> bool:
    return f"{role}_score" in table


def _usable(systems: Sequence[System], trials: Trials) -> tuple[list[System], list[str]]:
    """Without labels of verification trials only the countermeasure can be judged."""
    if not trials.cm_only:
        return list(systems), []
    kept = [replace(s, columns={"cm": s.columns["cm"]}) for s in systems if "cm" in s.columns]
    if not kept:
        raise InputError(
            f"{trials.table.where()}: labels only say bonafide or spoof, which judges cm_score "
            "alone, and there is none; give a key of trials, or cm=FILE"
        )
    lost = len(kept) < len(systems) or any(len(s.columns) > 1 for s in systems)
    note = "labels only say bonafide or spoof: ASV and SASV scores are not evaluated"
    return kept, [note] if lost else []


def _chosen(systems: Sequence[System], only: Sequence[str] | None) -> list[System]:
    if only is None:
        return list(systems)
    known = {system.name: system for system in systems}
    unknown = [name for name in only if name not in known]
    if unknown:
        raise InputError(f"--systems: no system {unknown[0]!r}; there are {', '.join(known)}")
    return [known[name] for name in only]


def metrics_of(
    system: System, trials: Trials, settings: Settings, llrs: bool = False
) -> dict[str, float]:
    """Every metric that the columns and classes allow; NaN where a class has no trials.

    Args:
        system: The system.
        trials: Its trials.
        settings: Costs and conventions.
        llrs: Whether ASV and CM scores are log-likelihood ratios; adds the cross-entropy.

    Raises:
        InputError: No metric at all is defined.
    """
    values = all_metrics(
        system.columns.get("asv"),
        system.columns.get("cm"),
        system.columns.get("sasv"),
        trials.labels,
        settings.costs,
        tandem_costs=settings.tandem_costs,
        convention=settings.convention,
        llrs=llrs,
        allow_missing=True,
    )
    if all(math.isnan(value) for value in values.values()):
        counts = ", ".join(f"{count} {label}" for label, count in trials.counts().items())
        raise InputError(
            f"{trials.table.path}: no metric of {system.name} is defined on these trials "
            f"({counts}); give trials of every class"
        )
    return values


def breakdown(
    system: System, trials: Trials, column: str, settings: Settings, llrs: bool = False
) -> dict[str, dict[str, float]]:
    """Every metric by the values of a column; attacks are each joined by all bona fide trials."""
    return by_group(
        trials.column(column, f"--by {column}"),
        trials.labels,
        asv=system.columns.get("asv"),
        cm=system.columns.get("cm"),
        sasv=system.columns.get("sasv"),
        attacks=column == "attack",
        costs=settings.costs,
        tandem_costs=settings.tandem_costs,
        convention=settings.convention,
        llrs=llrs,
    )
