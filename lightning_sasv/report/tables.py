"""Tables on the terminal, from the registry: metrics, breakdowns, comparisons, policies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from lightning_sasv.console import Terminal
from lightning_sasv.metrics.comparisons import PRIMARY, letters_of, not_distinguishable
from lightning_sasv.metrics.intervals import Interval
from lightning_sasv.metrics.registry import (
    BRIEF,
    FULL,
    METRICS,
    NO_LLR,
    Decimals,
    Metric,
    in_unit,
    metrics_for,
    number,
)
from lightning_sasv.metrics_file import (
    Metrics,
    costs_in,
    of_in,
    pairs_in,
    parts_of,
    rates_words,
    twin_words,
    values_in,
)
from lightning_sasv.record import NOT_RECORDED, is_part
from lightning_sasv.results import warnings_of
from lightning_sasv.trials import CLASS_ORDER, SPLITS


def make_table(
    left: Iterable[str], right: Iterable[str], rows: Iterable[Iterable[str]] = (), **look: Any
) -> Table:
    """A table of columns of words on the left, folded where they are too long, and of numbers."""
    table = Table(**look)
    for heading in left:
        table.add_column(heading, overflow="fold")
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=True)
    for cells in rows:
        table.add_row(*cells)
    return table


def in_parts(widths: Mapping[str, int], room: int) -> list[list[str]]:
    """Columns in parts that fit into a number of characters."""
    parts, left = list[list[str]](), 0
    for name, width in widths.items():
        if not parts or width > left:
            parts.append([])
            left = room
        parts[-1].append(name)
        left -= width
    return parts


def print_evaluation(result: Any) -> None:
    """Print metrics, breakdowns and comparisons.

    Args:
        result: An ``evaluation.Results``.
    """
    intervals, draws = result.intervals, result.draws
    share = worst_shares(draws.misses)
    rows = {"misses of the worst speaker": share} if intervals and share else {}
    print_metrics(result.metrics, intervals, result.title, result.caption, rows)
    for column, systems in result.groups.items():
        for system, groups in systems.items():
            more = {"attack": result.attacks, "speaker": result.speakers}.get(column, {})
            print_groups(system, column, groups, more.get(system), result.defined)
    for metric in dict.fromkeys(one.metric for one in result.comparisons):
        print_comparisons(result, metric)


def worst_shares(misses: Mapping[str, Any]) -> dict[str, str]:
    """Share of the misses that the worst speaker has, by system.

    Args:
        misses: ``metrics.speakers.Concentration`` of each.
    """
    return {
        name: f"{100 * one.worst_share:.0f} %" if one.misses else "no misses"
        for name, one in misses.items()
    }


def print_counted(result: Any) -> None:
    """Print metrics with bounds, and verdicts.

    Args:
        result: An ``evaluation.CountedResults``.
    """
    _print_systems(
        {
            name: {m.title(): own[m.name] for m in metrics_for("all") if m.name in own}
            for name, own in ((name, result.texts(name)) for name in result.metrics)
        },
        result.title,
        result.caption,
    )
    for column, system, groups in result.group_texts():
        shown = [
            one
            for one in metrics_for("groups")
            if any(one.name in own for own in groups.values())
            and not (column == "attack" and one.name in _NOT_OF_ATTACKS)
        ]
        cells = {one.title(): [own.get(one.name, "") for own in groups.values()] for one in shown}
        if cells:
            _print_tables(_fitting(column, groups, cells), f"{system} by {column}")
    for metric in dict.fromkeys(one.metric for one in result.comparisons):
        print_comparisons(result, metric)


def print_metrics(
    metrics: Mapping[str, Mapping[str, float]],
    intervals: Mapping[str, Mapping[str, Interval]],
    title: str,
    caption: str,
    rows: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Every metric of every system, with intervals where there are any; then other rows."""
    texts: dict[str, dict[str, str]] = {}
    for system, own in metrics.items():
        there = [metric for metric in metrics_for("all") if metric.name in own]
        texts[system] = {m.title(): value_text(m, system, metrics, intervals) for m in there}
        texts[system] |= {name: row[system] for name, row in (rows or {}).items() if system in row}
    _print_systems(texts, title, caption)


