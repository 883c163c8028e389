"""Tables on the terminal: metrics, breakdowns, comparisons, policies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text


class Shown(NamedTuple):
    """How a metric is shown."""

    name: str
    heading: str
    percent: bool


METRICS = (
    Shown("sasv_eer", "SASV-EER %", True),
    Shown("sv_eer", "SV-EER %", True),
    Shown("spf_eer", "SPF-EER %", True),
    Shown("asv_eer", "ASV EER %", True),
    Shown("cm_eer", "CM EER %", True),
    Shown("t_eer", "t-EER %", True),
    Shown("t_eer_closest", "t-EER, closest point %", True),
    Shown("cllr", "Cllr", False),
    Shown("cllr_min", "Cllr min", False),
    Shown("cllr_calib", "Cllr calib", False),
    Shown("cm_cllr", "CM Cllr", False),
    Shown("cm_cllr_min", "CM Cllr min", False),
    Shown("cm_cllr_calib", "CM Cllr calib", False),
    Shown("nce", "cross-entropy (3 classes)", False),
    Shown("nce_min", "cross-entropy min", False),
    Shown("min_a_dcf", "a-DCF min", False),
    Shown("act_a_dcf", "a-DCF actual", False),
    Shown("cm_min_dcf", "CM DCF min", False),
    Shown("cm_act_dcf", "CM DCF actual", False),
    Shown("min_t_dcf", "t-DCF min", False),
    Shown("min_t_dcf_legacy", "t-DCF min (2019 challenge)", False),
    Shown("sasv_threshold", "threshold of SASV-EER", False),
    Shown("sv_threshold", "threshold of SV-EER", False),
    Shown("spf_threshold", "threshold of SPF-EER", False),
    Shown("a_dcf_threshold", "threshold of a-DCF min", False),
    Shown("asv_threshold", "threshold of ASV EER", False),
    Shown("cm_threshold", "threshold of CM EER", False),
    Shown("t_eer_asv_threshold", "t-EER: ASV threshold", False),
    Shown("t_eer_cm_threshold", "t-EER: CM threshold", False),
    Shown("t_eer_residual", "t-EER: residual", False),
    Shown("t_eer_exists", "t-EER: concurrent point exists", False),
)
"""Every metric of ``all_metrics`` in the order of the table."""

BY_GROUP = ("sasv_eer", "sv_eer", "spf_eer", "asv_eer", "cm_eer", "t_eer", "cllr", "min_a_dcf")
HEADINGS = {shown.name: shown for shown in METRICS}


def number(value: float | None, percent: bool = False) -> str:
    """A value with four decimals; undefined ones as a dash."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{100 * value if percent else value:.4f}"


