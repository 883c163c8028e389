"""How sure the values of a report are: one set of draws for its intervals, marks and differences.

The systems of a page are drawn alike, by what is known of speakers, impostors and attacks; those of
a table by speaker in all its training seeds. Every system is compared with the best on dev (Holm),
with each other where dev is not known. Letters are of all pairs.

``draws.json`` beside each training seed of a table holds the replicates of its systems. Replicate r
of all seeds and systems is drawn alike, so that they are put together later, whoever made them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lightning_sasv.checks import Floats
from lightning_sasv.errors import InputError
from lightning_sasv.files import read_json, write_json
from lightning_sasv.metrics.bootstrap import drawn_words, factors, resample
from lightning_sasv.metrics.comparisons import (
    Comparison,
    choose_reference,
    compare,
    letters_of,
    not_distinguishable,
)
from lightning_sasv.metrics.families import replicates_needed
from lightning_sasv.metrics.intervals import FEWEST_SPEAKERS, Resampled, cautions, over_seeds
from lightning_sasv.metrics.registry import DEFAULTS
from lightning_sasv.metrics_file import Metrics, of_in, values_in
from lightning_sasv.record import Of, settings_of
from lightning_sasv.results import METRICS_FILE, PREFIX, read_metrics, scores_file, value_of
from lightning_sasv.scores import read_table
from lightning_sasv.trials import Scores

DRAWN = ("sasv_eer", "cllr", "min_a_dcf")
"""Metrics that have intervals in reports and tables, the one that decides first."""
DRAWS_FILE, FORMAT = "draws.json", "lightning_sasv.draws 1"
OVER_SEEDS = ("speaker",)
"""What is drawn beside training seeds."""

Draws = dict[str, dict[str, Resampled]]
"""Replicates of one training seed, by system and metric."""


Ends = Mapping[str, Any]
"""An interval as ``metrics.json`` has it."""


def known_factors(scores: Scores) -> dict[str, np.ndarray]:
    """What is known and can be drawn: enrolled speakers, impostors, attacks of each trial."""
    test = scores.extra.get("test_speaker", scores.extra.get("real_speaker"))
    return dict(factors(scores.label, scores.speaker, test, scores.attack))


def few_speakers(scores: Scores) -> str | None:
    """Why there are no intervals of these trials; nothing where there are."""
    speakers = known_factors(scores).get("speaker")
    if speakers is None:
        return "Speakers are not known: no intervals."
    number = len(np.unique(speakers))
    return None if number >= FEWEST_SPEAKERS else f"No intervals: {number} speakers are too few."


def draw(
    fused: Mapping[str, Floats], scores: Scores, of: Of, n: int, drawn: Sequence[str] | None = None
) -> Draws:
    """Replicates of systems on the same trials.

    Args:
        fused: Fused scores by system.
        scores: The trials, of speakers that are known.
        of: What the results are of; costs that are not recorded have no replicates.
        n: Replicates.
        drawn: What is drawn; by default all that is known.
    """
    how, known = settings_of(of), known_factors(scores)
    wanted = DRAWN if how is not None else DRAWN[:2]
    return resample(
        {name: {"sasv": column} for name, column in fused.items()},
        scores.label,
        dict.fromkeys(fused, wanted),
        tuple(column for name, column in known.items() if drawn is None or name in drawn),
        n,
        settings=how or DEFAULTS,
    )


def draw_seeds(folders: Sequence[Path], names: Sequence[str], n: int) -> list[Draws]:
    """Replicates of the seeds of a table as they are beside them; ``n`` where there are none."""
    noted = [_read(folder / DRAWS_FILE) for folder in folders]
    with suppress(KeyError, TypeError, ValueError):
        sizes = [
            len(own[name]["metrics"][DRAWN[0]]["replicates"]) for own in noted for name in names
        ]
        n = min(sizes)
    return [draw_seed(folder, names, n, keep=False) for folder in folders]


def draw_seed(folder: Path, names: Sequence[str], n: int, keep: bool = True) -> Draws:
    """Replicates of a training seed by enrolled speaker: those beside it, and what they lack.

    Args:
        folder: The folder ``seed<N>`` of a table.
        names: Its systems.
        n: Replicates.
        keep: Whether new ones are written beside it.

    Returns:
        Replicates of each system; none where speakers are too few, or not known.
    """
    metrics = read_metrics(folder / METRICS_FILE)
    blocks = {name: of_in(metrics.get(name, {}), "eval") for name in names}
    noted = _read(folder / DRAWS_FILE)
    found = {name: own for name in names if (own := _usable(noted.get(name), blocks[name], n))}
    lacking = [name for name in names if name not in found]
    if lacking:
        scores = read_table(scores_file(folder, "eval")).to_scores()
        if few_speakers(scores):
            return {}
        fused = {name: scores.extra[f"{PREFIX}{name}"] for name in lacking}
        new = draw(fused, scores, blocks[lacking[0]], n, OVER_SEEDS)
        found |= new
        if keep:
            noted |= {name: _content(own, blocks[name]) for name, own in new.items()}
            content = {"format": FORMAT, "drawn": list(OVER_SEEDS), "seed": 0, "systems": noted}
            write_json(folder / DRAWS_FILE, content)
    return {name: found[name] for name in names}


def _of(block: Of) -> dict[str, Any]:
    """What replicates are of."""
    return {name: block[name] for name in ("scores", "costs", "eer_convention")}


def _content(own: Mapping[str, Resampled], of: Of) -> dict[str, Any]:
    metrics = {
        metric: {
            "value": one.value,
            "replicates": one.replicates.tolist(),
            "left_out": None if one.left_out is None else one.left_out.tolist(),
            "speakers": one.speakers,
        }
        for metric, one in own.items()
    }
    return {"of": _of(of), "metrics": metrics}


def _read(path: Path) -> dict[str, Any]:
    """Systems of a file of draws; nothing where it is absent or something else."""
    with suppress(InputError):
        content = read_json(path) if path.is_file() else None
        if isinstance(content, dict) and content.get("format") == FORMAT:
            systems = content.get("systems")
            return systems if isinstance(systems, dict) else {}
    return {}


def _usable(noted: Any, of: Of, n: int) -> dict[str, Resampled]:
    """The first ``n`` replicates that were noted, if they are of these scores and enough."""
    with suppress(KeyError, TypeError, ValueError, AttributeError):
        if noted is None or noted["of"] != _of(of):
            return {}
        found = {
            str(metric): Resampled(
                float(one["value"]),
                np.array(one["replicates"][:n], float),
                np.array(one["left_out"], float),
                int(one["speakers"]),
            )
            for metric, one in noted["metrics"].items()
        }
        if all(one.replicates.shape == (n,) for one in found.values()):
            return found
    return {}


@dataclass(frozen=True)
class Sure:
    """What there is to say of how sure values are.

    Attributes:
        intervals: By system and metric.
        comparisons: Differences to the reference, or of all pairs.
        of_speakers: The same with the training seeds held fast; one or two seeds always are.
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
    family = len(names) - 1 if dev else math.comb(len(names), 2)
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
    reference, on_dev = _references(metrics, names, split)
    vary = len(seeds) > 2  # the spread of two is anybody's guess: their values are shown instead
    by = (*(["seed"] if vary else []), *drawn)
    first = next(iter(seeds[0][names[0]].values()))
    size, pairs = first.replicates.size, math.comb(len(names), 2)
    family = len(names) - 1 if on_dev else pairs
    intervals: dict[str, dict[str, Ends]] = {name: {} for name in names}
    comparisons, of_speakers = list[Comparison](), list[Comparison]()
    letters = {}
    for metric in DRAWN:
        there = [name for name in names if all(metric in own[name] for own in seeds)]
        systems = {name: [own[name][metric] for own in seeds] for name in there}
        for name in there:
            intervals[name] |= _ends(metric, systems[name], by)
        if len(systems) < 2:
            continue
        best = reference[metric] if on_dev else None
        if size >= replicates_needed(family):
            comparisons += compare(metric, systems, best, drawn=by, seeds_vary=vary)
            if vary:
                of_speakers += compare(metric, systems, best, drawn=drawn, seeds_vary=False)
        if size >= replicates_needed(math.comb(len(systems), 2)):
            order = sorted(systems, key=lambda name: sum(one.value for one in systems[name]))
            letters[metric] = letters_of(
                compare(metric, systems, None, drawn=by, seeds_vary=vary), order
            )
    notes = cautions(size, first.speakers)
    notes += _too_few(size, {"comparisons": family, "letters": pairs})
    return Sure(intervals, comparisons, of_speakers, reference, on_dev, letters, notes)


