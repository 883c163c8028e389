"""Rows of Table 1, the paper's order, and the table as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lightning_sasv.fusion import PAPER_SYSTEMS
from lightning_sasv.metrics.registry import metrics_for
from lightning_sasv.record import Trials, unrecorded
from lightning_sasv.report.sure import Sure
from lightning_sasv.report.table1 import (
    FINGERPRINT,
    PAPER,
    Row,
    make_rows,
    mean_metrics,
    notes,
    order_checks,
    pair_lines,
)
from lightning_sasv.report.table1_text import (
    Table1,
    as_csv,
    as_latex,
    as_markdown,
    print_table1,
)
from lightning_sasv.scores import read_table


def _seed_metrics(seed: int, shift: float) -> dict[str, Any]:
    values = {
        name: {key: row[key] / (100 if key in ("sasv_eer", "t_eer") else 1) for key in row}
        for name, row in PAPER.items()
    }
    for row in values.values():
        row["sasv_eer"] += shift
        row |= {"min_a_dcf": 0.05, "act_a_dcf": 0.06}
    values["L3"] |= {"t_eer": None, "t_eer_closest": 0.0168}
    values["B1"] |= {"act_a_dcf": None}
    of = unrecorded(corpus="SASV 2022", seeds=[seed])
    found = {}
    for name, row in values.items():
        undefined = {"act_a_dcf": "no LLR"} if name == "B1" else {}
        one = {"values": row, "undefined": undefined, "of": of}
        found[name] = {"sets": {"dev": one, "eval": one}, "fitted": {}, "fitted_on": of}
    return found


def _metrics(*seeds: dict[str, Any]) -> dict[str, Any]:
    """Means over seeds, with an interval of the SASV-EER."""
    given = seeds or (_seed_metrics(1, 0.0), _seed_metrics(2, 0.002), _seed_metrics(3, 0.001))
    found = mean_metrics(given, list(given[0]))
    how = {"method": "bca", "drawn": ["seed", "speaker"], "replicates": 99, "seeds": len(given)}
    for entry in found.values():
        ends = {"low": 0.01, "high": 0.02, **how, "speakers": 48}
        entry["sets"]["eval"]["intervals"] = {"sasv_eer": ends}
    return found


def _rows(*seeds: dict[str, Any]) -> list[Row]:
    return make_rows(_metrics(*seeds), list(PAPER))


def test_rows_are_means_beside_the_paper() -> None:
    for row in _rows():
        cell = row.cells["sasv_eer"]
        assert cell.mean == pytest.approx(PAPER[row.system]["sasv_eer"] + 0.1)
        assert cell.spread == pytest.approx(0.1)
        assert (cell.low, cell.high) == (1.0, 2.0)
        assert cell.paper == PAPER[row.system]["sasv_eer"]
        assert row.t_eer == pytest.approx(PAPER[row.system]["t_eer"])
        assert "t_eer" not in row.cells


def test_order_checks_hold_for_the_paper_itself_and_can_fail() -> None:
    metrics = _metrics(_seed_metrics(1, 0.0))
    assert all(check.holds for check in order_checks(make_rows(metrics, list(PAPER))))
    assert order_checks(make_rows(metrics, ["B1"])) == []
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
        assert not all(c.holds for c in order_checks(_rows(broken))), name


def test_published_numbers_are_those_of_the_paper(shared: Path) -> None:
    """Each list of six-seed means in the reference notes, in the order of the systems."""
    text = " ".join((shared / "science.md").read_text().split())
    text = text[text.index("The paper's Table 1 (six-seed means)") :]
    names = ("SASV-EER", "Cllr", "Cllr_min", "Cllr_calib", "t-EER")
    for key, name in zip(PAPER["B1"], names, strict=True):
        found = re.search(rf"{name} ([0-9., ]+\d)", text)
        assert found, name
        values = [float(value) for value in found[1].split(",")]
        assert [PAPER[system][key] for system in PAPER_SYSTEMS] == values, name


def test_the_papers_trials_are_known(shared: Path) -> None:
    assert Trials(read_table(shared / "data/sasv2022/eval_scores.csv")).fingerprint == FINGERPRINT


@pytest.fixture
def table() -> Table1:
    metrics = _metrics()
    rows = make_rows(metrics, list(PAPER), letters={"L3c": "ab"})
    ends = {name: own["sets"]["eval"]["intervals"] for name, own in metrics.items()}
    remarks = notes(rows, metrics, Sure(ends, notes=["48 speakers: a word"]))
    return Table1(rows, pair_lines(metrics, True), remarks)


def test_markdown(table: Table1) -> None:
    lines = as_markdown(table).splitlines()
    names = (
        "system | letters | SASV-EER % | Cllr | Cllr_min | Cllr_calib | a-DCF_min | a-DCF_actual"
    )
    assert lines[0] == f"| {names} |"
    assert lines[2].startswith("| B1 |  | 20.56 [1.00, 2.00] ± 0.10 | 2.170 ± 0.000 |")
    assert lines[2].endswith("| 0.050 ± 0.000 | no LLR |")
    assert lines[3].startswith("| (paper) |  | 20.46 +0.10 | 2.17 +0.00 |")
    assert any(line.startswith("| L3c | ab | 1.53 [1.00, 2.00] ± 0.10 |") for line in lines)
    assert "| L3 | none (closest 1.68) | 1.68 |" in lines
    text = "\n".join(lines)
    words = "Mean over 3 seeds [95 %: BCa, drawn: seeds × enrolled speakers, 99 replicates; 3 seeds"
    for said in (words, "48 speakers: a word.", "real SASV 2022 eval set"):
        assert said in text
    assert "†" not in text


def test_of_two_seeds_both_values_are_shown_and_of_one_its_interval() -> None:
    both = mean_metrics([_seed_metrics(1, 0.0), _seed_metrics(2, 0.002)], ["B1"])
    text = as_markdown(Table1(make_rows(both, ["B1"]), [], notes([], both, Sure())))
    assert "| 20.56 (20.46, 20.66) ± 0.14 |" in text
    assert "values of both" in text
    one = _metrics(_seed_metrics(1, 0.0))
    text = as_markdown(Table1(make_rows(one, ["B1"]), [], notes([], one, Sure())))
    assert "| 20.46 [1.00, 2.00] |" in text
    assert "One seed." in text


def test_csv(table: Table1) -> None:
    found = list(csv.DictReader(io.StringIO(as_csv(table.rows, "a,b", costs="a-dcf1"))))
    assert len(found) == len(PAPER) * len(metrics_for("table1"))
    first = found[0]
    assert (first["corpus"], first["system"], first["metric"]) == ("a,b", "B1", "SASV-EER %")
    assert float(first["mean"]) == pytest.approx(20.56)
    assert float(first["sd"]) == pytest.approx(0.1)
    assert float(first["difference"]) == pytest.approx(0.1)
    names = ("low", "high", "method", "drawn", "replicates", "seeds", "speakers", "note")
    assert [first[name] for name in names] == [
        *("1.0", "2.0", "bca", "seed speaker", "99", "3", "48", "")
    ]
    noted = {(row["system"], row["metric"]): row["note"] for row in found}
    assert noted.pop(("B1", "a-DCF_actual")) == "no LLR; costs a-dcf1"
    for (_, metric), note in noted.items():
        assert note == ("costs a-dcf1" if metric.startswith("a-DCF") else "")
    assert all("simulated" in row for row in as_csv(table.rows, "x", True).splitlines()[1:])


def test_latex(table: Table1) -> None:
    text = as_latex(table)
    assert text.isascii()
    lines = text.splitlines()
    body = lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")]
    assert len(body) == 2 * len(PAPER)
    assert all(line.endswith(r" \\") and len(re.findall(r"(?<!\\)&", line)) == 7 for line in body)
    assert body[0].startswith(r"B1 &  & 20.56 [1.00, 2.00] $\pm$ 0.10 & 2.170 $\pm$ 0.000")
    assert body[1].startswith(r"(paper) &  & 20.46 $+$0.10 & 2.17 $+$0.00")
    written = [line for line in lines if line.startswith(r"\multicolumn")]
    assert len(written) == len(table.remarks) + 1
    assert "L3 none (closest 1.68) (paper 1.68)" in written[0]
    plain = re.sub(r"\\.", "", text)  # what LaTeX would take for its own, unless escaped
    assert plain.count("$") % 2 == 0
    assert plain.count("%") == 1  # the comment on the package
    assert plain.count("{") == plain.count("}")


def test_a_name_of_special_characters_is_set_as_it_stands(table: Table1) -> None:
    text = as_latex(table._replace(remarks=["a_b & 50 %\n\\end{x} ^~<#$"]))
    assert r"a\_b \& 50 \% \textbackslash{}end\{x\}" in text
    assert r"\textasciicircum{}\textasciitilde{}\textless{}\#\$" in text


def test_undefined_values_are_dashes() -> None:
    seed = _seed_metrics(1, 0.0)
    seed["L3"]["sets"]["eval"]["values"] |= {"cllr": None, "t_eer_closest": None}
    metrics = mean_metrics([seed], ["L3", "B1"])
    table = Table1(make_rows(metrics, ["L3", "B1"]), pair_lines(metrics, True), [])
    assert "nan" not in as_markdown(table) + as_csv(table.rows, "x") + as_latex(table)
    assert "| L3 | 1.44 | – |" in as_markdown(table)


@pytest.mark.parametrize(
    ("of", "shown"),
    [
        ({"corpus": "my corpus"}, False),
        ({"corpus": "SASV-2022 eval"}, True),
        ({"corpus": "mine", "fingerprint": FINGERPRINT}, True),
        ({"corpus": "twin", "simulated": True}, True),
    ],
)
def test_the_paper_stands_beside_its_corpus_alone_and_can_be_left_out(
    of: dict[str, Any], shown: bool
) -> None:
    metrics = _metrics(_seed_metrics(1, 0.0))
    for entry in metrics.values():
        entry["sets"]["eval"]["of"] |= of
    for wanted in (True, False):
        rows = make_rows(metrics, list(PAPER), wanted)
        there = [row.cells["sasv_eer"].paper is not None for row in rows]
        assert set(there) == {shown and wanted}
        lines = notes(rows, metrics, Sure())
        assert any("SASV 2022 eval set" in line for line in lines) == (shown and wanted)


@pytest.mark.parametrize("width", ["60", "80", "100"])
@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_nothing_is_cut_off_on_the_terminal(
    table: Table1,
    seeds: int,
    width: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    for row in table.rows:
        for name, cell in row.cells.items():
            few = {"seeds": cell.seeds[:seeds]} | ({"spread": math.nan} if seeds == 1 else {})
            row.cells[name] = replace(cell, **few)
    print_table1(table)
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert ("one seed", "values of both", "mean over seeds")[seeds - 1] in " ".join(shown.split())
    assert "a-DCF (costs not recorded)" in shown
    ends = any(cell.ends for row in table.rows for cell in row.cells.values())
    assert ("95 % interval" in " ".join(shown.split())) == (ends and seeds != 2)


def test_a_table_without_intervals_does_not_promise_any(
    table: Table1, capsys: pytest.CaptureFixture[str]
) -> None:
    for row in table.rows:
        row.cells.update({name: replace(cell, ends={}) for name, cell in row.cells.items()})
    print_table1(table)
    assert "95 % interval" not in " ".join(capsys.readouterr().out.split())
