"""The page of the real scores in a real browser: what it asks for, and whether it is right."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightning_sasv.decisions import (
    PRESETS,
    accept,
    compare_policies,
    expected_cost,
    nonlinear_score,
)
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.functional import a_dcf, sasv_eers
from lightning_sasv.report import write_report
from lightning_sasv.results import Results
from lightning_sasv.trials import FusedScores, TrialClass
from tests.report.conftest import write_small_table
from tests.report.driving import choose, model_of, numbers, open_page, press, requests, settle

pytestmark = pytest.mark.slow


def check_readout(browser: Any, fused: FusedScores, labels: np.ndarray) -> None:
    """Every number of the what-if panel against the package's own, on all trials in float64."""
    costs, shown = model_of(browser), numbers(browser)
    expected = compare_policies(fused, labels, costs)
    risks = {policy: np.asarray(expected_cost(fused, costs, policy)) for policy in expected}
    priors = {
        TrialClass.TARGET: costs.p_target,
        TrialClass.NONTARGET: costs.p_nontarget,
        TrialClass.SPOOF: costs.p_spoof,
    }
    for policy, value in expected.items():
        found = value.empirical
        for key, rate in (
            ("miss", found.p_miss),
            ("nontarget", found.p_fa_nontarget),
            ("spoof", found.p_fa_spoof),
            ("cost", found.cost),
            ("normalised", found.normalised),
        ):
            assert shown[f"{policy}-{key}"] == pytest.approx(float(rate), rel=1e-9), key
        weighted = sum(p * risks[policy][labels == code].mean() for code, p in priors.items())
        assert shown[f"{policy}-expected"] == pytest.approx(weighted, rel=2e-6)
        assert shown[f"{policy}-mean"] == pytest.approx(float(value.expected), rel=2e-6)
    best = expected["bayes"].empirical
    assert shown["out-miss"] == pytest.approx(float(best.p_miss), rel=1e-9)
    assert shown["out-normalised"] == pytest.approx(float(best.normalised), rel=1e-9)
    assert shown["out-rho"] == pytest.approx(costs.spoof_share, rel=1e-9)
    assert shown["out-threshold"] == pytest.approx(-costs.log_beta, rel=1e-9, abs=1e-12)
    rho = costs.spoof_share
    score = np.asarray(nonlinear_score(fused.asv_llr, fused.cm_llr, 1 - rho, rho))
    assert shown["out-min"] == pytest.approx(a_dcf(score, labels, costs).min, rel=1e-9)
    eers = sasv_eers(score, labels)
    for key, rate in (("sasv_eer", eers.sasv), ("sv_eer", eers.sv), ("spf_eer", eers.spf)):
        assert shown[f"out-{key}"] == pytest.approx(rate, rel=1e-9)


def test_the_page_asks_for_nothing_and_complains_of_nothing(browser: Any, real_page: Path) -> None:
    """And is small and drawn whole; benchmarks/bench_scores.py measures how long that takes."""
    assert real_page.stat().st_size < 5e6
    open_page(browser, real_page)
    urls = requests(browser)
    assert real_page.as_uri() in urls
    foreign = [u for u in urls if u != real_page.as_uri() and not u.startswith(("data:", "chrome"))]
    assert not foreign
    assert browser.get_log("browser") == []
    undrawn = browser.execute_script(
        "return [...document.querySelectorAll('.plot-host')].filter(h => !h.querySelector('svg'))"
        ".map(h => h.id)"
    )
    assert undrawn == []


CUT = """return [...document.querySelectorAll(".scroll")]
  .filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent.slice(0, 60))"""


