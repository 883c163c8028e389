"""What each score is worth, as ``worth.json`` of a folder has it: a table for terminal and page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from lightning_sasv.console import Terminal
from lightning_sasv.errors import InputError
from lightning_sasv.files import read_json
from lightning_sasv.metrics.registry import BRIEF, METRICS, UNDEFINED, Metric, in_unit
from lightning_sasv.report.tables import make_table
from lightning_sasv.trials import SPLITS

WORTH_FILE = "worth.json"
MEASURED = ("sasv_eer", "cllr", "policy_a_dcf")
_DECIMALS = {**BRIEF, "rate": 3, "bits": 3, "cost": 4}
_WHERE = {"dev": "dev, held out by speaker", "eval": "eval"}


def read_worth(folder: Path) -> dict[str, Any] | None:
    """What ``fuse --worth`` wrote to a folder, if it did."""
    path = folder / WORTH_FILE
    if not path.is_file():
        return None
    content = read_json(path)
    try:
        list(_rows(content))
        return dict(content)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError(f"{path} is damaged; run `lightning fuse --worth` again") from None


def _rows(content: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Column that is left out, and a cell for each metric on each set."""
    for row in content["rows"]:
        cells = [
            _cell(METRICS[name], row["sets"].get(split, {}).get(name))
            for split in SPLITS
            for name in MEASURED
        ]
        yield str(row["column"] or "nothing"), cells


def _cell(metric: Metric, entry: Mapping[str, Any] | None) -> str:
    """``1.698, +1.091 [0.411, 1.672]``: the value, and what it has more without the column."""
    if entry is None:
        return UNDEFINED
    text = metric.text(entry["value"], _DECIMALS)
    if "difference" not in entry:
        return text
    parts = [
        in_unit(float(entry[k]), metric.unit) for k in ("difference", "low", "high") if k in entry
    ]
    places = _DECIMALS[metric.unit]
    ends = f" [{parts[1]:.{places}f}, {parts[2]:.{places}f}]" if len(parts) > 1 else ""
    return f"{text}, {parts[0]:+.{places}f}{ends}"


def _title(content: Mapping[str, Any]) -> str:
    return f"What each score is worth to {content['system']}: each left out in turn"


def _heads() -> list[str]:
    return [METRICS[name].title(" %", narrow=True) for name in MEASURED]


def print_worth(content: Mapping[str, Any]) -> None:
    """Print a table for each set, and what is to be said of it."""
    console, rows, width = Terminal(wrap=True), list(_rows(content)), len(MEASURED)
    console.print(_title(content))
    for place, split in enumerate(SPLITS):
        table = make_table(["left out", "metric"], ["value", "more [95 %]"], title=_WHERE[split])
        for name, cells in rows:
            own = zip(_heads(), cells[place * width :][:width], strict=True)
            for number, (head, cell) in enumerate(own):
                value, _, more = cell.partition(", ")
                last = number == width - 1
                table.add_row("" if number else name, head, value, more, end_section=last)
        console.print(table)
    for remark in content["remarks"]:
        console.print(remark)


def worth_section(folder: Path) -> str:
    """The section of the page; empty where nothing was written of it."""
    content = read_worth(folder)
    if content is None:
        return ""
    heads = "".join(f"<th>{escape(f'{split} {h}')}</th>" for split in SPLITS for h in _heads())
    body = "".join(
        f"<tr><td>{escape(name)}</td>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        for name, cells in _rows(content)
    )
    said = "".join(f"<p>{escape(str(one))}</p>" for one in content["remarks"])
    how = "Values, and in brackets the 95 % interval of what they have more without the column, on "
    how += f"the same drawn speakers. Dev is {_WHERE['dev'].partition(', ')[2]}."
    return (
        f"<h2>{escape(_title(content))}</h2><p>{how}</p>{said}"
        f'<div class="scroll"><table aria-label="What each score is worth"><thead><tr>'
        f"<th>left out</th>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )
