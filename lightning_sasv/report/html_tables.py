"""Tables of the page as HTML text. Everything that comes from files is escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from lightning_sasv.fusion.doubts import is_doubtful, marked
from lightning_sasv.metrics.registry import (
    METRICS,
    NO_LLR,
    ON_PAGE,
    UNDEFINED,
    Metric,
    metrics_for,
    number,
)
from lightning_sasv.metrics_file import Metrics, blocks, costs_in, pairs_in, values_in
from lightning_sasv.record import NOT_RECORDED, set_title, share_words
from lightning_sasv.report.description import Figure, Panel
from lightning_sasv.report.formats import Html, folded, html_cells, html_table, sentence
from lightning_sasv.report.sure import Sure, how
from lightning_sasv.report.table1 import PAPER, beside_paper
from lightning_sasv.report.tables import COST_WORDS
from lightning_sasv.results import Results, value_of, warnings_of

_UNITS = {"rate": ", %", "bits": ", bit"}


def _row(system: str, cells: Iterable[str], doubtful: bool = False) -> Html:
    label, shown = escape(system), marked(system, doubtful)
    return Html(f'<tr data-system="{label}">{html_cells([shown, *cells])}</tr>')


def _heat(metric: Metric, value: float, column: Sequence[float]) -> float:
    """How bad a value is in its column, 0 to 1, by its logarithm."""
    finite = [v for v in column if math.isfinite(v)]
    floor = max(min(finite), 1e-4 * max(finite), 1e-12)
    span = math.log(max(finite) / floor) if max(finite) > floor else 0.0
    heat = math.log(max(value, floor) / floor) / span if span > 0 else 0.0
    return heat if metric.lower_is_better else 1 - heat


_DOUBT = " ! the fit is doubtful, see the warnings above."


@dataclass(frozen=True)
class Shown:
    """Values of a set that a table shows.

    Attributes:
        metrics: What they are.
        split: The set.
        names: The systems.
        sure: How sure they are; nothing is known of sets that were not drawn.
        spread: Whether they are means over seeds.
        paper: Whether the paper's numbers are wanted beside them.
    """

    metrics: Metrics
    split: str
    names: Sequence[str]
    sure: Sure = field(default_factory=Sure)
    spread: bool = False
    paper: bool = False

    def values(self, name: str, split: str | None = None) -> dict[str, Any]:
        """Metrics of a system on the set, or on another one."""
        return values_in(self.metrics.get(name, {}), split or self.split)

    def about(self, name: str, part: str) -> dict[str, Any]:
        """Another part of what is known of a system on the set: ``undefined``, ``spread``."""
        found: dict[str, Any] = self.metrics.get(name, {}).get("sets", {}).get(self.split, {})
        return found.get(part, {})

    def column(self, metric: str) -> dict[str, float]:
        """Values of all systems, NaN where there are none."""
        return {name: value_of(self.values(name), metric) for name in self.names}

    @property
    def costs(self) -> str:
        """Their costs in words."""
        return costs_in(self.metrics, self.split) or NOT_RECORDED


def metrics_table(shown: Shown) -> str:
    """Metrics of every system on one set, with their intervals where there are any; then costs."""
    there = [
        metric
        for metric in metrics_for("page")
        if any(metric.name in shown.values(name) for name in shown.names)
    ]
    costs = [metric for metric in there if metric.unit == "cost"]
    of = next((of for _, _, of in blocks(shown.metrics, shown.split)), {})
    doubt = _DOUBT if any(map(is_doubtful, warnings_of(shown.metrics).values())) else ""
    said = [*_said_of_seeds(shown), *_said(shown.sure), *_said_of_marks(shown)]
    convention = f"EERs: convention {of.get('eer_convention', NOT_RECORDED)}."
    lead = f"{set_title(shown.split, of)} set. {convention} {' '.join(said)}{doubt}"
    first = [metric for metric in there if metric not in costs]
    parts = [_lead(lead), _metrics_rows(shown, first, _more_columns(shown), "Metrics")]
    if costs:
        parts.append(_lead(f"a-DCF with the costs {shown.costs}. {sentence(COST_WORDS)}"))
        parts.append(_metrics_rows(shown, costs, {}, "Costs"))
    return "".join(parts)


def _lead(text: str) -> str:
    return f'<p class="small lead">{escape(text)}</p>'


def _metrics_rows(
    shown: Shown, columns: Sequence[Metric], more: Mapping[str, Mapping[str, str]], title: str
) -> str:
    """A table of some metrics; other columns stand behind the first."""
    warnings, body = warnings_of(shown.metrics), []
    for name in shown.names:
        cells: list[str] = [_metric_cell(metric, name, shown) for metric in columns]
        cells[1:1] = [column[name] for column in more.values()]
        body.append(_row(name, cells, is_doubtful(warnings.get(name, []))))
        body += _paper_row(name, shown, columns, len(more))
    heads: list[str] = [_heading(metric, shown.costs) for metric in columns]
    heads[1:1] = more
    return html_table(["system", *heads], body, f"{title} on {shown.split}")


def _more_columns(shown: Shown) -> dict[str, dict[str, str]]:
    """Cells beside the SASV-EER, by heading: whisker, letters, share of the worst speaker."""
    found = {"of the SASV-EER, logarithmic": _whiskers(shown)}
    letters = shown.sure.letters.get("sasv_eer")
    if letters:
        found["letters"] = {name: letters.get(name, "") for name in shown.names}
    if shown.sure.intervals:
        shares = {name: share_words(shown.about(name, "of")) for name in shown.names}
        found["misses of one speaker, at most"] = shares if any(shares.values()) else {}
    return {title: cells for title, cells in found.items() if cells}


def _paper_row(name: str, shown: Shown, columns: Sequence[Metric], more: int) -> list[Html]:
    """The paper's values below those of a system, where they belong."""
    known = PAPER.get(name, {}) if shown.paper and beside_paper(shown.about(name, "of")) else {}
    if not any(metric.name in known for metric in columns):
        return []
    cells = [f"{known[m.name]:.2f}" if m.name in known else "" for m in columns]
    cells[1:1] = [""] * more
    return [Html(f'<tr class="paper">{html_cells(["(paper)", *cells])}</tr>')]


