"""What a transfer costs, as ``transfer.json`` of a folder has it: tables, a section, a figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning_sasv.console import Terminal
from lightning_sasv.errors import InputError
from lightning_sasv.files import read_json
from lightning_sasv.metrics.registry import BRIEF, METRICS, in_unit, number
from lightning_sasv.record import costs_words
from lightning_sasv.report.description import Axis, Figure, Panel, Series, shared
from lightning_sasv.report.tables import make_table

if TYPE_CHECKING:
    from lightning_sasv.report.curves import Material

TRANSFER_FILE = "transfer.json"
_HEADS = {
    "sasv_eer": "SASV-EER %",
    "hter": "HTER %",
    "hter_macro": "macro %",
    "min_a_dcf": "a-DCF min",
    "dev_a_dcf": "carried",
    "act_a_dcf": "actual",
    "policy_a_dcf": "policy",
    "cllr": "Cllr",
    "cllr_min": "min",
    "cllr_calib": "calib",
}
MEASURED = tuple(_HEADS)
_DECIMALS = {**BRIEF, "rate": 3, "bits": 3, "cost": 4}
_TIMES = 6
"""How much of what the carried system costs the figure shows at most."""
_WIDE = 130
"""Columns of the terminal that the tables take."""
_BUDGET = {"hter": "HTER", "a_dcf": "a-DCF", "cllr": "Cllr"}
_UNITS: dict[str, Any] = {"hter": "rate", "a_dcf": "cost", "cllr": "bits"}
_STYLES = {"threshold": "first", "shift": "third", "scale": "best", "fusion": "system3"}


def verdict(entry: Mapping[str, Any], speakers: int | None) -> str:
    """What a transfer loses at the carried thresholds, in words."""
    values, lost = entry["target"], entry["lost"]
    base = (
        f"HTER {number(values['hter'], 'rate', _DECIMALS)} % at the carried threshold, EER "
        f"{number(values['sasv_eer'], 'rate', _DECIMALS)} %; a-DCF "
        f"{number(values['dev_a_dcf'], 'cost', _DECIMALS)}, minimum "
        f"{number(values['min_a_dcf'], 'cost', _DECIMALS)}"
    )
    if not lost:
        return f"no verdict, some speakers hold all trials of a class: {base}"
    if any("low" not in one for one in lost.values()):
        known = "speakers are not known" if speakers is None else f"only {speakers} speakers"
        return f"no verdict, {known}: {base}"
    found = [_lost_words(name, one) for name, one in lost.items() if one["low"] > 0]
    return f"lost: {' and '.join(found)}; {base}" if found else f"nothing lost: {base}"


def _lost_words(measure: str, one: Mapping[str, float]) -> str:
    unit = _UNITS[measure]
    carried, own, more, low, high = (
        number(one[key], unit, _DECIMALS) for key in ("carried", "own", "lost", "low", "high")
    )
    sign = " %" if unit == "rate" else ""
    points = " points" if unit == "rate" else ""
    return (
        f"{_BUDGET[measure]} {carried}{sign} where other target speakers' threshold gives "
        f"{own}{sign} ({more}{points} more, 95 % [{low}, {high}])"
    )


def read_transfer(folder: Path) -> dict[str, Any] | None:
    """What ``lightning transfer`` wrote to a folder, if it did."""
    path = folder / TRANSFER_FILE
    if not path.is_file():
        return None
    content = read_json(path)
    try:
        list(_rows(content))
        list(_budget_rows(content))
        list(remarks(content))
        return dict(content)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError(f"{path} is damaged; run `lightning transfer` again") from None


def _cells(values: Mapping[str, Any]) -> list[str]:
    return [number(values.get(name), METRICS[name].unit, _DECIMALS) for name in MEASURED]


def _rows(content: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Name and cells: every system on the target, then every condition of one of them."""
    for name, entry in content["systems"].items():
        yield f"{name}", _cells(entry["target"])
        yield f"{name} on the source", _cells(entry["source"])
    for column, groups in content["by"].items():
        for value, values in groups.items():
            yield f"{content['system']}, {column} {value}", _cells(values)


