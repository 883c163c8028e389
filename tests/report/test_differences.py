"""Figures of speakers, operating points and differences, against values of the real scores."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightning_sasv.errors import InputError
from lightning_sasv.metrics.bootstrap import bootstrap, replicate_weights
from lightning_sasv.metrics.comparisons import Comparison
from lightning_sasv.metrics.intervals import percentile_ends as bootstrap_ends
from lightning_sasv.report import write_report
from lightning_sasv.report.curves import Material
from lightning_sasv.report.differences import forest, speakers
from lightning_sasv.report.figures import FIGURES, describe
from lightning_sasv.report.operating import GRID, RHOS, TAUS, costs_at, det_band, operating_points
from lightning_sasv.report.sure import Sure
from lightning_sasv.results import Results, read_results
from lightning_sasv.trials import TASKS
from tests.report.conftest import write_folder, write_small_table
from tests.report.test_report import _speakers_differ


def test_the_misses_of_speakers_are_those_of_the_real_scores(real: Results) -> None:
    figure = speakers(Material.of(real, 0))
    assert figure is not None
    own = [row for row in figure.data if row["system"] == "L3c"]
    misses = {row["speaker"]: row["misses"] for row in own}
    assert sum(misses.values()) == 76
    worst = {name: misses[name] for name in ("LA_0038", "LA_0002", "LA_0027", "LA_0004")}
    assert worst == {"LA_0038": 27, "LA_0002": 15, "LA_0027": 9, "LA_0004": 6}
    assert next(row["targets"] for row in own if row["speaker"] == "LA_0038") == 68
    assert sum(count == 0 for count in misses.values()) == 29
    eers = 100 * np.array([row["eer"] for row in own])
    assert (eers == 0).sum() == 13
    assert np.median(eers) == pytest.approx(0.48, abs=0.005)
    assert eers.max() == pytest.approx(26.2, abs=0.05)
    assert "L3c LA_0038 27, LA_0002 15, LA_0027 9 of 76" in figure.caption


SOME = np.array([-3, -1, 0.511, 2, 4, 6])
COSTS = {
    "L3c": (
        [0.274, 0.095, 0.0767, 0.142, 0.275, 0.304],
        [0.234, 0.052, 0.0306, 0.052, 0.108, 0.237],
    ),
    "L3t": (
        [0.178, 0.060, 0.0327, 0.048, 0.087, 0.211],
        [0.162, 0.049, 0.0290, 0.044, 0.085, 0.153],
    ),
}


@pytest.mark.parametrize("name", COSTS)
def test_costs_over_operating_points(real: Results, name: str) -> None:
    found = costs_at(real.fused[name], real.scores.label, SOME)
    np.testing.assert_allclose(found[:2], COSTS[name], atol=6e-4)


def test_costs_of_the_figure_are_those_of_the_metrics(real: Results) -> None:
    """At the point of a-dcf1 the lines are the four costs of metrics.json, the band an interval."""
    name = "L3c"
    figure = operating_points(Material.of(real.only([name]), 400))
    assert len(figure.data) == len(RHOS) * len(TAUS)
    at = TAUS[np.argmin(abs(TAUS - 0.511))]
    (row,) = (row for row in figure.data if row["rho"] == "2/3" and row["tau"] == at)
    values = real.metrics[name]["sets"]["eval"]["values"]
    keys = {"actual": "act_a_dcf", "minimum": "min_a_dcf", "dev": "dev_a_dcf"}
    for key, metric in {**keys, "policy": "policy_a_dcf"}.items():
        assert row[key] == pytest.approx(values[metric], abs=2e-4), key
    assert real.scores.speaker is not None
    costs = bootstrap("act_a_dcf", real.fused[name], real.scores.label, real.scores.speaker, 400)
    ends = bootstrap_ends(costs.replicates)
    assert (row["low"], row["high"]) == pytest.approx(ends, abs=2e-4), "the same draws"
    shown = {one.label for one in figure.panels[0].series}
    assert {"actual", "minimum", "dev threshold", "policy"} < shown


def test_few_speakers_have_no_band_and_nobody_speaks_of_one(small: Results, real: Results) -> None:
    for results, banded in ((small, False), (real.only(["L3c"]), True)):
        for figure in describe(Material.of(results, 60), ["operating_points", "det"]):
            said = figure.caption + figure.panels[0].caption
            labels = [one.label for panel in figure.panels for one in panel.series]
            assert any("by speaker" in one for one in labels) == banded
            assert ("grey band" in said) == banded
            assert "{" not in said


def test_the_band_of_a_det_curve_holds_the_curve_and_is_that_of_the_bootstrap() -> None:
    rng = np.random.default_rng(1)
    label, speaker = np.tile([0, 1, 2], 2000), np.repeat([f"s{k}" for k in range(12)], 500)
    scores = rng.normal(size=label.size) + 2.0 * (label == 1) + 0.1 * (np.arange(6000) // 500)
    band = det_band(scores, label, speaker, 200)
    place = 20
    for task, (low, high) in band.items():
        positive, negative = (scores[np.isin(label, part)] for part in TASKS[task][1:])
        at = np.quantile(negative, 1 - GRID[place])
        assert low[place] <= (positive <= at).mean() <= high[place]
    weights = np.array(list(replicate_weights(label.size, speaker, 200)))
    misses = []
    for own in weights:
        drawn = np.repeat(np.arange(label.size), own)
        again, kind = scores[drawn], label[drawn]
        at = np.quantile(again[kind != 1], 1 - GRID[place])
        misses.append((again[kind == 1] <= at).mean())
    ends = bootstrap_ends(np.array(misses))
    found = band["sasv"][0][place], band["sasv"][1][place]
    assert found == pytest.approx(ends, abs=0.05 * (ends[1] - ends[0]))


def test_the_forest_shows_differences_to_the_reference(small: Results) -> None:
    material: Any = Material.of(small, 0)
    assert forest(material) is None
    material.__dict__["sure"] = _speakers_differ(3.0)
    figure = forest(material)
    assert figure is not None
    best = material.sure.reference["sasv_eer"]
    panel = figure.panels[0]
    shown = dict(
        zip(
            [text.split(",")[0] for _, text in panel.y.ticks or ()], panel.series[2::2], strict=True
        )
    )
    assert set(shown) == {"A", "B", "C"} - {best}
    assert shown["C"].x[0] > 5
    assert len(figure.data) == len(material.sure.comparisons)


def test_a_difference_far_beyond_the_others_lies_on_the_edge_of_the_forest(small: Results) -> None:
    material: Any = Material.of(small, 0)
    of = {"metric": "sasv_eer", "second": "R", "p": 0.01, "p_adjusted": 0.02, "family": ""}
    of |= {"method": "percentile", "drawn": ("speaker",), "verdict": ""}
    found = [
        Comparison(first=name, difference=d, low=d - 0.001, high=d + 0.001, **of)
        for name, d in (("A", -0.001), ("B", 0.001), ("C", 0.002), ("D", 0.5))
    ]
    material.__dict__["sure"] = Sure(comparisons=found, reference={"sasv_eer": "R"})
    figure = forest(material)
    assert figure is not None
    panel = figure.panels[0]
    assert panel.x.high < 1
    assert dict(panel.beside)[0] == "+50, p 0.02"
    assert all(panel.x.low < x < panel.x.high for one in panel.series for x in one.x)


def test_of_a_table_the_forest_has_lines_of_speakers_and_of_seeds(tmp_path: Path) -> None:
    material = Material.of(read_results(write_small_table(tmp_path / "t")))
    figure = forest(material)
    assert figure is not None
    rows = len(figure.panels[0].y.ticks or ())
    assert len(figure.panels[0].series) == 1 + 3 * rows
    both = {row["drawn"] for row in figure.data}
    assert both == {"seed speaker", "speaker"}
    assert all("speakers_needed" in row for row in figure.data)


@pytest.fixture
def few_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with data, and one without."""
    for name in FIGURES.keys() - {"speakers", "operating_points", "forest", "det"}:
        monkeypatch.delitem(FIGURES, name)


@pytest.mark.usefixtures("few_figures")
def test_data_of_figures_are_files(small_folder: Path, tmp_path: Path) -> None:
    files = write_report(
        str(small_folder), str(tmp_path / "page.html"), str(tmp_path / "f")
    ).figures
    data = {path.stem: path for path in files if path.suffix == ".csv"}
    assert set(data) == {"operating_points", "speakers"}
    with data["speakers"].open() as file:
        assert len(list(csv.DictReader(file))) == 3 * 7
    assert [
        figure.name for figure in describe(Material.of(read_results(small_folder)), ["forest"])
    ] == []


@pytest.mark.usefixtures("few_figures")
def test_a_file_of_another_kind_is_not_replaced_by_data(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "run", ("B1", "L3c"))
    figures = tmp_path / "figures"
    figures.mkdir()
    (figures / "speakers.csv").write_text("mine\n")
    with pytest.raises(InputError, match=r"speakers\.csv"):
        write_report(str(folder), figures=str(figures))
    assert (figures / "speakers.csv").read_text() == "mine\n"
    write_report(str(folder), figures=str(figures), overwrite=True)
    write_report(str(folder), figures=str(figures))
    assert "mine" not in (figures / "speakers.csv").read_text()
