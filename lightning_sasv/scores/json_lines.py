"""Tables as JSON lines: one object for each trial or utterance, its keys are headings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning_sasv.errors import InputError
from lightning_sasv.limits import COLUMNS, LINE_BYTES, parse_json
from lightning_sasv.scores.layouts import columns_named

if TYPE_CHECKING:
    import polars as pl

_HALF = re.compile("[\ud800-\udfff]")
RECORDINGS = "wav"
"""A list of recordings: references, and the test utterance last."""


def read_json_lines(path: Path) -> tuple[pl.DataFrame, list[int]]:
    """Columns by our names, and the line of each row.

    Raises:
        InputError: A line is no object, or has other keys than the first, with its number.
    """
    import polars as pl

    rows, lines = list[dict[str, Any]](), list[int]()
    for number, entry in _objects(path):
        row = _row(entry, f"{path}, line {number}")
        if rows and row.keys() != rows[0].keys():
            wrong = sorted(row.keys() ^ rows[0].keys())
            raise InputError(f"{path}, line {number}: {wrong[0]} is not in every line; mend it")
        rows.append(row)
        lines.append(number)
    if not rows:
        raise InputError(f"{path}, line 1: no rows; write the file again")
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return pl.DataFrame(
        [pl.Series(name, own, strict=False) for name, own in columns.items()]
    ), lines


def _objects(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            LINE_BYTES.check(where, len(line))
            entry = parse_json(line, where)
            if not isinstance(entry, dict) or not entry:
                raise InputError(f"{where}: expected an object with keys; mend this line")
            if b"\\u" in line and _HALF.search(json.dumps(entry, ensure_ascii=False)):
                raise InputError(f"{where}: half a character, \\ud800 to \\udfff; mend this line")
            yield number, entry


def _row(entry: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Cells by our names: of recordings the last is the utterance, the others enrol a speaker."""
    COLUMNS.check(where, len(entry))
    found: dict[str, Any] = {}
    for (key, value), named in zip(entry.items(), columns_named(list(entry)), strict=True):
        name = "label" if key == "lab" else named
        if key == "key" and "lab" in entry:
            name = "trial_key"  # the name of the row beside a label of another name
        if key == RECORDINGS and isinstance(value, list) and len(value) > 1:
            found["speaker"] = found["enrolment"] = ",".join(map(str, value[:-1]))
            name, value = "utterance", value[-1]
        if isinstance(value, list):
            value = ",".join(map(str, value))
        if value is None or isinstance(value, dict):
            raise InputError(f"{where}, {key}: expected a text or a number; mend this line")
        if name in found:
            raise InputError(f"{where}: {key} is {name}, which stands there already")
        found[name] = value
    return found
