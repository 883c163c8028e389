"""What score files give for a claim, and for it as somebody else may have computed it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, get_args

import numpy as np

from lightning_sasv.decisions.costs import PRESETS
from lightning_sasv.errors import InputError, meant
from lightning_sasv.evaluation.fusing import fuse_tables
from lightning_sasv.evaluation.results_table import Results
from lightning_sasv.evaluation.run import evaluate
from lightning_sasv.files import sha256
from lightning_sasv.metrics.bootstrap import resample
from lightning_sasv.metrics.functional import ASVSPOOF5_RATES
from lightning_sasv.metrics.functional.eer import Convention
from lightning_sasv.metrics.intervals import Interval, Resampled
from lightning_sasv.metrics.registry import (
    ASV_POINTS,
    CM_POINTS,
    METRICS,
    Settings,
    explained_metrics,
    in_unit,
)
from lightning_sasv.scores.columns import matrices, read_columns, score_names
from lightning_sasv.scores.reading import reading
from lightning_sasv.scores.sources import read_key
from lightning_sasv.trials import PAIR

FITTED = ("files", "dev", "options", "set")
"""What of a claim says which files are read, and how."""
READ = ("format", "key_format", "columns", "labels", "ids", "negate", "log", "allow_missing")
"""Options that say how files are read; the others say what is computed."""
SETS = ("set", "subset", "split")
"""Columns that say which set a trial is of."""
VERSIONS = {"min_t_dcf": "min_t_dcf_legacy", "min_t_dcf_legacy": "min_t_dcf"}
"""Versions of the t-DCF, which papers do not always tell apart."""
CONVENTIONS: tuple[Convention, ...] = get_args(Convention)


class FilesOfClaims:
    """The files of claims, evaluated once each.

    Args:
        folder: Where paths are seen from.
        claims: All claims: systems that are fitted on the same files are fitted together.
    """

    def __init__(self, folder: Path, claims: Sequence[Mapping[str, Any]] = ()) -> None:
        self._folder = folder
        self._known: dict[str, Results] = {}
        self._systems: dict[str, list[str]] = {}
        for claim in claims:
            named = self._systems.setdefault(_what(claim, FITTED), [])
            named.extend({str(claim["system"])} - {*named})

    def __call__(self, claim: Mapping[str, Any]) -> Results:
        """The files of a claim, evaluated as it says; of its set, where they hold several."""
        if claim["metric"] not in METRICS:
            raise InputError(f"no metric {claim['metric']!r}{meant(claim['metric'], METRICS)}")
        what = _what(claim, (*FITTED, "system") if claim.get("dev") else FITTED)
        if what not in self._known:
            self._known |= self._fitted(claim) if claim.get("dev") else {what: self._read(claim)}
        return self._known[what]

    def _fitted(self, claim: Mapping[str, Any]) -> dict[str, Results]:
        """What the systems of claims give on their files, fitted on those of dev."""
        systems = self._systems.get(_what(claim, FITTED), [str(claim["system"])])
        found = _fused(claim, self._folder, systems)
        return {_what({**claim, "system": s}, (*FITTED, "system")): one for s, one in found.items()}

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


def _what(claim: Mapping[str, Any], fields: Sequence[str]) -> str:
    """Fields of a claim as one text."""
    return json.dumps([claim.get(name) for name in fields], default=str)


def _evaluated(claim: Mapping[str, Any], folder: Path, options: Mapping[str, Any]) -> Results:
    """The files of a claim, evaluated as options say."""
    scores, key = _checked(claim, "files", folder)
    return evaluate([scores], key=key, ci="none", **options)


def _fused(claim: Mapping[str, Any], folder: Path, names: Sequence[str]) -> dict[str, Results]:
    """Systems fitted on the files ``dev`` of a claim, and evaluated on its files."""
    from lightning_sasv.fusion import SYSTEMS, fuse_systems

    for unknown in (name for name in names if name not in SYSTEMS):
        raise InputError(f"no system {unknown!r} to fit{meant(unknown, SYSTEMS)}")
    said = dict(claim.get("options") or {})
    read = {name: said.pop(name) for name in READ if name in said}
    key_format, how = read.pop("key_format", None), reading(read.pop("format", None), **read)
    tables = []
    for kind in ("dev", "files"):
        scores, key = _checked(claim, kind, folder)
        tables.append(read_columns(scores, read_key(key, key_format, how=how), how))
    dev, trials = tables
    found = fuse_tables(dev, trials, names, str(claim.get("set")), Settings())
    if found.failed:
        raise InputError("; ".join(f"{name}: {why}" for name, why in found.failed.items()))
    columns = score_names(dev) if set(score_names(dev)) - set(PAIR) else list(PAIR)
    frame = trials.frame.drop(score_names(trials))
    results = {}
    for name, fused in fuse_systems(found.systems, *matrices(trials, columns)).items():
        asv, cm, sasv = (np.asarray(side) for side in fused)
        sides = {"asv_score": asv, "cm_score": cm, f"sasv_{name}": sasv}
        results[name] = evaluate({**frame.to_dict(), **sides}, ci="none", **said)
    return results


def _checked(claim: Mapping[str, Any], kind: str, folder: Path) -> tuple[str, str | None]:
    """Score files of a claim as ``evaluate`` takes them, and their key, as their SHA-256 says."""
    sources: list[str] = []
    keys: list[str] = []
    for one in claim.get(kind) or ():
        if not isinstance(one, dict) or "path" not in one:
            raise InputError(f"each of {kind} needs a path")
        if kind == "files" and one.get("set", claim.get("set")) != claim.get("set"):
            continue  # of another set
        path = folder / str(one["path"])
        if not path.is_file():
            raise InputError(f"no file {one['path']}")
        if one.get("sha256") is not None and sha256(path) != str(one["sha256"]).lower():
            raise InputError(f"{one['path']} has another SHA-256")
        role = one.get("role")
        (keys if role == "key" else sources).append(f"{role}={path}" if role else str(path))
    if not sources:
        raise InputError("no score files")
    return ",".join(sources), ",".join(one.removeprefix("key=") for one in keys) or None


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
    if metric in VERSIONS:
        yield f"version {VERSIONS[metric]}", partial(_recomputed, VERSIONS[metric], used)
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


Ways: TypeAlias = list[tuple[tuple[str, ...], str, dict[str, Any]]]
"""Options that name something, its field in the settings, and known values by their names."""


def _settings(
    metric: str, named: Mapping[str, Any], used: Settings
) -> Iterator[tuple[str, Settings]]:
    """Settings that a claim does not name."""
    for options, field, ways in _ways(metric):
        if not {*options} & named.keys():
            for way, value in ways.items():
                if value != getattr(used, field):
                    yield way, replace(used, **{field: value})


def _ways(metric: str) -> Ways:
    """What a metric depends on."""
    costs = {f"costs {name}": preset for name, preset in PRESETS.items()}
    points = {f"point {name}": preset for name, preset in ASV_POINTS.items()}
    both = ("tandem_costs", "cm_dcf")
    kinds: dict[str, Ways] = {  # the first that a metric ends with
        "t_eer": [(("t_eer_rule",), "t_eer_rule", {"reference rule": "reference"})],
        "eer": [(("convention",), "convention", {name: name for name in CONVENTIONS})],
        "a_dcf": [(("costs",), "costs", costs)],
        "asv_min_dcf": [(("dcf",), "asv_points", points)],
        "asv_act_dcf": [(("dcf",), "asv_points", points)],
        "min_t_dcf": [
            (("tandem_costs",), "tandem_costs", costs),
            (("asv_rates",), "asv_rates", {"ASV rates asvspoof5": ASVSPOOF5_RATES}),
        ],
        "t_dcf_legacy": [(("tandem_costs",), "tandem_costs", costs)],
        "dcf": [
            (both, "tandem_costs", costs),
            (both, "cm_point", {"point equal": CM_POINTS["equal"]}),
        ],
    }
    return next((ways for end, ways in kinds.items() if metric.endswith(end)), [])


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
