"""What an evaluation of counts has found: values with bounds, intervals, verdicts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lightning_sasv.counting import Bounded, Counts
from lightning_sasv.counting.replicates import CountedInterval, Drawn
from lightning_sasv.evaluation.compare import Options, compared_metrics
from lightning_sasv.evaluation.definitions import definitions
from lightning_sasv.files import finite, write_json, write_text
from lightning_sasv.metrics.bootstrap import NOT_CLUSTERED
from lightning_sasv.metrics.bounds import bounded_text
from lightning_sasv.metrics.comparisons import PRIMARY
from lightning_sasv.metrics.intervals import percentile_ends
from lightning_sasv.metrics.registry import METRICS
from lightning_sasv.metrics_file import as_content
from lightning_sasv.places import head, refuse
from lightning_sasv.record import named_costs, software, unrecorded
from lightning_sasv.trials import TrialClass

COLUMNS = ("system", "metric", "value", "low_bound", "high_bound", "exact", "low", "high", "drawn")


@dataclass(frozen=True)
class CountedResults:
    """What counts give.

    Attributes:
        states: The counts of each system.
        options: What was wanted.
        metrics: Values with bounds by system and name.
        draws: Replicates by system and name, where intervals are wanted.
        drawn: What was drawn.
        notes: What must be said.
        groups: Values with bounds by column, system, group and name.
    """

    states: Mapping[str, Counts]
    options: Options
    metrics: Mapping[str, Mapping[str, Bounded]]
    draws: Mapping[str, Mapping[str, Drawn]] = field(default_factory=dict)
    drawn: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    groups: Mapping[str, Mapping[str, Mapping[str, Mapping[str, Bounded]]]] = field(
        default_factory=dict
    )

    @property
    def intervals(self) -> dict[str, dict[str, CountedInterval]]:
        """By system and name."""
        return {
            name: {metric: one.interval() for metric, one in own.items()}
            for name, own in self.draws.items()
        }

    @property
    def title(self) -> str:
        """Trials of each label."""
        counts = next(iter(self.states.values())).trials
        return (
            ", ".join(f"{counts[str(code)]:,} {code}" for code in TrialClass) + " trials, counted"
        )

    @property
    def caption(self) -> str:
        """Conventions, costs, and how intervals were made."""
        shown = {name for values in self.metrics.values() for name in values}
        settings = self.options.settings
        words = [*definitions(settings, shown, named_costs(settings.costs)["name"])]
        words.append("low…high: bounds, where counts do not tell the value")
        if self.draws:
            by = " × ".join(f"{name}s" for name in self.drawn)
            words.append(
                f"95 % intervals, drawn: {by} (impostors are not drawn from counts), "
                f"{self.options.replicates} replicates, bca"
            )
        return "; ".join(words)

    def value(self, system: str, metric: str) -> float:
        """A metric of a system."""
        return self.metrics[system][metric].value

    def texts(self, system: str) -> dict[str, str]:
        """Every metric of a system as people read it: a value, or its bounds; then its interval."""
        intervals = self.intervals.get(system, {})
        return {
            name: bounded_text(
                name,
                one,
                (intervals[name].low, intervals[name].high) if name in intervals else None,
            )
            for name, one in self.metrics[system].items()
        }

    def group_texts(self) -> Iterator[tuple[str, str, dict[str, dict[str, str]]]]:
        """Column, system, and metrics of each group as people read them."""
        for column, systems in self.groups.items():
            for system, groups in systems.items():
                shown = {
                    group: {name: bounded_text(name, one) for name, one in own.items()}
                    for group, own in groups.items()
                }
                yield column, system, shown

    def verdicts(self) -> list[str]:
        """Differences of the systems, told only where both ends of the bounds agree."""
        names = list(self.draws)
        pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
        metrics = [name for name in compared_metrics() if all(name in self.draws[n] for n in names)]
        return [
            _verdict(metric, (a, b), self.draws[a][metric], self.draws[b][metric])
            for metric in metrics
            for a, b in pairs
            if metric == PRIMARY or len(pairs) == 1
        ]

    def to_dict(self) -> dict[str, Any]:
        """The content of a ``metrics.json`` as plain values."""
        systems = {}
        for name, values in self.metrics.items():
            entry = {
                "values": {metric: one.value for metric, one in values.items()},
                "undefined": {},
                "bounds": _bounds(values),
                "intervals": {
                    metric: {
                        "low": one.low,
                        "high": one.high,
                        "low_bounds": list(one.low_between),
                        "high_bounds": list(one.high_between),
                        "method": one.method,
                        "replicates": one.replicates.size,
                        "undefined": one.undefined,
                        "note": one.note,
                        "level": 0.95,
                        "drawn": list(self.drawn),
                        "seed": self.options.seed,
                    }
                    for metric, one in self.intervals.get(name, {}).items()
                },
                "by": {
                    column: {
                        group: {metric: one.value for metric, one in own.items()}
                        for group, own in groups[name].items()
                    }
                    for column, groups in self.groups.items()
                },
                "by_bounds": {
                    column: {group: _bounds(own) for group, own in groups[name].items()}
                    for column, groups in self.groups.items()
                },
                "of": self._of(self.states[name]),
            }
            systems[name] = {"sets": {"trials": entry}}
        plain: dict[str, Any] = finite(as_content(systems))
        return plain

    def _of(self, state: Counts) -> dict[str, Any]:
        speakers = {*state.speakers} - {NOT_CLUSTERED}
        attacks = {row.attack for row in state.rows} - {NOT_CLUSTERED}
        settings = self.options.settings
        known = {
            "corpus": None,
            "trials": state.trials,
            "expected": state.trials,
            "part": False,
            "speakers": len(speakers) or None,
            "attacks": len(attacks) or None,
            "costs": named_costs(settings.costs),
            "tandem_costs": named_costs(settings.tandem_costs),
            "eer_convention": settings.convention,
            "cllr": "nontarget and spoof pooled by count",
            "software": software(),
            "sources": [one._asdict() for one in state.sources],
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        return unrecorded(**known)

    def write(self, path: str | Path, overwrite: bool = True) -> Path:
        """Write the results as JSON, rates as fractions."""
        if (
            not overwrite
            and Path(path).exists()
            and '"lightning_sasv.metrics"' not in head(Path(path))
        ):
            refuse(path, "something else than an evaluation", "another --json")
        return write_json(path, self.to_dict(), sort_keys=False)

    def write_csv(self, path: str | Path, overwrite: bool = True) -> Path:
        """Write values, bounds and intervals, a row for each."""
        if not overwrite and Path(path).exists() and ",".join(COLUMNS) not in head(Path(path)):
            refuse(path, "something else than values and bounds", "another --csv")
        lines = [",".join(COLUMNS)]
        for name, values in self.metrics.items():
            for metric, one in values.items():
                ends = self.intervals.get(name, {}).get(metric)
                cells = [name, metric, one.value, one.low, one.high, str(one.exact).lower()]
                cells += [ends.low, ends.high, " × ".join(self.drawn)] if ends else ["", "", ""]
                lines.append(",".join(json.dumps(c) if "," in str(c) else str(c) for c in cells))
        return write_text(path, "\n".join(lines) + "\n")


def _bounds(values: Mapping[str, Bounded]) -> dict[str, dict[str, Any]]:
    return {
        metric: {"low": one.low, "high": one.high, "exact": one.exact}
        for metric, one in values.items()
    }


def _verdict(metric: str, names: tuple[str, str], first: Drawn, second: Drawn) -> str:
    entry = METRICS[metric]
    least, most = first.low - second.high, first.high - second.low
    ends = [percentile_ends(one.replicates) for one in (least, most)]
    found = first.grid - second.grid
    low, high = percentile_ends(found.replicates)
    shown = ", ".join(f"{(100 if entry.unit == 'rate' else 1) * end:+.4f}" for end in (low, high))
    sides = {math.copysign(1, low) if low * high > 0 else 0.0 for low, high in ends}
    if len(sides) > 1:
        word = "undecided at this grid: try --grid 9"
    elif sides == {0.0}:
        word = "not distinguishable"
    else:
        better = names[0] if (sides == {-1.0}) == (entry.lower_is_better is not False) else names[1]
        word = f"{better} is better"
    return f"{entry.title()}: {names[0]} − {names[1]} [{shown}]: {word}"
