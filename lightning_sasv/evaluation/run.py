"""A whole evaluation: metrics, breakdowns, intervals and comparisons of systems on tables."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from lightning_sasv.console import Begin
from lightning_sasv.errors import InputError
from lightning_sasv.evaluation.compare import Comparison, compare_systems, compared_metrics
from lightning_sasv.evaluation.systems import Systems, gather
from lightning_sasv.files import finite, read_json, write_json
from lightning_sasv.metrics.bootstrap import Resampled, resample
from lightning_sasv.metrics.functional import Settings
from lightning_sasv.metrics.registry import resampled
from lightning_sasv.places import refuse
from lightning_sasv.scores import ScoreTable
from lightning_sasv.scores.reading import reading
from lightning_sasv.scores.sources import (
    Tell,
    names_of_files,
    read_costs,
    read_key,
    read_source,
    silent,
    where_equal,
)

Values = dict[str, float]


@dataclass(frozen=True)
class Options:
    """What is wanted of an evaluation: the parameters of :func:`evaluate`, read."""

    settings: Settings = field(default_factory=Settings)
    by: tuple[str, ...] = ()
    ci: str | None = None
    replicates: int = 1000
    seed: int = 0
    compare: bool = False
    systems: tuple[str, ...] | None = None
    allow_missing: bool = False
    llrs: bool = False


@dataclass(frozen=True)
class EvaluationResult:
    """Everything that was found.

    Attributes:
        counts: Trials of each label.
        options: What was wanted.
        metrics: By system and name.
        intervals: By system and name.
        groups: By column, system, group and name.
        comparisons: Of every pair of systems.
        notes: What was left out.
        data: Short hash of the labels and scores of each system.
    """

    counts: dict[str, int]
    options: Options
    metrics: dict[str, Values]
    intervals: dict[str, dict[str, Resampled]]
    groups: dict[str, dict[str, dict[str, Values]]]
    comparisons: list[Comparison]
    notes: tuple[str, ...]
    data: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The results as plain values for JSON; NaN and infinity become ``None``."""
        options = self.options
        systems = {}
        for name, metrics in self.metrics.items():
            entry: dict[str, Any] = {"metrics": metrics}
            if name in self.intervals:
                found = self.intervals[name].items()
                entry["intervals"] = {metric: one.as_dict() for metric, one in found}
            if self.groups:
                entry["by"] = {column: groups[name] for column, groups in self.groups.items()}
            systems[name] = entry
        plain: dict[str, Any] = finite(
            {
                "trials": self.counts,
                "data": self.data,
                "settings": {
                    "costs": asdict(options.settings.costs),
                    "tandem_costs": asdict(options.settings.tandem_costs),
                    "convention": options.settings.convention,
                    "ci": options.ci,
                    "replicates": options.replicates,
                    "seed": options.seed,
                },
                "systems": systems,
                "comparisons": [asdict(one) for one in self.comparisons],
            }
        )
        return plain

    def write(self, path: str | Path, overwrite: bool = True) -> Path:
        """Write the results as JSON, rates as fractions.

        Args:
            path: File to write.
            overwrite: Replace it, be it no evaluation or that of other scores.
        """
        if not overwrite and Path(path).exists() and _noted_data(path) != self.data:
            refuse(path, "something else, or the evaluation of other scores", "another --json")
        return write_json(path, self.as_dict(), sort_keys=False)


def _noted_data(path: str | Path) -> Any:
    """What an evaluation in a file was made of; nothing where the file holds none."""
    try:
        content = read_json(path)
    except InputError:
        return None
    return content.get("data") if isinstance(content, dict) and "systems" in content else None


