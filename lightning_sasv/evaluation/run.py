"""A whole evaluation: metrics, breakdowns, intervals and comparisons of systems on tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lightning_sasv.evaluation.compare import Comparison, compare_systems, compared_metrics
from lightning_sasv.evaluation.intervals import (
    Progress,
    Resampled,
    metrics_with_intervals,
    resample,
)
from lightning_sasv.evaluation.systems import Evaluated, breakdown, gather, metrics_of
from lightning_sasv.files import finite
from lightning_sasv.metrics.functional import Settings
from lightning_sasv.scores import ScoreTable

Begin = Callable[[str, int], Progress]
"""Called with what begins and its number of steps; returns what to call after each step."""

Values = dict[str, float]


@dataclass(frozen=True)
class Options:
    """What is wanted of an evaluation.

    Attributes:
        settings: Costs and conventions of the metrics.
        by: Columns to break every metric down by.
        ci: Way of drawing for intervals (``intervals.WAYS``), or ``None``.
        replicates: Bootstrap replicates.
        seed: Seed of the bootstrap.
        compare: Whether to compare the systems.
        systems: Names of systems to keep, or ``None`` for all.
        allow_missing: Whether trials that are not in every table are left out.
        llrs: Whether ASV and CM scores are log-likelihood ratios, as cross-entropy needs.
    """

    settings: Settings = field(default_factory=Settings)
    by: tuple[str, ...] = ()
    ci: str | None = None
    replicates: int = 1000
    seed: int = 0
    compare: bool = False
    systems: tuple[str, ...] | None = None
    allow_missing: bool = False
    llrs: bool = False


@dataclass(frozen=True)
class EvaluationResult:
    """Everything that was found.

    Attributes:
        counts: Trials of each label.
        options: What was wanted.
        metrics: By system and name.
        intervals: By system and name.
        groups: By column, system, group and name.
        comparisons: Of every pair of systems.
        notes: What was left out.
    """

    counts: dict[str, int]
    options: Options
    metrics: dict[str, Values]
    intervals: dict[str, dict[str, Resampled]]
    groups: dict[str, dict[str, dict[str, Values]]]
    comparisons: list[Comparison]
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The results as plain values for JSON; NaN and infinity become ``None``."""
        options = self.options
        systems = {}
        for name, metrics in self.metrics.items():
            entry: dict[str, Any] = {"metrics": metrics}
            if name in self.intervals:
                entry["intervals"] = {
                    metric: _interval(one) for metric, one in self.intervals[name].items()
                }
            if self.groups:
                entry["by"] = {column: groups[name] for column, groups in self.groups.items()}
            systems[name] = entry
        settings = {
            "costs": asdict(options.settings.costs),
            "tandem_costs": asdict(options.settings.tandem_costs),
            "convention": options.settings.convention,
            "ci": options.ci,
            "replicates": options.replicates,
            "seed": options.seed,
        }
        found = {
            "trials": self.counts,
            "settings": settings,
            "systems": systems,
            "comparisons": [asdict(one) for one in self.comparisons],
        }
        plain: dict[str, Any] = finite(found)
        return plain


def evaluate_tables(
    tables: Mapping[str, ScoreTable], options: Options, begin: Begin | None = None
) -> EvaluationResult:
    """Evaluate the systems of one or more labelled tables.

    Args:
        tables: Labelled tables by name.
        options: What is wanted.
        begin: Told of long work, for a progress bar.
    """
    scored = gather(tables, options.allow_missing, options.systems)
    trials, how = scored.trials, (options.settings, options.llrs)
    metrics = {one.name: metrics_of(one, trials, *how) for one in scored.systems}
    groups = {
        column: {one.name: breakdown(one, trials, column, *how) for one in scored.systems}
        for column in options.by
    }
    ways = _ways(scored, options, begin)
    compared = {way: found for way, found in ways.items() if way in ("trial", "speaker")}
    return EvaluationResult(
        trials.counts(),
        options,
        metrics,
        ways[options.ci] if options.ci else {},
        groups,
        compare_systems(compared) if options.compare and compared else [],
        (*scored.notes, *_comparable(scored, options)),
    )


def _comparable(scored: Evaluated, options: Options) -> list[str]:
    """A word on systems that stand side by side without a comparison."""
    count = len(scored.systems)
    if count < 2 or options.compare:
        return []
    return [f"{count} systems in one file; --compare tests their differences"]


def _ways(
    scored: Evaluated, options: Options, begin: Begin | None
) -> dict[str, dict[str, dict[str, Resampled]]]:
    """Replicates of each way of drawing that intervals or comparisons need."""
    ways = [options.ci] if options.ci else []
    if options.compare and len(scored.systems) > 1:
        ways += ["trial"] + (["speaker"] if "speaker" in scored.trials.table else [])
    results = {}
    for way in dict.fromkeys(ways):
        names = {
            one.name: [
                metric
                for metric in metrics_with_intervals(one, options.llrs)
                if way == options.ci or metric in compared_metrics()
            ]
            for one in scored.systems
        }
        results[way] = resample(
            scored.systems,
            scored.trials,
            way,
            options.replicates,
            options.settings,
            seed=options.seed,
            names=names,
            progress=begin(f"bootstrap by {way}", options.replicates) if begin else None,
        )
    return results


def system_names(files: list[str]) -> dict[str, str]:
    """A short name for each file: its stem, with as many folders as it takes to be unique.

    A file that is given again gets a number.
    """
    parts = [_name_parts(text) for text in files]
    different = len({tuple(part) for part in parts})
    depth = 1
    while len({tuple(part[-depth:]) for part in parts}) < different:
        depth += 1
    names: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for part, text in zip(parts, files, strict=True):
        name = str(Path(*part[-depth:]))
        seen[name] += 1
        names[name if seen[name] == 1 else f"{name}#{seen[name]}"] = text
    return names


def _name_parts(text: str) -> list[str]:
    if Path(text).exists() or "," not in text:
        path = Path(text if Path(text).exists() else text.rpartition("=")[2])
        return [*path.parts[:-1], path.stem]
    return ["+".join(_name_parts(part)[-1] for part in text.split(",") if part)]


def _interval(one: Resampled) -> dict[str, float]:
    low, high = one.interval()
    return {"value": one.value, "low": low, "high": high, "undefined": one.undefined}