def _budget_rows(content: Mapping[str, Any]) -> Iterator[list[str]]:
    for row in content["budget"]:
        unit = _UNITS[row["measure"]]
        ends = [number(row[key], unit, _DECIMALS) for key in ("median", "low", "high", "carried")]
        yield [
            _number(row),
            str(row["method"]),
            _BUDGET[row["measure"]] + (" %" if unit == "rate" else ""),
            f"{ends[0]} [{ends[1]}, {ends[2]}]",
            ends[3],
            f"{row['undefined']} of {row['draws']}",
        ]


_BUDGET_HEADS = ("labelled", "found anew", "measure", "median [5, 95 %]", "carried", "undefined")


def remarks(content: Mapping[str, Any]) -> Iterator[str]:
    """What is to be said: a verdict for each system, calibration, and when labels help."""
    for name, entry in content["systems"].items():
        yield f"{name}: {entry['verdict']}."
        calib = [
            number(entry[one]["cllr_calib"], "bits", _DECIMALS) for one in ("source", "target")
        ]
        if entry["target"].get("policy_a_dcf") is not None:  # it gives LLRs
            yield f"{name}: Cllr_calib {calib[0]} bits on {content['source']}, {calib[1]} here."
    for unit in ("trials", "speakers"):
        yield from _labels_words(content, unit)


def _labels_words(content: Mapping[str, Any], unit: str) -> Iterator[str]:
    """How many labels make a new threshold better than the carried one, or worse."""
    rows = [
        row
        for row in content["budget"]
        if (row["unit"], row["method"], row["measure"]) == (unit, "threshold", "hter")
        and row["median"] is not None
    ]
    helps = [row for row in rows if row["high"] < row["carried"]]
    worse = [row for row in rows if row["median"] > row["carried"]]
    if helps:
        first = min(helps, key=lambda row: int(row["n"]))
        yield (
            f"A threshold from {_number(first, 'labelled ')} is better than the carried one in "
            f"95 % of draws: HTER {_hter(first)}, carried {100 * first['carried']:.2f} %."
        )
    elif rows:
        few = min(rows, key=lambda row: int(row["n"]))
        yield (
            f"No number of labelled {unit} that was tried makes a threshold that is surely better "
            f"than the carried one ({100 * few['carried']:.2f} %)."
        )
    if worse:
        listed = "; ".join(f"{_number(row)} {_hter(row)}" for row in worse)
        yield f"Few labels make it worse than the carried threshold: {listed}."


def _number(row: Mapping[str, Any], kind: str = "") -> str:
    """``1 speaker``, ``500 labelled trials``."""
    return f"{row['n']:,} {kind}{row['unit'] if row['n'] > 1 else row['unit'][:-1]}"


def _hter(row: Mapping[str, Any]) -> str:
    low, median, high = (100 * row[key] for key in ("low", "median", "high"))
    return f"{median:.2f} % [{low:.2f}, {high:.2f}]"


def _title(content: Mapping[str, Any]) -> str:
    costs = costs_words(content)
    return f"Transfer from {content['source']} to {content['target']} (a-DCF: {costs})"


def print_transfer(content: Mapping[str, Any]) -> None:
    """Print the table, the label budget, and what is to be said of them."""
    console, words = Terminal(wrap=True), Terminal(wrap=True)
    console.width = max(console.width, _WIDE)  # a number that is cut off is none
    table = make_table(["system"], _HEADS.values(), title=_title(content))
    for name, cells in _rows(content):
        table.add_row(name, *cells)
    console.print(table)
    budget = make_table(
        _BUDGET_HEADS[:3], _BUDGET_HEADS[3:], title=f"Label budget of {content['system']}"
    )
    for cells in _budget_rows(content):
        budget.add_row(*cells)
    console.print(budget)
    for remark in remarks(content):
        words.print(remark)


