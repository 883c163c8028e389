"""Tables of the page as HTML text. Everything that comes from files is escaped here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from lightning_sasv.fusion.doubts import is_doubtful, marked
from lightning_sasv.metrics.registry import ON_PAGE, Metric, metrics_for
from lightning_sasv.metrics_file import blocks, costs_in, values_in
from lightning_sasv.record import NOT_RECORDED, set_title
from lightning_sasv.report.description import Figure, Panel
from lightning_sasv.results import Results, value_of, warnings_of

_UNITS = {"rate": ", %", "bits": ", bit"}


def _table(heads: str, rows: Iterable[str], label: str = "") -> str:
    named = f' aria-label="{escape(label, quote=True)}"' if label else ""
    return (
        f'<div class="scroll"><table{named}><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _row(system: str, cells: Iterable[str], doubtful: bool = False) -> str:
    label = escape(system, quote=True)
    shown = escape(marked(system, doubtful), quote=True)
    return f'<tr data-system="{label}"><td>{shown}</td>{"".join(cells)}</tr>'


def _shaded(text: str, heat: float, best: bool) -> str:
    return f'<td class="heat{" best" if best else ""}" style="--h:{heat:.3f}">{text}</td>'


def _cell(metric: Metric, value: float, column: Sequence[float], ranked: bool) -> str:
    """A cell, the stronger shaded the worse its value is in its column; the best is underlined."""
    text = metric.text(value, ON_PAGE)
    finite = [v for v in column if math.isfinite(v)]
    described = metric.lower_is_better is None or not ranked
    if described or not math.isfinite(value) or len(finite) < 2 or max(finite) == min(finite):
        return f"<td>{text}</td>"
    floor = max(min(finite), 1e-4 * max(finite), 1e-12)
    span = math.log(max(finite) / floor) if max(finite) > floor else 0.0
    heat = math.log(max(value, floor) / floor) / span if span > 0 else 0.0
    if not metric.lower_is_better:
        heat = 1 - heat
    return _shaded(text, heat, value == (min if metric.lower_is_better else max)(finite))


_DOUBT = " ! the fit is doubtful, see the warnings above."
_DAGGER = " † no concurrent point exists; the value of the closest one, not ranked."


def metrics_table(results: Results, split: str) -> str:
    """Metrics of every system on one set."""
    rows = {name: values_in(results.metrics.get(name, {}), split) for name in results.fused}
    columns, warnings = metrics_for("page"), warnings_of(results.metrics)
    costs, ranked = costs_in(results.metrics, split) or NOT_RECORDED, not results.parts
    heads = "".join(_heading(metric, costs) for metric in columns)
    heads = f"<th>system</th>{heads}<th>ρ</th>"
    body = []
    for name, entry in rows.items():
        cells = [_metric_cell(metric, entry, rows, ranked) for metric in columns]
        cells += [f"<td>{_rho(results, name)}</td>"]
        body.append(_row(name, cells, is_doubtful(warnings.get(name, []))))
    dagger = any(_stands_in(m, entry) is not None for m in columns for entry in rows.values())
    of = next((of for _, _, of in blocks(results.metrics, split)), {})
    shades = "The stronger the shade, the worse within its column; the best value is underlined; "
    return (
        f'<p class="small lead">{escape(set_title(split, of))} set, corpus '
        f"{escape(', '.join(results.corpora) or 'not named')}. {shades if ranked else ''}"
        f"a-DCF with the costs {escape(costs)}."
        f"{_DAGGER if dagger else ''}{_DOUBT if any(map(is_doubtful, warnings.values())) else ''}"
        f"</p>{_table(heads, body, f'Metrics on {split}')}"
    )


def _heading(metric: Metric, costs: str) -> str:
    title = metric.spoken + _UNITS.get(metric.unit, "")
    meaning = metric.meaning + (f", costs {costs}" if metric.unit == "cost" else "")
    return f'<th title="{escape(meaning)}">{escape(title)}</th>'


def _metric_cell(
    metric: Metric,
    entry: Mapping[str, Any],
    rows: Mapping[str, Mapping[str, Any]],
    ranked: bool,
) -> str:
    other = _stands_in(metric, entry)
    if other is not None:  # another quantity: not ranked
        return f"<td>{metric.text(other, ON_PAGE)}†</td>"
    column = [value_of(row, metric.name) for row in rows.values()]
    return _cell(metric, value_of(entry, metric.name), column, ranked)


def _stands_in(metric: Metric, entry: Mapping[str, Any]) -> float | None:
    """The value to show instead, where the metric has none: of the t-EER the closest point's."""
    if metric.instead is None or math.isfinite(value_of(entry, metric.name)):
        return None
    other = value_of(entry, metric.instead)
    return None if math.isnan(other) else other


