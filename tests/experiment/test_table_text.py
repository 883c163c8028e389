"""Rows of Table 1, the paper's order, and the table as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import math
import re
from pathlib import Path
from typing import Any

import pytest

from lightning_sasv.fusion import PAPER_SYSTEMS
from lightning_sasv.report.table1 import (
    PAPER,
    PAPER_HALF_WIDTHS,
    Row,
    make_rows,
    notes,
    order_checks,
)
from lightning_sasv.report.table1_text import as_csv, as_latex, as_markdown


def _seed_metrics(seed: int, shift: float) -> dict[str, Any]:
    values = {
        name: {key: row[key] / (100 if key in ("sasv_eer", "t_eer") else 1) for key in row}
        for name, row in PAPER.items()
    }
    for row in values.values():
        row["sasv_eer"] += shift
    values["L3"] |= {"t_eer": None, "t_eer_closest": 0.0168}
    interval = {"sasv_eer": {"low": 0.01, "high": 0.02}}
    of = {"corpus": "x", "seeds": [seed]}
    return {
        name: {"sets": {"eval": {"values": row, "intervals": interval, "of": of}}}
        for name, row in values.items()
    }


def test_rows_are_means_beside_the_paper() -> None:
    rows = {
        r.system: r
        for r in make_rows([_seed_metrics(1, 0.0), _seed_metrics(2, 0.002)], list(PAPER))
    }
    for name, row in rows.items():
        cell = row.cells["sasv_eer"]
        assert cell.mean == pytest.approx(PAPER[name]["sasv_eer"] + 0.1)
        assert cell.spread == pytest.approx(0.2 / math.sqrt(2))
        assert cell.paper == PAPER[name]["sasv_eer"]
        assert row.cells["t_eer"].mean == pytest.approx(PAPER[name]["t_eer"])
        assert row.cells["t_eer"].marked == (name == "L3")


def test_order_checks_hold_for_the_paper_itself_and_can_fail() -> None:
    seeds = [_seed_metrics(1, 0.0)]
    assert all(check.holds for check in order_checks(make_rows(seeds, list(PAPER))))
    assert order_checks(make_rows(seeds, ["B1"])) == []
    for name, key, value in (
        ("B1", "sasv_eer", 0.1),
        ("L2", "sasv_eer", 0.01),
        ("B1c", "sasv_eer", 0.01),
        ("L3", "sasv_eer", 0.03),
        ("L3c", "sasv_eer", 0.03),
        ("L3c", "cllr", 0.4),
        ("B1", "cllr", 0.9),
        ("B1", "t_eer", 0.03),
    ):
        broken = _seed_metrics(1, 0.0)
        broken[name]["sets"]["eval"]["values"][key] = value
        assert not all(c.holds for c in order_checks(make_rows([broken], list(PAPER)))), name


def test_published_numbers_are_those_of_the_paper(shared: Path) -> None:
    """Each list of six-seed means in the reference notes, in the order of the systems."""
    text = " ".join((shared / "science.md").read_text().split())
    text = text[text.index("The paper's Table 1 (six-seed means)") :]
    names = ("SASV-EER", "Cllr", "Cllr_min", "Cllr_calib", "t-EER")
    for key, name in [*zip(PAPER["B1"], names, strict=True), (None, "half-widths")]:
        found = re.search(rf"{name} ([0-9., ]+\d)", text)
        assert found, name
        values = [float(value) for value in found[1].split(",")]
        mine = PAPER_HALF_WIDTHS if key is None else {s: PAPER[s][key] for s in PAPER}
        assert [mine[system] for system in PAPER_SYSTEMS] == values, name


@pytest.fixture
def rows() -> list[Row]:
    return make_rows([_seed_metrics(1, 0.0), _seed_metrics(2, 0.002)], list(PAPER))


def test_markdown(rows: list[Row]) -> None:
    lines = as_markdown(rows, notes(rows, "twin", [1, 2])).splitlines()
    assert lines[0].count("|") == lines[1].count("|") == lines[2].count("|") == 8
    assert lines[2].startswith(
        "| B1 | 20.56±0.14 (20.46 +0.10) | [1.00, 2.00] ±0.50 (0.40 +0.10) | 2.17±0.00 (2.17 +0.00)"
    )
    (line,) = (line for line in lines if line.startswith("| L3 |"))
    assert "1.68±0.00† (1.68 +0.00)" in line
    text = "\n".join(lines)
    for words in ("Simulated", "† no concurrent t-EER point", "1.676", "over trials, seed 1"):
        assert words in text


def test_csv(rows: list[Row]) -> None:
    found = list(csv.DictReader(io.StringIO(as_csv(rows, "a,b"))))
    assert len(found) == sum(map(len, PAPER.values()))
    first = found[0]
    assert (first["corpus"], first["system"], first["metric"]) == ("a,b", "B1", "SASV-EER %")
    assert float(first["mean"]) == pytest.approx(20.56)
    assert float(first["difference"]) == pytest.approx(0.1)
    assert (first["low"], first["high"], first["note"]) == ("1.0", "2.0", "")
    marked = [row for row in found if row["note"]]
    assert [(row["system"], row["metric"], row["note"]) for row in marked] == [
        ("L3", "t-EER %", "closest point")
    ]


def test_latex(rows: list[Row]) -> None:
    remarks = notes(rows, "twin", [1, 2])
    text = as_latex(rows, remarks)
    assert text.isascii()
    lines = text.splitlines()
    body = lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")]
    assert len(body) == 2 * len(PAPER)
    assert all(line.endswith(r" \\") and len(re.findall(r"(?<!\\)&", line)) == 6 for line in body)
    assert body[0].startswith(r"B1 & 20.56$\pm$0.14 & $\pm$0.50 & 2.17$\pm$0.00")
    assert body[1].startswith(r"(paper) & 20.46 $+$0.10 & 0.40 $+$0.10 & 2.17 $+$0.00")
    assert r"1.68$\pm$0.00$^\dagger$" in text
    assert len([line for line in lines if line.startswith(r"\multicolumn")]) == len(remarks) + 1
    assert "Simulated" in text
    plain = re.sub(r"\\.", "", text)  # what LaTeX would take for its own, unless escaped
    assert plain.count("$") % 2 == 0
    assert plain.count("%") == 1  # the comment on the package
    assert plain.count("{") == plain.count("}")


def test_a_name_of_special_characters_is_set_as_it_stands(rows: list[Row]) -> None:
    text = as_latex(rows, notes(rows, "a_b & 50 %\n\\end{x} ^~<#$", [1, 2]))
    assert r"a\_b \& 50 \% \textbackslash{}end\{x\}" in text
    assert r"\textasciicircum{}\textasciitilde{}\textless{}\#\$" in text


def test_undefined_values_are_dashes() -> None:
    seed = _seed_metrics(1, 0.0)
    found = seed["L3"]["sets"]["eval"]
    found["values"] |= {"t_eer": None, "t_eer_closest": None}
    del found["intervals"]
    (row,) = make_rows([seed], ["L3"])
    assert "nan" not in as_markdown([row], []) + as_csv([row], "x") + as_latex([row], [])
    assert "| – (1.68) |" in as_markdown([row], [])


def test_the_paper_is_not_taken_for_another_corpus() -> None:
    metrics = _seed_metrics(1, 0.0)
    metrics["Mine"] = metrics["B1"]
    for name, said in (("L3c", True), ("Mine", False)):
        lines = notes(make_rows([metrics], [name]), "my corpus", [1])
        assert any("on the SASV 2022 eval set" in line for line in lines) == said