def test_no_table_is_cut_off_and_marks_are_those_of_sets(browser: Any, real_page: Path) -> None:
    size = {"width": 1400, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    open_page(browser, real_page)
    assert browser.execute_script(CUT) == []
    table = browser.find_element("css selector", "#results table")
    heads = [one.text for one in table.find_elements("css selector", "th")]
    assert not any("t-EER" in head for head in heads)
    assert all("costs a-dcf1" in head for head in heads if "a-DCF" in head)
    for column in range(len(heads)):
        marked = table.find_elements("css selector", f"td.best:nth-child({column + 1})")
        assert len(marked) != 1 or heads[column].startswith("Cllr"), heads[column]
    first = table.find_element("css selector", "tr[data-system='M3'] td:nth-child(2)")
    assert re.match(r"1\.36\s*\[0\.\d\d, [23]\.\d\d\]", first.text)
    assert "BCa" in first.get_attribute("title")


def test_a_moved_slider_gives_the_right_numbers(
    browser: Any, real_page: Path, real: Results
) -> None:
    from selenium.webdriver.common.keys import Keys

    fused = real.systems["L3c"](real.scores.asv, real.scores.cm)
    open_page(browser, real_page)
    choose(browser, "system", "L3c")
    assert model_of(browser) == PRESETS["a-dcf1"]
    check_readout(browser, fused, real.scores.label)
    before = numbers(browser)
    moves = (
        ("slide-rho", Keys.ARROW_RIGHT, 30),
        ("slide-p_target", Keys.ARROW_LEFT, 40),
        ("slide-c_fa_spoof", Keys.ARROW_RIGHT, 25),
        ("slide-c_miss", Keys.ARROW_RIGHT, 60),
        ("slide-p_spoof", Keys.ARROW_RIGHT, 12),
        ("slide-rho", Keys.HOME, 1),
        ("slide-rho", Keys.END, 1),
    )
    for slider, key, times in moves:
        earlier = model_of(browser)
        press(browser, slider, key, times)
        assert model_of(browser) != earlier
        check_readout(browser, fused, real.scores.label)
    after = numbers(browser)
    assert all(after[key] != before[key] for key in ("out-miss", "out-expected", "bayes-cost"))
    assert after["value-rho"] == 1
    assert model_of(browser).p_nontarget == 0
    assert browser.get_log("browser") == []


def test_every_pair_and_preset_is_right(browser: Any, real_page: Path, real: Results) -> None:
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select

    open_page(browser, real_page)
    options = [o.text for o in Select(browser.find_element("id", "whatif-pair")).options]
    assert sum(len(text.split(" (")[0].split(", ")) for text in options) == len(real.systems)
    for text, preset in zip(options, itertools.cycle(PRESETS), strict=False):
        choose(browser, "whatif-pair", text)
        browser.find_element("css selector", f'[data-preset="{preset}"]').send_keys(Keys.ENTER)
        settle(browser)
        assert model_of(browser) == PRESETS[preset]
        system = real.systems[text.split(" (")[0].split(", ")[0]]
        check_readout(browser, system(real.scores.asv, real.scores.cm), real.scores.label)
        warning = browser.find_element("id", "whatif-warning")
        assert warning.is_displayed() == ("raw scores" in text)


def test_priors_stay_a_distribution_and_keep_their_ratios(browser: Any, real_page: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    open_page(browser, real_page)
    browser.find_element("css selector", '[data-preset="asvspoof5"]').send_keys(Keys.ENTER)
    settle(browser)
    ratios = {
        "slide-rho": lambda m: m.p_target,
        "slide-p_target": lambda m: m.p_spoof / m.p_nontarget,
        "slide-p_nontarget": lambda m: m.p_target / m.p_spoof,
        "slide-p_spoof": lambda m: m.p_target / m.p_nontarget,
    }
    for slider, kept in ratios.items():
        before = model_of(browser)  # a CostModel, whose priors add up to one
        press(browser, slider, Keys.ARROW_LEFT, 15)
        after = model_of(browser)
        assert after != before
        assert kept(after) == pytest.approx(kept(before), rel=1e-9)
        rho = after.p_spoof / (after.p_spoof + after.p_nontarget)
        assert numbers(browser)["value-rho"] == pytest.approx(rho, rel=1e-9)
        costs = ("c_miss", "c_fa_nontarget", "c_fa_spoof")
        assert [getattr(after, c) for c in costs] == [getattr(before, c) for c in costs]


def test_typed_values_are_taken_and_wrong_ones_refused(browser: Any, real_page: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    open_page(browser, real_page)
    box = browser.find_element("id", "value-c_fa_spoof")
    for text, wanted in (("35", 35.0), ("-3", 35.0), ("1e9", 35.0), ("0", 0.0)):
        box.send_keys(Keys.CONTROL, "a")
        box.send_keys(text, Keys.TAB)
        settle(browser)
        assert model_of(browser).c_fa_spoof == wanted
    assert browser.get_log("browser") == []


def path_points(browser: Any, selector: str) -> list[tuple[float, float]]:
    d = browser.find_element("css selector", selector).get_attribute("d")
    return [(float(x), float(y)) for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", d)]


def axis_map(browser: Any, host: str) -> tuple[np.ndarray, np.ndarray]:
    """Straight lines from pixels to values, read off the tick labels: (slope, constant) of x, y."""
    ticks = browser.execute_script(
        "return [...document.querySelectorAll(`#${arguments[0]} text.tick`)].map(t => "
        "[t.getAttribute('text-anchor'), +t.getAttribute('x'), +t.getAttribute('y'), "
        "t.textContent.replace('−', '-')])",
        host,
    )
    x = [(px, float(text)) for anchor, px, _, text in ticks if anchor == "middle"]
    y = [(py - 4, float(text)) for anchor, _, py, text in ticks if anchor == "end"]
    return tuple(np.polyfit(*np.array(pairs).T, 1) for pairs in (x, y))  # type: ignore[return-value]


def near_boundary(browser: Any, host: str, pixels: float = 1.5) -> tuple[np.ndarray, np.ndarray]:
    """Points so many pixels around the Bayes boundary, in the units of the axes: (9, n)."""
    (ax, bx), (ay, by) = axis_map(browser, host)
    frame = browser.find_element("css selector", f"#{host} rect.frame")
    left, top, width, height = (
        float(frame.get_attribute(key)) for key in ("x", "y", "width", "height")
    )
    points = np.array(path_points(browser, f"#{host} path.line.bayes"))
    inside = (points[:, 0] >= left) & (points[:, 0] <= left + width)
    inside &= (points[:, 1] >= top) & (points[:, 1] <= top + height)
    x, y = points[inside].T
    assert len(x) > 20
    shifts = np.array(list(itertools.product((-pixels, 0, pixels), repeat=2)))
    return ax * (x + shifts[:, :1]) + bx, ay * (y + shifts[:, 1:]) + by


def test_the_boundary_moves_to_where_it_belongs(
    browser: Any, real_page: Path, real: Results
) -> None:
    """Within a pixel and a half of every drawn point the decision changes."""
    from selenium.webdriver.common.keys import Keys

    system = real.systems["L3"]
    open_page(browser, real_page)
    choose(browser, "system", "L3")
    for slider, key, times in (("slide-p_target", Keys.LEFT, 60), ("slide-rho", Keys.RIGHT, 50)):
        press(browser, slider, key, times)
        costs = model_of(browser)
        a, c = near_boundary(browser, "whatif-llr")
        llrs = FusedScores(a, c, c)
        asv, cm = near_boundary(browser, "whatif-raw")
        fused = system(asv.ravel(), cm.ravel())
        for pair, shape in ((llrs, a.shape), (fused, asv.shape)):
            accepted = accept(pair, costs).reshape(shape)
            assert bool(accepted.any(axis=0).all())
            assert not bool(accepted.all(axis=0).any())


def test_choosing_a_system_redraws_every_figure(browser: Any, real_page: Path) -> None:
    open_page(browser, real_page)
    hosts = "[data-figure]"
    before = [h.get_attribute("innerHTML") for h in browser.find_elements("css selector", hosts)]
    assert len(before) == 13
    choose(browser, "system", "B1v2")
    browser.execute_async_script("setTimeout(arguments[0], 800)")
    for host, old in zip(browser.find_elements("css selector", hosts), before, strict=True):
        after = host.get_attribute("innerHTML")
        assert "<svg" in after
        assert after != old, host.get_attribute("id")
    assert "B1v2" in browser.find_element("css selector", "#calibration h2").text
    for chip in browser.find_elements("css selector", ".chip span"):
        browser.execute_script("arguments[0].click()", chip)
    browser.execute_async_script("setTimeout(arguments[0], 800)")
    assert browser.get_log("browser") == []


def test_costs_over_operating_points_follow_the_slider(browser: Any, real_page: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    open_page(browser, real_page)
    shown = browser.find_element("css selector", ".range output")
    assert shown.text == "ρ̃ = 2/3"
    figure = browser.find_element("id", "operating_points")
    before = figure.get_attribute("innerHTML")
    press(browser, "choose-rho", Keys.RIGHT, 2)
    browser.execute_async_script("setTimeout(arguments[0], 300)")
    assert shown.text == "ρ̃ = 0.8"
    assert figure.get_attribute("innerHTML") != before


def test_the_page_of_a_table_lets_choose_a_seed(browser: Any, tmp_path: Path) -> None:
    folder = write_small_table(tmp_path / "table")
    write_report(str(folder), replicates=0, seed="all")
    open_page(browser, folder / "report.html")
    for seed, place in (("2", "seed2/"), ("3", "seed3/"), ("1", "")):
        choose(browser, "seed", seed)
        assert browser.current_url == (folder / f"{place}report.html").as_uri()
        said = browser.find_element("tag name", "header").text
        assert f"those of seed{seed}, one of 3 seeds" in said
    assert browser.get_log("browser") == []
    with pytest.raises(InputError, match="--seed all writes a page beside"):
        write_report(str(folder), out=str(tmp_path / "x.html"), seed="all")