def _said_of_seeds(shown: Shown) -> list[str]:
    """That values are means, and what the seeds say that speakers do not."""
    if not shown.spread:
        return []
    seeds = next((len(of["seeds"]) for _, _, of in blocks(shown.metrics, shown.split)), 1)
    mean = f"Mean over {seeds} seeds ± standard deviation between them."
    both = " In brackets are the values of both seeds." if seeds == 2 else ""
    against = shown.sure.against("sasv_eer")
    own = [one.verdict for one in against if one.verdict.startswith("all ")]
    words = mean + both if seeds > 1 else "One seed."
    return [words, *map(sentence, own)]


def _said(sure: Sure) -> list[str]:
    """What must be said of intervals."""
    caption = [f"Below a value its 95 % interval ({sure.caption})."] if sure.caption else []
    if sure.letters:
        caption.append("Systems that share a letter are not told apart in the SASV-EER.")
    return [*caption, *map(sentence, sure.notes)]


def _said_of_marks(shown: Shown) -> list[str]:
    """What underlines and shades mean."""
    sure = shown.sure
    if not sure.comparisons:
        return []
    chosen = "the best on dev" if sure.on_dev else "the best here"
    size = sure.against("sasv_eer")[0].family if sure.against("sasv_eer") else ""
    lines = [
        f"Underlined: {chosen} and all that cannot be told apart from it; shaded, the stronger the "
        f"worse: what is told apart from it (p adjusted in a family of {size})."
    ]
    for metric in dict.fromkeys(one.metric for one in sure.comparisons):
        if lower := sure.lower(metric):
            spoken, best = METRICS[metric].spoken, sure.reference[metric]
            lines.append(f"{spoken}: {', '.join(lower)} lower than {best}, no marks.")
    return lines


def _heading(metric: Metric, costs: str) -> Html:
    cost = metric.unit == "cost"
    title = metric.spoken + _UNITS.get(metric.unit, "") + (f", {_named(costs)}" if cost else "")
    meaning = metric.meaning + (f", costs {costs}" if cost else "")
    return Html(f'<th title="{escape(meaning)}">{escape(title)}</th>')


def _named(costs: str) -> str:
    """Costs by their name alone."""
    return "own costs" if costs.startswith("own:") else f"costs {costs}"


