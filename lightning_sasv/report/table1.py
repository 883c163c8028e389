"""Table 1 of the paper: means over seeds beside the published numbers, and their order."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from lightning_sasv.errors import InputError
from lightning_sasv.files import read_json
from lightning_sasv.fusion.doubts import FitWarning, as_warnings, is_doubtful, marked
from lightning_sasv.fusion.zoo import JOINT_SYSTEMS
from lightning_sasv.metrics.registry import BRIEF, METRICS, Metric, in_unit, metrics_for
from lightning_sasv.metrics_file import (
    SAME,
    Metrics,
    blocks,
    of_in,
    pairs_in,
    parts_of,
    rates_words,
    shares_words,
    twin_words,
    values_in,
)
from lightning_sasv.record import Of
from lightning_sasv.report.formats import sentence
from lightning_sasv.report.sure import Sure
from lightning_sasv.report.tables import cost_words
from lightning_sasv.results import value_of
from lightning_sasv.trials import SPLITS, TWIN

_KNOWN = read_json(Path(__file__).with_name("table1.json"))
PAPER: dict[str, dict[str, float]] = _KNOWN["paper"]
"""Table 1 of Wang et al. (Interspeech 2024): six-seed means on SASV 2022 eval, rates in %."""
FINGERPRINT: str = _KNOWN["fingerprint"]
"""Of the trials of SASV 2022 eval."""


@dataclass(frozen=True)
class Cell:
    """A metric over seeds; rates in per cent.

    Attributes:
        metric: What it is.
        mean: Mean over seeds; NaN where a seed has no value.
        spread: Standard deviation between seeds; NaN for one seed.
        seeds: The value of each seed.
        ends: Interval of the mean as ``metrics.json`` has it; empty where there is none.
        reason: Why there is no mean.
        paper: The published value, if there is one.
    """

    metric: Metric
    mean: float
    spread: float
    seeds: tuple[float, ...]
    ends: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    paper: float | None = None

    @property
    def low(self) -> float:
        """Lower end of the interval; NaN where there is none."""
        return in_unit(value_of(self.ends, "low"), self.metric.unit)

    @property
    def high(self) -> float:
        """Upper end of the interval; NaN where there is none."""
        return in_unit(value_of(self.ends, "high"), self.metric.unit)


@dataclass(frozen=True)
class Row:
    """One system of the table.

    Attributes:
        system: Its name.
        cells: Metrics by name, in the order of the table.
        t_eer: Mean t-EER of the pair that it fuses, in per cent; that of the closest point where a
            seed has no concurrent one.
        doubtful: Whether dev trials may have misled its fit.
        letters: Compact letters in the SASV-EER; empty where there are none.
    """

    system: str
    cells: dict[str, Cell]
    t_eer: float = math.nan
    doubtful: bool = False
    letters: str = ""

    @property
    def label(self) -> str:
        """The name, marked where the fit is doubtful."""
        return marked(self.system, self.doubtful)


def beside_paper(of: Mapping[str, Any]) -> bool:
    """Whether the paper's numbers belong beside results: those of SASV 2022 eval, or of its twin.

    Example:
        >>> beside_paper({"simulated": True}), beside_paper({"corpus": "VoxCeleb"})
        (True, False)
    """
    name = re.sub(r"[^a-z0-9]", "", str(of.get("corpus")).lower())
    real = of.get("fingerprint") == FINGERPRINT or "sasv2022" in name
    return of.get("simulated") is True or of.get("corpus") == TWIN or real


def make_rows(
    metrics: Metrics,
    systems: Sequence[str],
    paper: bool = True,
    letters: Mapping[str, str] | None = None,
) -> list[Row]:
    """Rows of the table from its ``metrics.json``, in the order of ``systems``.

    Args:
        metrics: Means over seeds: what :func:`mean_metrics` gives.
        systems: Names of the systems.
        paper: Whether the paper's numbers are wanted; they stand beside SASV 2022 and its twin.
        letters: Compact letters of the systems.
    """
    rows = []
    for system in systems:
        entry = metrics[system]
        own, values = entry["sets"]["eval"], values_in(entry, "eval")
        known = PAPER.get(system, {}) if paper and beside_paper(of_in(entry, "eval")) else {}
        cells = {
            metric.name: _cell(metric, own, known.get(metric.name))
            for metric in metrics_for("table1")
        }
        t_eer = value_of(values, "t_eer")
        t_eer = value_of(values, "t_eer_closest") if math.isnan(t_eer) else t_eer
        doubtful = is_doubtful(as_warnings(entry.get("warnings", [])))
        rows.append(Row(system, cells, 100 * t_eer, doubtful, (letters or {}).get(system, "")))
    return rows


def _cell(metric: Metric, own: Mapping[str, Any], paper: float | None) -> Cell:
    name, unit = metric.name, metric.unit
    mean, spread = (
        in_unit(value_of(own.get(part, {}), name), unit) for part in ("values", "spread")
    )
    by_seed = own.get("per_seed", {}).values()
    seeds = tuple(in_unit(value_of(values, name), unit) for values in by_seed)
    ends = own.get("intervals", {}).get(name, {})
    return Cell(metric, mean, spread, seeds, ends, own.get("undefined", {}).get(name, ""), paper)


def seed_of(entry: Mapping[str, Any]) -> int:
    """The seed of a folder ``seed<N>``."""
    seeds = of_in(entry, "eval")["seeds"]
    return int(seeds[0]) if isinstance(seeds, list) else -1


def check_seeds(seeds: Sequence[Metrics], systems: Sequence[str]) -> None:
    """Refuse to make one table of results that are parts, or of different kinds.

    Raises:
        InputError: A set was scored in part, or seeds differ in device, precision, trials or costs.
    """
    chosen = [{name: metrics[name] for name in systems} for metrics in seeds]
    for metrics in chosen:
        if parts := parts_of(metrics):
            seed = seed_of(metrics[systems[0]])
            raise InputError(f"seed {seed} has {parts[0]}; a table needs all of them")
    first = {split: of for _, split, of in blocks(chosen[0])}
    for metrics in chosen:
        for name, split, of in blocks(metrics):
            noted = first.get(split, of)
            for one in ("device", "precision", *SAME):
                if of[one] != noted[one]:
                    raise InputError(
                        f"seed {seed_of(metrics[name])}, {name}, {split}: {one} {of[one]!s:.60}"
                        f", where another seed has {noted[one]!s:.60}; a table does not mix "
                        "them: choose another --out, or add --overwrite"
                    )


def mean_metrics(seeds: Sequence[Metrics], systems: Sequence[str]) -> Metrics:
    """``metrics.json`` of the whole table: means over seeds, and each seed's own values."""
    merged: Metrics = {}
    for system in systems:
        entries = [metrics[system] for metrics in seeds]
        merged[system] = {
            "sets": {split: _mean_set(entries, split) for split in SPLITS},
            "fitted": {"rho": [entry["fitted"].get("rho") for entry in entries]},
            "fitted_on": _common(list(map(seed_of, entries)), [e["fitted_on"] for e in entries]),
            "warnings": _seed_warnings(entries),
        }
        own = {entry["network"] for entry in entries if "network" in entry}
        merged[system] |= {"network": own.pop()} if own else {}
    return merged


