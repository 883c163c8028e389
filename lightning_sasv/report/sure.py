"""How sure the values of a report are: one set of draws for its intervals, marks and differences.

The systems of a page are drawn alike, by what is known of speakers, impostors and attacks; those of
a table by speaker in all its training seeds. Every system is compared with the best on dev (Holm),
with each other where dev is not known. Letters are of all pairs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lightning_sasv.checks import Floats
from lightning_sasv.metrics.bootstrap import drawn_words
from lightning_sasv.metrics.comparisons import (
    Comparison,
    choose_reference,
    compare,
    letters_of,
    not_distinguishable,
)
from lightning_sasv.metrics.families import replicates_needed
from lightning_sasv.metrics.intervals import Resampled, cautions, over_seeds
from lightning_sasv.metrics_file import Metrics, of_in, values_in
from lightning_sasv.report.draws import DRAWN, Draws, draw, few_speakers, known_factors
from lightning_sasv.results import value_of
from lightning_sasv.trials import Scores

Ends = Mapping[str, Any]
"""An interval as ``metrics.json`` has it."""


@dataclass(frozen=True)
class Sure:
    """What there is to say of how sure values are.

    Attributes:
        intervals: By system and metric.
        comparisons: Differences to the reference, or of all pairs.
        of_speakers: The same with the training seeds held fast; none of one seed.
        reference: By metric the system that others are compared with.
        on_dev: Whether that is the best on dev; else the best on these very trials.
        letters: By metric compact letters of the systems from all pairs, where there are enough
            replicates for Holm over these.
        notes: What must be said.
    """

    intervals: Mapping[str, Mapping[str, Ends]] = field(default_factory=dict)
    comparisons: Sequence[Comparison] = ()
    of_speakers: Sequence[Comparison] = ()
    reference: Mapping[str, str] = field(default_factory=dict)
    on_dev: bool = False
    letters: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
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
        >>> drawn = {"drawn": ["seed", "speaker"], "seeds": 6, "speakers": 48}
        >>> how({"method": "bca", "replicates": 1000, **drawn})
        'BCa, drawn: seeds × enrolled speakers, 1000 replicates; 6 seeds, 48 speakers'
    """
    method = {"bca": "BCa"}.get(str(ends.get("method")), str(ends.get("method")))
    by = drawn_words(ends.get("drawn") or ())
    seeds = f"{ends['seeds']} seeds, " if ends.get("seeds", 1) != 1 else ""
    of = f"; {seeds}{ends['speakers']} speakers" if ends.get("speakers") else ""
    return f"{method}, drawn: {by}, {ends.get('replicates')} replicates{of}"


def sureness(
    fused: Mapping[str, Floats], scores: Scores, metrics: Metrics, split: str, n: int
) -> Sure:
    """Draw the systems of a report by all that is known of their trials.

    Args:
        fused: Fused scores by system.
        scores: The trials.
        metrics: Values of the systems; those on dev choose the reference.
        split: The set of the trials.
        n: Replicates at least; 0 for none.
    """
    if n < 1:
        return Sure()
    if few := few_speakers(scores):
        return Sure(notes=[few])
    names = list(fused)
    dev = all(values_in(metrics.get(name, {}), "dev") for name in names) and split != "dev"
    family = _family(len(names), dev)
    n = max(n, replicates_needed(family)) if family else n
    draws = draw(fused, scores, of_in(metrics.get(names[0], {}), split), n)
    return judge([draws], tuple(known_factors(scores)), metrics, split)


def judge(seeds: Sequence[Draws], drawn: Sequence[str], metrics: Metrics, split: str) -> Sure:
    """Intervals, differences and letters of systems from their draws.

    Args:
        seeds: Replicates of each training seed, all drawn alike.
        drawn: What was drawn beside the seeds.
        metrics: Values of the systems; those on dev choose the reference.
        split: The set of the trials.
    """
    names = [name for name in seeds[0] if all(name in own for own in seeds)]
    if not names:
        return Sure()
    found = _references(metrics, names, DRAWN, split)
    words = (*(["seed"] if len(seeds) > 1 else []), *drawn)
    parts = [_judge_one(metric, names, seeds, words, found) for metric in DRAWN]
    letters = {
        metric: part.letters[metric]
        for metric, part in zip(DRAWN, parts, strict=True)
        if part.letters
    }
    first = next(iter(seeds[0][names[0]].values()))
    notes = cautions(first.replicates.size, first.speakers)
    notes += _too_few(first.replicates.size, len(names), found.on_dev)
    enough = first.replicates.size >= replicates_needed(_family(len(names), found.on_dev))
    return replace(
        found,
        intervals={
            name: {key: ends for part in parts for key, ends in part.intervals[name].items()}
            for name in names
        },
        comparisons=[one for part in parts for one in part.comparisons if enough],
        of_speakers=[one for part in parts for one in part.of_speakers if enough],
        letters=letters,
        notes=notes,
    )


def _family(systems: int, on_dev: bool) -> int:
    """Comparisons of a family: with the best on dev, else of all pairs."""
    return systems - 1 if on_dev else math.comb(systems, 2)


def _too_few(n: int, systems: int, on_dev: bool) -> list[str]:
    """What is left out because Holm could tell nothing apart with so few replicates."""
    families = {"comparisons": _family(systems, on_dev), "letters": math.comb(systems, 2)}
    return [
        f"no {words}: Holm over {size} can tell nothing apart with {n} replicates, "
        f"take {replicates_needed(size)}"
        for words, size in families.items()
        if size and n < replicates_needed(size)
    ][:1]


def _judge_one(
    metric: str, names: Sequence[str], seeds: Sequence[Draws], drawn: Sequence[str], found: Sure
) -> Sure:
    """What there is to say of one metric."""
    systems = {
        name: [own[name][metric] for own in seeds]
        for name in names
        if all(metric in own[name] for own in seeds)
    }
    intervals: dict[str, dict[str, Ends]] = {name: {} for name in names}
    for name, own in systems.items():
        if ends := _ends(own, drawn):
            intervals[name][metric] = ends
    if len(systems) < 2:
        return Sure(intervals)
    best = found.reference[metric] if found.on_dev else None
    still = (
        compare(metric, systems, best, drawn=drawn[1:], seeds_vary=False) if len(seeds) > 1 else ()
    )
    letters = _letters(metric, systems, drawn)
    compared = compare(metric, systems, best, drawn=drawn)
    return Sure(intervals, compared, still, letters={metric: letters} if letters else {})


def _ends(seeds: Sequence[Resampled], drawn: Sequence[str]) -> Ends | None:
    """Interval of the mean over seeds, not below 0; of two seeds both values say more."""
    ends = over_seeds(seeds).interval()
    if len(seeds) == 2 or not math.isfinite(ends.low):
        return None
    ends = ends._replace(low=max(ends.low, 0.0))  # what the seeds add may reach below it
    counts = {"seeds": len(seeds), "speakers": seeds[0].speakers}
    return {**ends._asdict(), "drawn": list(drawn), "seed": 0, **counts}


def _letters(
    metric: str, systems: Mapping[str, Sequence[Resampled]], drawn: Sequence[str]
) -> dict[str, str]:
    """Compact letters of all pairs; none where Holm could not tell any apart."""
    size = next(iter(systems.values()))[0].replicates.size
    if size < replicates_needed(math.comb(len(systems), 2)):
        return {}
    order = sorted(systems, key=lambda name: sum(one.value for one in systems[name]))
    return letters_of(compare(metric, systems, None, drawn=drawn), order)


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