def _rho(results: Results, name: str) -> str:
    system = results.systems.get(name)
    return "–" if system is None or system.rho is None else f"{system.rho:.4f}"


def best_systems(results: Results) -> str:
    """Above the tables: which system is best in the main metrics."""
    cards: list[str] = []
    split, costs = results.split, costs_in(results.metrics, results.split)
    for metric in metrics_for("cards") if not results.parts else ():
        entries = {name: values_in(results.metrics[name], split) for name in results.fused}
        values = {name: value_of(entry, metric.name) for name, entry in entries.items()}
        known = {name: value for name, value in values.items() if math.isfinite(value)}
        if not known:
            continue
        word, choose = ("lowest", min) if metric.lower_is_better else ("highest", max)
        best = choose(known, key=lambda name: known[name])
        at = f" (costs {escape(costs)})" if metric.unit == "cost" else ""
        unit = {"rate": " %", "bits": " bit"}.get(metric.unit, "")
        cards.append(
            f'<div class="card"><span>{word} {escape(metric.spoken)}{at}, '
            f"{escape(split)}</span><b>{metric.text(known[best], ON_PAGE)}{unit}</b>"
            f"<em>{escape(best)}</em></div>"
        )
    return f'<div class="cards">{"".join(cards)}</div>' if cards and len(results.fused) > 1 else ""


_SHOWN_OF = (
    *("corpus", "simulated", "scale", "twin_seed", "seeds", "fingerprint", "trials", "expected"),
    *("cause", "speakers", "attacks", "checkpoint", "costs", "tandem_costs", "eer_convention"),
    *("t_dcf", "cllr", "software", "device", "threads", "precision", "date"),
)
"""What the page says of its numbers: the fields that all systems share."""


def words_of(results: Results, field: str) -> str:
    """A field of the shown set's results in words, ``not recorded`` where it is not."""
    found = [_words(of[field]) for _, _, of in blocks(results.metrics, results.split)]
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
    rows = [f"<tr><td>{field}</td><td>{escape(fields[field])}</td></tr>" for field in fields]
    table = _table("<th>field</th><th>content</th>", rows, "What these numbers are of")
    return f"<details><summary>What these numbers are of</summary>{table}</details>"


def cells_table(figure: Figure, ranked: bool = True) -> str:
    """The tables of numbers among the panels of a figure; small numbers are good."""
    return "".join(
        _cells(panel, series.z, ranked)
        for panel in figure.panels
        for series in panel.series
        if series.kind == "cells"
    )


def _cells(panel: Panel, values: np.ndarray, ranked: bool) -> str:
    heat = (values / max(values.max(), 1e-300)) ** 0.6
    best = (values == values.min(axis=0)) & (len(values) > 1) & ranked
    body = [
        _row(name, map(_shaded, [f"{value:.2f}" for value in values[k]], heat[k], best[k]))
        for k, (_, name) in enumerate(panel.y.ticks or ())
    ]
    names = ("system", *(name for _, name in panel.x.ticks or ()))
    heads = "".join(f"<th>{escape(name)}</th>" for name in names)
    return (
        f'<div class="keep"><h3>{escape(panel.title, quote=True)}</h3>'
        f'<p class="small lead">{escape(panel.caption)}</p>{_table(heads, body, panel.title)}</div>'
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
            parts.append(_plain_table(rows))
            rows = []
        if stripped:
            parts.append(f'<p class="small">{escape(stripped.lstrip("#-* "))}</p>')
    return "".join(parts)


def _plain_table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = ([escape(cell) for cell in row] for row in rows)
    lines = ("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in body)
    return _table("".join(f"<th>{cell}</th>" for cell in head), lines)
