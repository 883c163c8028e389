"""Deciding nothing at a price, as commands and the page show it: shares by class, and the cost."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lightning_sasv.cli import main
from lightning_sasv.decisions import PRESETS, abstain, accept, empirical_cost
from lightning_sasv.deploy import load
from lightning_sasv.fitted import read_fitted
from lightning_sasv.fusion.conformal import measure
from lightning_sasv.scores import read_scores, read_table, write_scores
from tests.helpers import failure_of
from tests.scores.samples import toy_scores

COSTS = replace(PRESETS["a-dcf1"], c_abstain=0.2)


@pytest.fixture(scope="module")
def fused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results at costs that have a price of deciding nothing."""
    place = tmp_path_factory.mktemp("priced")
    (place / "costs.json").write_text(json.dumps(COSTS.as_dict()))
    write_scores(place / "dev.csv", toy_scores(400))
    words = ["--dev", "dev.csv", "--eval", "dev.csv", "--systems", "M3d", "--costs", "costs.json"]
    words = [str(place / word) if "." in word else word for word in words]
    main(["fuse", *words, "--out", str(place / "out")])
    return place


def expected(fused: Path) -> list[str]:
    """Shares of targets, nontargets and spoofs, and the cost, by the definitions."""
    trials = read_scores(fused / "dev.csv")
    llrs = read_fitted(fused / "out" / "fitted" / "M3d.safetensors").of(trials)
    nothing = np.asarray(abstain(llrs, COSTS))
    assert nothing.any()
    cost = empirical_cost(accept(llrs, COSTS) & ~nothing, trials.label, COSTS, nothing)
    return [*(f"{100 * share:.2f}" for share in cost.unsure), f"{cost.normalised:.4f}"]


def test_the_page_shows_the_price_of_the_costs(fused: Path) -> None:
    main(["report", str(fused / "out"), "--replicates", "0"])
    page = (fused / "out" / "report.html").read_text()
    table = re.search(r'aria-label="At a price">.*?</table>', page, re.DOTALL)
    assert table is not None
    cells = re.findall(r"<td>([^<]*)</td>", table[0])
    assert cells[:2] == ["M3d", "0.2"]
    assert [cell.removesuffix(" %") for cell in cells[2:]] == expected(fused)


def test_decide_and_the_card_show_them_too(fused: Path, capsys: pytest.CaptureFixture[str]) -> None:
    *shares, _ = expected(fused)
    costs = ["--costs", str(fused / "costs.json")]
    capsys.readouterr()
    words = ["--fitted", str(fused / "out"), "--out", str(fused / "decided.csv")]
    main(["decide", str(fused / "dev.csv"), *words, *costs])
    said = " ".join(capsys.readouterr().out.split())
    target, nontarget, spoof = (f"{share} % of" for share in shares)
    text = f"{target} targets, {nontarget} nontargets, {spoof} spoofs"
    assert f"unsure, M3d bayes: {text}" in said
    assert "…" not in said  # the table has room for its numbers
    main(["export", *words[:2], "--out", str(fused / "b"), *costs, "--level", "0"])
    card, trials = (fused / "b" / "CARD.md").read_text(), read_scores(fused / "dev.csv")
    verdict = load(fused / "b").of(trials)  # its LLRs are bounded
    cost = empirical_cost(verdict.accepted, trials.label, COSTS, verdict.unsure)
    target, nontarget, spoof = (f"{100 * share:.2f} % of" for share in cost.unsure)
    text = f"{target} targets, {nontarget} nontargets, {spoof} spoofs"
    assert f"- on dev unsure: {text}; policy a-DCF {cost.normalised:.4f}\n" in card
    assert "where deciding nothing, at 0.2, costs least" in card
    assert f"| policy a-DCF | {cost.normalised:.4f} |" in card


def test_decide_leaves_open_what_the_dev_scores_of_the_folder_did_not_measure(
    fused: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trials, out = read_scores(fused / "dev.csv"), fused / "left_open.csv"
    words = ["decide", fused / "dev.csv", "--fitted", fused / "out", "--out", out]
    capsys.readouterr()
    main([str(word) for word in (*words, "--level", "0.05")])
    said = " ".join(capsys.readouterr().err.split())
    assert "in about 5 % of trials of speakers like those of dev" in said
    pairs = np.stack([trials.asv, trials.cm])
    outside = measure(pairs, trials.label).outside(pairs, 0.05)
    llrs = read_fitted(fused / "out" / "fitted" / "M3d.safetensors").of(trials)
    accepted = np.asarray(accept(llrs, PRESETS["a-dcf1"]))
    expected = np.where(accepted, np.where(outside, "unsure", "accept"), "reject")
    assert read_table(out).text("decision").tolist() == expected.tolist()
    assert {"unsure", "accept", "reject"} == {*expected.tolist()}
    assert "the least possible one" in failure_of(capsys, *words, "--level", "0.0001")
