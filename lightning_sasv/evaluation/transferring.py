"""Transfer: systems that were fitted on one corpus, with their thresholds, on scores of another.

What is lost is what the thresholds of the source cost more than thresholds from the target's own
labels: every trial is decided by the threshold that the other folds of target speakers give, so
that neither side has seen it. The interval is that of the difference on drawn speakers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from lightning_sasv.checks import Codes, Floats, blocks
from lightning_sasv.console import Begin
from lightning_sasv.errors import InputError, check_name
from lightning_sasv.evaluation.budget import (
    METHODS,
    SPEAKERS,
    TRIALS,
    Refit,
    Target,
    cost_of,
    label_budget,
)
from lightning_sasv.evaluation.deciding import fused_by, preferred
from lightning_sasv.evaluation.definitions import words_in
from lightning_sasv.evaluation.fusing import with_metrics
from lightning_sasv.evaluation.systems import OF_ATTACKS
from lightning_sasv.fitted import FittedSystem, read_fitted_systems
from lightning_sasv.fusion.choice import folds_of
from lightning_sasv.locks import lock
from lightning_sasv.metrics.bootstrap import ClusterDraws
from lightning_sasv.metrics.functional.dcf import a_dcf_weights, dcf_of
from lightning_sasv.metrics.functional.eer import threshold_of
from lightning_sasv.metrics.functional.points import Classes
from lightning_sasv.metrics.intervals import FEWEST_SPEAKERS, check_replicates, percentile_ends
from lightning_sasv.metrics.registry import Settings, explained
from lightning_sasv.metrics_file import of_in
from lightning_sasv.places import FUSED, check_folder, kind_of, refuse
from lightning_sasv.record import named_costs, settings_of
from lightning_sasv.report.sections import OF_TRANSFER, TRANSFER_FILE, csv_text, verdict
from lightning_sasv.results import metrics_beside, origin_beside, scores_file, write_folder
from lightning_sasv.scores import ScoreTable
from lightning_sasv.scores.columns import matrices, of_network, read_columns
from lightning_sasv.scores.reading import ReadingOptions, reading, takes_reading_options
from lightning_sasv.scores.sources import Tell, read_costs, read_key, silent
from lightning_sasv.scores.write import check_same
from lightning_sasv.trials import CLASS_ORDER, PAIR, TrialClass, claimed_speakers

CONDITIONS = ("codec", "attack")
"""Columns whose values are shown one by one, where none are asked for."""


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
    anew = words_in(methods)
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
    found = [settings_of(of_in(entry, "dev")) for entry in metrics_beside(dev).values()]
    return next(filter(None, found), Settings())


def _numbers(text: str) -> tuple[int, ...]:
    words = words_in(str(text))
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
    names = words_in(wanted) or tuple(every)
    for word in names:
        check_name(word, every, "--systems: no fitted system")
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


class Audit:
    """Systems with the thresholds of their source, on the scores of a target.

    Args:
        systems: Fitted systems by name.
        tables: ``dev`` of the source and, as ``eval``, the target.
        settings: Costs and conventions.
        replicates: Draws of the intervals.
        seed: Of the draws.
    """

    def __init__(
        self,
        systems: Mapping[str, FittedSystem],
        tables: Mapping[str, ScoreTable],
        settings: Settings,
        replicates: int,
        seed: int,
    ) -> None:
        self.systems, self.tables, self.settings = systems, tables, settings
        self.labels = tables["eval"].labels()
        known = "speaker" in tables["eval"]
        names = tables["eval"].text("speaker").tolist() if known else []
        self.speakers = np.array(claimed_speakers(names)) if known else None
        self.fused = {
            split: {name: fused_by(name, one, table) for name, one in systems.items()}
            for split, table in tables.items()
        }
        self._drawn = None
        if self.speakers is not None and len(np.unique(self.speakers)) >= FEWEST_SPEAKERS:
            self._drawn = ClusterDraws(self.speakers, replicates, seed)
        self.replicates = 0 if self._drawn is None else replicates

    def thresholds(self, name: str) -> tuple[float, float]:
        """Thresholds of the EER and of the smallest a-DCF on dev of the source."""
        return self._thresholds(self.fused["dev"][name].sasv, self.tables["dev"].labels())

    def _thresholds(self, score: Floats, labels: Codes) -> tuple[float, float]:
        task = Classes({"sasv": score}, labels).task("sasv")
        weights = a_dcf_weights(self.settings.costs)
        return threshold_of(task, self.settings.convention), dcf_of(task, weights).threshold

    def settings_of(self, name: str) -> Settings:
        """Settings with the thresholds that are carried over."""
        carried, threshold = self.thresholds(name)
        llrs = self.systems[name].gives_llrs
        return replace(self.settings, carried=carried, dev_threshold=threshold, not_llr=not llrs)

    def values(self, name: str, rows: np.ndarray | None = None, split: str = "eval") -> Any:
        """Measures of a system on some trials of a set; NaN where undefined."""
        llrs, names = self.systems[name].gives_llrs, list(OF_TRANSFER)
        labels = self.tables[split].labels()
        kept = slice(None) if rows is None else rows
        pairs = zip(("asv", "cm", "sasv"), self.fused[split][name], strict=True)
        columns = {key: column[kept] for key, column in pairs}
        if not llrs:
            names.remove("policy_a_dcf")
        return explained(names, Classes(columns, labels[kept]), self.settings_of(name)).values

    def content(self, fitted: str, scores: str, name: str | None) -> dict[str, Any]:
        """What ``transfer.json`` says of every system."""
        target, speakers = self.tables["eval"], self.speakers
        corpus = name or origin_beside(target).corpus or target.path.resolve().parent.name
        source = next(iter(self.systems.values())).about.get("corpus")
        found: dict[str, Any] = {
            "format": "lightning_sasv.transfer",
            "version": 1,
            "fitted": fitted,
            "scores": scores,
            "source": str(source or Path(fitted).resolve().name),
            "target": str(corpus),
            "costs": named_costs(self.settings.costs),
            "trials": {str(code): int((self.labels == code).sum()) for code in CLASS_ORDER},
            "speakers": None if speakers is None else len(np.unique(speakers)),
            "replicates": self.replicates,
            "systems": {},
        }
        for one in self.systems:
            at = dict(zip(("eer", "a_dcf"), self.thresholds(one), strict=True))
            sets = {"source": self.values(one, split="dev"), "target": self.values(one)}
            entry = {"thresholds": at, **sets, "lost": self.lost(one)}
            found["systems"][one] = entry | {"verdict": verdict(entry, found["speakers"])}
        return found

    def lost(self, name: str) -> dict[str, dict[str, float]]:
        """What carried thresholds cost more than those of other target speakers, in two measures.

        Empty where the target's own thresholds cannot be found on some of its speakers.
        """
        score, codes = self.fused["eval"][name].sasv, self.labels
        groups = np.arange(len(codes)).astype(str) if self.speakers is None else self.speakers
        try:
            folds = folds_of(groups, codes)
        except InputError:
            return {}
        own = np.empty((2, len(codes)))
        for fold in range(folds.max() + 1):
            found = self._thresholds(score[folds != fold], codes[folds != fold])
            own[:, folds == fold] = np.array(found)[:, None]
        result, costs = {}, self.settings.costs
        of_class = np.stack([codes == code for code in CLASS_ORDER])
        pairs = zip(("hter", "a_dcf"), self.thresholds(name), own, strict=True)
        for measure, carried, others in pairs:
            wrong = [of_class & (score <= at) for at in (carried, others)]
            both = [float(cost_of(measure, bad.sum(1), of_class.sum(1), costs)) for bad in wrong]
            result[measure] = {"carried": both[0], "own": both[1], "lost": both[0] - both[1]}
            if self._drawn is not None:
                every = self._drawn.sums(of_class)
                drawn = [cost_of(measure, self._drawn.sums(bad), every, costs) for bad in wrong]
                low, high = percentile_ends(drawn[0] - drawn[1])
                result[measure] |= {"low": low, "high": high}
        return result

    def conditions(self, name: str, by: str | None) -> dict[str, dict[str, dict[str, float]]]:
        """Measures of each value of the columns; all bona fide trials belong to each attack."""
        table = self.tables["eval"]
        asked = words_in(by)
        table.need(asked, "--by")
        found = {}
        for column in asked or [one for one in CONDITIONS if one in table]:
            groups, own = table.text(column), np.ones(len(table), np.bool_)
            if column in OF_ATTACKS:
                own = self.labels == TrialClass.SPOOF
            found[column] = {
                str(value): self.values(name, np.flatnonzero((groups == value) & own | ~own))
                for value in np.unique(groups[own])
            }
        return found

    def target(self, name: str, wanted: tuple[str, ...] = METHODS) -> Target:
        """What the label budget of a system is about."""
        fused, system = self.fused["eval"][name], self.systems[name]
        return Target(
            fused.sasv, self.labels, self.settings.costs, self.thresholds(name), self.speakers,
            system.gives_llrs, self._refit(system) if system.gives_llrs else None, wanted,
        )  # fmt: skip

    def _refit(self, system: FittedSystem) -> Refit:
        names, table = list(system.columns.names), of_network(self.tables["eval"], system.name)
        given = matrices(table, names)
        columns, scores = system.checked(*given)
        more: dict[str, Any] = {} if tuple(names) == PAIR else {"columns": names}

        def refit(rows: np.ndarray) -> Floats:
            asv, cm, quality = (None if part is None else part[rows] for part in given)
            speakers = None if self.speakers is None else self.speakers[rows]
            own = more | {"quality": quality, "speakers": speakers}
            state = system.fit_state(system.dev_trials(asv, cm, self.labels[rows], **own))
            parts = (scores[:, block] for block in blocks(len(table)))  # faster than all at once
            fused = [np.asarray(system.fuse_pairs(state, part, columns).sasv) for part in parts]
            return np.concatenate(fused)

        return refit