def evaluate(
    files: list[str],
    key: str | None = None,
    key_format: str | None = None,
    format: str | None = None,
    by: str | None = None,
    ci: Literal["trial", "speaker", "speaker-attack"] | None = None,
    replicates: int = 1000,
    seed: int = 0,
    compare: bool = False,
    systems: str | None = None,
    where: str | None = None,
    costs: str = "a-dcf1",
    convention: Literal["asvspoof", "interpolated", "rocch", "max"] = "asvspoof",
    json: str | None = None,
    llrs: bool = False,
    allow_missing: bool = False,
    overwrite: bool = False,
    columns: str | None = None,
    labels: str | None = None,
    ids: Literal["none", "name"] | None = None,
    negate: str | None = None,
    log: str | None = None,
    *,
    tell: Tell = silent,
    begin: Begin | None = None,
) -> EvaluationResult:
    """Every metric that the columns of score files allow; several systems are compared.

    A file is a system; one with several columns sasv_<system> holds several. `asv=FILE,cm=FILE`
    joins two files by trial id into one system. Several files are compared: paired bootstrap of
    each difference by trial and by speaker, with the verdict in words.

    Args:
        files: Score files of any known format (docs/formats.md), or ROLE=FILE; or a file of each
            class, target=FILE,nontarget=FILE (or bonafide=, spoof=).
        key: Key or protocol with the labels, joined by trial id; given again, further columns.
        key_format: Format of the key; recognised when not given.
        format: Format of the score files; recognised when not given.
        by: Breakdown by attack, speaker or any other column; several separated by commas.
        ci: 95 % intervals by bootstrap over trials, speakers, or speakers and attacks.
        replicates: Bootstrap replicates.
        seed: Seed of the bootstrap.
        compare: Compare the systems of a single file as well.
        systems: Systems to keep, separated by commas.
        where: Keep the trials of one value of a column, e.g. subset=eval.
        costs: Costs of the a-DCF: equal, a-dcf1, asvspoof5, or a JSON or YAML file.
        convention: Convention of the EERs.
        json: File to write all results to, rates as fractions.
        llrs: Take asv_score and cm_score for log-likelihood ratios of target against nontarget and
            against spoof: adds the normalised cross-entropy of the three classes.
        allow_missing: Leave out trials that are not in every file instead of stopping.
        overwrite: Replace the file JSON though it holds no evaluation, or that of other scores.
        columns: What the columns of the files are, e.g. utterance,score,label; - skips one.
        labels: What labels are, e.g. bona=1,spoof=0.
        ids: none takes each row for a trial, name takes folders and file endings off.
        negate: Roles whose scores change their sign: asv, cm or sasv.
        log: Roles whose scores are likelihood ratios; their logarithm is taken.
        tell: Told how the files were read and what was left out.
        begin: Told of long work, for a progress bar.

    Returns:
        What was found.
    """
    how = reading(format, columns, labels, ids, negate, log, allow_missing)
    trials = read_key(key, key_format, how=how, tell=tell)
    tables = {}
    for name, file in names_of_files(files).items():
        table = read_source(file, trials, how=how, tell=tell)
        tables[name] = where_equal(table, where)
    options = Options(
        settings=Settings(costs=read_costs(costs), convention=convention),
        by=_words(by) or (),
        ci=ci,
        replicates=replicates,
        seed=seed,
        compare=compare or len(files) > 1,
        systems=_words(systems),
        allow_missing=allow_missing,
        llrs=llrs,
    )
    result = evaluate_tables(tables, options, begin)
    tell(result.notes)
    if json is not None:
        result.write(json, overwrite)
    return result


def _words(text: str | None) -> tuple[str, ...] | None:
    """Words of a list with commas."""
    if text is None:
        return None
    return tuple(word.strip() for word in text.split(",") if word.strip())


def evaluate_tables(
    tables: Mapping[str, ScoreTable], options: Options, begin: Begin | None = None
) -> EvaluationResult:
    """Evaluate the systems of one or more labelled tables.

    Args:
        tables: Labelled tables by name.
        options: What is wanted.
        begin: Told of long work, for a progress bar.
    """
    scored = gather(tables, options.allow_missing, options.systems)
    how = options.settings, options.llrs
    metrics = scored.metrics(*how)
    groups = {column: scored.breakdown(column, *how) for column in options.by}
    ways = _replicates(scored, options, begin)
    compared = {way: found for way, found in ways.items() if way in ("trial", "speaker")}
    notes = list(scored.notes)
    if len(metrics) > 1 and not options.compare:
        notes.append(f"{len(metrics)} systems in one file; --compare tests their differences")
    return EvaluationResult(
        scored.counts(),
        options,
        metrics,
        ways[options.ci] if options.ci else {},
        groups,
        compare_systems(compared) if options.compare and compared else [],
        tuple(notes),
        {name: _hash(scored.labels, columns) for name, columns in scored.columns.items()},
    )


def _hash(labels: np.ndarray, columns: Mapping[str, np.ndarray]) -> str:
    """Short hash of labels and scores."""
    found = hashlib.blake2b(np.ascontiguousarray(labels).tobytes(), digest_size=8)
    for name in sorted(columns):
        found.update(name.encode() + np.ascontiguousarray(columns[name]).tobytes())
    return found.hexdigest()


def _replicates(
    scored: Systems, options: Options, begin: Begin | None
) -> dict[str, dict[str, dict[str, Resampled]]]:
    """Replicates of each way of drawing that intervals or comparisons need."""
    ways = [options.ci] if options.ci else []
    if options.compare and len(scored.columns) > 1:
        ways += ["trial"] + (["speaker"] if "speaker" in scored.table else [])
    if ways and options.replicates < 1:
        raise InputError(f"--replicates must be at least 1, got {options.replicates}")
    results = {}
    for way in dict.fromkeys(ways):
        results[way] = resample(
            scored.columns,
            scored.labels,
            {name: _resampled(columns, way, options) for name, columns in scored.columns.items()},
            scored.clusters(way),
            options.replicates,
            seed=options.seed,
            settings=options.settings,
            progress=begin(f"bootstrap by {way}", options.replicates) if begin else None,
        )
    return results


def _resampled(columns: Mapping[str, Any], way: str, options: Options) -> list[str]:
    """Metrics that the columns of a system allow and that are wanted of a way of drawing."""
    return [
        metric
        for metric, needed in resampled(options.llrs).items()
        if set(needed) <= columns.keys() and (way == options.ci or metric in compared_metrics())
    ]