def _metric_cell(metric: Metric, name: str, shown: Shown) -> Html:
    """Value, spread and interval; underlined or shaded as the comparisons allow."""
    value = value_of(shown.values(name), metric.name)
    text = metric.text(value, ON_PAGE)
    if text == UNDEFINED and shown.about(name, "undefined").get(metric.name) == NO_LLR:
        text = NO_LLR
    if shown.spread and math.isfinite(spread := value_of(shown.about(name, "spread"), metric.name)):
        text += f" ± {metric.text(spread, ON_PAGE)}"
    title, sure = "", shown.sure
    if ends := sure.intervals.get(name, {}).get(metric.name):
        title = f' title="{escape(how(ends))}"'
        text += f"<small>{ends_text(metric, ends)}</small>"
    elif shown.spread and len(both := list(shown.about(name, "per_seed").values())) == 2:
        values = ", ".join(metric.text(value_of(one, metric.name), ON_PAGE) for one in both)
        text += f"<small>({values})</small>" if math.isfinite(value) else ""
    if name in sure.marked(metric.name):
        return Html(f'<td class="best"{title}>{text}</td>')
    if name in sure.apart(metric.name) and math.isfinite(value):
        heat = _heat(metric, value, list(shown.column(metric.name).values()))
        return _shaded(text, heat, title)
    return Html(f"<td{title}>{text}</td>")


def _shaded(text: str, heat: float, title: str = "") -> Html:
    return Html(f'<td class="heat" style="--h:{heat:.3f}"{title}>{text}</td>')


def ends_text(metric: Metric, ends: Mapping[str, Any]) -> str:
    """``[0.85, 2.79]``."""
    low, high = (metric.text(value_of(ends, end), ON_PAGE) for end in ("low", "high"))
    return f"[{low}, {high}]"


def _whiskers(shown: Shown) -> dict[str, str]:
    """Interval and value of the SASV-EER of each system as a line with a dot, on one axis."""
    found = {name: shown.sure.intervals.get(name, {}).get("sasv_eer") for name in shown.names}
    ends = [(one["low"], one["high"]) for one in found.values() if one]
    values = shown.column("sasv_eer")
    known = [v for v in (*values.values(), *(e for pair in ends for e in pair)) if v > 0]
    if not ends or not known:
        return {}
    return {
        name: Html(f"<td>{'' if one is None else _whisker(one, values[name], known)}</td>")
        for name, one in found.items()
    }


def _whisker(ends: Mapping[str, Any], value: float, known: Sequence[float]) -> str:
    """A line from end to end with a dot at the value, on a logarithmic axis of known values."""
    first = min(known)
    span = math.log(max(known) / first) or 1.0
    low, at, high = (
        4 + 112 * math.log(max(v, first) / first) / span for v in (ends["low"], value, ends["high"])
    )
    return (
        '<svg class="whisker" viewBox="0 0 120 12" aria-hidden="true">'
        f'<path d="M{low:.1f} 6H{high:.1f}"/><circle cx="{at:.1f}" cy="6" r="3"/></svg>'
    )


def tandem_table(shown: Shown) -> str:
    """t-EER of each distinct pair that systems fuse, which says nothing of how they fuse it."""
    entry, rows = METRICS["t_eer"], []
    for names, values in pairs_in(shown.metrics, shown.split, shown.names):
        facts = [
            number(value_of(values, f"t_eer_{fact}"), "score", ON_PAGE)
            for fact in ("asv_threshold", "cm_threshold", "residual")
        ]
        rows.append([", ".join(names), entry.shown(values, ON_PAGE), *facts])
    heads = ("pair of", "t-EER, %", "ASV threshold", "CM threshold", "residual")
    return html_table(heads, rows, "t-EER of the pairs") if rows else ""


def fitted_table(results: Results) -> str:
    """The ρ of each fitted system that has one."""
    found = {name: system.rho for name, system in results.systems.items()}
    rows = [_row(name, [f"{rho:.4f}"]) for name, rho in found.items() if rho is not None]
    return folded("Fitted: ρ", html_table(["system", "ρ"], rows, "Fitted values")) if rows else ""


def best_systems(shown: Shown) -> str:
    """Above the tables: the choice of dev in the main metrics, and what is as good."""
    cards = [_card(metric, shown) for metric in metrics_for("cards")]
    return f'<div class="cards">{"".join(cards)}</div>' if len(shown.names) > 1 else ""


