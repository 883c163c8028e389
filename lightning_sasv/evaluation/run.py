"""A whole evaluation: metrics, breakdowns, intervals and comparisons of systems on tables."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lightning_sasv.console import Begin
from lightning_sasv.errors import InputError
from lightning_sasv.evaluation.compare import Attack, Draws, Options, draw, draw_attacks
from lightning_sasv.evaluation.definitions import definitions, doubts, read_points, read_rates
from lightning_sasv.evaluation.systems import Systems, gather
from lightning_sasv.files import finite, write_json, write_text
from lightning_sasv.metrics.comparisons import Comparison
from lightning_sasv.metrics.functional import Settings
from lightning_sasv.metrics.intervals import Interval
from lightning_sasv.metrics_file import Metrics, as_content, blocks
from lightning_sasv.places import head, refuse
from lightning_sasv.record import Origin, Trials, is_part, set_entry, set_title
from lightning_sasv.results import origin_beside, read_metrics
from lightning_sasv.scores import ScoreTable
from lightning_sasv.scores.join import stacked
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
from lightning_sasv.trials import SPLITS

if TYPE_CHECKING:
    import polars as pl

Values = dict[str, float]

COLUMNS = ("system", "group", "metric", "value", "low", "high", "method", "drawn", "n")
"""Columns of values and intervals, a row for each."""


@dataclass(frozen=True)
class EvaluationResult:
    """Everything that was found.

    Attributes:
        counts: Trials of each label.
        options: What was wanted.
        metrics: By system and name.
        draws: What was drawn for intervals and comparisons.
        groups: By column, system, group and name.
        comparisons: Of systems, from the same draws as the intervals.
        notes: What was left out, and what must be said.
        systems: The systems on their trials.
        attacks: What each attack does, by system and attack, where a breakdown by them is wanted.
    """

    counts: dict[str, int]
    options: Options
    metrics: dict[str, Values]
    draws: Draws
    groups: dict[str, dict[str, dict[str, Values]]]
    comparisons: list[Comparison]
    notes: tuple[str, ...]
    systems: Systems
    attacks: dict[str, dict[str, Attack]] = field(default_factory=dict)

    @property
    def intervals(self) -> dict[str, dict[str, Interval]]:
        """By system and name."""
        return self.draws.intervals

    @property
    def title(self) -> str:
        """Trials of each label, and of how many they are where they are a part."""
        counted = ", ".join(f"{count:,} {label}" for label, count in self.counts.items())
        of = Trials(self.systems.table).block(Origin(None))
        return f"{set_title('these', of)} ({counted})" if is_part(of) else f"{counted} trials"

    def as_dict(self) -> dict[str, Any]:
        """The content of a ``metrics.json`` as plain values; NaN and infinity become ``None``."""
        trials, intervals = Trials(self.systems.table), self.intervals
        origin = origin_beside(trials.table) or Origin(None)
        split = trials.table.path.stem if trials.table.path.stem in SPLITS else "trials"
        systems: Metrics = {}
        for name, values in self.metrics.items():
            columns = self.systems.columns[name]
            entry = set_entry(columns, values, trials, origin, self.options.settings)
            found = intervals.get(name, {})
            entry["intervals"] = {metric: self.draws.plain(one) for metric, one in found.items()}
            entry["by"] = {column: groups[name] for column, groups in self.groups.items()}
            systems[name] = {"sets": {split: entry}}
        compared = [one.as_dict() for one in self.comparisons]
        plain: dict[str, Any] = finite(as_content(systems, compared))
        return plain

    def definitions(self, costs: str) -> list[str]:
        """What the numbers are defined by, one phrase each; ``costs`` names those of the a-DCF."""
        shown = {name for values in self.metrics.values() for name in values}
        return definitions(self.options.settings, shown, costs)

    def write(self, path: str | Path, overwrite: bool = True) -> Path:
        """Write the results as JSON, rates as fractions.

        Args:
            path: File to write.
            overwrite: Replace it, be it no evaluation or that of other scores.
        """
        content = self.as_dict()
        if not overwrite and Path(path).exists() and _noted(path) != _data(content["systems"]):
            refuse(path, "something else, or the evaluation of other scores", "another --json")
        return write_json(path, content, sort_keys=False)

    def frame(self) -> pl.DataFrame:
        """Values and intervals, one row each; rates as fractions, null where undefined."""
        import polars as pl

        drawn, found = " × ".join(self.draws.drawn), self.intervals
        rows: list[tuple[Any, ...]] = []
        for name, values in self.metrics.items():
            for metric, value in values.items():
                how: tuple[Any, ...] = (None,) * 5
                one = found.get(name, {}).get(metric)
                if one is not None:
                    how = one.low, one.high, one.method, drawn, one.replicates
                rows.append((name, None, metric, value, *how))
        for column, systems in self.groups.items():
            rows += [
                (name, f"{column}={group}", metric, value, *(None,) * 5)
                for name, groups in systems.items()
                for group, values in groups.items()
                for metric, value in values.items()
            ]
        numbers = dict.fromkeys(("value", "low", "high"), pl.Float64)
        kinds = {**dict.fromkeys(COLUMNS, pl.String), **numbers, "n": pl.Int64}
        return pl.DataFrame(rows, kinds, orient="row").fill_nan(None)

    def write_csv(self, path: str | Path, overwrite: bool = True) -> Path:
        """Write :meth:`frame` as CSV.

        Args:
            path: File to write.
            overwrite: Replace it, whatever it holds.
        """
        if not overwrite and Path(path).exists() and ",".join(COLUMNS) not in head(Path(path)):
            refuse(path, "something else than values and intervals", "another --csv")
        return write_text(path, self.frame().write_csv())


def _data(systems: Metrics) -> list[tuple[str, str, str, str]]:
    """Trials and scores that an evaluation is of."""
    return [(name, own, of["fingerprint"], of["scores"]) for name, own, of in blocks(systems)]


def _noted(path: str | Path) -> Any:
    """What an evaluation in a file was made of; nothing where the file holds none."""
    with suppress(InputError):
        return _data(read_metrics(path))
    return None


def evaluate(
    files: list[str],
    key: str | None = None,
    key_format: str | None = None,
    format: str | None = None,
    by: str | None = None,
    ci: Literal["known", "speaker", "speaker-attack", "trial", "none"] | None = None,
    interval: Literal["bca", "percentile", "interpolated"] | None = None,
    replicates: int = 1000,
    seed: int = 0,
    compare: bool = False,
    reference: str | None = None,
    pairs: Literal["all"] | None = None,
    adjust: Literal["holm", "bh", "none"] = "holm",
    systems: str | None = None,
    where: str | None = None,
    costs: str = "a-dcf1",
    convention: Literal["asvspoof", "interpolated", "rocch", "max"] = "asvspoof",
    json: str | None = None,
    csv: str | None = None,
    llrs: bool = False,
    not_llr: bool = False,
    allow_missing: bool = False,
    overwrite: bool = False,
    columns: str | None = None,
    labels: str | None = None,
    ids: Literal["none", "name"] | None = None,
    negate: str | None = None,
    log: str | None = None,
    dcf: str = "voxsrc",
    tandem_costs: str = "asvspoof5",
    asv_rates: str | None = None,
    t_eer_rule: Literal["interpolated", "reference"] = "interpolated",
    macro: bool = False,
    *,
    tell: Tell = silent,
    begin: Begin | None = None,
) -> EvaluationResult:
    """Every metric that the columns of score files allow; several systems are compared.

    A file is a system; one with several columns sasv_<system> holds several. `asv=FILE,cm=FILE`
    joins two files by trial id into one system. Several files are compared: paired bootstrap of
    each difference, adjusted for their number, with the verdict in words.

    Args:
        files: Score files of any known format (docs/formats.md), or ROLE=FILE; or a file of each
            class, target=FILE,nontarget=FILE (or bonafide=, spoof=).
        key: Key or protocol with the labels, joined by trial id; given again, further columns.
        key_format: Format of the key; recognised when not given.
        format: Format of the score files; recognised when not given.
        by: Breakdown by attack, speaker or any other column; several separated by commas.
        ci: What the bootstrap of 95 % intervals and differences draws: known (enrolled speakers,
            impostors by the column test_speaker, attacks: what is known of them), speaker,
            speaker-attack or trial. By default known, for the main metrics; with it for all; none
            for no intervals.
        interval: bca (of values over speakers, the default), percentile, or interpolated as other
            packages have it.
        replicates: Bootstrap replicates, at least 39; more are taken where Holm needs them.
        seed: Seed of the bootstrap.
        compare: Compare the systems of a single file as well.
        reference: System that the others are compared with; by default the best here, with all
            pairs as the family.
        pairs: all shows every pair.
        adjust: How the p-values of a family are adjusted: holm, bh or none.
        systems: Systems to keep, separated by commas.
        where: Keep the trials of one value of a column, e.g. subset=eval.
        costs: Costs of the a-DCF: equal, a-dcf1, asvspoof5, or a JSON or YAML file.
        convention: Convention of the EERs.
        json: File to write all results to, rates as fractions.
        csv: File to write values and intervals to, a row for each.
        llrs: Take asv_score and cm_score for log-likelihood ratios of target against nontarget and
            against spoof: adds the normalised cross-entropy of the three classes.
        not_llr: The fused scores are no log-likelihood ratios: their actual a-DCF is left out.
        allow_missing: Leave out trials that are not in every file instead of stopping.
        overwrite: Replace the file JSON though it holds no evaluation, or that of other scores.
        columns: What the columns of the files are, e.g. utterance,score,label; - skips one.
        labels: What labels are, e.g. bona=1,spoof=0.
        ids: none takes each row for a trial, name takes folders and file endings off.
        negate: Roles whose scores change their sign: asv, cm or sasv.
        log: Roles whose scores are likelihood ratios; their logarithm is taken.
        dcf: Operating point of the ASV DCF: voxsrc (prior of targets 0.05, costs 1 and 1), sre
            (0.01), sre16 (mean of 0.01 and 0.005), or three numbers, e.g. 0.05,1,1.
        tandem_costs: Costs of the t-DCF and of the CM DCF, as for the a-DCF.
        asv_rates: Fixed rates of the ASV for the t-DCF: asvspoof5, three numbers (misses, accepted
            nontargets, accepted spoofs), or a file of them or of ASV scores.
        t_eer_rule: How the t-EER is found: interpolated, or reference as the challenges' tools do.
        macro: Take the files, or the groups of BY, for parts of one test set: adds the mean of
            their smallest a-DCFs, each at its own threshold and at one for all.
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
        if table.unpaired:
            if len(files) > 1 or ci not in (None, "none"):
                raise InputError(f"{file}: unpaired files are evaluated alone, without intervals")
            ci = "none"
        tables[name] = where_equal(table, where)
    if macro:
        tables, by = _as_parts(tables, by)
    options = Options(
        settings=Settings(
            costs=read_costs(costs),
            convention=convention,
            not_llr=not_llr,
            tandem_costs=read_costs(tandem_costs),
            asv_points=read_points(dcf),
            asv_rates=read_rates(asv_rates),
            t_eer_rule=t_eer_rule,
        ),
        by=_words(by) or (),
        ci=ci,
        interval=interval,
        replicates=replicates,
        seed=seed,
        compare=compare or len(tables) > 1,
        reference=reference,
        pairs=pairs,
        adjust=adjust,
        systems=_words(systems),
        allow_missing=allow_missing,
        llrs=llrs,
    )
    result = evaluate_tables(tables, options, begin, by if macro else None)
    tell(result.notes)
    if json is not None:
        result.write(json, overwrite)
    if csv is not None:
        result.write_csv(csv, overwrite)
    return result


