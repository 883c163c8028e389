"""Table 1 of the paper: means over seeds beside the published numbers, and their order."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from lightning_sasv.errors import InputError
from lightning_sasv.files import read_json
from lightning_sasv.fusion.doubts import FitWarning, as_warnings, is_doubtful, marked
from lightning_sasv.metrics.registry import Metric, in_unit, metrics_for
from lightning_sasv.metrics_file import SAME, Metrics, blocks, of_in, parts_of, values_in
from lightning_sasv.record import Of
from lightning_sasv.results import value_of
from lightning_sasv.trials import SPLITS, TWIN

_KNOWN = read_json(Path(__file__).with_name("table1.json"))
PAPER: dict[str, dict[str, float]] = _KNOWN["paper"]
"""Table 1 of Wang et al. (Interspeech 2024): six-seed means on SASV 2022 eval, rates in %."""
PAPER_HALF_WIDTHS: dict[str, float] = _KNOWN["half_widths"]
"""Half the length of the paper's 95 % intervals of the SASV-EER, in %."""


@dataclass(frozen=True)
class Cell:
    """A metric over seeds; rates in per cent.

    Attributes:
        mean: Mean over seeds.
        spread: Standard deviation between seeds; NaN for one seed.
        paper: The published value, if there is one.
        marked: Whether another metric stands in for it in some seed: for the t-EER that of the
            closest point.
    """

    mean: float
    spread: float
    paper: float | None = None
    marked: bool = False


@dataclass(frozen=True)
class Row:
    """One system of the table.

    Attributes:
        system: Its name.
        cells: Metrics by name, in the order of the table.
        low: Lower end of the SASV-EER's 95 % interval in per cent (NaN if not computed).
        high: Upper end.
        interval_seed: The seed that the interval is of.
        doubtful: Whether dev trials may have misled its fit.
    """

    system: str
    cells: dict[str, Cell]
    low: float = math.nan
    high: float = math.nan
    interval_seed: int | None = None
    doubtful: bool = False

    @property
    def label(self) -> str:
        """The name, marked where the fit is doubtful."""
        return marked(self.system, self.doubtful)

    @property
    def half_width(self) -> float:
        """Half the length of the interval (NaN if not computed), as the paper gives it."""
        return (self.high - self.low) / 2

    @property
    def paper_half_width(self) -> float | None:
        """The paper's, if there is one."""
        return PAPER_HALF_WIDTHS.get(self.system)


def _cell(system: str, metric: Metric, entries: Sequence[Mapping[str, Any]]) -> Cell:
    values, marked = [value_of(entry, metric.name) for entry in entries], False
    if metric.instead is not None:
        marked = any(math.isnan(value) for value in values)
        others = [value_of(entry, metric.instead) for entry in entries]
        values = [o if math.isnan(v) else v for v, o in zip(values, others, strict=True)]
    values = [in_unit(value, metric.unit) for value in values]
    paper = PAPER.get(system, {}).get(metric.name)
    return Cell(statistics.fmean(values), _spread(values), paper, marked)


def make_rows(seeds: Sequence[Metrics], systems: Sequence[str]) -> list[Row]:
    """Rows of the table from the metrics of each seed, in the order of ``systems``."""
    rows = []
    for system in systems:
        entries = [metrics[system] for metrics in seeds]
        values = [values_in(entry, "eval") for entry in entries]
        cells = {m.name: _cell(system, m, values) for m in metrics_for("table1")}
        found = [(entry, _interval(entry)) for entry in entries if _interval(entry)]
        row = Row(system, cells, doubtful=is_doubtful(_seed_warnings(entries)))
        for entry, ci in found[:1]:
            ends = {"low": 100 * ci["low"], "high": 100 * ci["high"]}
            row = replace(row, **ends, interval_seed=seed_of(entry))
        rows.append(row)
    return rows


def seed_of(entry: Mapping[str, Any]) -> int:
    """The seed of a folder ``seed<N>``."""
    seeds = of_in(entry, "eval")["seeds"]
    return int(seeds[0]) if isinstance(seeds, list) else -1


def _interval(entry: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = entry["sets"]["eval"].get("intervals", {}).get("sasv_eer", {})
    return found


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
            for field in ("device", "precision", *SAME):
                if of[field] != noted[field]:
                    raise InputError(
                        f"seed {seed_of(metrics[name])}, {name}, {split}: {field} {of[field]!s:.60}"
                        f", where another seed has {noted[field]!s:.60}; a table does not mix "
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
    return merged


def _mean_set(entries: Sequence[Mapping[str, Any]], split: str) -> dict[str, Any]:
    """Means over seeds of a set, the spread between them, and each seed's own values."""
    seeds, values = [seed_of(one) for one in entries], [values_in(one, split) for one in entries]
    columns = {key: [value_of(one, key) for one in values] for key in values[0]}
    reasons = [one["sets"][split].get("undefined", {}) for one in entries]
    found = {
        "values": {key: statistics.fmean(column) for key, column in columns.items()},
        "undefined": {
            key: f"seed {seed}: {why}"
            for seed, own in reversed(list(zip(seeds, reasons, strict=True)))
            for key, why in own.items()
        },
        "spread": {key: _spread(column) for key, column in columns.items()},
        "per_seed": {str(seed): one for seed, one in zip(seeds, values, strict=True)},
        "of": _common(seeds, [of_in(entry, split) for entry in entries]) | {"seeds": seeds},
    }
    intervals = [one["sets"][split].get("intervals") for one in entries]
    known = [one for one in intervals if one]
    return found | ({"intervals": known[0]} if known else {})


def _spread(values: Sequence[float]) -> float:
    """Standard deviation, K − 1 in the denominator; NaN for one value."""
    known = len(values) > 1 and all(map(math.isfinite, values))
    return statistics.stdev(values) if known else math.nan


def _common(seeds: Sequence[int], blocks: Sequence[Of]) -> Of:
    """One block for all seeds: what they agree in, and by seed what they do not."""
    found = {}
    for field in blocks[0]:
        by_seed = {str(seed): of[field] for seed, of in zip(seeds, blocks, strict=True)}
        same = all(value == blocks[0][field] for value in by_seed.values())
        found[field] = blocks[0][field] if same else by_seed
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


def notes(rows: Sequence[Row], corpus: str, seeds: Sequence[int]) -> list[str]:
    """What a reader of the table must know."""
    known: dict[str, str] = _KNOWN["notes"]
    seed = next((row.interval_seed for row in rows if row.interval_seed is not None), None)
    lines = [f"Corpus: {corpus}. Mean over {len(seeds)} seed(s) ± standard deviation between them."]
    if corpus == TWIN:
        lines.append(known["twin"])
    elif any(cell.paper is not None for row in rows for cell in row.cells.values()):
        lines.append(known["paper"])
    if seed is not None:
        lines.append(f"95 %: interval of the SASV-EER by bootstrap over trials, seed {seed}.")
    if any(row.cells["t_eer"].marked for row in rows):
        lines.append(known["closest"])
    if any(row.system in ("B1v2", "Post") for row in rows):
        lines.append(known["network"])
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
    t_eer = {name: row.cells["t_eer"].mean for name, row in by_name.items()}
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