def _card(metric: Metric, shown: Shown) -> str:
    """``SASV-EER 1.36 [0.85, 2.79] M3, and 6 others not distinguishable``."""
    here = {name: v for name, v in shown.column(metric.name).items() if math.isfinite(v)}
    if not here:
        return ""
    best, on_dev = shown.sure.reference.get(metric.name, ""), shown.sure.on_dev
    names = best
    if best not in here:  # nothing was drawn
        dev = {name: value_of(shown.values(name, "dev"), metric.name) for name in here}
        on_dev = shown.split != "dev" and not any(map(math.isnan, dev.values()))
        best = min(here, key=(dev if on_dev else here).__getitem__)
        names = ", ".join(name for name in here if here[name] == here[best])  # of one pair
    chosen = "chosen on dev" if on_dev else "lowest here"
    others = len(shown.sure.alike(metric.name)) - 1
    near = f", and {others} other{'s' * (others > 1)} not distinguishable" if others > 0 else ""
    at = f" ({escape(_named(shown.costs))})" if metric.unit == "cost" else ""
    unit, whisker = {"rate": " %", "bits": " bit"}.get(metric.unit, ""), ""
    ends = shown.sure.intervals.get(best, {}).get(metric.name)
    if ends:
        known = [v for v in (*here.values(), ends["low"], ends["high"]) if v > 0]
        whisker = _whisker(ends, here[best], known) if known else ""
    interval = f" <small>{ends_text(metric, ends)}</small>" if ends else ""
    return (
        f'<div class="card"><span>{escape(metric.spoken)}{at}, {escape(shown.split)}, {chosen}'
        f"</span><b>{metric.text(here[best], ON_PAGE)}{unit}</b>{interval}"
        f"<em>{escape(names)}{near}</em>{whisker}</div>"
    )


_SHOWN_OF = (
    *("corpus", "simulated", "scale", "twin_seed", "seeds", "fingerprint", "trials", "expected"),
    *("cause", "speakers", "attacks", "checkpoint", "costs", "tandem_costs", "eer_convention"),
    *("t_dcf", "cllr", "software", "device", "threads", "precision", "date"),
)
"""What the page says of its numbers: the fields that all systems share."""
_NAMES = {"fingerprint": "trials fingerprint"}


def words_of(results: Results, field: str) -> str:
    """A field of the shown set's results in words, ``not recorded`` where it is not."""
    found = [_words(of[field]) for _, _, of in blocks(results.shown, results.split)]
    return "; ".join(dict.fromkeys(found)) or NOT_RECORDED


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(_words, value))
    return "–" if value is None else f"{value:,}" if type(value) is int else str(value)


def of_table(results: Results) -> str:
    """What the numbers of the shown set are of."""
    fields = {field: words_of(results, field) for field in _SHOWN_OF}
    fields["seeds"] = fields["seeds"].replace(",", "")
    rows = [
        [_NAMES.get(field, field), Html(f'<td class="words">{escape(words)}</td>')]
        for field, words in fields.items()
    ]
    title = "What these numbers are of"
    return folded(title, html_table(["field", "content"], rows, title))


def cells_table(figure: Figure) -> str:
    """The tables of numbers among the panels of a figure."""
    return "".join(
        _cells(panel, series.z)
        for panel in figure.panels
        for series in panel.series
        if series.kind == "cells"
    )


def _cells(panel: Panel, values: np.ndarray) -> str:
    heat = (values / max(values.max(), 1e-300)) ** 0.6
    body = [
        _row(name, map(_shaded, [f"{value:.2f}" for value in values[k]], heat[k]))
        for k, (_, name) in enumerate(panel.y.ticks or ())
    ]
    heads = ["system", *(name for _, name in panel.x.ticks or ())]
    return (
        f'<div class="keep"><h3>{escape(panel.title)}</h3>{_lead(panel.caption)}'
        f"{html_table(heads, body, panel.title)}</div>"
    )


def markdown_table(text: str) -> str:
    """Markdown with pipe tables as HTML: tables, and everything else as paragraphs, escaped."""
    parts: list[str] = []
    rows: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        stripped = line.strip()
        if stripped.startswith("|"):
            cells = [cell.strip() for cell in stripped.strip("|").split("|")]
            if not all(set(cell) <= set("-: ") for cell in cells):
                rows.append(cells)
            continue
        if rows:
            parts.append(html_table(rows[0], rows[1:]))
            rows = []
        if stripped:
            parts.append(f'<p class="small">{escape(stripped.lstrip("#-* "))}</p>')
    return "".join(parts)
