"""What commands wrote beside results, on the terminal and as sections of the page.

``worth.json`` says what each score is worth, ``transfer.json`` what a transfer costs, which has a
figure, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning_sasv.console import Terminal
from lightning_sasv.errors import InputError
from lightning_sasv.files import read_json
from lightning_sasv.metrics.registry import BRIEF, METRICS, UNDEFINED, Metric, in_unit, number
from lightning_sasv.record import costs_words
from lightning_sasv.report.description import Axis, Figure, Panel, Series, shared
from lightning_sasv.report.formats import folded, html_table
from lightning_sasv.report.tables import make_table
from lightning_sasv.trials import SPLITS

if TYPE_CHECKING:
    from lightning_sasv.report.curves import Material

WORTH_FILE, TRANSFER_FILE = "worth.json", "transfer.json"
OF_WORTH = ("sasv_eer", "cllr", "policy_a_dcf")
"""Metrics that say what a score is worth."""
_WHERE = {"dev": "dev, held out by speaker", "eval": "eval"}
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
OF_TRANSFER = tuple(_HEADS)
"""Metrics that say what a transfer costs."""
_DECIMALS = {**BRIEF, "rate": 3, "bits": 3, "cost": 4}
_TIMES = 6
"""How much of what the carried system costs the figure shows at most."""
_WIDE = 130
"""Columns of the terminal that the tables take."""
_BUDGET = {"hter": "HTER", "a_dcf": "a-DCF", "cllr": "Cllr"}
_UNITS: dict[str, Any] = {"hter": "rate", "a_dcf": "cost", "cllr": "bits"}
_STYLES = {"threshold": "first", "shift": "third", "scale": "best", "fusion": "system3"}

Content = Mapping[str, Any]
"""What a command wrote."""


def _read(path: Path, command: str, *parts: Callable[[Content], Iterable[Any]]) -> Content | None:
    """What a command wrote, if it did; all parts of it can be shown."""
    if not path.is_file():
        return None
    content = read_json(path)
    try:
        for part in parts:
            list(part(content))
        return dict(content)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError(f"{path} is damaged; run `lightning {command}` again") from None


# What each score is worth


def read_worth(folder: Path) -> Content | None:
    """What ``fuse --worth`` wrote to a folder, if it did."""
    return _read(folder / WORTH_FILE, "fuse --worth", _without)


def _without(content: Content) -> Iterator[tuple[str, list[str]]]:
    """Column that is left out, and a cell for each metric on each set."""
    for row in content["rows"]:
        cells = [
            _gain(METRICS[name], row["sets"].get(split, {}).get(name))
            for split in SPLITS
            for name in OF_WORTH
        ]
        yield str(row["column"] or "nothing"), cells


def _gain(metric: Metric, entry: Content | None) -> str:
    """``1.698, +1.091 [0.411, 1.672]``: the value, and what it has more without the column."""
    if entry is None:
        return UNDEFINED
    text = metric.text(entry["value"], _DECIMALS)
    if "difference" not in entry:
        return text
    places = _DECIMALS[metric.unit]
    gain = f"{in_unit(float(entry['difference']), metric.unit):+.{places}f}"
    ends = [f"{in_unit(float(entry[k]), metric.unit):.{places}f}" for k in _ENDS if k in entry]
    return f"{text}, {gain}" + (f" [{', '.join(ends)}]" if ends else "")


_ENDS = ("low", "high")


def _worth_title(content: Content) -> str:
    return f"What each score is worth to {content['system']}: each left out in turn"


def _worth_heads() -> list[str]:
    return [METRICS[name].title(" %", narrow=True) for name in OF_WORTH]


def print_worth(content: Content) -> None:
    """Print a table for each set, and what is to be said of it."""
    console, width = Terminal(wrap=True), len(OF_WORTH)
    console.print(_worth_title(content))
    for place, split in enumerate(SPLITS):
        table = make_table(["left out", "metric"], ["value", "more [95 %]"], title=_WHERE[split])
        for name, cells in _without(content):
            own = zip(_worth_heads(), cells[place * width :][:width], strict=True)
            for row, (head, cell) in enumerate(own):
                value, _, more = cell.partition(", ")
                last = row == width - 1
                table.add_row("" if row else name, head, value, more, end_section=last)
        console.print(table)
    for remark in content["remarks"]:
        console.print(remark)


def worth_section(folder: Path) -> str:
    """The section of the page; empty where nothing was written of it."""
    content = read_worth(folder)
    if content is None:
        return ""
    heads = ["left out", *(f"{split} {head}" for split in SPLITS for head in _worth_heads())]
    rows = [[name, *cells] for name, cells in _without(content)]
    said = "".join(f"<p>{escape(str(one))}</p>" for one in content["remarks"])
    how = "Values, and in brackets the 95 % interval of what they have more without the column, on "
    how += f"the same drawn speakers. Dev is {_WHERE['dev'].partition(', ')[2]}."
    table = html_table(heads, rows, "What each score is worth")
    return f"<h2>{escape(_worth_title(content))}</h2><p>{how}</p>{said}{table}"


# What a transfer costs


def verdict(entry: Content, speakers: int | None) -> str:
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


def read_transfer(folder: Path) -> Content | None:
    """What ``lightning transfer`` wrote to a folder, if it did."""
    return _read(folder / TRANSFER_FILE, "transfer", _rows, _budget_rows, remarks)


def _cells(name: str, values: Content) -> list[str]:
    return [name, *(METRICS[key].text(values.get(key), _DECIMALS) for key in OF_TRANSFER)]


def _rows(content: Content) -> Iterator[list[str]]:
    """Name and cells: every system on the target, then every condition of one of them."""
    for name, entry in content["systems"].items():
        yield _cells(f"{name}", entry["target"])
        yield _cells(f"{name} on the source", entry["source"])
    for column, groups in content["by"].items():
        for value, values in groups.items():
            yield _cells(f"{content['system']}, {column} {value}", values)


def _budget_rows(content: Content) -> Iterator[list[str]]:
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


def remarks(content: Content) -> Iterator[str]:
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


def _labels_words(content: Content, unit: str) -> Iterator[str]:
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


def _number(row: Content, kind: str = "") -> str:
    """``1 speaker``, ``500 labelled trials``."""
    return f"{row['n']:,} {kind}{row['unit'] if row['n'] > 1 else row['unit'][:-1]}"


def _hter(row: Content) -> str:
    low, median, high = (100 * row[key] for key in ("low", "median", "high"))
    return f"{median:.2f} % [{low:.2f}, {high:.2f}]"


def _title(content: Content) -> str:
    costs = costs_words(content)
    return f"Transfer from {content['source']} to {content['target']} (a-DCF: {costs})"


def print_transfer(content: Content) -> None:
    """Print the table, the label budget, and what is to be said of them."""
    console, words = Terminal(wrap=True), Terminal(wrap=True)
    console.width = max(console.width, _WIDE)  # a number that is cut off is none
    console.print(make_table(["system"], _HEADS.values(), _rows(content), title=_title(content)))
    heads, title = _BUDGET_HEADS, f"Label budget of {content['system']}"
    console.print(make_table(heads[:3], heads[3:], _budget_rows(content), title=title))
    for remark in remarks(content):
        words.print(remark)


def csv_text(content: Content) -> str:
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
    values = html_table(["", *_HEADS.values()], _rows(content), "What a transfer costs")
    budget = html_table(_BUDGET_HEADS, _budget_rows(content), "Label budget")
    more = folded(f"Label budget of {content['system']}", budget)
    words = escape(shared()["words"]["transfer"])
    return f"<h2>{escape(_title(content))}</h2><p>{words}</p><ul>{said}</ul>{values}{more}"


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


def _panel(rows: Sequence[Content], measure: str, title: str) -> Panel:
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
