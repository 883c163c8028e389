"""Fusing files of scores: fitted on dev, applied to eval, written as a folder of results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from lightning_sasv.console import Begin
from lightning_sasv.errors import InputError
from lightning_sasv.evaluation.worth import worth_of
from lightning_sasv.locks import lock
from lightning_sasv.metrics.functional import Settings
from lightning_sasv.metrics.intervals import check_replicates
from lightning_sasv.metrics_file import Metrics
from lightning_sasv.places import FUSED, check_folder
from lightning_sasv.record import Origin, Trials
from lightning_sasv.report.sections import WORTH_FILE
from lightning_sasv.results import (
    PREFIX,
    fit_entry,
    origin_beside,
    scores_file,
    set_entries,
    thresholds_in,
    write_folder,
)
from lightning_sasv.scores import ScoreTable
from lightning_sasv.scores.columns import choose_alike, matrices, read_columns, score_names
from lightning_sasv.scores.reading import ReadingOptions, reading, takes_reading_options
from lightning_sasv.scores.sources import Tell, read_costs, read_key, silent
from lightning_sasv.scores.write import check_same
from lightning_sasv.trials import PAIR, SPLITS, FusedScores, TrialClass

if TYPE_CHECKING:
    from lightning_sasv.fusion import FusionSettings, FusionSystem
    from lightning_sasv.fusion.base import Fusion


@dataclass(frozen=True)
class FusedResults:
    """Fitted systems and what they say of each set.

    Attributes:
        systems: The systems by name, fitted on dev.
        tables: ``dev`` and ``eval`` with a column ``sasv_<system>`` for each system.
        metrics: Content of ``metrics.json``.
        corpus: Where the scores come from.
        failed: Why systems that were asked for could not be fitted.
        worth: What each column is worth, where that was asked for; content of ``worth.json``.
    """

    systems: dict[str, FusionSystem]
    tables: dict[str, ScoreTable]
    metrics: Metrics
    corpus: str
    failed: dict[str, str] = field(default_factory=dict)
    worth: dict[str, Any] | None = None


@takes_reading_options
def fuse(
    *,
    dev: str,
    eval: str,
    systems: str = "all",
    out: str = "results/fused",
    name: str | None = None,
    format: str | None = None,
    dev_key: str | None = None,
    eval_key: str | None = None,
    key_format: str | None = None,
    scores: str | None = None,
    drop: str | None = None,
    worth: bool = False,
    replicates: int = 1000,
    costs: str = "a-dcf1",
    allow_missing: bool = False,
    trim: float | None = None,
    overwrite: bool = False,
    tell: Tell = silent,
    begin: Begin | None = None,
    **said: Unpack[ReadingOptions],
) -> FusedResults:
    """Fit fusion systems on dev scores, fuse eval scores, write scores, metrics and the systems.

    Files may be of any known format (docs/formats.md). `asv=FILE,cm=FILE` joins two files by
    trial id, `asv_NAME=FILE,asv_OTHER=FILE,cm=FILE` any number of them; a file with columns asv_…,
    cm_… and quality_… is taken as it is. Nothing is fitted on eval: its labels, if any, serve for
    its metrics alone.

    Args:
        dev: Development scores (ASV and CM) with labels.
        eval: Evaluation scores (ASV and CM), of the same columns as dev.
        systems: Systems to fit, separated by commas: names, YAML files of systems of your own, or
            all. One that these scores allow no fit of is named with the reason.
        out: Folder to write scores/, fitted/ and metrics.json to.
        name: Name of the corpus in the results; by default the folder of the eval file.
        format: Format of the files; recognised when not given.
        dev_key: Key with the labels of dev, where its scores have none.
        eval_key: Key with the labels of eval, where its scores have none.
        key_format: Format of the keys; recognised when not given.
        scores: Columns to fuse where there are several, e.g. asv_ecapa,cm_*; by default all.
        drop: Columns to leave out.
        worth: Leave out each column in turn, and say what it is worth on held-out dev and on eval;
            of Q3cv, Q3 or M3 if it is among the systems, else of the first that gives LLRs.
        replicates: Bootstrap replicates of the intervals of --worth; 0 for none.
        costs: Costs of the a-DCF: equal, a-dcf1, asvspoof5, or a JSON or YAML file.
        allow_missing: Leave out trials without a score instead of stopping.
        trim: Leave dev scores out of the fit that lie more than this many interquartile ranges
            beyond the quartiles of their class.
        overwrite: Write to OUT though it holds results of other scores, or other files.
        tell: Told how the files were read, what was left out, and what makes a fit doubtful.
        begin: Told of long work, for a progress bar.
        **said: What is said of the score files, :class:`..scores.reading.ReadingOptions`.

    Returns:
        What was written.
    """
    from lightning_sasv.fusion import failure_lines, warning_lines
    from lightning_sasv.systems import read_systems

    wanted, settings = read_systems(systems), Settings(costs=read_costs(costs, tell))
    own: FusionSettings = {"trim": trim}
    if worth and replicates:
        check_replicates(replicates)
    how = reading(format, allow_missing, **said)
    with lock(out):
        tables = []
        for file, key in ((dev, dev_key), (eval, eval_key)):
            labels = read_key(key, key_format, how=how, tell=tell)
            tables.append(read_columns(file, labels, how, tell))
        tables = choose_alike(tables[0], tables[1], scores, drop, tell)
        check_folder(out, FUSED, overwrite)
        for split, table in zip(SPLITS, tables, strict=True):
            check_same(scores_file(Path(out), split), table, overwrite)
        if _same_trials(*tables):
            tell(["dev and eval are the same trials: numbers on eval are those of the fit"])
        known = name or origin_beside(tables[1]).corpus
        corpus = str(known or tables[1].path.resolve().parent.name)
        step = begin("fitting on dev, fusing dev and eval", 2) if begin else lambda: None
        results = fuse_tables(tables[0], tables[1], wanted, corpus, settings, own)
        tell(failure_lines(results.failed))
        tell(warning_lines({name: one.warnings for name, one in results.systems.items()}))
        if worth:
            given = results.systems, dict(zip(SPLITS, tables, strict=True))
            results = replace(results, worth=worth_of(*given, settings, replicates))
        step()
        write_results(out, results)
        step()
        return results


def fuse_tables(
    dev: ScoreTable,
    evaluation: ScoreTable,
    names: Iterable[str] | Mapping[str, FusionSettings],
    corpus: str,
    settings: Settings,
    fusion: FusionSettings | None = None,
) -> FusedResults:
    """Fit systems on dev scores and fuse both sets.

    Args:
        dev: Development scores with labels.
        evaluation: Evaluation scores.
        names: Keys of ``fusion.SYSTEMS``, or settings of systems by their names.
        corpus: Name of the corpus that the scores come from.
        settings: Costs and conventions of the metrics.
        fusion: Settings that replace those of every system.
    """
    from lightning_sasv.fusion import fit_systems, fuse_systems

    columns = score_names(dev)
    columns = columns if set(columns) - set(PAIR) else list(PAIR)
    dev.need([*columns, "label"], "fusing (--dev)")
    evaluation.need(columns, "fusing (--eval)")
    for table in (dev, evaluation):
        _check_classes(table)
    given = {"dev": dev, "eval": evaluation}
    inputs = {split: matrices(one, columns) for split, one in given.items()}
    asv, cm, quality = inputs["dev"]
    failed: dict[str, str] = {}
    try:
        systems = fit_systems(
            *(asv, cm, dev.labels(), names),
            lambda row, column: dev.where(row, column if column in dev else f"{column}_score"),
            speakers=dev.text("speaker") if "speaker" in dev else None,
            quality=quality,
            columns=None if columns == list(PAIR) else columns,
            failures=failed,
            **(fusion or {}),
        )
    except InputError as error:
        raise InputError(f"{dev.path}: {error}") from None
    origins = {
        split: replace(origin_beside(table), corpus=corpus) for split, table in given.items()
    }
    for system in systems.values():
        system.fitted_on = Trials(dev).block(origins["dev"])
    fused = {split: fuse_systems(systems, *inputs[split]) for split in given}
    metrics, tables = with_metrics(systems, given, fused, origins, settings)
    return FusedResults(systems, tables, metrics, corpus, failed)


def with_metrics(
    systems: Mapping[str, Fusion],
    given: Mapping[str, ScoreTable],
    fused: Mapping[str, Mapping[str, FusedScores]],
    origins: Mapping[str, Origin],
    settings: Settings,
) -> tuple[Metrics, dict[str, ScoreTable]]:
    """Content of ``metrics.json``, and tables with the fused scores.

    Args:
        systems: Fitted systems by name.
        given: Tables of ``dev`` and ``eval``.
        fused: What the systems give on each of them.
        origins: Where they come from.
        settings: Costs and conventions of the metrics.
    """
    metrics: Metrics = {name: {"sets": {}, **fit_entry(one)} for name, one in systems.items()}
    tables = {}
    for split, table in given.items():
        tables[split] = with_fused(table, fused[split])
        if "label" in table:
            known = {n: own["sets"]["dev"] for n, own in metrics.items() if "dev" in own["sets"]}
            how = settings, systems, thresholds_in(known)
            entries = set_entries(fused[split], Trials(table), origins[split], *how)
            for name, entry in entries.items():
                metrics[name]["sets"][split] = entry
    return metrics, tables


def _same_trials(dev: ScoreTable, evaluation: ScoreTable) -> bool:
    """Whether both sets are the same trials, by their names."""
    ids = [name for name in dev.ids if name in evaluation]
    if not ids or len(dev) != len(evaluation):
        return False
    mine, others = (table.frame.select(ids).sort(ids) for table in (dev, evaluation))
    return mine.equals(others)


def write_results(out: str | Path, results: FusedResults) -> Path:
    """Write a folder of results; fitted systems of an earlier run in the same folder go."""
    more = {WORTH_FILE: results.worth}
    what = results.metrics, results.tables, results.systems, results.corpus
    return write_folder(out, *what, more)


def with_fused(table: ScoreTable, fused: Mapping[str, FusedScores]) -> ScoreTable:
    """A table with the fused scores of each system; those of an earlier fusion go."""
    import polars as pl

    frame = table.frame.drop([name for name in table.score_columns if name not in PAIR])
    columns = [pl.Series(f"{PREFIX}{name}", np.asarray(one.sasv)) for name, one in fused.items()]
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
