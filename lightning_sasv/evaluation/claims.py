"""Published values against what their score files give: ``lightning referee``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

from lightning_sasv.decisions.costs import PRESETS
from lightning_sasv.errors import InputError, meant
from lightning_sasv.evaluation.results_table import Results
from lightning_sasv.evaluation.run import evaluate
from lightning_sasv.files import read_yaml, sha256
from lightning_sasv.metrics.bootstrap import resample
from lightning_sasv.metrics.functional.eer import Convention
from lightning_sasv.metrics.intervals import Interval
from lightning_sasv.metrics.registry import METRICS, Settings, in_unit

PLAIN = re.compile(r"[+-]?(?=.{1,20}$)(\d+(\.\d*)?|\.\d+)", re.ASCII)
"""A value as papers print it."""

FIELDS = ("system", "metric", "set", "published", "source", "files", "note", "options")
NEEDED = ("system", "metric", "published")
READING = (
    *("format", "key_format", "columns", "labels", "ids", "negate", "log", "where"),
    *("allow_missing", "convention", "costs", "tandem_costs", "asv_rates", "t_eer_rule", "dcf"),
)
"""Options of ``evaluate`` that a claim may set; a convention or costs among them is the named one,
and no other is tried."""

CONVENTIONS: tuple[Convention, ...] = get_args(Convention)


@dataclass(frozen=True)
class Verdict:
    """A claim, and what became of it.

    Attributes:
        claim: What the file says of it, as it stands.
        value: What was recomputed, in the unit of the claim; NaN where it could not be.
        status: ``equal``, ``equal under another convention (…)``, ``differs, inside the interval by
            speaker (…)``, ``differs`` or ``cannot be recomputed (…)``.
    """

    claim: Mapping[str, Any]
    value: float
    status: str

    @property
    def cells(self) -> tuple[str, ...]:
        """System, metric, set, published, recomputed (two digits more than published), status."""
        shown = "–" if math.isnan(self.value) else f"{self.value:.{_digits(self.claim) + 2}f}"
        names = (str(self.claim.get(name) or "–") for name in ("system", "metric", "set"))
        return (*names, str(self.claim["published"]), shown, self.status)


def referee(claims: str, replicates: int = 1000) -> list[Verdict]:
    """Compare published values with those that their score files give.

    A claim has a system, a metric (sasv_eer, cm_eer, min_a_dcf, …), what was published, as text so
    that its digits count, and may have a set, a source, a note, options of evaluate that say how
    files are read, and files: path (seen from the claims), sha256 and, where needed, role (asv,
    cm, sasv, key). Rates are in per cent. Equal is what differs by at most half a unit of the last
    digit printed; where no convention or costs are named, every known one is tried, and how many
    is said.

    Args:
        claims: YAML file with a list `claims`.
        replicates: Bootstrap replicates of intervals by speaker, where values differ.

    Returns:
        A verdict on each claim.
    """
    content = read_yaml(claims)
    listed = content.get("claims") if isinstance(content, dict) else None
    if not isinstance(listed, list) or not listed:
        raise InputError(f"{claims}: expected a list `claims`, each with {', '.join(NEEDED)}")
    for number, claim in enumerate(listed, 1):
        _check(claim, f"{claims}, claim {number}")
    return [_verdict(claim, Path(claims).parent, replicates) for claim in listed]


def _check(claim: Any, where: str) -> None:
    """Raise where a claim is none."""
    if not isinstance(claim, dict):
        raise InputError(f"{where}: expected {', '.join(FIELDS)}")
    for name in claim.keys() - set(FIELDS):
        raise InputError(f"{where}: unknown field {name!r}{meant(str(name), FIELDS)}")
    for name in NEEDED:
        if not isinstance(claim.get(name), str):
            raise InputError(f'{where}: {name} must be text, e.g. published: "1.40"')
    options = claim.get("options") or {}
    if not isinstance(options, dict) or not isinstance(claim.get("files") or [], list):
        raise InputError(f"{where}: options are `name: value`, files a list of `path`, `sha256`")
    for name in [n for n, own in options.items() if not isinstance(own, _kind(n))]:
        raise InputError(f"{where}: option {name!r} is no text for one of {', '.join(READING)}")
    if not PLAIN.fullmatch(claim["published"]):
        raise InputError(f"{where}: published {claim['published']!r} is no number")


def _kind(option: str) -> type | tuple[()]:
    """What an option is; nothing is an option that is none."""
    if option not in READING:
        return ()
    return bool if option == "allow_missing" else str


def _digits(claim: Mapping[str, Any]) -> int:
    """Decimals that a value was published with."""
    return max(0, -int(Decimal(claim["published"]).as_tuple().exponent))


def agrees(published: str, value: float) -> bool:
    """Whether a value is within half a unit of the last digit that was printed.

    Example:
        >>> agrees("1.40", 1.4049), agrees("1.4", 1.4499), agrees("1.40", 1.4051)
        (True, True, False)
    """
    half = Decimal(5).scaleb(int(Decimal(published).as_tuple().exponent) - 1)
    return abs(value - float(published)) <= float(half) * (1 + 1e-9)


def _verdict(claim: Mapping[str, Any], folder: Path, replicates: int) -> Verdict:
    try:
        found = _evaluated(claim, folder)
        system, metric = _system(claim, found), claim["metric"]
        unit = METRICS[metric].unit
        value = in_unit(found.value(system, metric), unit)
    except InputError as error:
        return Verdict(claim, math.nan, f"cannot be recomputed ({error})")
    if math.isnan(value):
        reason = "undefined of these trials"
        return Verdict(claim, value, f"cannot be recomputed ({reason})")
    if agrees(claim["published"], value):
        return Verdict(claim, value, "equal")
    others = list(_others(metric, claim.get("options") or {}, found.options.settings))
    for way, settings in others:
        other = in_unit(found.systems.metrics(settings)[system].get(metric, math.nan), unit)
        if agrees(claim["published"], other):
            tried = f"{way}; {len(others) + 1} tried"
            return Verdict(claim, other, f"equal under another convention ({tried})")
    ends = _by_speaker(found, system, metric, replicates)
    if ends is None:
        return Verdict(claim, value, "differs")
    low, high = (in_unit(end, unit) for end in (ends.low, ends.high))
    inside = low <= float(claim["published"]) <= high
    shown = f"{low:.{_digits(claim)}f} to {high:.{_digits(claim)}f}"
    where = ", inside the interval by speaker" if inside else "; interval by speaker"
    return Verdict(claim, value, f"differs{where} ({shown})")


def _evaluated(claim: Mapping[str, Any], folder: Path) -> Results:
    """The files of a claim, evaluated as it says."""
    sources: list[str] = []
    keys: list[str] = []
    for one in claim.get("files") or ():
        if not isinstance(one, dict) or not {"path", "sha256"} <= one.keys():
            raise InputError("each of files needs path and sha256")
        path = folder / str(one["path"])
        if not path.is_file():
            raise InputError(f"no file {one['path']}")
        if sha256(path) != str(one["sha256"]).lower():
            raise InputError(f"{one['path']} has another SHA-256")
        role = one.get("role")
        (keys if role == "key" else sources).append(f"{role}={path}" if role else str(path))
    if not sources:
        raise InputError("no score files")
    if claim["metric"] not in METRICS:
        raise InputError(f"no metric {claim['metric']!r}{meant(claim['metric'], METRICS)}")
    options = claim.get("options") or {}
    key = ",".join(one.removeprefix("key=") for one in keys) or None
    return evaluate([",".join(sources)], key=key, ci="none", **options)


def _system(claim: Mapping[str, Any], found: Results) -> str:
    """The system of a claim in its files: the only one, or the one of its name."""
    able = [name for name, own in found.metrics.items() if claim["metric"] in own]
    if claim["system"] in able or len(able) != 1:
        return str(claim["system"])
    return able[0]


def _others(
    metric: str, named: Mapping[str, Any], used: Settings
) -> Iterator[tuple[str, Settings]]:
    """Settings that somebody else may have computed a metric with, where a claim names none."""
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


def _by_speaker(found: Results, system: str, metric: str, replicates: int) -> Interval | None:
    """Interval of a metric by speaker; ``None`` where speakers are not known or too few."""
    if "speaker" not in found.systems.table or METRICS[metric].lower_is_better is None:
        return None
    drawn = resample(
        {system: found.systems.columns[system]},
        found.systems.labels,
        {system: [metric]},
        found.systems.clusters("speaker"),
        replicates,
        settings=found.options.settings,
    )
    ends = drawn[system][metric].interval()
    return None if math.isnan(ends.low) else ends


def sources_of(verdicts: Sequence[Verdict]) -> list[str]:
    """Source and note of each claim that has one."""
    lines = []
    for one in verdicts:
        said = [str(one.claim[name]) for name in ("source", "note") if one.claim.get(name)]
        if said:
            lines.append(f"{one.claim['system']}, {one.claim['metric']}: {'; '.join(said)}")
    return lines
