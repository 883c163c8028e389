"""Tables of the page as HTML text. Everything that comes from files is escaped here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from lightning_sasv.results import Results


class Column(NamedTuple):
    """A column of the results: key in ``metrics.json``, heading, its meaning, how to show it."""

    key: str
    heading: str
    meaning: str
    show: Callable[[float], str]


def per_cent(value: float) -> str:
    """A rate in per cent."""
    return f"{100 * value:.2f}"


def _three(value: float) -> str:
    return f"{value:.3f}"


def _four(value: float) -> str:
    return f"{value:.4f}"


COLUMNS = (
    Column("sasv_eer", "SASV-EER, %", "targets against nontargets and spoofs", per_cent),
    Column("sv_eer", "SV-EER, %", "targets against nontargets", per_cent),
    Column("spf_eer", "SPF-EER, %", "targets against spoofs", per_cent),
    Column("cllr", "Cllr, bit", "cost of the score as a log-likelihood ratio", _three),
    Column("cllr_min", "Cllr min, bit", "its part due to discrimination", _three),
    Column("cllr_calib", "Cllr calib, bit", "its part due to calibration", _three),
    Column("t_eer", "t-EER, %", "tandem equal error rate of the pair that is fused", per_cent),
    Column("min_a_dcf", "min a-DCF", "at the best threshold, costs a-dcf1", _four),
    Column("act_a_dcf", "actual a-DCF", "at the Bayes threshold, costs a-dcf1", _four),
)


def number(entry: Mapping[str, Any], key: str) -> float:
    """A metric as a float, NaN where it is absent or undefined."""
    value = entry.get(key)
    return float(value) if isinstance(value, int | float) else math.nan


def _cell(shown: str, value: float, column: Sequence[float]) -> str:
    """A cell, the stronger shaded the worse its value is in its column; the best is underlined."""
    finite = [v for v in column if math.isfinite(v)]
    if not math.isfinite(value) or len(finite) < 2 or max(finite) == min(finite):
        return f"<td>{shown}</td>"
    floor = max(min(finite), 1e-4 * max(finite), 1e-12)
    span = math.log(max(finite) / floor)
    heat = math.log(max(value, floor) / floor) / span if span > 0 else 0.0
    best = " best" if value == min(finite) else ""
    return f'<td class="heat{best}" style="--h:{heat:.3f}">{shown}</td>'


_DAGGER = " † no concurrent point exists; the value of the closest one, not ranked."


def metrics_table(results: Results, split: str) -> str:
    """Metrics of every system on one set."""
    rows = {name: results.metrics.get(name, {}).get(split) or {} for name in results.fused}
    tandem = {name: _tandem(entry) for name, entry in rows.items()}
    head = "".join(f'<th title="{escape(c.meaning)}">{escape(c.heading)}</th>' for c in COLUMNS)
    body = []
    for name, entry in rows.items():
        cells = []
        for column in COLUMNS:
            if column.key == "t_eer" and tandem[name][1]:  # another quantity: not ranked
                cells.append(f"<td>{column.show(tandem[name][0])}†</td>")
                continue
            value = number(entry, column.key)
            text = column.show(value) if math.isfinite(value) else "–"
            cells.append(_cell(text, value, [number(row, column.key) for row in rows.values()]))
        cells.append(f"<td>{_rho(results, name)}</td>")
        label = escape(name, quote=True)
        body.append(f'<tr data-system="{label}"><td>{label}</td>{"".join(cells)}</tr>')
    dagger = any(closest for _, closest in tandem.values())
    return (
        f'<p class="small lead">{escape(split)} set, corpus '
        f"{escape(', '.join(results.corpora) or 'not named')}. The stronger the shade, the worse "
        "within its column; the best value is underlined; a-DCF with the costs a-dcf1."
        f"{_DAGGER if dagger else ''}"
        f'</p><div class="scroll"><table aria-label="Metrics on {escape(split, quote=True)}">'
        f"<thead><tr><th>system</th>{head}<th>ρ</th></tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _tandem(entry: Mapping[str, Any]) -> tuple[float, bool]:
    """t-EER and False; or, where there is no concurrent point, that of the closest and True."""
    value, closest = number(entry, "t_eer"), number(entry, "t_eer_closest")
    return (value, False) if math.isfinite(value) or math.isnan(closest) else (closest, True)


def _rho(results: Results, name: str) -> str:
    system = results.systems.get(name)
    return "–" if system is None or system.rho is None else f"{float(system.rho[0]):.4f}"


def attacks_table(data: Mapping[str, Any]) -> str:
    """EER of each system against each attack alone."""
    if not data["attacks"]:
        return ""
    columns = data["columns"][2:]
    best = [
        min(column["attack_eers"][k] for column in columns) for k in range(len(data["attacks"]))
    ]
    largest = max(max(column["attack_eers"]) for column in columns)
    body = []
    for column in columns:
        cells = []
        for k, value in enumerate(column["attack_eers"]):
            heat = (value / largest) ** 0.6 if largest > 0 else 0.0
            mark = " best" if value == best[k] and len(columns) > 1 else ""
            cells.append(f'<td class="heat{mark}" style="--h:{heat:.3f}">{per_cent(value)}</td>')
        label = escape(column["name"], quote=True)
        body.append(f'<tr data-system="{label}"><td>{label}</td>{"".join(cells)}</tr>')
    head = "".join(f"<th>{escape(name)}</th>" for name in data["attacks"])
    return (
        '<div class="keep"><h3>SPF-EER of each attack, per cent</h3><p class="small lead">'
        "Targets against the spoofs of one attack; the best system of each attack is "
        "underlined, the stronger the shade, the worse over the whole table.</p>"
        '<div class="scroll"><table aria-label="SPF-EER of each attack">'
        f"<thead><tr><th>system</th>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div></div>"
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
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in body)
    heads = "".join(f"<th>{cell}</th>" for cell in head)
    return (
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )
