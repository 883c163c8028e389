"""A whole evaluation: metrics, breakdowns, intervals and comparisons of systems on tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack

from lightning_sasv.console import Begin
from lightning_sasv.errors import InputError
from lightning_sasv.evaluation.compare import (
    Options,
    draw,
    draw_attacks,
    errors_of_speakers,
    with_folder,
)
from lightning_sasv.evaluation.definitions import (
    doubts,
    read_cm_point,
    read_points,
    read_rates,
    words_in,
)
from lightning_sasv.evaluation.results_table import Results
from lightning_sasv.evaluation.sizes import STATES, is_counted, memory_for
from lightning_sasv.evaluation.systems import Systems, gather
from lightning_sasv.metrics.functional import Settings
from lightning_sasv.scores import ScoreTable
from lightning_sasv.scores.join import stacked
from lightning_sasv.scores.kinds import NAME, Frame, read_frame
from lightning_sasv.scores.reading import ReadingOptions, reading, takes_reading_options
from lightning_sasv.scores.sources import (
    Tell,
    joined_key,
    names_of_files,
    read_costs,
    read_key,
    read_source,
    silent,
    where_equal,
)
from lightning_sasv.trials import CLASS_ORDER, TrialClass

if TYPE_CHECKING:
    from lightning_sasv.evaluation.counted import CountedResults

    Found = TypeVar("Found", Results, CountedResults)


@takes_reading_options
def evaluate(
    files: Frame | list[str] | str | Path,
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
    costs: str | None = None,
    convention: Literal["asvspoof", "interpolated", "rocch", "max"] = "asvspoof",
    json: str | None = None,
    csv: str | None = None,
    llrs: bool = False,
    not_llr: bool = False,
    allow_missing: bool = False,
    overwrite: bool = False,
    dcf: str = "voxsrc",
    tandem_costs: str = "asvspoof5",
    asv_rates: str | None = None,
    t_eer_rule: Literal["interpolated", "reference"] = "interpolated",
    macro: bool = False,
    cm_dcf: str | None = None,
    state: str | None = None,
    exact: bool | Literal["auto"] = "auto",
    memory: str | None = None,
    grid: int | None = None,
    scratch: str | None = None,
    refine: str | None = None,
    weights: str | None = None,
    figures: str | None = None,
    dev: str | None = None,
    corpus: str | None = None,
    *,
    tell: Tell = silent,
    begin: Begin | None = None,
    **said: Unpack[ReadingOptions],
) -> Results:
    """Every metric that the columns of score files allow; several systems are compared.

    A file is a system; one with several columns sasv_<system> holds several. `asv=FILE,cm=FILE`
    joins two files by trial id into one system. Several files are compared: paired bootstrap of
    each difference, adjusted for their number, with the verdict in words.

    Args:
        files: Score files of any known format (docs/formats.md), ROLE=FILE, or NAME=FILE to name
            the system; or a file of each class, target=FILE,nontarget=FILE (or bonafide=, spoof=).
            In Python also a frame.
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
        reference: System that the others are compared with; by default the best on dev, where the
            metrics.json of a folder of results knows it, else the best here, with all pairs as the
            family.
        pairs: all shows every pair.
        adjust: How the p-values of a family are adjusted: holm, bh or none.
        systems: Systems to keep, separated by commas.
        where: Keep the trials of one value of a column, e.g. subset=eval.
        costs: Costs of the a-DCF: equal, a-dcf1, asvspoof5, or a JSON or YAML file; by default
            those of CORPUS, else a-dcf1.
        convention: Convention of the EERs.
        json: File to write all results to, rates as fractions.
        csv: File to write values and intervals to, a row for each.
        llrs: Take asv_score and cm_score for log-likelihood ratios of target against nontarget and
            against spoof: adds the normalised cross-entropy of the three classes.
        not_llr: The fused scores are no log-likelihood ratios: their actual a-DCF is left out.
        allow_missing: Leave out trials that are not in every file instead of stopping.
        overwrite: Replace the file JSON though it holds no evaluation, or that of other scores.
        dcf: Operating point of the ASV DCF: voxsrc (prior of targets 0.05, costs 1 and 1), sre
            (0.01), sre16 (mean of 0.01 and 0.005), or three numbers, e.g. 0.05,1,1.
        tandem_costs: Costs of the t-DCF and, without CM_DCF, of the CM DCF, as for the a-DCF.
        asv_rates: Fixed rates of the ASV for the t-DCF: asvspoof5, three numbers (misses, accepted
            nontargets, accepted spoofs), or a file of them or of ASV scores.
        t_eer_rule: How the t-EER is found: interpolated, or reference as the challenges' tools do.
        macro: Take the files, or the groups of BY, for parts of one test set: adds the mean of
            their smallest a-DCFs, each at its own threshold and at one for all.
        cm_dcf: Operating point of the CM DCF: asvspoof5 (prior of spoofs 0.05, costs 1 and 10),
            equal (0.5, 1 and 1), or three numbers, e.g. 0.05,1,10.
        state: File to write counts to, NAME.counts.safetensors; `lightning merge` adds such files,
            and they are evaluated like score files.
        exact: true holds all trials in memory, false counts them; auto decides by their number.
        memory: What the exact way may take, e.g. 8GB; by default what is free.
        grid: Counts have 2^GRID bins for each power of two, by default 2^7; a state keeps its own.
        scratch: Folder for what does not fit into memory where a key has another order than the
            scores; by default that of the system.
        refine: Score files of a state, separated by commas: read again for exact values.
        weights: Column whose values count the same, e.g. codec: an error rate is the mean of those
            of each value, in every replicate too.
        figures: Folder for the DET curves of every score, as PNG, PDF, SVG and CSV; needs
            matplotlib.
        dev: Score files of the same systems on dev, with labels or in KEY, separated by commas
            (NAME=FILE where several): adds the a-DCF at the threshold that is best there, and
            the best on dev is the reference of comparisons.
        corpus: Corpus whose costs and trials count unless others are given, e.g. asvspoof2021-df
            for subset=eval, or a YAML file (docs/corpora.md).
        tell: Told how the files were read and what was left out.
        begin: Told of long work, for a progress bar.
        **said: What is said of the files, :class:`..scores.reading.ReadingOptions`; columns of a
            frame are a mapping from its names to ours.

    Returns:
        What was found; of counts a ``counted.CountedResults``.
    """
    how, columns = reading(format, allow_missing, **said), said.get("columns")
    if corpus is not None:
        from lightning_sasv.data.profiles import profile_named

        profile = profile_named(corpus, "--corpus")
        costs, where = costs or profile.costs, where or profile.where or None
        tell([f"corpus {profile.name}: costs {costs}" + (f", trials of {where}" if where else "")])
    options = Options(
        settings=Settings(
            costs=read_costs(costs or "a-dcf1", tell),
            convention=convention,
            not_llr=not_llr,
            tandem_costs=read_costs(tandem_costs),
            asv_points=read_points(dcf),
            asv_rates=read_rates(asv_rates),
            t_eer_rule=t_eer_rule,
            cm_point=read_cm_point(cm_dcf),
        ),
        ci=ci,
        interval=interval,
        replicates=replicates,
        seed=seed,
        reference=reference,
        pairs=pairs,
        adjust=adjust,
        systems=words_in(systems) if systems is not None else None,
        allow_missing=allow_missing,
        llrs=llrs,
        weights=weights,
    )
    if (why := is_counted(files, options, exact, state, memory)) is not None:
        needs = {
            "--where": where, "--macro": macro, "--systems": systems, "--dev": dev,
            "--weights": weights, "--figures": figures, "--llrs": llrs,
            "--t-eer-rule reference": t_eer_rule == "reference",
        }  # fmt: skip
        _refuse_uncounted(why, by, needs)
        from lightning_sasv.evaluation.count import Input, evaluate_counted  # a fifth of a start

        counted = evaluate_counted(
            names_of_files([str(one) for one in _listed(files)]),
            Input.of(how, key, key_format, memory_for(memory) / 2, scratch, tell),
            replace(options, by=words_in(by)),
            grid=grid, state=state, exact=exact is True, refine=words_in(refine), begin=begin,
            overwrite=overwrite,
        )  # fmt: skip
        return _finished(counted, tell, json, csv, overwrite)  # type: ignore[return-value]
    if refine is not None:
        raise InputError(f"--refine {refine}: only states of counts are refined; give one")
    trials = read_key(key, key_format, how=how, tell=tell)
    read = partial(read_source, key=trials, how=how, tell=tell)
    tables = _read_tables(files, read) or {
        NAME.stem: joined_key(
            read_frame(files, how, columns if isinstance(columns, Mapping) else None),
            *(trials, how, tell),
        )
    }
    _check_unpaired(tables, llrs or macro)
    tables = {name: where_equal(table, where) for name, table in tables.items()}
    if macro:
        tables, by = _as_parts(tables, by)
    options = replace(options, by=words_in(by), compare=compare or len(tables) > 1)
    if dev is not None:
        known = gather(_read_tables(list(words_in(dev)), read), allow_missing)
        options = replace(options, dev=known.metrics(options.settings))
    result = evaluate_tables(tables, options, begin, by if macro else None)
    if figures is not None:
        result.write_figures(figures, overwrite)
    return _finished(result, tell, json, csv, overwrite)


def _check_unpaired(tables: Mapping[str, ScoreTable], both: bool) -> None:
    """Refuse scores of different trials where both scores of a trial are needed."""
    unpaired = [name for name, table in tables.items() if table.unpaired]
    if unpaired and (both or len(unpaired) < len(tables)):
        raise InputError(
            f"{unpaired[0]}: unpaired files are compared with unpaired ones of the same trials, "
            "without --llrs and --macro, which need both scores of a trial"
        )


def _refuse_uncounted(why: str, by: str | None, needs: Mapping[str, object]) -> None:
    """Refuse what counts do not tell."""
    from lightning_sasv.counting.views import GROUPED

    unmet = [name for name, value in needs.items() if value]
    unmet += [f"--by {name}" for name in words_in(by) if name not in GROUPED]
    if unmet:
        remedy = "evaluate its files instead" if why == STATES else "add --exact true"
        raise InputError(f"{unmet[0]} needs the trials in memory ({why}): {remedy}")


def _finished(
    result: Found, tell: Tell, json: str | None, csv: str | None, overwrite: bool
) -> Found:
    """Tell and write what was found."""
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
        named = [table.with_word("part", name) for name, table in tables.items()]
        return {"all parts": replace(stacked(named), by_row=True)}, "part"
    if len(tables) > 1 or not by or "," in by:
        raise InputError("--macro needs the parts: several files, or one with --by COLUMN")
    return dict(tables), by


def _read_tables(
    files: Frame | list[str] | str | Path, read: Callable[[str], ScoreTable]
) -> dict[str, ScoreTable]:
    """Tables of files by the names of their systems; none where a frame is given."""
    given = _listed(files)
    if not isinstance(given, list) or not all(isinstance(one, str | Path) for one in given):
        return {}
    tables = {}
    for name, file in names_of_files([str(one) for one in given]).items():
        tables[name] = read(file)
        if f"{name}={file}" in given:
            tables[name] = tables[name].with_system(name)
    return tables


def _listed(files: Any) -> Any:
    """Files as a list; a frame as it is."""
    return [files] if isinstance(files, str | Path) else files


def _lacking(scored: Systems, metrics: Mapping[str, Mapping[str, float]]) -> list[TrialClass]:
    """Classes without trials, for which some metric has no value."""
    if not any(math.isnan(value) for own in metrics.values() for value in own.values()):
        return []
    return [kind for kind in CLASS_ORDER if not (scored.labels == kind).any()]


def evaluate_tables(
    tables: Mapping[str, ScoreTable],
    options: Options,
    begin: Begin | None = None,
    macro: str | None = None,
) -> Results:
    """Evaluate the systems of one or more labelled tables.

    Args:
        tables: Labelled tables by name.
        options: What is wanted.
        begin: Told of long work, for a progress bar.
        macro: Column that says which part of the test set a trial is in.
    """
    scored = with_folder(gather(tables, options.allow_missing, options.systems), options)
    how = options.settings, options.llrs
    metrics = scored.metrics(*how, options.weights)
    for name, found in scored.macro(macro, options.settings).items() if macro else ():
        metrics[name] |= found
    groups = {column: scored.breakdown(column, *how) for column in options.by}
    draws = draw(scored, options, begin)
    notes = [
        *scored.notes,
        *(f"no {kind} trials: – stands for what needs them" for kind in _lacking(scored, metrics)),
        *(note for column in options.by for note in scored.lacking(column)),
        *(scored.lacking(options.weights) if options.weights else ()),
        *doubts(metrics, scored, options.settings),
        *draws.notes,
    ]
    if len(metrics) > 1 and not options.compare:
        notes.append(f"{len(metrics)} systems in one file; --compare tests their differences")
    return Results(
        scored.counts(),
        options,
        metrics,
        draws,
        groups,
        draws.comparisons(),
        tuple(notes),
        scored,
        draw_attacks(scored, draws) if "attack" in options.by else {},
        errors_of_speakers(scored, options.settings) if "speaker" in options.by else {},
    )
