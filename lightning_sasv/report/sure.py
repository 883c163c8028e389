"""How sure the values of a report are: one set of draws for its intervals, marks and differences.

The systems of a page are drawn alike, by what is known of speakers, impostors and attacks; those of
a table in all its training seeds. Every system is compared with the best on dev (Holm), with each
other where dev is not known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from lightning_sasv.checks import Floats
from lightning_sasv.decisions.costs import CostModel
from lightning_sasv.metrics.bootstrap import NOT_CLUSTERED, impostors, resample
from lightning_sasv.metrics.comparisons import (
    Comparison,
    choose_reference,
    compare,
    not_distinguishable,
)
from lightning_sasv.metrics.families import replicates_needed
from lightning_sasv.metrics.intervals import FEWEST_SPEAKERS, cautions, over_seeds
from lightning_sasv.metrics.registry import Settings
from lightning_sasv.metrics_file import Metrics, of_in, values_in
from lightning_sasv.record import Of
from lightning_sasv.results import value_of
from lightning_sasv.trials import Scores

DRAWN = ("sasv_eer", "cllr", "min_a_dcf")
"""Metrics that have intervals in reports and tables, the one that decides first."""
SPOKEN = {"speaker": "enrolled speakers", "impostor": "impostors", "attack": "attacks"}

Ends = Mapping[str, Any]
"""An interval as ``metrics.json`` has it."""


@dataclass(frozen=True)
class Sure:
    """What there is to say of how sure values are.

    Attributes:
        intervals: By system and metric.
        comparisons: Differences to the reference, or of all pairs.
        reference: By metric the system that others are compared with.
        on_dev: Whether that is the best on dev; else the best on these very trials.
        notes: What must be said.
    """

    intervals: Mapping[str, Mapping[str, Ends]] = field(default_factory=dict)
    comparisons: Sequence[Comparison] = ()
    reference: Mapping[str, str] = field(default_factory=dict)
    on_dev: bool = False
    notes: Sequence[str] = ()

    def against(self, metric: str) -> list[Comparison]:
        """Comparisons of a metric with its reference."""
        best = self.reference.get(metric)
        own = [one for one in self.comparisons if one.metric == metric]
        return [one for one in own if best in (one.first, one.second)]

    def alike(self, metric: str) -> list[str]:
        """The reference, and what is not distinguishable from it."""
        found = self.against(metric)
        if not found:
            return []
        best = self.reference[metric]
        return [best, *not_distinguishable(found, best)]

    def apart(self, metric: str) -> list[str]:
        """Systems that are told apart from the reference."""
        near = set(self.alike(metric))
        pairs = {name for one in self.against(metric) for name in (one.first, one.second)}
        return sorted(pairs - near)

    def lower(self, metric: str) -> list[str]:
        """Systems that are told apart from the reference and are lower."""
        found = [one for one in self.against(metric) if one.apart]
        low = {one.first if one.difference < 0 else one.second for one in found}
        return sorted(low - {self.reference.get(metric)})

    def marked(self, metric: str) -> list[str]:
        """Systems to mark: all that may be the best, where others are told apart from them."""
        found = self.apart(metric)
        return self.alike(metric) if found and not self.lower(metric) else []

    @property
    def caption(self) -> str:
        """What was drawn, in words."""
        every = [ends for own in self.intervals.values() for ends in own.values()]
        return how(every[0]) if every else ""


def how(ends: Ends) -> str:
    """How an interval was found, in words.

    Example:
        >>> how({"method": "bca", "drawn": ["seed", "speaker"], "replicates": 1000})
        'BCa, drawn: seeds × enrolled speakers, 1000 replicates'
    """
    method = {"bca": "BCa"}.get(str(ends.get("method")), str(ends.get("method")))
    by = " × ".join(SPOKEN.get(str(name), f"{name}s") for name in ends.get("drawn") or ())
    return f"{method}, drawn: {by}, {ends.get('replicates')} replicates"


def settings_of(of: Of) -> Settings | None:
    """Costs and convention of results; nothing where they are not recorded."""
    costs, convention = of["costs"], of["eer_convention"]
    fields = asdict(CostModel())
    if not isinstance(costs, Mapping) or not fields.keys() <= costs.keys():
        return None
    return Settings(CostModel(**{name: costs[name] for name in fields}), convention=convention)


def factors(scores: Scores) -> dict[str, np.ndarray]:
    """What is known and can be drawn: enrolled speakers, impostors, attacks of each trial."""
    found = {"speaker": scores.speaker, "attack": scores.attack}
    test = scores.extra.get("test_speaker", scores.extra.get("real_speaker"))
    found["impostor"] = None if test is None else impostors(scores.label, test)
    order = {name: found[name] for name in SPOKEN}
    known = {name: column for name, column in order.items() if column is not None}
    return {n: c for n, c in known.items() if (c.astype(str) != NOT_CLUSTERED).any()}


def sureness(
    seeds: Sequence[Mapping[str, Floats]], scores: Scores, metrics: Metrics, split: str, n: int
) -> Sure:
    """Draw the systems of a report or of a table.

    Args:
        seeds: Fused scores by system, of each training seed.
        scores: The trials.
        metrics: Values of the systems; those on dev choose the reference.
        split: The set of the trials.
        n: Replicates at least; 0 for none.
    """
    drawn = factors(scores)
    if n < 1 or "speaker" not in drawn:
        return Sure(notes=[] if n < 1 else ["Speakers are not known: no intervals."])
    speakers = len(np.unique(drawn["speaker"]))
    if speakers < FEWEST_SPEAKERS:
        return Sure(notes=[f"No intervals: {speakers} speakers are too few."])
    names = list(seeds[0])
    how = settings_of(of_in(metrics.get(names[0], {}), split))
    wanted = DRAWN if how is not None else DRAWN[:2]
    found = _references(metrics, names, wanted, split)
    family = len(names) - 1 if found.on_dev else math.comb(len(names), 2)
    n = max(n, replicates_needed(family)) if family else n
    columns = {(name, k): {"sasv": own[name]} for k, own in enumerate(seeds) for name in names}
    draws = resample(
        {f"{k} {name}": column for (name, k), column in columns.items()},
        scores.label,
        {f"{k} {name}": wanted for name, k in columns},
        tuple(drawn.values()),
        n,
        settings=how or Settings(),
    )
    words = [*(["seed"] if len(seeds) > 1 else []), *drawn]
    noted = cautions(n, speakers)
    intervals: dict[str, dict[str, Ends]] = {name: {} for name in names}
    comparisons = []
    for metric in wanted:
        systems = {
            name: [draws[f"{k} {name}"][metric] for k in range(len(seeds))]
            for name in names
            if all(metric in draws[f"{k} {name}"] for k in range(len(seeds)))
        }
        for name, own in systems.items():
            ends = over_seeds(own).interval()
            if len(seeds) != 2 and math.isfinite(ends.low):  # of two seeds both values say more
                intervals[name][metric] = {**ends._asdict(), "drawn": words, "seed": 0}
        if len(systems) > 1:
            best = found.reference[metric] if found.on_dev else None
            comparisons += compare(metric, systems, best, drawn=tuple(words))
    return Sure(intervals, comparisons, found.reference, found.on_dev, noted)


def _references(metrics: Metrics, names: Sequence[str], wanted: Sequence[str], split: str) -> Sure:
    """The reference of each metric, and whether dev chose it."""
    found = {}
    chosen_on = "dev" if split != "dev" else None
    for metric in wanted:
        here, dev = (
            {name: value_of(values_in(metrics.get(name, {}), one or ""), metric) for name in names}
            for one in (split, chosen_on)
        )
        known = None if any(map(math.isnan, dev.values())) else dev
        found[metric], on_trials = choose_reference(names, None, known, here)
        if on_trials:
            chosen_on = None
    return Sure(reference=found, on_dev=chosen_on is not None)