def _mean_set(entries: Sequence[Mapping[str, Any]], split: str) -> dict[str, Any]:
    """Means over seeds of a set, the spread between them, and each seed's own values."""
    seeds, values = [seed_of(one) for one in entries], [values_in(one, split) for one in entries]
    columns = {key: [value_of(one, key) for one in values] for key in values[0]}
    reasons = [one["sets"][split].get("undefined", {}) for one in entries]
    found = {
        "values": {key: statistics.fmean(column) for key, column in columns.items()},
        "undefined": _undefined(seeds, reasons),
        "spread": {key: _spread(column) for key, column in columns.items()},
        "per_seed": {str(seed): one for seed, one in zip(seeds, values, strict=True)},
        "of": _common(seeds, [of_in(entry, split) for entry in entries]) | {"seeds": seeds},
    }
    return found


def _undefined(seeds: Sequence[int], reasons: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Why means are undefined: a reason that all seeds share, or that of the first with one."""
    found = {}
    for seed, own in reversed(list(zip(seeds, reasons, strict=True))):
        for key, why in own.items():
            same = all(other.get(key) == why for other in reasons)
            found[key] = why if same else f"seed {seed}: {why}"
    return found


def _spread(values: Sequence[float]) -> float:
    """Standard deviation, K − 1 in the denominator; NaN for one value."""
    known = len(values) > 1 and all(map(math.isfinite, values))
    return statistics.stdev(values) if known else math.nan


def _common(seeds: Sequence[int], blocks: Sequence[Of]) -> Of:
    """One block for all seeds: what they agree in, and by seed what they do not."""
    found = {}
    for name, first in blocks[0].items():
        by_seed = {str(seed): of[name] for seed, of in zip(seeds, blocks, strict=True)}
        same = all(value == first for value in by_seed.values())
        found[name] = first if same else by_seed
    return found


def _seed_warnings(entries: Sequence[Mapping[str, Any]]) -> list[FitWarning]:
    """What makes the fits of a system doubtful, each with the seeds that it is of."""
    by_text: dict[str, tuple[FitWarning, list[str]]] = {}
    for entry in entries:
        for one in as_warnings(entry.get("warnings", [])):
            by_text.setdefault(one["text"], (one, []))[1].append(str(seed_of(entry)))
    return [
        {**one, "text": f"seed {', '.join(seeds)}: {text}"}
        for text, (one, seeds) in by_text.items()
    ]


def notes(rows: Sequence[Row], metrics: Metrics, sure: Sure) -> list[str]:
    """What a reader of the table must know."""
    known: dict[str, str] = _KNOWN["notes"]
    of = next(of for _, _, of in blocks(metrics, "eval"))
    seeds, caption = len(of["seeds"]), sure.caption
    corpus = "; ".join([f"Corpus: {of['corpus']}", *twin_words(metrics)])
    mean = f"Mean over {seeds} seeds" if seeds > 1 else "One seed"
    lines = [f"{corpus}. {mean}" + (f" [95 %: {caption}]" if caption else "") + "."]
    if seeds > 1:
        lines.append("±: standard deviation between the seeds.")
    if seeds == 2:
        lines.append(
            "Two seeds give no useful interval: in brackets are the values of both; comparisons "
            "draw enrolled speakers alone."
        )
    lines += [f"{rates_words(metrics, 'eval')}.", f"{cost_words(metrics, 'eval')}."]
    lines += map(sentence, sure.notes)
    lines += _compared(sure)
    if shares := shares_words(metrics, "eval"):
        lines.append(f"Misses of the worst speaker, of all misses: {shares}.")
    if any(cell.paper is not None for row in rows for cell in row.cells.values()):
        lines.append(known["paper"])
    if of["simulated"] is True or of["corpus"] == TWIN:
        lines.append(known["twin"])
    if joint := [name for name in metrics if name in JOINT_SYSTEMS]:
        listed = " and ".join(filter(None, [", ".join(joint[:-1]), joint[-1]]))
        lines.append(f"{listed}: {known['joint']}")
    own = any("network" in metrics.get(name, {}) for name in ("B1v2", "Post"))
    if own or any(r.system in ("B1v2", "Post") and r.cells["sasv_eer"].paper for r in rows):
        lines.append(known["network" if own else "one_network"])
    return lines


def _compared(sure: Sure) -> list[str]:
    """Which systems cannot be told apart from the reference, and where seeds seem to do so."""
    if not (found := sure.against("sasv_eer")):
        return []
    best, chosen = sure.reference["sasv_eer"], "best on dev" if sure.on_dev else "best here"
    near = ", ".join(sure.alike("sasv_eer")[1:]) or "none"
    lines = [f"SASV-EER, not distinguishable from {best} ({chosen}): {near}; {found[0].family}."]
    if sure.letters:
        lines.append("Systems that share a letter are not told apart in the SASV-EER (all pairs).")
    against = [one.verdict for one in found if one.verdict.startswith("all ")]
    return [*lines, *map(sentence, against)]


def pair_lines(metrics: Metrics, paper: bool) -> list[tuple[str, str, str]]:
    """Of each pair of scores the systems that fuse it, its t-EER in per cent, and the paper's."""
    lines = []
    for names, values in pairs_in(metrics, "eval"):
        known = [PAPER[name]["t_eer"] for name in names if paper and name in PAPER]
        shown = ", ".join(dict.fromkeys(f"{one:.2f}" for one in known))
        lines.append((", ".join(names), METRICS["t_eer"].shown(values, BRIEF), shown))
    return lines


class Check(NamedTuple):
    """One statement about the table and whether it holds."""

    statement: str
    holds: bool


def order_checks(rows: Sequence[Row]) -> list[Check]:
    """The order of the paper's Table 1; empty unless all eight systems of the paper are there."""
    by_name: Mapping[str, Row] = {row.system: row for row in rows}
    if not by_name.keys() >= PAPER.keys():
        return []
    eer = {name: row.cells["sasv_eer"].mean for name, row in by_name.items()}
    cllr = {name: row.cells["cllr"].mean for name, row in by_name.items()}
    t_eer = {name: row.t_eer for name, row in by_name.items()}
    calibrated = ("L2c", "L3", "L3c")
    return [
        Check("SASV-EER of B1 above 15 %", eer["B1"] > 15),
        Check("L2 above L2c", eer["L2"] > eer["L2c"]),
        Check("B1c above L2c", eer["B1c"] > eer["L2c"]),
        Check("L3 at most L2c + 0.1", eer["L3"] <= eer["L2c"] + 0.1),
        Check("L3c at most L2c + 0.1", eer["L3c"] <= eer["L2c"] + 0.1),
        Check("L3c between 0.8 and 2.5 %", 0.8 <= eer["L3c"] <= 2.5),
        Check("Cllr of L2c, L3 and L3c below 0.3", all(cllr[name] < 0.3 for name in calibrated)),
        Check("Cllr of B1 above 1", cllr["B1"] > 1),
        Check("t-EER of B1 equal to that of B1c", abs(t_eer["B1"] - t_eer["B1c"]) < 1e-9),
    ]
