"""What an evaluation of counts has found: values with bounds, intervals, verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from lightning_sasv.counting import Bounded, Counts
from lightning_sasv.counting.replicates import COARSE, CountedInterval, Drawn
from lightning_sasv.errors import InputError
from lightning_sasv.evaluation.compare import Draws, Options
from lightning_sasv.evaluation.definitions import definitions
from lightning_sasv.files import finite, write_json, write_text
from lightning_sasv.metrics.bootstrap import NOT_CLUSTERED
from lightning_sasv.metrics.bounds import bounded_text
from lightning_sasv.metrics.comparisons import Comparison
from lightning_sasv.metrics.families import ADJUSTMENTS
from lightning_sasv.metrics.intervals import is_clear
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
        replicated: Replicates by system and name, where intervals are wanted.
        drawn: What was drawn.
        notes: What must be said.
        groups: Values with bounds by column, system, group and name.
    """

    states: Mapping[str, Counts]
    options: Options
    metrics: Mapping[str, Mapping[str, Bounded]]
    replicated: Mapping[str, Mapping[str, Drawn]] = field(default_factory=dict)
    drawn: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    groups: Mapping[str, Mapping[str, Mapping[str, Mapping[str, Bounded]]]] = field(
        default_factory=dict
    )

    @cached_property
    def intervals(self) -> dict[str, dict[str, CountedInterval]]:
        """By system and name."""
        method = self.options.interval
        return {
            name: {metric: one.interval(method=method) for metric, one in own.items()}
            for name, own in self.replicated.items()
        }

    @cached_property
    def draws(self) -> Draws:
        """The replicates on the grid, as those of trials are."""
        grid = {
            name: {metric: one.grid for metric, one in own.items()}
            for name, own in self.replicated.items()
        }
        return Draws(self.options, self.drawn, self.options.replicates, grid)

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """Differences of the systems on the grid, with verdicts that hold within all bounds."""
        plain, found = self.draws.comparisons(), list[Comparison]()
        for metric in dict.fromkeys(one.metric for one in plain):
            family = [one for one in plain if one.metric == metric]
            pairs = [
                [self.replicated[n][metric] for n in (one.first, one.second)] for one in family
            ]
            bounds = zip(*(_p_bounds(*pair) for pair in pairs), strict=True)
            least, most = (ADJUSTMENTS[self.options.adjust](list(p)) for p in bounds)
            found += list(map(_decided, family, least.tolist(), most.tolist()))
        return found

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
        if self.replicated:
            by, trials = " × ".join(f"{name}s" for name in self.drawn), self.drawn == ("trial",)
            words.append(
                f"95 % intervals, drawn: {by} (impostors are not drawn from counts), "
                f"{self.options.replicates} replicates, "
                f"{self.options.interval or ('percentile' if trials else 'bca')}"
            )
        return "; ".join(words)

    def coarse(self) -> list[str]:
        """What must be said of intervals whose ends the grid tells badly."""
        found = []
        for name, own in self.intervals.items():
            names = [METRICS[m].title() for m, one in own.items() if COARSE in one.note]
            if names:
                words = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
                found.append(
                    f"{name}: ends of the intervals of {words} are known to no better than a tenth "
                    "of their half width; --grid 9 counts more finely"
                )
        return found

    def value(self, system: str, metric: str) -> float:
        """A metric of a system."""
        return self.metrics[system][metric].value

    def texts(self, system: str) -> dict[str, str]:
        """Every metric of a system as people read it: a value, or its bounds; then its interval."""
        intervals = self.intervals.get(system, {})
        return {
            name: bounded_text(name, one, intervals[name].ends if name in intervals else None)
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
        compared = [one.as_dict() for one in self.comparisons]
        plain: dict[str, Any] = finite(as_content(systems, compared))
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

    def write_figures(self, folder: str | Path, overwrite: bool = True) -> NoReturn:
        """Refuse: curves of scores need the trials.

        Raises:
            InputError: Always, with what draws the bands of counts.
        """
        raise InputError(
            f"--figures {folder} needs the trials in memory: add --exact true; of a state "
            "`lightning report STATE --figures DIR` draws the curves"
        )


def _bounds(values: Mapping[str, Bounded]) -> dict[str, dict[str, Any]]:
    return {
        metric: {"low": one.low, "high": one.high, "exact": one.exact}
        for metric, one in values.items()
    }


def _p_bounds(first: Drawn, second: Drawn) -> tuple[float, float]:
    """Least and greatest two-sided p of the difference that the bounds of its replicates allow.

    k of :func:`~lightning_sasv.metrics.intervals.two_sided_p` is the number of replicates on the
    rarer side of 0; each lies between its bounds.
    """
    low, high = (first.low - second.high).replicates, (first.high - second.low).replicates
    low, high = low[~np.isnan(low)], high[~np.isnan(high)]
    sides = ((high <= 0, low >= 0), (low <= 0, high >= 0))
    rarer = (min(int(a.sum()), int(b.sum())) for a, b in sides)
    least, most = (min(1.0, 2 * (1 + k) / (low.size + 1)) for k in rarer)
    return least, most


def _decided(one: Comparison, least: float, most: float) -> Comparison:
    """A comparison whose verdict holds for every adjusted p in a range, or is none."""
    if is_clear(least) == is_clear(most):
        return one
    words = f"undecided at this grid (adjusted p from {least:.2g} to {most:.2g})"
    return replace(one, verdict=f"{words}: try a finer one, --grid 9", p_adjusted=most)
