"""What an evaluation has found, for programs, files, papers and notebooks."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lightning_sasv.errors import InputError, check_name
from lightning_sasv.evaluation.compare import Attack, Draws, Options, compared_metrics, draw
from lightning_sasv.evaluation.definitions import definitions
from lightning_sasv.evaluation.systems import Systems
from lightning_sasv.files import finite, write_json, write_text
from lightning_sasv.metrics.comparisons import PRIMARY, Comparison, not_distinguishable
from lightning_sasv.metrics.intervals import Interval
from lightning_sasv.metrics.speakers import SpeakerErrors
from lightning_sasv.metrics_file import Metrics, as_content, blocks
from lightning_sasv.places import head, refuse, stamp
from lightning_sasv.record import (
    Of,
    Origin,
    Trials,
    costs_words,
    is_part,
    named_costs,
    set_entry,
    set_title,
    simulated_words,
)
from lightning_sasv.results import origin_beside, read_metrics
from lightning_sasv.scores.sources import stem_of
from lightning_sasv.trials import SPLITS, TASKS

if TYPE_CHECKING:
    import polars as pl

    from lightning_sasv.report.curves import DET

Values = dict[str, float]

COLUMNS = ("system", "set", "group", "metric", "value", "low", "high", "method", "drawn", "n")
"""Columns of values and intervals, a row for each."""
WITH_CURVE = ("sasv", "sv", "spf", "asv", "cm")
"""Tasks that have a DET curve where their scores and classes are there."""


@dataclass(frozen=True)
class Results:
    """Everything that was found. A notebook shows it as a table.

    Attributes:
        counts: Trials of each label.
        options: What was wanted.
        metrics: By system and name.
        draws: What was drawn for intervals and comparisons.
        groups: By column, system, group and name.
        comparisons: Of systems, from the same draws as the intervals.
        notes: What was left out, and what must be said.
        systems: The systems on their trials.
        attacks: What each attack does, by system and attack, where a breakdown by them is wanted.
        speakers: Whose errors they are, by system and speaker, where a breakdown by them is wanted.
    """

    counts: dict[str, int]
    options: Options
    metrics: dict[str, Values]
    draws: Draws
    groups: dict[str, dict[str, dict[str, Values]]]
    comparisons: list[Comparison]
    notes: tuple[str, ...]
    systems: Systems
    attacks: dict[str, dict[str, Attack]] = field(default_factory=dict)
    speakers: dict[str, dict[str, SpeakerErrors]] = field(default_factory=dict)

    @cached_property
    def intervals(self) -> dict[str, dict[str, Interval]]:
        """By system and name."""
        return self.draws.intervals

    @property
    def set_name(self) -> str:
        """``dev`` or ``eval`` where the file is called so, else ``trials``."""
        stem = stem_of(self.systems.table.path)
        return stem if stem in SPLITS else "trials"

    @property
    def title(self) -> str:
        """Corpus, where it is known, trials of each label, and of how many they are a part."""
        counted = ", ".join(f"{count:,} {label}" for label, count in self.counts.items())
        of = self._trials.block(self._origin)
        where = ", ".join(filter(None, (of["corpus"], simulated_words(of))))
        if is_part(of):
            part = f"{set_title(self.set_name if where else 'these', of)} ({counted})"
            return f"{where}, {part}" if where else part
        return f"{where}, {self.set_name}: {counted} trials" if where else f"{counted} trials"

    @cached_property
    def _trials(self) -> Trials:
        return Trials(self.systems.table)

    @cached_property
    def _origin(self) -> Origin:
        """Where the scores come from, as far as their folder of results says it."""
        return origin_beside(self.systems.table)

    @property
    def caption(self) -> str:
        """Convention, units, costs, and how intervals were made."""
        text = self.defined(name for values in self.metrics.values() for name in values)
        if self.options.weights:
            text += f"; each {self.options.weights} counts the same in each class"
        known = [
            one for own in self.intervals.values() for one in own.values() if one.low <= one.high
        ]
        if not known:
            return text
        ways = dict.fromkeys(one.method for one in known)
        return f"{text}; 95 % intervals, {self.draws.caption}, {' and '.join(ways)}"

    def defined(self, metrics: Iterable[str]) -> str:
        """What metrics of some names are: convention, units, costs."""
        settings = self.options.settings
        costs = costs_words({"costs": named_costs(settings.costs)})
        return "; ".join(definitions(settings, {*metrics}, costs))

    def value(self, system: str, metric: str) -> float:
        """A metric of a system: rates as fractions, NaN where it is undefined.

        Raises:
            InputError: There is no such system or metric.
        """
        check_name(system, self.metrics, "no system")
        check_name(metric, self.metrics[system], f"no metric of {system}")
        return self.metrics[system][metric]

    def interval(self, system: str, metric: str) -> Interval | None:
        """Interval of a metric of a system; ``None`` where there is none."""
        self.value(system, metric)
        return self.intervals.get(system, {}).get(metric)

    def compare(self, metric: str = PRIMARY) -> list[Comparison]:
        """Differences of the systems in a metric; drawn now if they were not asked for.

        Raises:
            InputError: The metric is none of those that are compared.
        """
        check_name(metric, compared_metrics(), "no compared metric")
        found = self.comparisons
        if not self.options.compare:
            found = draw(self.systems, replace(self.options, compare=True)).comparisons()
        return [one for one in found if one.metric == metric]

    def best(self, metric: str) -> set[str]:
        """The best system here and those that cannot be told apart from it, if any others can.

        Empty where nothing was compared, or where speakers are not known to the draws.
        """
        compared = [one for one in self.comparisons if one.metric == metric]
        if not compared or compared[0].drawn == ("trial",):
            return set()
        there = {name for one in compared for name in (one.first, one.second)}
        first = self.draws.reference(metric)[0]
        if any(self.metrics[name][metric] < self.metrics[first][metric] for name in there):
            return set()  # others were compared with a given system, not with the best
        alike = {first, *not_distinguishable(compared, first)}
        return alike if alike < there else set()

    @cached_property
    def of(self) -> dict[str, Of]:
        """What the values of each system are of; see ``record``."""
        return {name: of for name, _, of in blocks(self._content["systems"])}

    def to_dict(self) -> dict[str, Any]:
        """The content of a ``metrics.json`` as plain values; NaN and infinity become ``None``."""
        plain: dict[str, Any] = finite(self._content)
        return plain

    @cached_property
    def _content(self) -> dict[str, Any]:
        trials, origin, intervals = self._trials, self._origin, self.intervals
        systems: Metrics = {}
        for name, values in self.metrics.items():
            columns = self.systems.columns[name]
            how = self.systems.settings_of(name, self.options.settings)
            entry = set_entry(columns, values, trials, origin, how)
            found = intervals.get(name, {})
            entry["intervals"] = {metric: self.draws.plain(one) for metric, one in found.items()}
            if self.options.weights:
                entry["weights"] = self.options.weights
            entry["by"] = {column: groups[name] for column, groups in self.groups.items()}
            entry |= self._errors(name)
            systems[name] = {"sets": {self.set_name: entry}}
        return as_content(systems, [one.as_dict() for one in self.comparisons])

    def _errors(self, name: str) -> dict[str, Any]:
        """Errors of attacks and speakers at one threshold, and intervals of the attacks."""
        attacks, speakers = self.attacks.get(name, {}), self.speakers.get(name, {})
        shares = {
            group: {"spoofs": a.spoofs, "accepted": a.accepted} for group, a in attacks.items()
        }
        counts = {group: one._asdict() for group, one in speakers.items()}
        errors = {"attack": shares, "speaker": counts}
        ends = {
            group: {"spf_eer": {**self.draws.plain(one.spf_eer), "drawn": self._of_attacks}}
            for group, one in attacks.items()
            if one.spf_eer is not None
        }
        found = {"errors": {column: own for column, own in errors.items() if own}}
        found["by_intervals"] = {"attack": ends} if ends else {}
        return {key: own for key, own in found.items() if own}

    @property
    def _of_attacks(self) -> list[str]:
        """What is drawn for intervals of single attacks."""
        return ["trial"] if self.draws.drawn == ("trial",) else ["speaker"]

    def to_json(self) -> str:
        """:meth:`to_dict` as text: a ``metrics.json`` of version 2."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def to_polars(self) -> pl.DataFrame:
        """Values and intervals, one row each; rates as fractions, null where undefined."""
        import polars as pl

        numbers = dict.fromkeys(("value", "low", "high"), pl.Float64)
        kinds = {**dict.fromkeys(COLUMNS, pl.String), **numbers, "n": pl.Int64}
        return pl.DataFrame(list(self._rows()), kinds, orient="row").fill_nan(None)

    def _rows(self) -> Iterable[tuple[Any, ...]]:
        pooled = f"weights={self.options.weights}" if self.options.weights else None
        for name, values in self.metrics.items():
            for metric, value in values.items():
                ends = _cells(self.intervals.get(name, {}).get(metric), self.draws.drawn)
                yield (name, self.set_name, pooled, metric, value, *ends)
        for column, systems in self.groups.items():
            for name, groups in systems.items():
                for group, values in groups.items():
                    attack = self.attacks.get(name, {}).get(group) if column == "attack" else None
                    own = {"spf_eer": attack.spf_eer} if attack else {}
                    for metric, value in values.items():
                        ends = _cells(own.get(metric), self._of_attacks)
                        yield (name, self.set_name, f"{column}={group}", metric, value, *ends)

    def to_pandas(self) -> Any:
        """:meth:`to_polars` as a frame of pandas, which must be installed."""
        import pandas

        return pandas.DataFrame(self.to_polars().to_dict(as_series=False))

    def to_markdown(self) -> str:
        """The main metrics as a table of Markdown, a row for each system."""
        from lightning_sasv.report.formats import as_markdown

        return as_markdown(self)

    def to_latex(self) -> str:
        """The same as a table of LaTeX (booktabs), with costs, convention and method below."""
        from lightning_sasv.report.formats import as_latex

        return as_latex(self)

    def _repr_html_(self) -> str:
        from lightning_sasv.report.formats import as_html

        return as_html(self)

    def write(self, path: str | Path, overwrite: bool = True) -> Path:
        """Write the results as JSON, rates as fractions.

        Args:
            path: File to write.
            overwrite: Replace it, be it no evaluation or that of other scores.
        """
        content = self.to_dict()
        if not overwrite and Path(path).exists() and _noted(path) != _data(content["systems"]):
            refuse(path, "something else, or the evaluation of other scores", "another --json")
        return write_json(path, content, sort_keys=False)

    def write_csv(self, path: str | Path, overwrite: bool = True) -> Path:
        """Write :meth:`to_polars` as CSV.

        Args:
            path: File to write.
            overwrite: Replace it, whatever it holds.
        """
        if not overwrite and Path(path).exists() and ",".join(COLUMNS) not in head(Path(path)):
            refuse(path, "something else than values and intervals", "another --csv")
        return write_text(path, self.to_polars().write_csv())

    def write_figures(self, folder: str | Path, overwrite: bool = True) -> list[Path]:
        """Write the DET curves of every score as PNG, PDF and SVG, and their points as CSV.

        Args:
            folder: Folder to write to.
            overwrite: Replace files that are something else.

        Raises:
            InputError: matplotlib is not installed, or something else is in the way.
        """
        from lightning_sasv.report.drawing import check_figures, write_figures
        from lightning_sasv.report.figures import det_of

        curves = {name: self._det_curves(name) for name in self.metrics}
        data = [
            {"system": name, "task": task, "false_acceptance": accepted, "miss": missed}
            for name, own in curves.items()
            for task, one in own.items()
            for accepted, missed in zip(one.false_acceptance, one.miss, strict=True)
        ]
        tasks = [task for task in WITH_CURVE if any(task in own for own in curves.values())]
        figure = replace(det_of(curves, tasks), data=data)
        origin = stamp("evaluate", "+".join(curves))
        check_figures(folder, [figure], origin, overwrite)
        return write_figures(folder, [figure], self.title, origin)

    def _det_curves(self, name: str) -> dict[str, DET]:
        """DET curves of a system by task, wherever there is an EER."""
        from lightning_sasv.report.curves import thin_det_of

        found = {}
        for task in WITH_CURVE:
            if not math.isnan(self.metrics[name].get(f"{task}_eer", math.nan)):
                column, *sides = TASKS[task]
                scores = self.systems.columns[name][column]
                there = ~np.isnan(scores)
                parts = (there & np.isin(self.systems.labels, side) for side in sides)
                found[task] = thin_det_of(*(scores[part] for part in parts))
        return found


def _cells(one: Interval | None, drawn: Sequence[str]) -> tuple[Any, ...]:
    """Ends, method, what was drawn and replicates of an interval, where there is one."""
    if one is None:
        return (None,) * 5
    return one.low, one.high, one.method, " × ".join(drawn), one.replicates


def _data(systems: Metrics) -> list[tuple[str, str, str, str]]:
    """Trials and scores that an evaluation is of."""
    return [(name, own, of["fingerprint"], of["scores"]) for name, own, of in blocks(systems)]


def _noted(path: str | Path) -> Any:
    """What an evaluation in a file was made of; nothing where the file holds none."""
    with suppress(InputError):
        return _data(read_metrics(path))
    return None