def _as_parts(
    tables: Mapping[str, ScoreTable], by: str | None
) -> tuple[dict[str, ScoreTable], str]:
    """One table, and its column that says which part of the test set a trial is in."""
    if len(tables) > 1 and not by:
        return {"all parts": stacked(tables)}, "part"
    if len(tables) > 1 or not by or "," in by:
        raise InputError("--macro needs the parts: several files, or one with --by COLUMN")
    return dict(tables), by


def _words(text: str | None) -> tuple[str, ...] | None:
    """Words of a list with commas."""
    if text is None:
        return None
    return tuple(word.strip() for word in text.split(",") if word.strip())


def evaluate_tables(
    tables: Mapping[str, ScoreTable],
    options: Options,
    begin: Begin | None = None,
    macro: str | None = None,
) -> EvaluationResult:
    """Evaluate the systems of one or more labelled tables.

    Args:
        tables: Labelled tables by name.
        options: What is wanted.
        begin: Told of long work, for a progress bar.
        macro: Column that says which part of the test set a trial is in.
    """
    scored = gather(tables, options.allow_missing, options.systems)
    how = options.settings, options.llrs
    metrics = scored.metrics(*how)
    for name, found in scored.macro(macro, options.settings).items() if macro else ():
        metrics[name] |= found
    groups = {column: scored.breakdown(column, *how) for column in options.by}
    draws = draw(scored, options, begin)
    notes = [
        *scored.notes,
        *doubts(metrics, scored.columns, scored.labels, options.settings),
        *draws.notes,
    ]
    if len(metrics) > 1 and not options.compare:
        notes.append(f"{len(metrics)} systems in one file; --compare tests their differences")
    return EvaluationResult(
        scored.counts(),
        options,
        metrics,
        draws,
        groups,
        draws.comparisons(),
        tuple(notes),
        scored,
        draw_attacks(scored, draws) if "attack" in options.by else {},
    )
