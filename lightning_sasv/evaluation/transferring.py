"""Transfer: systems that were fitted on one corpus, with their thresholds, on scores of another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from lightning_sasv.console import Begin
from lightning_sasv.errors import InputError
from lightning_sasv.evaluation.audit import Audit
from lightning_sasv.evaluation.budget import METHODS, SPEAKERS, TRIALS, label_budget
from lightning_sasv.evaluation.deciding import preferred
from lightning_sasv.evaluation.fusing import with_metrics
from lightning_sasv.fitted import FittedSystem, read_fitted_systems
from lightning_sasv.locks import lock
from lightning_sasv.metrics.intervals import check_replicates
from lightning_sasv.metrics.registry import Settings
from lightning_sasv.metrics_file import blocks
from lightning_sasv.places import FUSED, check_folder, kind_of, refuse
from lightning_sasv.record import settings_of
from lightning_sasv.report.sections import TRANSFER_FILE, csv_text
from lightning_sasv.results import (
    metrics_beside,
    origin_beside,
    scores_file,
    write_folder,
)
from lightning_sasv.scores import ScoreTable
from lightning_sasv.scores.columns import read_columns
from lightning_sasv.scores.reading import ReadingOptions, reading, takes_reading_options
from lightning_sasv.scores.sources import Tell, read_costs, read_key, silent
from lightning_sasv.scores.write import check_same
from lightning_sasv.trials import TrialClass


@dataclass(frozen=True)
class Transfer:
    """What was found, as ``transfer.json`` has it.

    Attributes:
        content: Plain values.
    """

    content: dict[str, Any]


@takes_reading_options
def transfer(
    *,
    fitted: str,
    scores: str,
    out: str = "results/transfer",
    system: str | None = None,
    systems: str | None = None,
    by: str | None = None,
    costs: str | None = None,
    trials: str = ",".join(map(str, TRIALS)),
    speakers: str = ",".join(map(str, SPEAKERS)),
    methods: str = ",".join(METHODS),
    draws: int = 200,
    replicates: int = 1000,
    seed: int = 0,
    name: str | None = None,
    key: str | None = None,
    key_format: str | None = None,
    format: str | None = None,
    allow_missing: bool = False,
    overwrite: bool = False,
    tell: Tell = silent,
    begin: Begin | None = None,
    **said: Unpack[ReadingOptions],
) -> Transfer:
    """What is lost where systems fitted on one corpus meet scores of another, and what repairs it.

    The systems of FITTED and the thresholds that are best on its dev scores are carried over as
    they are: HTER at the EER threshold, a-DCF at the threshold of the smallest a-DCF, actual and
    policy cost, Cllr; beside what the target's own labels would give. For one system the label
    budget: what n labelled trials or speakers of the target repair, measured on the others. OUT
    gets transfer.json, transfer.csv, and a folder of results for `lightning report`.

    Args:
        fitted: Folder of results that `lightning fit` or `fuse` wrote, with its dev scores.
        scores: Scores (ASV and CM) of the target corpus with labels, of any known format.
        out: Folder to write to.
        system: System of the label budget and of the conditions; by default L3t, L3 or L3c, else
            the first that gives LLRs.
        systems: Systems to look at, separated by commas; by default all.
        by: Conditions to show one by one, e.g. codec,attack; by default these where there are.
        costs: Costs of the a-DCF: equal, a-dcf1, asvspoof5, or a JSON or YAML file; by default
            those of the results in FITTED, else a-dcf1.
        trials: Numbers of labelled trials of the label budget, separated by commas.
        speakers: Numbers of labelled speakers.
        methods: What labels give anew: threshold, shift, scale, fusion, separated by commas.
        draws: Draws of each number.
        replicates: Bootstrap replicates of what is lost.
        seed: Seed of draws and replicates.
        name: Name of the target corpus; by default the folder of the scores.
        key: Key with the labels, where the scores have none.
        key_format: Format of the key; recognised when not given.
        format: Format of the scores; recognised when not given.
        allow_missing: Leave out trials without a score instead of stopping.
        overwrite: Write to OUT though it holds results of other scores, or other files.
        tell: Told how the files were read, and what was left out.
        begin: Told of long work, for a progress bar.
        **said: What is said of the score files, :class:`..scores.reading.ReadingOptions`.

    Returns:
        What was written.
    """
    numbers = _numbers(trials), _numbers(speakers)
    own = None if costs is None else read_costs(costs)
    anew = tuple(word.strip() for word in methods.split(",") if word.strip())
    if unknown := [word for word in anew if word not in METHODS]:
        raise InputError(f"--methods {unknown[0]}: expected some of {', '.join(METHODS)}")
    check_replicates(replicates)
    if draws < 1:
        raise InputError(f"--draws must be at least 1, got {draws}")
    every, how = read_fitted_systems(fitted), reading(format, allow_missing, **said)
    dev = scores_file(Path(fitted), "dev")
    if not dev.is_file():
        raise InputError(
            f"no {dev}: the thresholds that are carried over are those of the dev scores; give the "
            "folder that `lightning fit` or `fuse` wrote (of a table, that of a seed)"
        )
    with lock(out):
        tables = {"dev": read_columns(str(dev))}
        labels = read_key(key, key_format, how=how, tell=tell)
        tables["eval"] = read_columns(scores, labels, how, tell)
        _check_labels(tables["eval"])
        _check_place(Path(out), tables["eval"], overwrite)
        able = _usable(every, tables, systems, tell)
        settings = Settings(costs=own) if own else _settings_of(tables["dev"])
        audit = Audit(able, tables, settings, replicates, seed)
        chosen = _chosen(able, system)
        content = audit.content(fitted, scores, name)
        content |= {"system": chosen, "by": audit.conditions(chosen, by)}
        rows = label_budget(audit.target(chosen, anew), *numbers, draws, seed, begin)
        content["budget"] = [row._asdict() for row in rows]
        _write(out, audit, content)
    return Transfer(content)


def _check_place(out: Path, scores: ScoreTable, overwrite: bool) -> None:
    """Refuse a folder of anything but a transfer of the same scores."""
    check_folder(out, FUSED, overwrite)
    if kind_of(out) and not (overwrite or (out / TRANSFER_FILE).exists()):
        refuse(out, "results of another command")
    check_same(scores_file(out, "eval"), scores, overwrite)


def _settings_of(dev: ScoreTable) -> Settings:
    """Costs and conventions that the results of dev scores were made with."""
    found = [settings_of(of) for _, _, of in blocks(metrics_beside(dev), "dev")]
    return next((one for one in found if one is not None), Settings())


def _numbers(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in str(text).split(",") if word.strip()]
    if not all(word.isdigit() and int(word) for word in words):
        raise InputError(f"{text!r}: expected numbers separated by commas, e.g. 20,100,500")
    return tuple(map(int, words))


def _usable(
    every: Mapping[str, FittedSystem],
    tables: Mapping[str, ScoreTable],
    wanted: str | None,
    tell: Tell,
) -> dict[str, FittedSystem]:
    """The systems that both sets have scores for."""
    names = list(every) if wanted is None else [word.strip() for word in wanted.split(",")]
    for word in names:
        if word not in every:
            raise InputError(f"--systems: no fitted system {word!r}; there are {', '.join(every)}")
    able = {}
    for name in names:
        needed = every[name].columns.names
        lacking = [one for table in tables.values() for one in needed if one not in table]
        if lacking:
            tell([f"{name} is left out: no column {lacking[0]} in the scores"])
        else:
            able[name] = every[name]
    if not able:
        tables["eval"].need(every[names[0]].columns.names, "transfer (--scores)")
    return able


def _check_labels(table: ScoreTable) -> None:
    table.need(["label"], "transfer (--scores, or give --key)")
    if table.has_cm_labels:
        raise InputError(f"{table.where()}: labels of verification trials are needed (--key)")
    for code in TrialClass:
        if not (table.labels() == code).any():
            raise InputError(f"{table.path}: no {code} trial; give trials of all three classes")


def _chosen(systems: Mapping[str, FittedSystem], name: str | None) -> str:
    if name is not None and name not in systems:
        raise InputError(f"--system: no system {name!r} to look at; there are {', '.join(systems)}")
    return name or preferred(systems) or next(iter(systems))


def _write(folder: str, audit: Audit, content: dict[str, Any]) -> None:
    """Write the folder of results with what was found."""
    pairs = zip(audit.tables.items(), (content["source"], content["target"]), strict=True)
    origins = {
        split: replace(origin_beside(table), corpus=corpus) for (split, table), corpus in pairs
    }
    metrics, tables = with_metrics(
        audit.systems, audit.tables, audit.fused, origins, audit.settings
    )
    more = {TRANSFER_FILE: content, "transfer.csv": csv_text(content)}
    write_folder(folder, metrics, tables, audit.systems, content["source"], more)
