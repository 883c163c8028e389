"""Draws of an evaluation: one set of replicates for its intervals, differences and verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from lightning_sasv.console import Begin
from lightning_sasv.errors import InputError
from lightning_sasv.evaluation.systems import THRESHOLD, Systems
from lightning_sasv.metrics.bootstrap import drawn_words, resample
from lightning_sasv.metrics.comparisons import PRIMARY, Comparison, choose_reference, compare
from lightning_sasv.metrics.families import Adjust, replicates_needed
from lightning_sasv.metrics.functional import Settings, sasv_eers
from lightning_sasv.metrics.intervals import (
    FEWEST_SPEAKERS,
    Interval,
    Method,
    Resampled,
    cautions,
    check_replicates,
)
from lightning_sasv.metrics.registry import METRICS, NO_LLR, ON_PAGE, metrics_for, resampled
from lightning_sasv.metrics.speakers import Concentration, SpeakerErrors, concentration, zoo
from lightning_sasv.metrics_file import Metrics, of_in, values_in
from lightning_sasv.record import named_costs
from lightning_sasv.results import metrics_beside, value_of
from lightning_sasv.trials import TrialClass

LARGE = 300_000
"""Trials of which intervals take long: they are made if asked for."""


UNKNOWN = "no intervals: speakers are not known (no column speaker); --ci trial draws trials"


@dataclass(frozen=True)
class Options:
    """What is wanted of an evaluation: the parameters of :func:`.run.evaluate`, read."""

    settings: Settings = field(default_factory=Settings)
    by: tuple[str, ...] = ()
    ci: str | None = None
    replicates: int = 1000
    seed: int = 0
    compare: bool = False
    reference: str | None = None
    pairs: str | None = None
    adjust: Adjust = "holm"
    interval: Method | None = None
    systems: tuple[str, ...] | None = None
    allow_missing: bool = False
    llrs: bool = False
    weights: str | None = None
    dev: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


class Attack(NamedTuple):
    """One attack against one system.

    Attributes:
        spoofs: Trials.
        accepted: Share of them accepted at the threshold of the SASV-EER of all trials.
        spf_eer: Interval of their SPF-EER, where there are intervals.
    """

    spoofs: int
    accepted: float
    spf_eer: Interval | None = None


@dataclass(frozen=True)
class Draws:
    """The replicates, and what there is to say of them.

    Attributes:
        wanted: What was asked for.
        drawn: What was drawn: ``speaker``, ``impostor``, ``attack``; or ``trial``.
        replicates: How many replicates there are.
        systems: Replicates by system and metric; empty where nothing was drawn.
        misses: Whose misses they are, by system.
        notes: What must be said.
        dev: Metrics of the systems on dev, where they are known: the best there is the reference.
        speakers: How many enrolled speakers there are; none where trials were drawn.
    """

    wanted: Options
    drawn: tuple[str, ...] = ()
    replicates: int = 0
    systems: Mapping[str, Mapping[str, Resampled]] = field(default_factory=dict)
    misses: Mapping[str, Concentration] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    dev: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    speakers: int | None = None

    @property
    def intervals(self) -> dict[str, dict[str, Interval]]:
        """Intervals by system and metric; none where draws are for comparisons alone."""
        unasked = self.wanted.ci in (None, "known") and self.drawn == ("trial",)
        if unasked or self.wanted.ci == "none":
            return {}
        return {
            name: {metric: one.interval(method=self.wanted.interval) for metric, one in own.items()}
            for name, own in self.systems.items()
        }

    @property
    def caption(self) -> str:
        """What was drawn, in words."""
        of = f" of {self.speakers} speakers" if self.speakers else ""
        return f"drawn: {drawn_words(self.drawn)}, {self.replicates} replicates{of}"

    def plain(self, one: Interval) -> dict[str, Any]:
        """An interval as results files have it."""
        return {**one._asdict(), "drawn": list(self.drawn), "seed": self.wanted.seed}

    def comparisons(self) -> list[Comparison]:
        """Differences of the systems in each metric that is compared; one family for each."""
        if not self.wanted.compare:
            return []
        found = []
        for metric in compared_metrics():
            systems = {name: [own[metric]] for name, own in self.systems.items() if metric in own}
            if len(systems) > 1:
                reference = self.reference(metric)[1]
                how = self.wanted.adjust, self.drawn
                found += compare(metric, systems, reference, *how)
        return found

    def reference(self, metric: str) -> tuple[str, str | None]:
        """The system that others are seen against, and against which they are tested, if any."""
        sign = -1 if METRICS[metric].lower_is_better is False else 1
        own = {name: found[metric] for name, found in self.systems.items() if metric in found}
        here = {name: sign * one.value for name, one in own.items()}
        given = self.wanted.reference if self.wanted.reference in here else None
        dev = {name: sign * self.dev.get(name, {}).get(metric, math.nan) for name in here}
        known = None if any(map(math.isnan, dev.values())) else dev
        name, chosen_here = choose_reference(list(here), given, known, here)
        return name, None if chosen_here or self.wanted.pairs == "all" else name


def compared_metrics() -> list[str]:
    """Names of the metrics that are compared, the one that decides first."""
    names = [metric.name for metric in metrics_for("compared")]
    return sorted(names, key=lambda name: name != PRIMARY)


def draw(scored: Systems, wanted: Options, begin: Begin | None = None) -> Draws:
    """Draw the replicates that intervals and comparisons need.

    Args:
        scored: The systems on their trials.
        wanted: What is drawn, and what for.
        begin: Told of long work, for a progress bar.
    """
    way = "known" if wanted.ci in (None, "none") else str(wanted.ci)
    drawn, compares = scored.drawn(way), wanted.compare and len(scored.columns) > 1
    check_reference(list(scored.columns), wanted)
    if wanted.ci == "none" and not compares:
        return Draws(wanted)
    if wanted.ci is None and drawn == ("trial",) and not compares:
        return Draws(wanted, notes=(UNKNOWN,))
    if wanted.ci is None and not compares and scored.labels.size > LARGE:
        return Draws(wanted, notes=(f"no intervals of {scored.labels.size:,} trials unless --ci",))
    check_replicates(wanted.replicates)
    notes = _notes(scored, way, drawn)
    speakers = _speakers(scored) if drawn != ("trial",) else None
    few = speakers is not None and speakers < FEWEST_SPEAKERS
    own = _own_values(scored, wanted.settings) if few else []
    if few and not compares:
        return Draws(wanted, notes=(*cautions(wanted.replicates, speakers)[-1:], *own))
    systems = len(scored.columns) if compares else 0
    number, raised = enough_replicates(systems, wanted, bool(scored.dev))
    found = resample(
        scored.columns,
        scored.labels,
        {name: _metrics(scored, name, wanted) for name in scored.columns},
        scored.clusters(way),
        number,
        seed=wanted.seed,
        settings=wanted.settings,
        progress=begin(f"bootstrap by {' × '.join(drawn)}", number) if begin else None,
        unpaired=scored.table.unpaired,
        balance=scored.balance(wanted.weights),
    )
    notes += [*raised, *cautions(number, speakers), *own, *([] if few else _alike(found))]
    misses = {} if speakers is None else _misses(scored, wanted.settings)
    if scored.dev and compares and wanted.reference is None and wanted.pairs != "all":
        by = "--dev" if wanted.dev else "the metrics.json beside them"
        notes.append(f"others are compared with the best on dev, by {by}")
    return Draws(wanted, drawn, number, found, misses, tuple(notes), scored.dev, speakers)


def _alike(found: Mapping[str, Mapping[str, Resampled]]) -> list[str]:
    """Metrics whose interval has no length, which says nothing of speakers that were not drawn."""
    lines = []
    for name, own in found.items():
        same = [
            METRICS[key].spoken for key, one in own.items() if np.unique(one.replicates).size == 1
        ]
        if same:
            lines.append(
                f"{name}: {', '.join(same)} the same in every replicate: such an interval says "
                "nothing of others"
            )
    return lines


def draw_attacks(scored: Systems, draws: Draws) -> dict[str, dict[str, Attack]]:
    """What each attack does to each system with a fused score, in the draws of speakers.

    Args:
        scored: The systems on their trials, with a column ``attack``.
        draws: Its intervals are the wish for those of the attacks, which draw enrolled speakers.
    """
    attacks, wanted = scored.column("attack", "--by attack"), draws.wanted
    target, spoof = (scored.labels == kind for kind in (TrialClass.TARGET, TrialClass.SPOOF))
    systems = {name: own["sasv"] for name, own in scored.columns.items() if "sasv" in own}
    found: dict[str, dict[str, Attack]] = {name: {} for name in systems}
    if not target.any() or not (scored.labels == TrialClass.NONTARGET).any():
        return found
    at = {
        name: sasv_eers(column, scored.labels, convention=wanted.settings.convention).sasv_threshold
        for name, column in systems.items()
    }
    for attack in np.unique(attacks[spoof]):
        own = spoof & (attacks == attack)
        drawn = systems and draws.intervals
        ends = _attack_ends(scored, draws, target | own, systems) if drawn else {}
        for name, column in systems.items():
            accepted = float(np.mean(column[own] > at[name]))
            found[name][str(attack)] = Attack(int(own.sum()), accepted, ends.get(name))
    return found


def _attack_ends(
    scored: Systems, draws: Draws, chosen: np.ndarray, systems: Mapping[str, np.ndarray]
) -> dict[str, Interval]:
    """Intervals of the SPF-EER of some trials; the speakers of each replicate are those of all."""
    clusters = None if draws.drawn == ("trial",) else scored.column("speaker", "intervals")[chosen]
    found = resample(
        {name: {"sasv": column[chosen]} for name, column in systems.items()},
        scored.labels[chosen],
        dict.fromkeys(systems, ("spf_eer",)),
        clusters,
        draws.replicates,
        seed=draws.wanted.seed,
        settings=draws.wanted.settings,
    )
    method = draws.wanted.interval
    return {name: own["spf_eer"].interval(method=method) for name, own in found.items()}


def check_reference(systems: Sequence[str], wanted: Options) -> None:
    """Refuse a reference that is no system, or beside all pairs."""
    if wanted.reference is None:
        return
    if wanted.pairs == "all":
        raise InputError("--reference and --pairs all are two families; give one of them")
    choose_reference(systems, wanted.reference, None, {})


def with_folder(scored: Systems, wanted: Options) -> Systems:
    """The systems with what the folder of results of their scores says of them, if any does."""
    beside = metrics_beside(scored.table)
    reasons = (
        (name, one.get("undefined", {}))
        for name, entry in beside.items()
        for one in entry["sets"].values()
    )
    no_llrs = frozenset(name for name, why in reasons if why.get("act_a_dcf") == NO_LLR)
    return replace(scored, dev=_on_dev(scored, wanted, beside), no_llrs=no_llrs)


def _on_dev(scored: Systems, wanted: Options, beside: Metrics) -> dict[str, Mapping[str, float]]:
    """Metrics of the systems on dev: those given, or by the folder of results of the scores.

    None where a fused score is not known there. A threshold at other costs is not taken.
    """
    fused = [name for name, columns in scored.columns.items() if "sasv" in columns]
    if wanted.dev:
        return _given_on_dev(wanted.dev, fused)
    found = beside if scored.table.path.stem != "dev" else {}
    values = {name: values_in(found.get(name, {}), "dev") for name in scored.columns}
    if not fused or not all(values[name] for name in fused):
        return {}
    costs = named_costs(wanted.settings.costs)
    same = {name: of_in(found[name], "dev")["costs"] == costs for name in fused}
    return {
        name: {key: value_of(own, key) for key in own if same.get(name) or key != THRESHOLD}
        for name, own in values.items()
    }


def _given_on_dev(
    dev: Mapping[str, Mapping[str, float]], fused: Sequence[str]
) -> dict[str, Mapping[str, float]]:
    """What ``--dev`` says of each system; a single one needs no name."""
    if len(dev) == len(fused) == 1:
        return {fused[0]: next(iter(dev.values()))}
    if lacking := [name for name in fused if THRESHOLD not in dev.get(name, {})]:
        raise InputError(
            f"--dev: no fused score of {lacking[0]} among {', '.join(dev)}; name its file "
            f"{lacking[0]}=FILE"
        )
    return {name: dev[name] for name in fused}


def _speakers(scored: Systems) -> int:
    return len(set(scored.column("speaker", "intervals").tolist()))


def _notes(scored: Systems, way: str, drawn: Sequence[str]) -> list[str]:
    if way != "known":
        return []
    if drawn == ("trial",):
        return ["speakers are not known (no column speaker): trials are drawn"]
    if "impostor" in drawn or TrialClass.NONTARGET not in scored.labels:
        return []
    return ["impostors are not known (no column test_speaker): intervals leave them out"]


def _own_values(scored: Systems, settings: Settings) -> list[str]:
    """What few speakers have in place of an interval: the value of each, or how to see it."""
    entry, lines = METRICS[PRIMARY], []
    for name, found in errors_of_speakers(scored, settings).items():
        own = ", ".join(f"{one.speaker} {entry.text(one.eer, ON_PAGE)}" for one in found.values())
        lines.append(f"{entry.title()} of each speaker, {name}: {own}")
    return lines or ["--by speaker shows their own values"]


def errors_of_speakers(scored: Systems, settings: Settings) -> dict[str, dict[str, SpeakerErrors]]:
    """Whose errors they are, by system with a fused score and by enrolled speaker.

    Nothing where a class of trials is lacking.
    """
    if set(scored.labels.tolist()) != {0, 1, 2}:
        return {}
    names = scored.column("speaker", "intervals")
    return {
        name: {
            one.speaker: one
            for one in zoo(columns["sasv"], scored.labels, names, settings=settings)
        }
        for name, columns in scored.columns.items()
        if "sasv" in columns
    }


def _misses(scored: Systems, settings: Settings) -> dict[str, Concentration]:
    found = errors_of_speakers(scored, settings)
    return {name: concentration([*own.values()]) for name, own in found.items()}


def enough_replicates(systems: int, wanted: Options, dev: bool = False) -> tuple[int, list[str]]:
    """How many replicates are drawn: enough for Holm over the compared systems to reject at all.

    Args:
        systems: How many systems are compared; 0 where none are.
        wanted: What is wanted; it may ask for more.
        dev: Whether the best on dev is the reference.
    """
    one_reference = (wanted.reference is not None or dev) and wanted.pairs != "all"
    family = systems - 1 if one_reference else math.comb(systems, 2)
    needed = replicates_needed(family) if systems > 1 and wanted.adjust == "holm" else 0
    if needed <= wanted.replicates:
        return wanted.replicates, []
    return needed, [f"{needed} replicates: with fewer, Holm over {family} pairs could not reject"]


def _metrics(scored: Systems, name: str, wanted: Options) -> list[str]:
    """Metrics that the columns of a system allow and that are wanted."""
    main = {*compared_metrics(), "act_a_dcf"}
    every = wanted.ci not in (None, "none")
    return [
        metric
        for metric, needed in resampled(wanted.llrs).items()
        if set(needed) <= scored.columns[name].keys()
        and (every or metric in main)
        and not (metric == "act_a_dcf" and name in scored.no_llrs)
    ]
