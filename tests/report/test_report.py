"""The page as text, the folder it is made of, the figures, and the command."""

from __future__ import annotations

import base64
import itertools
import json
import re
import shutil
import sys
from copy import deepcopy
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from lightning_sasv.cli import main
from lightning_sasv.decisions import PRESETS, CostModel
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.intervals import Resampled
from lightning_sasv.metrics_file import values_in
from lightning_sasv.record import Origin, Trials, unrecorded
from lightning_sasv.report import html as page_module
from lightning_sasv.report import write_report
from lightning_sasv.report.curves import OWN, Material
from lightning_sasv.report.description import styles
from lightning_sasv.report.drawing import FORMATS, draw, look, write_figures
from lightning_sasv.report.figures import FIGURES, describe
from lightning_sasv.report.html import as_json, page_data
from lightning_sasv.report.html_tables import Shown, markdown_table, metrics_table, tandem_table
from lightning_sasv.report.planes import as_pair
from lightning_sasv.report.sure import Draws, Sure, judge, sureness
from lightning_sasv.report.tables import print_results
from lightning_sasv.results import Results, read_metrics, read_results, set_entries
from lightning_sasv.scores.table import from_scores
from lightning_sasv.trials import FusedScores, Scores, TrialClass
from tests.helpers import failure_of
from tests.report.conftest import every_kind, write_folder, write_small_table


class Tags(HTMLParser):
    """Elements with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def render_page(results: Results) -> str:
    material = Material.of(results)
    return page_module.render_page(material, describe(material))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Results of one system."""
    return write_folder(tmp_path / "run", ("L3c",))


def change(path: Path, *columns: pl.Expr, drop: tuple[str, ...] = ()) -> None:
    """Change columns of a table of scores."""
    pl.read_csv(path).with_columns(*columns).drop(*drop).write_csv(path)


def embedded(page: str) -> Any:
    found = re.search(r'id="report-data">(.*?)</script>', page, re.S)
    assert found
    return json.loads(found.group(1))


