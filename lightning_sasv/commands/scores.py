"""``lightning fuse``, ``evaluate``, ``decide`` and ``convert``: score files of any system.

Options and help are the signatures and docstrings below, through jsonargparse's ``auto_cli``;
``commands.arguments`` translates the words that ``auto_cli`` does not know (several files, bare
yes/no options, dashes).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from lightning_sasv.errors import InputError


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
    costs: str = "a-dcf1",
    allow_missing: bool = False,
) -> None:
    """Fit fusion systems on dev scores, fuse eval scores, write scores, metrics and the systems.

    Files may be of any known format (docs/formats.md). `asv=FILE,cm=FILE` joins two files by
    trial id. Nothing is fitted on eval: its labels, if any, serve for its metrics alone.

    Args:
        dev: Development scores (ASV and CM) with labels.
        eval: Evaluation scores (ASV and CM).
        systems: Systems to fit, separated by commas, or all.
        out: Folder to write scores/, fitted/ and metrics.json to.
        name: Name of the corpus in the results; by default the folder of the eval file.
        format: Format of the files; recognised when not given.
        dev_key: Key with the labels of dev, where its scores have none.
        eval_key: Key with the labels of eval, where its scores have none.
        key_format: Format of the keys; recognised when not given.
        costs: Costs of the a-DCF: equal, a-dcf1, asvspoof5, or a JSON or YAML file.
        allow_missing: Leave out trials without a score instead of stopping.
    """
    from lightning_sasv.commands.score_input import (
        metric_settings,
        read_file,
        read_key_file,
    )
    from lightning_sasv.console import print_written, progress
    from lightning_sasv.evaluation.fuse import fuse_tables, write_results
    from lightning_sasv.files import ensure_directory
    from lightning_sasv.fusion import system_names
    from lightning_sasv.report.tables import print_results

    names, settings = system_names(systems), metric_settings(costs)
    dev_table = read_file(dev, format, read_key_file(dev_key, key_format), allow_missing)
    eval_table = read_file(eval, format, read_key_file(eval_key, key_format), allow_missing)
    corpus = name or eval_table.path.resolve().parent.name
    with progress() as begin:
        step = begin("fitting on dev, fusing dev and eval", 2)
        results = fuse_tables(dev_table, eval_table, names, corpus, settings)
        step()
        write_results(ensure_directory(out), results)
        step()
    print_results(results.metrics, corpus)
    print_written(Path(out))


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
) -> None:
    """Every metric that the columns of score files allow; several systems are compared.

    A file is a system; one with several columns sasv_<system> holds several. `asv=FILE,cm=FILE`
    joins two files by trial id into one system. Several files are compared: paired bootstrap of
    each difference by trial and by speaker, with the verdict in words.

    Args:
        files: Score files of any known format (docs/formats.md), or ROLE=FILE.
        key: Key or protocol with the labels, joined by trial id.
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
    """
    from lightning_sasv.commands.score_input import (
        metric_settings,
        read_file,
        read_key_file,
        where_equal,
        words,
    )
    from lightning_sasv.console import print_notes, progress
    from lightning_sasv.evaluation.run import Options, evaluate_tables, system_names
    from lightning_sasv.evaluation.show import show_evaluation
    from lightning_sasv.files import write_json

    labels = read_key_file(key, key_format)
    tables = {
        name: where_equal(read_file(file, format, labels, allow_missing), where)
        for name, file in system_names(files).items()
    }
    options = Options(
        settings=metric_settings(costs, convention),
        by=words(by) or (),
        ci=ci,
        replicates=replicates,
        seed=seed,
        compare=compare or len(files) > 1,
        systems=words(systems),
        allow_missing=allow_missing,
        llrs=llrs,
    )
    with progress() as begin:
        result = evaluate_tables(tables, options, begin)
    print_notes(result.notes)
    show_evaluation(result, costs)
    if json is not None:
        write_json(json, result.as_dict(), sort_keys=False)


def decide(
    file: str,
    fitted: str | None = None,
    system: str | None = None,
    costs: str = "a-dcf1",
    policy: Literal["bayes", "linear", "utility"] = "bayes",
    out: str = "decisions.csv",
    compare: bool = False,
    key: str | None = None,
    key_format: str | None = None,
    format: str | None = None,
    allow_missing: bool = False,
) -> None:
    """Accept or reject each trial at given costs and priors; print expected and actual cost.

    Args:
        file: ASV and CM scores of any known format (docs/formats.md), or asv=FILE,cm=FILE.
        fitted: Folder of results with the fitted systems, from `lightning fuse --out` or `fit`.
        system: System that decides; by default L3t where it is there.
        costs: Costs and priors: equal, a-dcf1, asvspoof5, or a JSON or YAML file with c_miss,
            c_fa_nontarget, c_fa_spoof, p_target, p_nontarget and p_spoof.
        policy: Decision policy; bayes costs least where the LLRs are right.
        out: CSV file to write: LLRs, score, threshold, decision and reason of each trial.
        compare: Show every policy, of all fitted systems that give LLRs unless one is named.
        key: Key with the labels, where the scores have none.
        key_format: Format of the key; recognised when not given.
        format: Format of the file; recognised when not given.
        allow_missing: Leave out trials without a score instead of stopping.
    """
    from lightning_sasv.commands.export import read_costs
    from lightning_sasv.commands.score_input import read_file, read_key_file
    from lightning_sasv.console import print_written
    from lightning_sasv.evaluation.decide import (
        choose_system,
        compare_all,
        decide_trials,
        write_decisions,
    )
    from lightning_sasv.fitted import load_systems
    from lightning_sasv.report.tables import print_policies

    if fitted is None:
        raise InputError("--fitted DIR is needed: the folder that `lightning fuse --out DIR` wrote")
    model, fitted_systems = read_costs(costs), load_systems(fitted)
    chosen = choose_system(fitted_systems, system)
    table = read_file(file, format, read_key_file(key, key_format), allow_missing)
    decisions = decide_trials(table, fitted_systems[chosen], model, policy)
    if compare:
        able = {n: s for n, s in fitted_systems.items() if s.gives_llrs and system in (None, n)}
        results = compare_all(table, able, model)
    else:
        results = {chosen: {policy: decisions.result}}
    write_decisions(out, decisions)
    print_policies(results, f"Decisions at costs {costs}", (chosen, policy))
    print_written(Path(out))


def convert(
    file: str,
    to: str | None = None,
    out: str | None = None,
    format: str | None = None,
    column: str | None = None,
    key: str | None = None,
    key_format: str | None = None,
    allow_missing: bool = False,
) -> None:
    """Turn a score file or key into another format.

    A byte-order mark and Windows line ends, which the other commands refuse, are mended on the
    way.

    Args:
        file: File of any known format (docs/formats.md), or ROLE=FILE, or asv=FILE,cm=FILE.
        to: Format to write.
        out: File to write; by default beside FILE, named after the format.
        format: Format of FILE; recognised when not given.
        column: Score to write, where FILE has several and the format has room for one.
        key: Key to join by trial id, for formats with labels.
        key_format: Format of the key; recognised when not given.
        allow_missing: Leave out trials of the key without a score instead of stopping.
    """
    from lightning_sasv.console import print_notes, print_written
    from lightning_sasv.scores import convert as convert_file

    print_written(
        convert_file(
            file, to, out, format, column, key, key_format, allow_missing, tell=print_notes
        )
    )