def _too_few(n: int, families: Mapping[str, int]) -> list[str]:
    """What is left out because Holm could tell nothing apart with so few replicates."""
    return [
        f"no {words}: Holm over {size} can tell nothing apart with {n} replicates, "
        f"take {replicates_needed(size)}"
        for words, size in families.items()
        if size and n < replicates_needed(size)
    ][:1]


def _ends(metric: str, seeds: Sequence[Resampled], drawn: Sequence[str]) -> dict[str, Ends]:
    """Interval of the mean over seeds, not below 0; of two seeds both values say more."""
    ends = over_seeds(seeds).interval()
    if len(seeds) == 2 or not math.isfinite(ends.low):
        return {}
    ends = ends._replace(low=max(ends.low, 0.0))  # what the seeds add may reach below it
    counts = {"seeds": len(seeds), "speakers": seeds[0].speakers}
    return {metric: {**ends._asdict(), "drawn": list(drawn), "seed": 0, **counts}}


def _references(metrics: Metrics, names: Sequence[str], split: str) -> tuple[dict[str, str], bool]:
    """The reference of each metric, and whether dev chose it."""
    found, on_dev = {}, split != "dev"
    for metric in DRAWN:
        here, dev = (
            {name: value_of(values_in(metrics.get(name, {}), one), metric) for name in names}
            for one in (split, "dev" if on_dev else "")
        )
        known = None if any(map(math.isnan, dev.values())) else dev
        found[metric], chosen_here = choose_reference(names, None, known, here)
        on_dev = on_dev and not chosen_here
    return found, on_dev
