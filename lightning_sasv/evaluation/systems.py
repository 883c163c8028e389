"""Systems that were scored on the same trials, and their metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from lightning_sasv.errors import InputError, check_name
from lightning_sasv.metrics.bootstrap import FACTORS, factors
from lightning_sasv.metrics.functional import Settings, by_group
from lightning_sasv.metrics.functional.dcf import macro_a_dcf
from lightning_sasv.metrics.registry import Balance, explained_metrics
from lightning_sasv.record import Trials
from lightning_sasv.scores import ScoreTable
from lightning_sasv.scores.join import join_key
from lightning_sasv.scores.layouts import SCORES
from lightning_sasv.trials import TrialClass, claimed_speakers

PAIR = "asv+cm"
"""Name of the pair of scores in a table that has several fused scores."""

THRESHOLD = "a_dcf_threshold"
"""What is taken from dev for the a-DCF at its threshold."""

WAYS = {
    "known": tuple(FACTORS),
    "speaker": ("speaker",),
    "speaker-attack": ("speaker", "attack"),
    "trial": (),
}
"""What a bootstrap draws with replacement; ``known`` draws of these what is known."""

OF_ATTACKS = ("attack", "attack_tag")
"""Columns that say something of attacks alone: all bona fide trials belong to each value."""
TEST_SPEAKER = ("test_speaker", "real_speaker")
"""Columns that say who speaks in the test utterance."""

Columns = dict[str, np.ndarray]
"""Scores of one system of each trial: ``sasv``, ``asv``, ``cm``, as far as it has them."""


@dataclass(frozen=True)
class Systems:
    """Systems on the trials that all of them scored.

    Attributes:
        table: The trials with their labels.
        labels: ``TrialClass`` codes; bona fide speech of unknown speaker counts as target, which
            is right for countermeasures' metrics, and only these are computed then.
        columns: The scores of each system, by name.
        notes: What was left out.
        dev: Metrics of the systems on dev, where they are known.
        no_llrs: Systems whose fused score is known to be no log-likelihood ratio.
    """

    table: ScoreTable
    labels: np.ndarray
    columns: dict[str, Columns]
    notes: tuple[str, ...] = ()
    dev: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    no_llrs: frozenset[str] = frozenset()

    def settings_of(self, name: str, settings: Settings) -> Settings:
        """Settings with what is known of a system: its threshold on dev, that it gives no LLRs."""
        at = self.dev.get(name, {}).get(THRESHOLD, math.nan)
        how = settings if math.isnan(at) else replace(settings, dev_threshold=at)
        return replace(how, not_llr=True) if name in self.no_llrs else how

    def column(self, name: str, what: str) -> np.ndarray:
        """A column of text, e.g. the speaker of each trial."""
        self.table.need([name], what)
        found = self.table.text(name)
        return np.array(claimed_speakers(found.tolist())) if name == "speaker" else found

    def drawn(self, way: str) -> tuple[str, ...]:
        """What a way of drawing draws: ``speaker``, ``impostor``, ``attack``; or ``trial``."""
        if way not in WAYS:
            raise InputError(f"--ci must be one of {', '.join(WAYS)}, got {way!r}")
        if way != "known":
            return WAYS[way] or ("trial",)
        names = tuple(self._factors)
        return names if "speaker" in names else ("trial",)

    def clusters(self, way: str) -> tuple[np.ndarray, ...] | None:
        """Clusters of each trial, a column for each thing that is drawn; nothing for trials."""
        names = self.drawn(way)
        if names == ("trial",):
            return None
        if way == "known":
            return tuple(self._factors.values())
        return tuple(self.column(name, f"--ci {way}") for name in names)

    @cached_property
    def _factors(self) -> dict[str, np.ndarray]:
        """What is known and can be drawn."""
        columns = (("speaker",), TEST_SPEAKER, ("attack",))
        there = [[name for name in names if name in self.table] for names in columns]
        known = (self.column(own[0], "intervals") if own else None for own in there)
        return factors(self.labels, *known)

    def counts(self) -> dict[str, int]:
        """Trials of each label."""
        words = self.table.frame["label"].value_counts(sort=True)
        return {str(word): int(count) for word, count in words.iter_rows()}

    def metrics(
        self, settings: Settings, llrs: bool = False, weights: str | None = None
    ) -> dict[str, dict[str, float]]:
        """Every metric that columns and classes allow, by system; NaN where a class has no trials.

        Args:
            settings: Costs and conventions.
            llrs: Whether ASV and CM scores are log-likelihood ratios; adds the cross-entropy.
            weights: Column whose values count the same in each class.

        Raises:
            InputError: No metric at all of a system is defined.
        """
        balance = self.balance(weights)
        balanced = None if balance is None else balance.weights()
        found = {}
        for name, columns in self.columns.items():
            found[name] = explained_metrics(
                *(columns, self.labels, self.settings_of(name, settings)),
                llrs=llrs, allow_missing=True, unpaired=self.table.unpaired, weights=balanced,
            ).values  # fmt: skip
            if all(math.isnan(value) for value in found[name].values()):
                counts = ", ".join(f"{count} {label}" for label, count in self.counts().items())
                raise InputError(
                    f"{self.table.path}: no metric of {name} is defined on these trials "
                    f"({counts}); give trials of every class"
                )
        return found

    def balance(self, column: str | None) -> Balance | None:
        """What makes the values of a column count the same in each class, where one is given."""
        return Balance.of(self.column(column, "--weights"), self.labels) if column else None

    def macro(self, column: str, settings: Settings) -> dict[str, dict[str, float]]:
        """Macro a-DCF of each fused score over the parts that a column says.

        All bona fide trials belong to each attack.
        """
        parts, attacks = self.column(column, "--macro"), column in OF_ATTACKS
        shared = (self.labels != TrialClass.SPOOF) if attacks else np.zeros(len(parts), np.bool_)
        rows = [np.flatnonzero(shared | (parts == part)) for part in np.unique(parts[~shared])]
        found = {}
        for name, columns in self.columns.items():
            if "sasv" in columns:
                cost = macro_a_dcf(
                    [(columns["sasv"][part], self.labels[part]) for part in rows], settings.costs
                )
                found[name] = {"macro_a_dcf": cost.mean, "common_a_dcf": cost.common}
        if not found:
            raise InputError(f"{self.table.path}: --macro needs SASV scores; give sasv=FILE")
        return found

    def breakdown(
        self, column: str, settings: Settings, llrs: bool = False
    ) -> dict[str, dict[str, dict[str, float]]]:
        """The same by system and by the values of a column; all bona fide trials join an attack."""
        groups, attacks = self.column(column, f"--by {column}"), column in OF_ATTACKS
        how: dict[str, Any] = {"attacks": attacks, "llrs": llrs, "unpaired": self.table.unpaired}
        found = {}
        for name, columns in self.columns.items():
            own = {**how, **columns, "settings": self.settings_of(name, settings)}
            found[name] = by_group(groups, self.labels, **own)
        return found

    def lacking(self, column: str) -> list[str]:
        """Which classes groups lack, so that some of their metrics are undefined."""
        if column in OF_ATTACKS:
            return []
        groups, notes = self.column(column, f"--by {column}"), []
        names = set(groups.tolist())
        for code in TrialClass:
            there = self.labels == code
            without = sorted(names - set(groups[there].tolist())) if there.any() else []
            if without:
                shown = ", ".join(without[:3]) + (", …" if len(without) > 3 else "")
                notes.append(
                    f"--by {column}: {len(without)} of {len(names)} groups have no {code} trial "
                    f"({shown}): metrics that need one are undefined there"
                )
        return notes


def gather(
    tables: Mapping[str, ScoreTable],
    allow_missing: bool = False,
    only: Sequence[str] | None = None,
) -> Systems:
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
        base = joined[names[0]].without_scores()
        found = join_key(tables[name], base, allow_missing)
        if found.extra and not allow_missing:
            join_key(base, tables[name])  # raises and names the trials that the first table lacks
        if found.missing:
            joined = {
                one: table.take(found.rows).part_of(table, "--allow-missing")
                for one, table in joined.items()
            }
        joined[name] = found.table
        notes += found.notes
    trials = joined[names[0]]
    trials.need(["label"], "a metric (or give --key)")
    systems: dict[str, Columns] = {}
    for name, table in joined.items():
        systems |= _systems(name, table, len(joined) > 1)
    systems, dropped = _usable(systems, trials)
    notes += [note for table in joined.values() for note in _not_evaluated(table)]
    notes += [*dropped, *_pooled_subsets(trials)]
    return Systems(trials, Trials(trials).labels, _chosen(systems, only), tuple(notes))


def _not_evaluated(table: ScoreTable) -> list[str]:
    """A word on columns of numbers that are no scores by their names, but may be."""
    own = ("asv_score_", "cm_score_", "quality_")  # of a system's own network; measures
    found = [
        name
        for name, kind in table.frame.schema.items()
        if kind.is_float() and name not in table.score_columns and not name.startswith(own)
    ]
    if not found:
        return []
    shown = ", ".join(found[:6]) + (", …" if len(found) > 6 else "")
    return [f"{table.path}: numbers that are not evaluated: {shown}; --columns names other scores"]


def _pooled_subsets(table: ScoreTable) -> list[str]:
    """A word on keys whose subsets are usually evaluated one by one."""
    subsets = sorted(table.frame["subset"].unique().to_list()) if "subset" in table else []
    if len(subsets) < 2:
        return []
    return [f"subsets {', '.join(subsets)} are pooled; --where subset={subsets[0]} keeps one"]


def _systems(file: str, table: ScoreTable, several: bool) -> dict[str, Columns]:
    """The systems of one table: each fused score, and the pair of scores behind them."""
    scores = table.score_columns
    if not scores:
        maybe = [name for name, kind in table.frame.schema.items() if kind.is_float()]
        named = ("score" if name in maybe[:1] else name for name in table.frame.columns)
        hint = f"; {maybe[0]} may be one: --columns '{','.join(named)}', with --negate ROLE " \
            "where high scores speak for spoofs" if maybe else ""  # fmt: skip
        raise InputError(
            f"{table.where()}: no scores among {', '.join(table.frame.columns)}; expected "
            f"{', '.join(SCORES)} or sasv_<system>{hint}"
        )
    fused = [name for name in scores if name.startswith("sasv_")]
    roles = [role for role in ("asv", "cm") if f"{role}_score" in table]
    pair = {role: table.numbers(f"{role}_score") for role in roles}
    if len(fused) <= 1:  # named after its file, or after the system whose fused score it is
        of_file = several or not fused or fused[0] in SCORES
        name = file if of_file else fused[0].removeprefix("sasv_")
        return {name: pair | ({"sasv": table.numbers(fused[0])} if fused else {})}
    prefix = f"{file}:" if several else ""
    systems = {prefix + n.removeprefix("sasv_"): {"sasv": table.numbers(n)} for n in fused}
    return systems | ({prefix + PAIR: pair} if pair else {})


def _usable(systems: dict[str, Columns], table: ScoreTable) -> tuple[dict[str, Columns], list[str]]:
    """Without labels of verification trials only the countermeasure can be judged."""
    if not table.has_cm_labels or table.unpaired:
        return systems, []
    kept = {name: {"cm": own["cm"]} for name, own in systems.items() if "cm" in own}
    if not kept:
        raise InputError(
            f"{table.where()}: labels only say bonafide or spoof, which judges cm_score "
            "alone, and there is none; give a key of trials, or cm=FILE"
        )
    lost = len(kept) < len(systems) or any(len(own) > 1 for own in systems.values())
    note = "labels only say bonafide or spoof: ASV and SASV scores are not evaluated"
    return kept, [note] if lost else []


def _chosen(systems: dict[str, Columns], only: Sequence[str] | None) -> dict[str, Columns]:
    if only is None:
        return systems
    for name in only:
        check_name(name, systems, "--systems: no system")
    return {name: systems[name] for name in only}
