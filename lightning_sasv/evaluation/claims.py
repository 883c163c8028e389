"""Published values against what their score files give: ``lightning referee``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from lightning_sasv.errors import InputError, meant
from lightning_sasv.evaluation.recomputing import READ, FilesOfClaims, by_speaker, drawn_by, others
from lightning_sasv.evaluation.results_table import Results
from lightning_sasv.files import read_yaml, write_text
from lightning_sasv.metrics.registry import METRICS, in_unit
from lightning_sasv.places import head, refuse
from lightning_sasv.terminal import in_a_row

PLAIN = re.compile(r"(?:± ?|[+-])?(?=.{1,20}$)(\d+(\.\d*)?|\.\d+)", re.ASCII)
"""A value as papers print it; ``± 0.23`` is half the length of its 95 % interval."""

FIELDS = ("system", "metric", "set", "published", "source", "files", "dev", "note", "options")
NEEDED = ("system", "metric", "published")
READING = (
    *READ,
    *("where", "convention", "costs", "tandem_costs", "asv_rates", "t_eer_rule", "dcf", "cm_dcf"),
)
"""Options of ``evaluate`` that a claim may set; a convention or costs among them is the named one,
and no other is tried."""
HEADINGS = ("system", "metric", "set", "published", "recomputed", "verdict", "what explains it")
_HEAD = f"| {' | '.join(HEADINGS)} |"
_HTML = re.compile(r"<(?!https?://[^\s<>]+>)")
"""Any but addresses, which stand in angle brackets."""


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
    def is_open(self) -> bool:
        """Whether the value could not be recomputed."""
        return self.status.startswith("cannot be recomputed")

    @property
    def row(self) -> tuple[str, ...]:
        """:attr:`cells` with the note, as a page shows them."""
        system, metric, *cells = self.cells
        unit = METRICS[metric].unit if metric in METRICS else ""
        named = f"`{metric}`" + (" %" if unit == "rate" else "")
        return (system, named, *cells, str(self.claim.get("note") or ""))

    @property
    def cells(self) -> tuple[str, ...]:
        """System, metric, set, published, recomputed (two digits more than published), status."""
        shown = "–" if math.isnan(self.value) else f"{self.value:.{_digits(self.claim) + 2}f}"
        names = (str(self.claim.get(name) or "–") for name in ("system", "metric", "set"))
        return (*names, str(self.claim["published"]), shown, self.status)


def referee(
    claims: str,
    replicates: int = 1000,
    files: str | None = None,
    markdown: str | None = None,
    overwrite: bool = False,
) -> list[Verdict]:
    """Compare published values with those that their score files give.

    A claim has a system, a metric (sasv_eer, cm_eer, min_a_dcf, …), what was published, as text so
    that its digits count, and may have a set, a source, a note, options of evaluate that say how
    files are read, and files: path (seen from the claims) and, where needed, sha256, role (asv,
    cm, sasv, key) and set. The set of a claim selects among its files and, where they have a column
    set, subset or split, among their trials. Rates are in per cent; "± 0.23" is half the length of
    a 95 % interval. Equal is what differs by at most half a unit of the last digit printed; where
    no convention or costs are named, every known one is tried, and how many is said. With files
    `dev` the system is fitted on these, as `lightning fuse` does it, and applied to the others.

    Args:
        claims: YAML file with a list `claims`, and `title` and `about` of a page of them.
        replicates: Bootstrap replicates of intervals by speaker, where values differ.
        files: Folder that paths are seen from; by default that of CLAIMS.
        markdown: File to write a page of the verdicts to.
        overwrite: Replace the file MARKDOWN though it holds something else.

    Returns:
        A verdict on each claim.
    """
    content = read_yaml(claims)
    listed = content.get("claims") if isinstance(content, dict) else None
    if not isinstance(listed, list) or not listed:
        raise InputError(f"{claims}: expected a list `claims`, each with {', '.join(NEEDED)}")
    for number, claim in enumerate(listed, 1):
        _check(claim, f"{claims}, claim {number}")
    read = FilesOfClaims(Path(claims).parent if files is None else Path(files), listed)
    verdicts = [_verdict(claim, read, replicates) for claim in listed]
    if markdown is not None:
        title, about = (str(content.get(name) or "") for name in ("title", "about"))
        write_page(markdown, title or "Published and recomputed", about, verdicts, overwrite)
    return verdicts


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
    if not isinstance(options, dict) or not all(
        isinstance(claim.get(kind) or [], list) for kind in ("files", "dev")
    ):
        raise InputError(
            f"{where}: options are `name: value`, files and dev lists of `path`, `sha256`"
        )
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
    return max(0, -int(Decimal(_number(claim)).as_tuple().exponent))


def _number(claim: Mapping[str, Any]) -> str:
    """The published number without its sign of an interval."""
    return str(claim["published"]).lstrip("± ")


def agrees(published: str, value: float) -> bool:
    """Whether a value is within half a unit of the last digit that was printed.

    Example:
        >>> agrees("1.40", 1.4049), agrees("1.4", 1.4499), agrees("1.40", 1.4051)
        (True, True, False)
    """
    if math.isnan(value):
        return False
    half = Decimal(5).scaleb(int(Decimal(published).as_tuple().exponent) - 1)
    return abs(value - float(published)) <= float(half) * (1 + 1e-9)


def _verdict(claim: Mapping[str, Any], read: FilesOfClaims, replicates: int) -> Verdict:
    try:
        found = read(claim)
        system, metric = _system(claim, found), claim["metric"]
        _check_columns(metric, found.systems.columns.get(system))
        value = in_unit(found.value(system, metric), METRICS[metric].unit)
        if claim["published"].startswith("±"):
            return _interval_verdict(claim, found, system, replicates)
    except InputError as error:
        return Verdict(claim, math.nan, f"cannot be recomputed ({error})")
    if agrees(claim["published"], value):
        return Verdict(claim, value, "equal")
    tried = {way: other(found, system) for way, other in others(claim, found, value)}
    for way, other in tried.items():
        if agrees(claim["published"], other):
            which = f"{way}; {len(tried) + 1} tried"
            return Verdict(claim, other, f"equal under another convention ({which})")
    told = ", ".join(f"{way} {other:.{_digits(claim) + 2}f}" for way, other in tried.items())
    if math.isnan(value):
        why = read.reason(found, system, metric)
        return Verdict(
            claim, value, f"cannot be recomputed ({'; '.join(filter(None, (why, told)))})"
        )
    ends = by_speaker(found, system, metric, replicates)
    turned = f"; negated {tried['negated']:.{_digits(claim) + 2}f}" if "negated" in tried else ""
    if ends is None:
        return Verdict(claim, value, f"differs{turned}")
    low, high = (in_unit(end, METRICS[metric].unit) for end in (ends.low, ends.high))
    inside = low <= float(claim["published"]) <= high
    shown = f"{low:.{_digits(claim)}f} to {high:.{_digits(claim)}f}"
    where = ", inside the interval by speaker" if inside else "; interval by speaker"
    return Verdict(claim, value, f"differs{where} ({shown}){turned}")


def _check_columns(metric: str, columns: Mapping[str, Any] | None) -> None:
    """Raise where a system lacks the scores that a metric is computed from."""
    lacking = [name for name in METRICS[metric].columns if name not in (columns or {})]
    if columns and lacking and not METRICS[metric].of_rates:
        raise InputError(f"{metric} needs {' and '.join(lacking)} scores, which the files lack")


def _interval_verdict(
    claim: Mapping[str, Any], found: Results, system: str, replicates: int
) -> Verdict:
    """Half the length of an interval: as papers print it by trial, else by speaker."""
    metric, number = claim["metric"], _number(claim)
    unit, places = METRICS[metric].unit, _digits(claim)
    trial = drawn_by(found, system, metric, "trial", replicates).interval(method="interpolated")
    value = in_unit(trial.half_width, unit)
    speaker = by_speaker(found, system, metric, replicates)
    told, other = "", math.nan
    if speaker is not None:
        low, high = (in_unit(end, unit) for end in (speaker.low, speaker.high))
        told, other = f"; by speaker {low:.{places}f} to {high:.{places}f}", (high - low) / 2
    if agrees(number, value):
        return Verdict(claim, value, f"equal (by trial{told})")
    if agrees(number, other):
        return Verdict(claim, other, "equal under another convention (by speaker; 2 tried)")
    return Verdict(claim, value, f"differs (by trial{told})")


def _system(claim: Mapping[str, Any], found: Results) -> str:
    """The system of a claim in its files: the only one, or the one of its name."""
    able = [name for name, own in found.metrics.items() if claim["metric"] in own]
    able = able or [*found.metrics]
    if claim["system"] in able or len(able) != 1:
        return str(claim["system"])
    return able[0]


def sources_of(verdicts: Sequence[Verdict]) -> list[str]:
    """Sources and notes, each once, with the claims that have them."""
    claims: dict[str, list[str]] = {}
    for one in verdicts:
        said = [str(one.claim[name]) for name in ("source", "note") if one.claim.get(name)]
        if said:
            named = f"{one.claim['system']}, {one.claim['metric']}"
            claims.setdefault("; ".join(said), []).append(named)
    return [f"{'; '.join(dict.fromkeys(named))}: {said}" for said, named in claims.items()]


def write_page(
    path: str | Path, title: str, about: str, verdicts: Sequence[Verdict], overwrite: bool = False
) -> Path:
    """Write a page of verdicts.

    Args:
        path: File to write.
        title: Its heading.
        about: What stands before the tables.
        verdicts: What it is of; those that could not be recomputed have a table of their own.
        overwrite: Replace the file though it holds something else.

    Raises:
        InputError: The file holds something else.
    """
    if not overwrite and Path(path).exists() and _HEAD not in head(Path(path)):
        refuse(path, "something else than published and recomputed values", "another --markdown")
    lines = [f"# {_one_line(title)}", "", *_HTML.sub("&lt;", about).strip().splitlines()]
    for heading, is_open in {"Recomputed": False, "Not recomputed here": True}.items():
        rows = [one.row for one in verdicts if one.is_open is is_open]
        if rows:
            lines += ["", f"## {heading}", "", _HEAD, "|---" * len(HEADINGS) + "|"]
            lines += [f"| {' | '.join(map(_one_line, row))} |" for row in rows]
    sources = (one.claim.get("source") for one in verdicts)
    listed = [f"- {_one_line(str(source))}" for source in dict.fromkeys(filter(None, sources))]
    if listed:
        lines += ["", "## Sources", "", *listed]
    return write_text(path, "\n".join(lines) + "\n")


def _one_line(text: str) -> str:
    """Text that ends neither a cell nor a line, and holds no HTML."""
    return in_a_row(_HTML.sub("&lt;", text))
