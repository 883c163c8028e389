"""What each score is worth: each column left out in turn, on held-out dev and on eval.

On dev every trial is scored by the fit without its speaker's fold (as in ``fusion/choice.py``), but
with the ρ of the fit to all of dev; on eval by the fit to all of dev. Differences are paired: all
subsets of columns on the same drawn speakers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lightning_sasv.errors import InputError
from lightning_sasv.evaluation.deciding import preferred
from lightning_sasv.fusion.choice import folds_of
from lightning_sasv.metrics.bootstrap import resample
from lightning_sasv.metrics.intervals import FEWEST_SPEAKERS, Resampled
from lightning_sasv.metrics.registry import METRICS, Settings, in_unit, number
from lightning_sasv.report.sections import OF_WORTH
from lightning_sasv.scores import ScoreTable
from lightning_sasv.scores.columns import matrices
from lightning_sasv.trials import PAIR, SPLITS, FusedScores

if TYPE_CHECKING:
    from lightning_sasv.fusion import FusionSystem

OF_MANY = ("Q3cv", "Q3", "M3")
"""Systems whose columns are looked at first, where several are fitted."""

Values = dict[str, dict[str, Any]]
"""By metric: ``value``, and where a column is left out ``difference``, ``low``, ``high``, ``p``."""


def worth_of(
    systems: Mapping[str, FusionSystem],
    tables: Mapping[str, ScoreTable],
    settings: Settings,
    replicates: int = 1000,
) -> dict[str, Any]:
    """Leave out each column of a fitted system in turn.

    Args:
        systems: Systems, fitted to all columns of dev; of those that give LLRs Q3cv, Q3 or M3 is
            taken, else the first.
        tables: ``dev``, with labels and speakers, and ``eval``.
        settings: Costs and conventions of the metrics.
        replicates: Draws of the intervals.

    Returns:
        Content of ``worth.json``: name and settings of the system, choices by cross-validation
        included; rows of the column that is left out, empty for none, and values by set; remarks.

    Raises:
        InputError: None gives LLRs, or dev has no speakers, or too few of them.
    """
    name = preferred(systems, OF_MANY)
    if name is None:
        raise InputError("--worth: none of the systems gives LLRs; add one that does, as Q3")
    columns, own = list(systems[name].columns.names), fixed_settings(systems[name])
    remarks, subsets = list[str](), {"": columns}
    for column in columns:
        rest = [other for other in columns if other != column]
        kind = column.partition("_")[0]
        if kind != "quality" and not any(other.startswith(f"{kind}_") for other in rest):
            remarks.append(f"{column} is the only {kind.upper()} score and cannot be left out")
            continue
        subsets[column] = rest
    scored = {column: _scored(own, tables, rest) for column, rest in subsets.items()}
    sets: dict[str, dict[str, Values]] = {column: {} for column in subsets}
    few = {split: few_speakers(tables[split], split) for split in SPLITS}
    remarks += [said for said in few.values() if said]
    for split in (split for split in SPLITS if "label" in tables[split]):
        fused = {column: found[split] for column, found in scored.items()}
        n = 0 if few[split] else replicates
        for column, values in _compared(fused, tables[split], settings, n).items():
            sets[column][split] = values
    return {
        "system": name,
        "settings": own,
        "rows": [{"column": column, "sets": found} for column, found in sets.items()],
        "remarks": [*remarks, *_called_out(sets)],
        "replicates": replicates,
    }


def fixed_settings(system: FusionSystem) -> dict[str, Any]:
    """Settings of a fitted system with what it chose by cross-validation."""
    own = dict(system.config)
    if system.choice is not None:
        best = system.choice.best
        words = dict(zip(system.columns.names, best.transforms, strict=False))
        own |= {"order": best.order, "penalty": best.penalty, "transform": words}
    return own


def _scored(
    own: Mapping[str, Any], tables: Mapping[str, ScoreTable], columns: Sequence[str]
) -> dict[str, FusedScores]:
    """Held-out scores of dev, and scores of eval, of the system on some of its columns."""
    dev, transform = tables["dev"], own.get("transform", "none")
    if isinstance(transform, dict):
        own = {**own, "transform": {n: word for n, word in transform.items() if n in columns}}
    names = None if tuple(columns) == PAIR else columns
    whole = _fitted(own, matrices(dev, columns), dev.labels(), names)
    rho = {} if whole.rho is None else {"rho": float(whole.rho)}
    return {
        "dev": _held_out({**own, **rho}, dev, columns, names),
        "eval": _arrays(whole(*matrices(tables["eval"], columns))),
    }


def _fitted(own: Mapping[str, Any], given: Any, labels: Any, names: Any) -> FusionSystem:
    from lightning_sasv.fusion import FusionSystem

    asv, cm, quality = given
    return FusionSystem(**own).fit(asv, cm, labels, quality=quality, columns=names)


def _held_out(
    own: Mapping[str, Any], dev: ScoreTable, columns: Sequence[str], names: Any
) -> FusedScores:
    """Scores of every dev trial by the fit without the speakers of its fold."""
    dev.need(["speaker"], "--worth")
    given, labels = matrices(dev, columns), dev.labels()
    folds = folds_of(dev.text("speaker"), labels)
    result = np.empty((3, len(folds)))
    for fold in range(folds.max() + 1):
        train, held = folds != fold, folds == fold
        kept, left = (
            [None if part is None else part[rows] for part in given] for rows in (train, held)
        )
        result[:, held] = _arrays(_fitted(own, kept, labels[train], names)(*left))
    return FusedScores(*result)


def _arrays(fused: FusedScores) -> FusedScores:
    return FusedScores(*(np.asarray(part) for part in fused))


def few_speakers(table: ScoreTable, split: str) -> str | None:
    """Why there are no intervals of a set; nothing where there are."""
    if "label" not in table:
        return f"{split} has no labels: nothing can be said of it"
    number = len(set(table.text("speaker").tolist())) if "speaker" in table else 0
    few = f"{number} speakers of {split} are too few for intervals"
    return None if number >= FEWEST_SPEAKERS else few


def _compared(
    fused: Mapping[str, FusedScores], table: ScoreTable, settings: Settings, n: int
) -> dict[str, Values]:
    """Metrics with and without each column, and paired differences."""
    systems = {
        column: dict(zip(("asv", "cm", "sasv"), one, strict=True)) for column, one in fused.items()
    }
    groups = (table.text("speaker"),) if n else None
    names = dict.fromkeys(systems, OF_WORTH)
    drawn = resample(systems, table.labels(), names, groups, n, settings=settings)
    return {
        column: {metric: _entry(one, drawn[""].get(metric), column) for metric, one in own.items()}
        for column, own in drawn.items()
    }


def _entry(one: Resampled, whole: Resampled | None, column: str) -> dict[str, Any]:
    if not column or whole is None:
        return {"value": one.value}
    gap = one - whole
    entry = {"value": one.value, "difference": gap.value}
    if len(gap.replicates):
        found = gap.interval()
        entry |= {"low": found.low, "high": found.high, "p": gap.p_value}
    return entry


def _called_out(sets: Mapping[str, Mapping[str, Values]]) -> list[str]:
    """Columns that help on dev and harm on eval, in words."""
    said = []
    for column, found in sets.items():
        for metric in OF_WORTH:
            dev, other = (found.get(split, {}).get(metric, {}) for split in SPLITS)
            if dev.get("difference", 0) > 0 > other.get("difference", 0):
                said.append(
                    f"{column} helps on dev and harms on eval: without it "
                    f"{METRICS[metric].spoken} rises on dev by {_gap(metric, dev)} and falls on "
                    f"eval by {_gap(metric, other)}"
                )
    return said


def _gap(metric: str, entry: Mapping[str, Any]) -> str:
    """A difference without its sign, and how sure it is."""
    unit = METRICS[metric].unit
    text = number(abs(entry["difference"]), unit) + (" points" if unit == "rate" else "")
    if "low" not in entry:
        return text
    low, high = (in_unit(entry[end], unit) for end in ("low", "high"))
    inside = "" if entry["p"] <= 0.05 else ", which includes 0"
    return f"{text} (95 % [{low:.4f}, {high:.4f}]{inside})"
