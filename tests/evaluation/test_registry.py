"""A metric is one entry of the registry: added there, it appears in every command's output."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lightning_sasv.cli import main
from lightning_sasv.evaluation.compare import Draws, Options
from lightning_sasv.metrics import functional
from lightning_sasv.metrics.functional import COLUMNS, all_metrics, bootstrap
from lightning_sasv.metrics.functional.points import Classes
from lightning_sasv.metrics.intervals import Resampled
from lightning_sasv.metrics.registry import METRICS, Metric, Settings, metrics_for
from lightning_sasv.scores import write_scores
from lightning_sasv.trials import CLASS_ORDER
from tests.helpers import metrics_in
from tests.scores.samples import toy_scores

PLACES = ("groups", "compared", "results", "page", "cards", "table1")


def share_of_overlap(classes: Classes, settings: Settings) -> float:
    """Targets not above the mean of the nontargets: any function of sorted, weighted classes."""
    target, nontarget = (classes.steps("sasv", kind) for kind in CLASS_ORDER[:2])
    return float(target.up_to(nontarget.values.mean()) / target.total)


@pytest.fixture
def overlap(monkeypatch: pytest.MonkeyPatch) -> Metric:
    entry = Metric(
        "overlap",
        "Overlap",
        "rate",
        ("sasv",),
        share_of_overlap,
        short="ovl",
        spoken="target overlap",
        meaning="targets below the mean nontarget",
        tables=frozenset(PLACES),
    )
    monkeypatch.setitem(METRICS, entry.name, entry)
    monkeypatch.setenv("COLUMNS", "120")  # room for one more column
    return entry


@pytest.fixture
def fused(overlap: Metric, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A folder of results of two systems, fused while the metric is there."""
    scores = toy_scores(300)
    write_scores(tmp_path / "dev.csv", scores)
    dev, out = str(tmp_path / "dev.csv"), tmp_path / "fused"
    main(["fuse", "--dev", dev, "--eval", dev, "--systems", "B1,L3c", "--out", str(out)])
    assert overlap.short in capsys.readouterr().out
    return out


def test_functions_know_it(overlap: Metric) -> None:
    scores, labels = [2.0, 0.5, 1.0, 0.0], ["target", "target", "nontarget", "spoof"]
    assert all_metrics(None, None, scores, labels)["overlap"] == 0.5
    assert bootstrap("overlap", scores, labels, n=39).value == 0.5
    assert overlap in metrics_for("page")
    assert functional.COLUMNS["overlap"] == ("sasv",)
    assert "overlap" not in COLUMNS  # what was imported before is a copy of its time


def test_evaluate_shows_it(fused: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = fused / "scores" / "eval.csv", fused / "out.json"
    words = ["--by", "attack,speaker", "--ci", "trial", "--compare", "--replicates", "39"]
    main(["evaluate", str(file), *words, "--json", str(out)])
    shown = capsys.readouterr().out
    assert shown.count("Overlap %") >= 1 + 2 + 1, "metrics, breakdowns and differences"
    assert "Differences in Overlap %" in shown
    found = json.loads(out.read_text())
    for name in ("B1", "L3c"):
        system = found["systems"][name]["sets"]["eval"]
        value = system["values"]["overlap"]
        assert 0 <= value < 1
        interval = system["intervals"]["overlap"]
        assert interval["low"] <= value <= interval["high"]
        assert (interval["method"], interval["drawn"]) == ("percentile", ["trial"])
        assert all("overlap" in group for group in system["by"]["speaker"].values())
        assert metrics_in(fused)[name]["eval"]["overlap"] == value
        assert f"{100 * value:.4f}" in shown
    assert "overlap" in {one["metric"] for one in found["comparisons"]}


def test_report_shows_it(fused: Path) -> None:
    main(["report", str(fused)])
    page = (fused / "report.html").read_text()
    assert '<th title="targets below the mean nontarget">target overlap, %</th>' in page
    assert "target overlap, eval, chosen on dev" in page
    value = metrics_in(fused)["L3c"]["eval"]["overlap"]
    assert f">{100 * value:.2f}</td>" in page


def test_table_shows_it(
    overlap: Metric, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "table"
    small = ["--data.scale", "0.02", "--epochs", "1", "--replicates", "0", "--processes", "1"]
    main(["table", "--seeds", "1", "--systems", "B1,L3c", *small, "--out", str(out)])
    assert "ovl%" in capsys.readouterr().out
    metrics = metrics_in(out)
    value = metrics["L3c"]["eval"]["overlap"]
    assert metrics_in(out / "seed1")["L3c"]["eval"]["overlap"] == value
    assert "| Overlap % |" in (out / "table.md").read_text()
    assert r"Overlap \%" in (out / "table.tex").read_text()
    assert f"L3c,Overlap %,{100 * value!r}" in (out / "table.csv").read_text()


def test_the_direction_decides_what_is_better(
    overlap: Metric, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {n: {"overlap": Resampled(x, np.full(39, x))} for n, x in (("A", 0.1), ("B", 0.2))}
    draws = Draws(Options(compare=True), ("trial",), 39, found)
    assert draws.reference("overlap") == ("A", None)
    monkeypatch.setitem(METRICS, "overlap", replace(overlap, lower_is_better=False))
    assert draws.reference("overlap") == ("B", None)
    assert draws.comparisons()[0].verdict.startswith("A is lower than B by 10.00 points")