def print_metrics(
    metrics: Mapping[str, Mapping[str, float]],
    intervals: Mapping[str, Mapping[str, tuple[float, float]]],
    title: str,
    caption: str,
) -> None:
    """Every metric, a column per system, with intervals where there are any."""
    console = Console()
    names = list(metrics)
    width = max((len(name) for name in names), default=0)
    width = max(width, 26 if intervals else 10) + 3
    step = max(1, (console.width - 34) // width)
    for start in range(0, len(names), step):
        part = names[start : start + step]
        table = Table(title=escape(title), caption=escape(caption))
        table.add_column("metric", no_wrap=True)
        for name in part:
            table.add_column(Text(name), justify="right", no_wrap=True)
        for shown in METRICS:
            if any(shown.name in metrics[name] for name in part):
                cells = [_cell(shown, name, metrics, intervals) for name in part]
                table.add_row(shown.heading, *cells)
        console.print(table)


def _cell(
    shown: Shown,
    system: str,
    metrics: Mapping[str, Mapping[str, float]],
    intervals: Mapping[str, Mapping[str, tuple[float, float]]],
) -> str:
    if shown.name not in metrics[system]:
        return ""
    value = metrics[system][shown.name]
    if shown.name == "t_eer_exists" and not math.isnan(value):
        return "yes" if value else "no"
    text = number(value, shown.percent)
    ends = intervals.get(system, {}).get(shown.name)
    if ends is None:
        return text
    low, high = (number(end, shown.percent) for end in ends)
    return rf"{text} \[{low}, {high}]"


def print_groups(system: str, column: str, groups: Mapping[str, Mapping[str, float]]) -> None:
    """The main metrics of each group, in as many tables as it takes to show every number whole."""
    console = Console()
    names = [
        n for n in BY_GROUP if any(not math.isnan(g.get(n, math.nan)) for g in groups.values())
    ]
    room = console.width - min(40, max(map(len, (column, *groups)))) - 4
    for part in _parts([HEADINGS[name] for name in names], room):
        table = Table(
            title=escape(f"{system} by {column}"), caption="rates in per cent, Cllr in bits"
        )
        table.add_column(Text(column), no_wrap=True, max_width=40)
        for shown in part:
            table.add_column(shown.heading, justify="right", no_wrap=True)
        for group, values in groups.items():
            cells = [number(values.get(shown.name), shown.percent) for shown in part]
            table.add_row(Text(group), *cells)
        console.print(table)


def _parts(columns: Sequence[Shown], room: int) -> list[list[Shown]]:
    """Columns in parts whose headings fit into a number of characters."""
    parts: list[list[Shown]] = []
    left = 0
    for shown in columns:
        width = max(len(shown.heading), len("100.0000")) + 3
        if not parts or width > left:
            parts.append([])
            left = room
        parts[-1].append(shown)
        left -= width
    return parts


def print_comparisons(comparisons: Sequence[Any], metric: str) -> None:
    """Differences of every pair in one metric, and the verdicts.

    Args:
        comparisons: Objects with ``metric``, ``first``, ``second``, ``difference``, ``ways`` and
            ``verdict``.
        metric: The metric to show.
    """
    console = Console(soft_wrap=True, highlight=False)
    shown = [one for one in comparisons if one.metric == metric]
    heading = HEADINGS[metric]
    console.print(f"\nDifferences in {heading.heading} (95 % intervals, paired bootstrap):")
    for one in shown:
        ways = "; ".join(
            f"by {way} {number(d.low, heading.percent)} to {number(d.high, heading.percent)}, "
            f"p = {d.p_value:.3g}"
            for way, d in one.ways.items()
        )
        value = f"{100 * one.difference if heading.percent else one.difference:+.4f}"
        console.print(Text(f"  {one.first} − {one.second}: {value} ({ways})"))
        console.print(Text(f"    → {one.verdict}."))
    if len(shown) > 5:
        console.print(
            f"  {len(shown)} differences are looked at: about {len(shown) * 0.05:.0f} of them "
            "would seem clear by chance."
        )


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
    table = Table(
        title=escape(title),
        caption="acc, miss, non, spf: accepted trials, missed targets, accepted nontargets and "
        "spoofs in per cent. a-DCF: actual cost over that of the better blind decision. Expected: "
        "mean risk by the LLRs, of these trials and with the classes at their priors π.",
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for heading in ("system", "policy"):
        table.add_column(heading, no_wrap=True)
    for heading in ("expected", "at π", "actual", "a-DCF", "acc", "miss", "non", "spf"):
        table.add_column(heading, justify="right", no_wrap=True)
    for system, policies in results.items():
        for policy, one in policies.items():
            style = "bold" if (system, policy) == chosen else None
            table.add_row(Text(system), policy, *_policy_cells(one), style=style)
    Console().print(table)


def _policy_cells(one: Any) -> list[str]:
    cells = [number(one.expected), number(one.expected_at_priors)]
    if one.actual is None:
        return [*cells, "–", "–", f"{100 * one.accepted:.2f}", "–", "–", "–"]
    cost = one.actual
    rates = (one.accepted, cost.p_miss, cost.p_fa_nontarget, cost.p_fa_spoof)
    cells += [number(float(cost.cost)), number(float(cost.normalised))]
    return cells + [f"{100 * float(rate):.2f}" for rate in rates]