def _print_systems(texts: Mapping[str, Mapping[str, str]], title: str, caption: str) -> None:
    """Texts by system and heading, a system a column or a row: whatever takes fewer lines.

    Systems of which the same is known stand in one table where they are rows.
    """
    headings = dict.fromkeys(name for own in texts.values() for name in own)
    columns = {system: [own.get(name, "") for name in headings] for system, own in texts.items()}
    by_column = _fitting("metric", headings, columns)
    kinds: dict[tuple[str, ...], list[str]] = {}
    for system, own in texts.items():
        kinds.setdefault(tuple(own), []).append(system)
    by_row: list[Table] = []
    for kind, systems in kinds.items():
        cells = {name: [texts[system][name] for system in systems] for name in kind}
        alone = {systems[0]: [*texts[systems[0]].values()]}
        several = len(systems) > 1
        by_row += _fitting("system", systems, cells) if several else _fitting("metric", kind, alone)
    tables = min(by_column, by_row, key=lambda found: sum(4 + one.row_count for one in found))
    _print_tables(tables, title, caption)


def _fitting(first: str, names: Iterable[str], columns: Mapping[str, Sequence[str]]) -> list[Table]:
    """Tables of a row for each name, as many as it takes for no column to be broken.

    Args:
        first: Heading of the names.
        names: What the rows are.
        columns: Texts of each column, by its heading.
    """
    names = list(names)
    room = Terminal(wrap=True).width - min(40, max(map(len, (first, *names)))) - 4
    widths = {head: max(map(len, (head, *texts))) + 3 for head, texts in columns.items()}
    tables = []
    for part in in_parts(widths, room):
        rows = zip(names, *(columns[heading] for heading in part), strict=True)
        tables.append(make_table([first], part, rows))
        tables[-1].columns[0].max_width = 40
    return tables


def _print_tables(tables: Sequence[Table], title: str, caption: str | None = None) -> None:
    """Print tables under one title and above one caption."""
    tables[0].title, tables[-1].caption = title, caption
    for table in tables:
        Terminal(wrap=True).print(table)


def value_text(
    metric: Metric,
    system: str,
    metrics: Mapping[str, Mapping[str, float]],
    intervals: Mapping[str, Mapping[str, Interval]],
    decimals: Decimals = FULL,
) -> str:
    """``1.42 [0.87, 2.98]``: a value of a system with its interval, where it has one."""
    if metric.name not in metrics[system]:
        return ""
    value, found = metrics[system][metric.name], intervals.get(system, {}).get(metric.name)
    if metric.name == "act_a_dcf" and math.isnan(value) and not math.isnan(metrics[system]["cllr"]):
        return NO_LLR
    if math.isnan(value):
        return metric.shown(metrics[system], decimals)
    return _with_ends(metric, value, found, decimals)


def _with_ends(
    metric: Metric, value: float, found: Interval | None, decimals: Decimals = FULL
) -> str:
    text = metric.text(value, decimals)
    if found is None or math.isnan(found.low):
        return text
    return f"{text} [{metric.text(found.low, decimals)}, {metric.text(found.high, decimals)}]"


def print_groups(
    system: str,
    column: str,
    groups: Mapping[str, Mapping[str, float]],
    more: Mapping[str, Any] | None = None,
    defined: Callable[[Iterable[str]], str] = lambda names: "rates in per cent, Cllr in bits",
) -> None:
    """The main metrics of each group, in as many tables as it takes to show every number whole.

    Args:
        system: Name of the system.
        column: What the groups are.
        groups: Metrics of each.
        more: Errors at the threshold of all trials. Of groups that are attacks,
            ``evaluation.compare.Attack`` of each; metrics that no attack can change are left out.
            Of speakers, ``metrics.speakers.SpeakerErrors`` of each.
        defined: What metrics of some names are, in words.
    """
    attacks = more if column == "attack" else None
    if attacks:
        _print_attacks(system, groups, attacks, defined(["spf_eer"]))
    elif more:
        _print_speakers(system, more)
    metrics = [
        metric
        for metric in metrics_for("groups")
        if any(not math.isnan(values.get(metric.name, math.nan)) for values in groups.values())
        and not (column == "attack" and metric.name in _NOT_OF_ATTACKS)
        and not (attacks and metric.name == "spf_eer")
    ]
    cells = {m.title(): [m.shown(values) for values in groups.values()] for m in metrics}
    if cells:
        title, caption = f"{system} by {column}", defined(metric.name for metric in metrics)
        _print_tables(_fitting(column, groups, cells), title, caption)


_NOT_OF_ATTACKS = ("sasv_eer", "sv_eer", "asv_eer")
"""Metrics that are the same for every attack, or speak of all at once."""