def csv_text(content: Mapping[str, Any]) -> str:
    """The label budget as CSV, a row for each point."""
    names = ("unit", "n", "method", "measure", "low", "median", "high", "carried", "undefined")
    lines = [",".join((*names, "draws"))]
    lines += [",".join(str(row[name]) for name in (*names, "draws")) for row in content["budget"]]
    return "\n".join(lines) + "\n"


def transfer_section(folder: Path) -> str:
    """The section of the page; empty where nothing was written of it."""
    content = read_transfer(folder)
    if content is None:
        return ""
    said = "".join(f"<li>{escape(one)}</li>" for one in remarks(content))
    values = _html(
        "What a transfer costs", ("", *_HEADS.values()), [[n, *c] for n, c in _rows(content)]
    )
    budget = _html("Label budget", _BUDGET_HEADS, list(_budget_rows(content)))
    return (
        f"<h2>{escape(_title(content))}</h2><p>{escape(shared()['words']['transfer'])}</p>"
        f"<ul>{said}</ul>{values}<details><summary>Label budget of {escape(content['system'])}"
        f"</summary>{budget}</details>"
    )


def _html(label: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(one)}</th>" for one in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>" for cells in rows
    )
    return (
        f'<div class="scroll"><table aria-label="{escape(label)}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def label_budget(material: Material) -> Figure | None:
    """The learning curve over labelled trials and speakers, a panel for each measure."""
    content = read_transfer(material.results.source)
    if content is None or not content["budget"]:
        return None
    panels = []
    for measure, title in _BUDGET.items():
        rows = [row for row in content["budget"] if row["measure"] == measure]
        if rows:
            panels.append(_panel(rows, measure, title))
    words = shared()["words"]["label_budget"].format(system=content["system"])
    choices = {"measure": {panel.of["measure"]: panel.title for panel in panels}}
    name, size = f"Label budget of {content['system']}", (4.4, 3.0)
    return Figure("label_budget", name, panels, words, choices, 3, size, data=content["budget"])


def _panel(rows: Sequence[Mapping[str, Any]], measure: str, title: str) -> Panel:
    """Medians of each method with their 5–95 %, and what the carried system has."""
    unit = _UNITS[measure]
    places = list(dict.fromkeys((row["unit"], row["n"]) for row in rows))
    carried = sorted(in_unit(row["carried"], unit) for row in rows if row["carried"] is not None)
    known = [in_unit(row["high"], unit) for row in rows if row["high"] is not None]
    middle = carried[len(carried) // 2] if carried else max(known, default=1.0)
    high = min(1.05 * max([middle, *known]), _TIMES * middle) or 1.0  # few labels may cost anything
    series = [Series("line", "total", [-0.4, len(places) - 0.6], [middle, middle], "carried over")]
    for shift, (method, style) in enumerate(_STYLES.items()):
        own = [row for row in rows if row["method"] == method and row["median"] is not None]
        x = [places.index((row["unit"], row["n"])) + 0.12 * (shift - 1.5) for row in own]
        ends = [
            [min(in_unit(row[key], unit), high) for key in ("low", "median", "high")] for row in own
        ]
        if own:
            y, hover = [one[1] for one in ends], f"{method}: {{y:.3f}}"
            series.append(
                Series("line", style, x, y, method, marked=list(range(len(x))), hover=hover)
            )
        series += [
            Series("line", style, [at, at], [one[0], one[2]])
            for at, one in zip(x, ends, strict=True)
        ]
    ticks = [
        (place, f"{n:,}" if word == "trials" else f"{n} spk")
        for place, (word, n) in enumerate(places)
    ]
    x_axis = Axis(-0.5, len(places) - 0.5, "labelled trials, or speakers (spk)", ticks)
    y_axis = Axis(0, high, title + (", per cent" if unit == "rate" else ""))
    return Panel(x_axis, y_axis, series, title, of={"measure": measure})
