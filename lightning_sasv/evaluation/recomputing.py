"""What score files give for a claim, and for it as somebody else may have computed it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, get_args

from lightning_sasv.decisions.costs import PRESETS
from lightning_sasv.errors import InputError, meant
from lightning_sasv.evaluation.results_table import Results
from lightning_sasv.evaluation.run import evaluate
from lightning_sasv.files import sha256
from lightning_sasv.metrics.bootstrap import resample
from lightning_sasv.metrics.functional.eer import Convention
from lightning_sasv.metrics.intervals import Interval, Resampled
from lightning_sasv.metrics.registry import METRICS, Settings, explained_metrics, in_unit

SETS = ("set", "subset", "split")
"""Columns that say which set a trial is of."""
CONVENTIONS: tuple[Convention, ...] = get_args(Convention)


class FilesOfClaims:
    """The files of claims, evaluated once each.

    Args:
        folder: Where paths are seen from.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, Results] = {}

    def __call__(self, claim: Mapping[str, Any]) -> Results:
        """The files of a claim, evaluated as it says; of its set, where they hold several."""
        if claim["metric"] not in METRICS:
            raise InputError(f"no metric {claim['metric']!r}{meant(claim['metric'], METRICS)}")
        what = json.dumps([claim.get(name) for name in ("files", "options", "set")], default=str)
        if what not in self._known:
            self._known[what] = self._read(claim)
        return self._known[what]

    def _read(self, claim: Mapping[str, Any]) -> Results:
        wanted, options = claim.get("set"), dict(claim.get("options") or {})
        found = _evaluated(claim, self._folder, options)
        table = found.systems.table
        column = next((name for name in SETS if name in table), None)
        if wanted is None or column is None or "where" in options:
            return found
        there = sorted(set(table.text(column).tolist()))
        if wanted not in there:
            raise InputError(f"no trials of set {wanted!r}; column {column} has {', '.join(there)}")
        if len(there) == 1:
            return found
        return _evaluated(claim, self._folder, options | {"where": f"{column}={wanted}"})

    @staticmethod
    def reason(found: Results, system: str, metric: str) -> str:
        """Why a metric is undefined."""
        columns, labels = found.systems.columns[system], found.systems.labels
        settings = found.options.settings
        why = explained_metrics(columns, labels, settings, allow_missing=True, names=[metric])
        return why.undefined.get(metric, "undefined of these trials")


def _evaluated(claim: Mapping[str, Any], folder: Path, options: Mapping[str, Any]) -> Results:
    """The files of a claim, evaluated as options say."""
    sources: list[str] = []
    keys: list[str] = []
    for one in claim.get("files") or ():
        if not isinstance(one, dict) or not {"path", "sha256"} <= one.keys():
            raise InputError("each of files needs path and sha256")
        if one.get("set", claim.get("set")) != claim.get("set"):
            continue  # of another set
        path = folder / str(one["path"])
        if not path.is_file():
            raise InputError(f"no file {one['path']}")
        if sha256(path) != str(one["sha256"]).lower():
            raise InputError(f"{one['path']} has another SHA-256")
        role = one.get("role")
        (keys if role == "key" else sources).append(f"{role}={path}" if role else str(path))
    if not sources:
        raise InputError("no score files")
    key = ",".join(one.removeprefix("key=") for one in keys) or None
    return evaluate([",".join(sources)], key=key, ci="none", **options)


Other: TypeAlias = Callable[[Results, str], float]
"""A claimed metric of a system as somebody else may have computed it, in its unit."""


def others(claim: Mapping[str, Any], found: Results, value: float) -> Iterator[tuple[str, Other]]:
    """Ways that somebody else may have computed a metric in, where a claim names none."""
    metric, named = claim["metric"], claim.get("options") or {}
    used = found.options.settings
    for way, settings in _settings(metric, named, used):
        yield way, partial(_recomputed, metric, settings)
    if metric == "t_eer" and "t_eer_rule" not in named:
        yield "closest point", partial(_recomputed, "t_eer_closest", used)
    if metric.endswith("_eer") and value > 50 and "negate" not in named:  # larger is worse there
        yield "negated", partial(_recomputed, metric, used, sign=-1)
        for way, settings in _settings(metric, named, used):
            yield f"negated, {way}", partial(_recomputed, metric, settings, sign=-1)


def _recomputed(
    metric: str, settings: Settings, found: Results, system: str, sign: int = 1
) -> float:
    """A metric under other settings, of scores as they are or negated."""
    columns = {name: sign * column for name, column in found.systems.columns[system].items()}
    only = replace(found.systems, columns={system: columns})
    values = only.metrics(settings)[system]
    return in_unit(values.get(metric, math.nan), METRICS[metric].unit)


def _settings(
    metric: str, named: Mapping[str, Any], used: Settings
) -> Iterator[tuple[str, Settings]]:
    """Settings that a claim does not name."""
    if metric == "t_eer" and "t_eer_rule" not in named:
        yield "reference rule", replace(used, t_eer_rule="reference")
    elif metric.endswith("eer") and "convention" not in named:
        for convention in CONVENTIONS:
            if convention != used.convention:
                yield convention, replace(used, convention=convention)
    field = "costs" if metric.endswith("a_dcf") else "tandem_costs"
    if "dcf" in metric and field not in named:
        for name, costs in PRESETS.items():
            if costs != getattr(used, field):
                yield f"costs {name}", replace(used, **{field: costs})  # type: ignore[arg-type]


def by_speaker(found: Results, system: str, metric: str, replicates: int) -> Interval | None:
    """Interval of a metric by speaker; ``None`` where speakers are not known or too few."""
    if "speaker" not in found.systems.table or METRICS[metric].lower_is_better is None:
        return None
    ends = drawn_by(found, system, metric, "speaker", replicates).interval()
    return None if math.isnan(ends.low) else ends


def drawn_by(found: Results, system: str, metric: str, way: str, replicates: int) -> Resampled:
    """Replicates of a metric by trial or by speaker."""
    drawn = resample(
        {system: found.systems.columns[system]},
        found.systems.labels,
        {system: [metric]},
        found.systems.clusters(way),
        replicates,
        settings=found.options.settings,
    )
    if metric not in drawn[system]:
        raise InputError("undefined of these trials")
    return drawn[system][metric]