def _print_attacks(
    system: str,
    groups: Mapping[str, Mapping[str, float]],
    attacks: Mapping[str, Any],
    defined: str,
) -> None:
    """SPF-EER of each attack with its interval, spoofs, and how many of them are accepted."""
    entry = METRICS["spf_eer"]
    table = make_table(["attack"], [entry.title(), "spoofs", "accepted %"])
    table.title = f"{system} by attack"
    table.caption = f"{defined}; accepted at the threshold of the SASV-EER of all trials"
    if any(one.spf_eer is not None for one in attacks.values()):
        table.caption += "; 95 % intervals, drawn: enrolled speakers"
    for attack, one in attacks.items():
        cell = _with_ends(entry, groups[attack]["spf_eer"], one.spf_eer)
        table.add_row(attack, cell, f"{one.spoofs:,}", number(one.accepted, "rate"))
    Terminal(wrap=True).print(table)


def _print_speakers(system: str, speakers: Mapping[str, Any]) -> None:
    """Trials of each enrolled speaker, and the errors among them."""
    heads = ("targets", "missed", "nontargets", "accepted", "spoofs", "accepted")
    table = make_table(["speaker"], heads, title=f"{system} by speaker")
    table.caption = "missed and accepted at the threshold of the SASV-EER of all trials"
    for name, one in speakers.items():
        cells = (
            *(one.targets, one.misses, one.nontargets),
            *(one.accepted_nontargets, one.spoofs, one.accepted_spoofs),
        )
        table.add_row(name, *(f"{cell:,}" for cell in cells))
    Terminal(wrap=True).print(table)


def print_comparisons(result: Any, metric: str) -> None:
    """Differences in one metric, the verdicts, and which systems are not told apart.

    Args:
        result: An ``evaluation.Results`` or ``CountedResults``.
        metric: The metric to show.
    """
    console, entry, draws = Terminal(), METRICS[metric], result.draws
    looked_at = [one for one in result.comparisons if one.metric == metric]
    best, tested = draws.reference(metric)
    shown = [one for one in looked_at if best in (one.first, one.second)]
    rank = "" if metric == PRIMARY else ", secondary"
    console.print()
    console.print(f"Differences in {entry.title()} (95 % intervals, paired bootstrap{rank};")
    console.print(f"  {draws.caption}; p adjusted in a family of {looked_at[0].family}):")
    for one in looked_at if draws.wanted.pairs == "all" else shown:
        value = f"{in_unit(one.difference, entry.unit):+.4f}"
        ends = f" ({entry.text(one.low)} to {entry.text(one.high)}, p = {one.p:.3g})"
        judged = not math.isnan(one.low)
        console.print(f"  {one.first} − {one.second}: {value}{ends if judged else ''}")
        console.print(f"    → {one.verdict}.")
    if draws.drawn == ("trial",) or all(math.isnan(one.low) for one in looked_at):
        return
    alike = not_distinguishable(looked_at, best)
    chosen = "" if tested or len(looked_at) == 1 else ", the best here"
    console.print(f"  Not distinguishable from {best}{chosen}: {', '.join(alike) or 'none'}.")
    if tested is None and len(looked_at) > 1:
        order = sorted(draws.systems, key=lambda name: result.metrics[name].get(metric, math.inf))
        there = [name for name in order if metric in draws.systems[name]]
        found = letters_of(looked_at, there)
        console.print(f"  Letters: {', '.join(f'{name} {found[name]}' for name in there)}.")