def test_the_page_refers_to_nothing_outside(small: Results) -> None:
    page = render_page(small)
    for tag, attributes in Tags(page).found:
        for name in ("src", "href", "data", "action", "srcset", "poster"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:")), (tag, name, value)
    assert not re.search(r"@import|url\((?!#|')", page)
    metas = [a for t, a in Tags(page).found if t == "meta" and "http-equiv" in a]
    assert "default-src 'none'" in str(metas[0]["content"])
    assert "unsafe-eval" not in str(metas[0]["content"])


def test_table_and_data_hold_the_metrics(small: Results) -> None:
    page = render_page(small)
    for name, entry in small.metrics.items():
        row = re.search(rf'<tr data-system="{name}">(.*?)</tr>', page)
        assert row
        assert f"{100 * values_in(entry, 'eval')['sasv_eer']:.2f}" in row.group(1)
        assert f"{values_in(entry, 'eval')['cllr_calib']:.3f}" in row.group(1)
    data = embedded(page)
    assert [s["name"] for s in data["systems"]] == list(small.fused)
    for system, (task, rates) in itertools.product(data["systems"], shown_eers(data).items()):
        entry = values_in(small.metrics[system["name"]], "eval")
        assert rates[system["name"]] == pytest.approx(100 * entry[f"{task}_eer"], rel=1e-12)
        assert f"● minimum {entry['min_a_dcf']:.4f}" in caption_of(data, system["name"])


def shown_eers(data: Any) -> dict[str, dict[str, float]]:
    """EER of each system in per cent, by task, as the DET figure has them."""
    panels = data["figures"]["det"]["panels"]
    return {
        panel["of"]["task"]: {s["label"]: s["value"] for s in panel["series"] if "value" in s}
        for panel in panels
    }


def caption_of(data: Any, system: str) -> str:
    """What the page says below the a-DCF of a system for the costs a-dcf1."""
    of = {"system": system, "preset": "a-dcf1"}
    return next(p["caption"] for p in data["figures"]["a_dcf"]["panels"] if p["of"] == of)


def test_the_page_begins_with_the_costs_and_the_system_of_its_results(small: Results) -> None:
    metrics, costs = deepcopy(small.metrics), CostModel(c_fa_spoof=7.0)
    for entry in metrics.values():
        entry["sets"]["eval"]["of"]["costs"] = {"name": "mine", **costs.as_dict()}
    own = Material.of(replace(small, metrics=metrics), 0)
    data = page_data(own, describe(own, ["a_dcf"]))
    assert data["costs"] == OWN
    assert data["presets"][OWN] == costs.as_dict()
    assert OWN in data["figures"]["a_dcf"]["choices"]["preset"]
    for costs in PRESETS.values():
        for entry in metrics.values():
            entry["sets"]["eval"]["of"]["costs"] = {"name": "x", **costs.as_dict()}
        own = Material.of(replace(small, metrics=metrics), 0)
        assert own.own_costs[1] == costs
        assert own.cost_models == PRESETS
    own.__dict__["sure"] = Sure(reference={"sasv_eer": "L2c"}, on_dev=True)
    assert own.chosen == "L2c"


def test_what_is_no_llr_has_no_actual_cost_in_figures(small: Results) -> None:
    figures = {figure.name: figure for figure in describe(Material.of(small, 0), WITH_ACTUAL)}
    for panel in figures["operating_points"].panels:
        labels = {one.label for one in panel.series}
        assert ("actual" in labels) == ("calibration loss" in labels) == (panel.title != "B1")
    shown = [p for p in figures["a_dcf"].panels if p.only == "page"]
    assert all(("no actual cost" in p.caption) == (p.title == "B1") for p in shown)
    assert all(("diamond" in {s.mark for s in p.series}) == (p.title != "B1") for p in shown)


WITH_ACTUAL = ("operating_points", "a_dcf")


def test_embedded_trials_are_all_trials_in_single_precision(small: Results) -> None:
    data = page_data(Material.of(small), [])
    assert data["trials"]["complete"]
    assert data["trials"]["sizes"] == data["sizes"]
    order = np.concatenate([np.flatnonzero(small.scores.label == code) for code in (1, 2, 0)])
    for name, system in small.systems.items():
        pair = next(p for p in data["pairs"] if name in p["systems"])
        packed = base64.b64decode(data["trials"]["bases"][pair["base"]])
        base = np.frombuffer(packed, "<f4").reshape(2, -1).astype(np.float64)
        rows = np.array(pair["affine"])
        fused = system(small.scores.asv, small.scores.cm)
        wanted = as_pair(fused)[:, order]
        np.testing.assert_allclose(rows[:, :2] @ base + rows[:, 2:], wanted, rtol=1e-6, atol=1e-5)


def test_too_many_trials_are_sampled_and_the_page_says_so(
    small: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_module, "EMBEDDED", 1200)
    page = render_page(small)
    data = embedded(page)
    count = sum(data["trials"]["sizes"])
    assert count == 1200 // 2  # two base pairs
    assert f"a sample of {count:,} of the 1,500 trials" in page


def test_the_twin_is_called_simulated(tmp_path: Path) -> None:
    twin = render_page(read_results(write_folder(tmp_path / "a", ("L3c",), "twin", seeds=(1986,))))
    assert "corpus: twin (simulated, scale not recorded)" in twin
    assert "Simulated data, scale not recorded." in twin
    assert "training seed 1986" in twin
    other = render_page(read_results(write_folder(tmp_path / "b", ("L3c",), "mine")))
    assert "corpus: mine" in other
    assert "imulated data" not in other


@pytest.mark.parametrize(
    ("systems", "corpus", "heading"),
    [
        (("L3c",), "twin", "L3c on twin (simulated)"),
        (("B1", "L3c"), "SASV <2022>", "B1, L3c on SASV &lt;2022&gt;"),
        (("B1", "B1c", "L2", "L2c", "L3"), "mine", "5 systems on mine"),
    ],
)
def test_the_heading_names_systems_and_corpus(
    tmp_path: Path, systems: tuple[str, ...], corpus: str, heading: str
) -> None:
    """And not the folder, which training calls ``version_0``."""
    page = render_page(read_results(write_folder(tmp_path / "version_0", systems, corpus)))
    assert f"<title>SASV report: {heading}</title>" in page
    assert f"<h1>{heading}</h1>" in page
    assert "from version_0, eval set" in page


def test_a_parent_of_seeds_shows_the_first_and_the_table(tmp_path: Path) -> None:
    for seed in (10, 9):
        write_folder(tmp_path / f"seed{seed}", ("L3c",), seeds=(seed,))
    (tmp_path / "table.md").write_text("| system | SASV-EER % |\n|---|---|\n| L3c | 1.43±0.02 |\n")
    results = read_results(tmp_path)
    assert results.source.name == "seed9"
    page = render_page(results)
    assert "those of seed9, one of 2 seeds" in page
    assert "<td>1.43±0.02</td>" in page


def test_the_headline_of_a_table_is_the_mean_over_its_seeds(tmp_path: Path) -> None:
    """With interval, spread, letters and, unless switched off, the paper's grey rows."""
    folder = write_small_table(tmp_path / "t")
    page = write_report(str(folder), figures=None).page.read_text()
    rows = re.findall(r'<tr data-system="L3c">(.*?)</tr>', page)
    assert rows[0].startswith("<td>L3c</td><td")
    assert "2.00 ± 1.00<small>[" in rows[0], "the mean first, then the single seed"
    assert "BCa, drawn: seeds × enrolled speakers, 119 replicates; 3 seeds, 12 speakers" in page
    assert "The same of seed1 alone" in page
    alone = page[page.index("The same of seed1 alone") :]
    single = read_metrics(folder / "seed1/metrics.json")["L3c"]["sets"]["eval"]["values"]
    assert f'<tr data-system="L3c"><td>L3c</td><td>{100 * single["sasv_eer"]:.2f}</td>' in alone
    assert "<th>letters</th><th>misses of one speaker, at most</th>" in page
    assert page.count('<tr class="paper"><td>(paper)</td><td>1.43</td>') == 1
    assert "Simulated data, scale 0.1." in page
    assert "Figures are those of seed1, one of 3 seeds" in page
    other = write_report(str(folder), paper=False, seed=2).page.read_text()
    assert '<tr class="paper">' not in other
    assert "Figures are those of seed2" in other
    with pytest.raises(InputError, match="no seed 7; there are 1, 2, 3"):
        write_report(str(folder), seed=7)


def test_of_two_seeds_the_page_shows_both(tmp_path: Path) -> None:
    page = write_report(str(write_small_table(tmp_path / "t", (1, 3)))).page.read_text()
    assert "2.00 ± 1.41<small>(1.00, 3.00)</small>" in page


def test_without_fitted_systems_the_rest_is_shown(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "run", ("B1", "L3c"))
    shutil.rmtree(folder / "fitted")
    (folder / "metrics.json").unlink()
    results = read_results(folder)
    page = render_page(results)
    assert "No fitted systems" in page
    assert 'id="whatif"' not in page
    assert 'data-figure="det"' in page
    assert "not named in metrics.json" in page
    assert "<h1>B1, L3c</h1>" in page
    assert f"{100 * embedded(page)['systems'][1]['eer']:.2f}</td>" in page
    with look():
        drawn = {figure.name for figure in describe(Material.of(results)) if draw(figure)}
    assert drawn == FIGURES.keys() - {
        "planes",
        "boundaries",
        "forest",
        "score_matrix",
        "label_budget",
    }


def test_metrics_that_are_not_there_are_those_that_commands_write(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "run", ("B1", "L3c"))
    (folder / "metrics.json").unlink()
    page = render_page(read_results(folder))
    b1, l3c = (re.findall(rf'<tr data-system="{name}">.*?</tr>', page) for name in ("B1", "L3c"))
    assert "no LLR" in "".join(b1), "its actual cost would say nothing"
    assert "no LLR" not in "".join(l3c)


def test_dev_is_shown_where_there_is_no_eval(run: Path) -> None:
    (run / "scores" / "eval.csv").unlink()
    results = read_results(run)
    assert results.split == "dev"
    assert "dev set" in render_page(results)


def test_scores_without_attacks_and_names_are_enough(run: Path) -> None:
    for path in (run / "scores").iterdir():
        change(path, drop=("speaker", "utterance", "attack"))
    page = render_page(read_results(run))
    assert 'data-figure="attacks"' not in page
    assert "SPF-EER of each attack" not in page


def test_systems_of_another_run_are_noticed(run: Path) -> None:
    change(run / "scores" / "eval.csv", pl.col("sasv_L3c") + 1)
    assert "does not give the scores of eval.csv" in " ".join(read_results(run).notes)


def test_missing_things_are_named(run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no folder"):
        read_results(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"scores/eval\.csv"):
        read_results(tmp_path)
    path = run / "scores" / "eval.csv"
    whole = pl.read_csv(path)
    whole.filter(pl.col("label") != "spoof").write_csv(path)
    with pytest.raises(InputError, match="no spoof trial"):
        read_results(run)
    shutil.rmtree(run / "fitted")
    whole.select("asv_score", "cm_score", "label").write_csv(path)
    with pytest.raises(InputError, match="lightning fuse"):
        read_results(run)


def test_an_eval_set_without_labels_leaves_the_report_to_dev(run: Path) -> None:
    change(run / "scores" / "eval.csv", drop=("label", "attack"))
    results = read_results(run)
    assert results.split == "dev"
    assert list(results.sizes) == ["dev"]
    assert "scores/eval.csv has no labels and is left out." in results.notes
    assert "has no labels and is left out" in render_page(results)
    change(run / "scores" / "dev.csv", drop=("label", "attack"))
    with pytest.raises(InputError, match=r"has no labels; fuse with --dev-key"):
        read_results(run)


def test_json_cannot_end_its_script_element() -> None:
    text = as_json({"a": "</script><!--", "b": [float("nan"), float("inf"), 1.5]})
    assert "<" not in text
    assert json.loads(text) == {"a": "</script><!--", "b": [None, None, 1.5]}


def test_markdown_beside_tables_becomes_text() -> None:
    shown = markdown_table("# Title\n\n| a | b |\n|---|:-:|\n| 1 | <b> |\n\n- note & more\n")
    assert "<th>a</th><th>b</th>" in shown
    assert "<td>1</td><td>&lt;b&gt;</td>" in shown
    assert "Title" in shown
    assert "note &amp; more" in shown


def test_the_command_writes_page_and_figures(
    small_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, figures = tmp_path / "deep" / "page.html", tmp_path / "figures"
    main(["report", str(small_folder), "--out", str(page), "--figures", str(figures)])
    assert page.read_text().startswith("<!DOCTYPE html>")
    said = " ".join(capsys.readouterr().out.split())
    assert "somewhere" in said
    none = {"forest", "score_matrix", "label_budget"}  # of seven speakers, two scores, one corpus
    drawn = FIGURES.keys() - none
    wanted = {f"{name}.{suffix}" for name in drawn for suffix in FORMATS}
    wanted |= {"speakers.csv", "operating_points.csv"}
    assert {path.name for path in figures.iterdir()} == wanted
    heads = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml", "csv": b"system"}
    for path in figures.iterdir():
        assert path.read_bytes().startswith(heads[path.suffix[1:]])
    assert "somewhere" in (figures / "det.svg").read_text()


def test_systems_can_be_told_apart_without_colours() -> None:
    found = {styles()[f"system{number}"][1:3] for number in range(36)}
    assert len(found) == 36


@pytest.mark.parametrize("count", [1, 11, 24])
def test_the_legend_of_the_det_figure_covers_nothing(small: Results, count: int) -> None:
    """Whole within the figure, and below every curve."""
    many = {f"S{k}": small.fused["L3c"] for k in range(count)}
    with look():
        (figure,) = describe(Material.of(replace(small, fused=many)), ["det"])
        drawing = draw(figure)
        assert drawing is not None
        drawing.draw_without_rendering()
        for axis in drawing.axes:
            legend = axis.get_legend()
            assert legend is not None
            box = legend.get_window_extent()
            assert box.y0 >= 0
            assert box.y1 < axis.xaxis.get_label().get_window_extent().y0


@pytest.mark.parametrize("count", [1, 2, 5])
def test_nothing_that_is_written_is_cut_off(
    small: Results, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by the edge of a figure of one panel nor by the note in its corner."""
    drawings: list[Any] = []

    def keep(drawing: Any, path: Path, **_: Any) -> None:
        drawings.append(drawing)
        path.touch()

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", keep)
    few = replace(small, fused=dict(list(small.fused.items())[:count]))
    write_figures(tmp_path, describe(Material.of(few)), f"{small.about}, {small.split}", "x")
    for drawing in drawings:
        *names, note = (one.get_window_extent() for one in drawing.texts if one.get_text())
        for box in (*names, *(one.get_window_extent() for one in drawing.legends)):
            assert 0 <= box.x0 < box.x1 <= drawing.bbox.width
            assert not box.overlaps(note)
    assert len(drawings) > 3 * len(FORMATS)


def test_a_new_figure_appears_in_the_page_and_as_files(
    small_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in FIGURES.keys() - {"det", "a_dcf"}:
        monkeypatch.delitem(FIGURES, name)
    monkeypatch.setitem(FIGURES, "new", every_kind)
    written = write_report(str(small_folder), str(tmp_path / "p.html"), str(tmp_path / "f"))
    assert {f"new.{suffix}" for suffix in FORMATS} <= {path.name for path in written.figures}
    page = written.page.read_text()
    figure = embedded(page)["figures"]["new"]
    assert [s["kind"] for s in figure["panels"][0]["series"]][:3] == ["line", "points", "rule"]
    assert 'data-grid="new"' in page
    assert "A &lt;new&gt; figure" in page
    assert "<th>t4</th>" in page


def test_the_t_eer_is_of_pairs_and_ranks_nothing(small: Results) -> None:
    values = {
        "B1": {"t_eer": 0.02, "t_eer_closest": 0.02},
        "B1c": {"t_eer": 0.02, "t_eer_closest": 0.02},
        "L2c": {"t_eer": None, "t_eer_closest": 0.0168},
    }
    metrics = {name: {"sets": {"eval": {"values": one}}} for name, one in values.items()}
    shown = tandem_table(Shown(metrics, "eval", list(values)))
    assert "<tr><td>B1, B1c</td><td>2.00</td>" in shown
    assert "<tr><td>L2c</td><td>none (closest 1.68)</td>" in shown
    assert "best" not in shown
    assert "t-EER" not in metrics_table(Shown(small.metrics, "eval", list(small.fused)))


def _speakers_differ(lower: float, seed: int = 5) -> Sure:
    """Three systems of twelve speakers: A and B alike, C worse by far."""
    rng = np.random.default_rng(seed)
    label = np.tile([0, 1, 2], 480)
    speaker = np.repeat([f"s{k}" for k in range(12)], 120)
    good = rng.normal(size=label.size) + 4 * (label == TrialClass.TARGET)
    fused = {"A": good, "B": good + 0.01 * rng.normal(size=label.size)}
    fused["C"] = good - lower * (label == TrialClass.TARGET)
    scores = Scores(good, good, label, speaker=speaker)
    trials = Trials(from_scores(scores, Path("here")))
    found = {name: FusedScores(good, good, column) for name, column in fused.items()}
    entries = set_entries(found, trials, Origin("somewhere"))
    metrics = {name: {"sets": {"eval": one, "dev": one}} for name, one in entries.items()}
    return sureness(fused, scores, metrics, "eval", 100)


def test_two_seeds_are_compared_on_their_speakers_alone() -> None:
    """Student's t of one degree would tell nothing apart, whatever the difference is."""
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.002, 1000)
    values = {"good": (0.020, 0.022), "bad": (0.20, 0.22)}

    def seed(k: int) -> Draws:
        return {
            name: {"sasv_eer": Resampled(own[k], own[k] + noise, own[k] + noise[:48], 48)}
            for name, own in values.items()
        }

    two = judge([seed(0), seed(1)], ["speaker"], {}, "eval")
    three = judge([seed(0), seed(1), seed(0)], ["speaker"], {}, "eval")
    assert [one.drawn for one in two.comparisons] == [("speaker",)]
    assert all(one.apart for one in two.comparisons)
    assert two.letters["sasv_eer"] == {"good": "a", "bad": "b"}
    assert not two.intervals["good"], "both values are shown"
    assert [one.drawn for one in three.comparisons] == [("seed", "speaker")]
    assert three.of_speakers


def test_marks_are_on_all_members_of_a_set_or_on_none() -> None:
    sure = _speakers_differ(3.0)
    assert sure.on_dev
    assert sorted(sure.marked("sasv_eer")) == ["A", "B"]
    assert sure.apart("sasv_eer") == ["C"]
    ends = sure.intervals["A"]["sasv_eer"]
    assert ends["method"] == "bca"
    assert ends["drawn"] == ["speaker"]
    alike = _speakers_differ(0.0)
    assert len(alike.alike("sasv_eer")) == 3
    assert alike.marked("sasv_eer") == []


def test_where_the_choice_of_dev_is_beaten_nothing_is_marked() -> None:
    sure = replace(_speakers_differ(3.0), reference={"sasv_eer": "C"})
    pairs = [replace(one, first="A", second="C", difference=-0.1) for one in sure.comparisons]
    beaten = replace(sure, comparisons=[replace(one, p_adjusted=0.01) for one in pairs])
    assert beaten.lower("sasv_eer") == ["A"]
    assert beaten.marked("sasv_eer") == []


def test_without_matplotlib_figures_are_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = failure_of(capsys, "report", tmp_path / "nowhere", "--figures", tmp_path / "f")
    assert "lightning-sasv[report]" in said


def test_every_part_of_the_page_is_in_the_package() -> None:
    folder = Path(page_module.__file__).parent / "page"
    parts = {f"{name}.js" for name in page_module.SCRIPTS}
    parts |= {"template.html", "style.css", "figures.json"}
    assert {p.name for p in folder.iterdir()} == parts
    unsafe = r"</script|\b(eval|fetch|XMLHttpRequest|importScripts|innerHTML)\b"
    for path in folder.glob("*.js"):
        assert not re.search(unsafe, path.read_text())


@pytest.mark.slow
def test_golden_values_are_on_the_page(real_page: Path, shared: Path) -> None:
    golden = json.loads((shared / "golden" / "systems.json").read_text())
    page = real_page.read_text()
    data = embedded(page)
    eers = shown_eers(data)
    for name, wanted in golden["systems"].items():
        for task in ("sasv", "sv", "spf"):
            assert eers[task][name] == pytest.approx(wanted["eval"][f"{task}_eer"], abs=1e-6)
        assert f"● minimum {wanted['eval']['min_adcf_default']:.4f}" in caption_of(data, name)
        row = re.search(rf'<tr data-system="{name}">(.*?)</tr>', page)
        assert row
        assert f"{wanted['eval']['sasv_eer']:.2f}" in row.group(1)
        assert f"{wanted['eval']['cllr_min']:.3f}" in row.group(1)
    assert "corpus: SASV 2022" in page


def test_some_systems_are_shown(tmp_path: Path) -> None:
    run = write_folder(tmp_path / "run", ("B1", "L3c"))
    assert len(read_results(run).fused) == 2
    results, page, _ = write_report(str(run), systems="L3c")
    assert list(results.fused) == list(results.metrics) == ["L3c"]
    assert [one["name"] for one in embedded(page.read_text())["systems"]] == ["L3c"]
    with pytest.raises(InputError, match="no system 'none'; there are"):
        write_report(str(run), systems="none")


def test_results_of_the_twin_state_its_scale(capsys: pytest.CaptureFixture[str]) -> None:
    of = unrecorded(simulated=True, scale=0.1)
    print_results({"A": {"sets": {"eval": {"values": {"sasv_eer": 0.1}, "of": of}}}}, "twin")
    assert "twin; simulated, scale 0.1" in " ".join(capsys.readouterr().out.split())
