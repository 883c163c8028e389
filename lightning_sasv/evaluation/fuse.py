"""Fusing files of scores: fitted on dev, applied to eval, written as a folder of results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lightning_sasv.errors import InputError
from lightning_sasv.files import ensure_directory
from lightning_sasv.fusion import FusionSystem, fit_systems, fuse_systems
from lightning_sasv.metrics.functional import Settings
from lightning_sasv.results import (
    METRICS_FILE,
    Metrics,
    fitted_values,
    fused_metrics,
    write_metrics,
    write_set,
    write_systems,
)
from lightning_sasv.scores import ScoreTable
from lightning_sasv.trials import FusedScores, TrialClass

PAIR = ("asv_score", "cm_score")


@dataclass(frozen=True)
class FusedResults:
    """Fitted systems and what they say of each set.

    Attributes:
        systems: The systems by name, fitted on dev.
        tables: ``dev`` and ``eval`` with a column ``sasv_<system>`` for each system.
        metrics: Content of ``metrics.json``.
    """

    systems: dict[str, FusionSystem]
    tables: dict[str, ScoreTable]
    metrics: Metrics


def fuse_tables(
    dev: ScoreTable, evaluation: ScoreTable, names: Sequence[str], corpus: str, settings: Settings
) -> FusedResults:
    """Fit systems on dev scores and fuse both sets.

    The labels of eval, where it has any, serve for its metrics alone.

    Args:
        dev: Development scores with labels.
        evaluation: Evaluation scores.
        names: Keys of ``fusion.SYSTEMS``.
        corpus: Where the scores come from.
        settings: Costs and conventions of the metrics.
    """
    dev.need([*PAIR, "label"], "fusing (--dev)")
    evaluation.need(PAIR, "fusing (--eval)")
    pairs = {"dev": dev, "eval": evaluation}
    for table in pairs.values():
        _check_classes(table)
    asv, cm = (dev.numbers(name) for name in PAIR)
    systems = fit_systems(asv, cm, dev.labels(), names)
    metrics: Metrics = {
        name: {"corpus": corpus, "fitted": fitted_values(system)}
        for name, system in systems.items()
    }
    tables = {}
    for split, table in pairs.items():
        asv, cm = (table.numbers(name) for name in PAIR)
        fused = fuse_systems(systems, asv, cm)
        tables[split] = with_fused(table, fused)
        if "label" in table:
            for name, values in fused_metrics(fused, table.labels(), settings).items():
                metrics[name][split] = values
    return FusedResults(systems, tables, metrics)


def write_results(folder: str | Path, results: FusedResults) -> Path:
    """Write ``scores/{dev,eval}.csv``, ``fitted/<system>.safetensors`` and ``metrics.json``.

    Fitted systems of an earlier run in the same folder are removed: they do not belong to these
    scores.
    """
    folder = ensure_directory(folder)
    for split, table in results.tables.items():
        write_set(folder, split, table)
    about = {"corpus": next(iter(results.metrics.values()))["corpus"]}
    write_systems(folder, results.systems, about, only=True)
    write_metrics(folder / METRICS_FILE, results.metrics)
    return folder


def with_fused(table: ScoreTable, fused: dict[str, FusedScores]) -> ScoreTable:
    """A table with the fused scores of each system; those of an earlier fusion go."""
    import polars as pl

    frame = table.frame.drop([name for name in table.score_columns if name not in PAIR])
    columns = [
        pl.Series(f"sasv_{name}", scores.sasv.numpy(force=True)) for name, scores in fused.items()
    ]
    return replace(table, frame=frame.with_columns(columns))


def _check_classes(table: ScoreTable) -> None:
    if "label" not in table:
        return
    labels = table.labels()
    for code in TrialClass:
        if not (labels == code).any():
            raise InputError(
                f"{table.path}, line {table.line(len(table) - 1)}: no {code} trial up to the end; "
                "give trials of all three classes"
            )