def print_policies(
    results: Mapping[str, Mapping[str, Any]], title: str, chosen: tuple[str, str] | None = None
) -> None:
    """Expected and actual cost of policies, a row for each system and policy.

    Args:
        results: By system and policy, objects with ``accepted``, ``expected``,
            ``expected_at_priors`` and ``actual``.
        title: Title of the table.
        chosen: System and policy that the written decisions are of.
    """
    table = make_table(
        ("system", "policy"),
        ("expected", "at π", "actual", "a-DCF", "acc", "miss", "non", "spf"),
        title=title,
        caption="acc, miss, non, spf: accepted trials, missed targets, accepted nontargets and "
        "spoofs in per cent. a-DCF: actual cost over that of the better blind decision. Expected: "
        "mean risk by the LLRs, of these trials and with the classes at their priors π.",
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    unsure = []
    for system, policies in results.items():
        for policy, one in policies.items():
            style = "bold" if (system, policy) == chosen else None
            table.add_row(system, policy, *_policy_cells(one), style=style)
            unsure += [f"unsure, {system} {policy}: {_unsure(one)}"] if one.unsure else []
    Terminal(wrap=True).print(table)
    for line in unsure:
        Terminal(wrap=True).print(line)


def _unsure(one: Any) -> str:
    """Share of the trials on which nothing was decided, by class where that is known."""
    if one.actual is None:
        return f"{100 * one.unsure:.2f} % of the trials"
    shares = zip(one.actual.unsure, CLASS_ORDER, strict=True)
    return ", ".join(f"{100 * share:.2f} % of {code}s" for share, code in shares if share == share)


def _policy_cells(one: Any) -> list[str]:
    cells = [number(one.expected), number(one.expected_at_priors)]
    if one.actual is None:
        return [*cells, "–", "–", f"{100 * one.accepted:.2f}", "–", "–", "–"]
    cost = one.actual
    rates = (one.accepted, cost.p_miss, cost.p_fa_nontarget, cost.p_fa_spoof)
    cells += [number(float(cost.cost)), number(float(cost.normalised))]
    return cells + [f"{100 * float(rate):.2f}" for rate in rates]


COST_WORDS = (
    "normalised: minimum; at the dev threshold; actual, at the Bayes threshold, where what "
    "it has more is the price of miscalibration; policy, of the Bayes rule on the pair of LLRs, "
    "the same whatever fuses them"
)
"""What the costs of a table are."""


def cost_words(metrics: Metrics, split: str | None = None) -> str:
    """Which costs there are, and their numbers or name."""
    return f"a-DCF (costs {costs_in(metrics, split) or NOT_RECORDED}), {COST_WORDS}"


def print_results(metrics: Metrics, corpus: str) -> None:
    """Show the metrics of each system on each set, and which corpus they come from."""
    from lightning_sasv.fusion.doubts import is_doubtful  # evaluating needs no fusion

    doubtful = [name for name, own in warnings_of(metrics).items() if is_doubtful(own)]
    parts = [*twin_words(metrics), *parts_of(metrics)]
    title = "; ".join([f"Results on the corpus: {corpus}", *parts])
    costs = cost_words(metrics)
    values = [values_in(entry, split) for entry in metrics.values() for split in SPLITS]
    there = [m for m in metrics_for("results") if any(m.name in own for own in values)]
    console = Terminal(wrap=True)
    for caption, is_cost in ((rates_words(metrics), False), (costs, True)):
        columns = [metric for metric in there if (metric.unit == "cost") == is_cost]
        if columns:
            doubts = "; ! doubtful fit, see the warnings" if doubtful else ""
            look = {"title": title, "caption": caption + doubts}
            console.print(_results_table(metrics, columns, doubtful, look))
    for split in SPLITS:
        pairs = [
            f"{', '.join(names)} {METRICS['t_eer'].shown(values, BRIEF)}"
            for names, values in pairs_in(metrics, split)
        ]
        if pairs:
            console.print(f"t-EER of the pairs that are fused, {split}, %: {'; '.join(pairs)}")


def _results_table(
    metrics: Metrics, columns: Sequence[Metric], doubtful: Sequence[str], look: Mapping[str, Any]
) -> Table:
    """Some metrics of each system on each set."""
    from lightning_sasv.fusion.doubts import marked

    names = [metric.short for metric in columns]
    table = make_table(("system", "set"), names, padding=(0, 0, 0, 1), **look)
    for system, entry in metrics.items():
        label = marked(system, system in doubtful)
        for split in SPLITS:
            if known := values_in(entry, split):
                ends, why = (
                    entry["sets"][split].get(part, {}) for part in ("intervals", "undefined")
                )
                shown = [_brief(metric, known, ends.get(metric.name), why) for metric in columns]
                name = f"part of {split}" if is_part(of_in(entry, split)) else split
                table.add_row(label, name, *shown)
    return table


def _brief(
    metric: Metric,
    values: Mapping[str, Any],
    ends: Mapping[str, Any] | None,
    undefined: Mapping[str, str],
) -> str:
    """A value, and its interval where there is one."""
    text = NO_LLR if undefined.get(metric.name) == NO_LLR else metric.shown(values, BRIEF)
    if not ends or ends.get("low") is None:
        return text
    return f"{text} [{metric.text(ends['low'], BRIEF)}, {metric.text(ends['high'], BRIEF)}]"


def print_verdicts(rows: Sequence[Sequence[str]], remarks: Sequence[str]) -> None:
    """Published values, what was recomputed, and what is to be said of it."""
    names = ("system", "metric", "set")
    table = make_table(names, ("published", "recomputed"), title="Published and recomputed")
    table.caption = "rates in per cent; equal: within half a unit of the last digit printed"
    table.add_column("status", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Terminal(wrap=True)
    console.print(table)
    for remark in remarks:
        console.print(remark)
