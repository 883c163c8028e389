"""How pages look in a real browser: names as text, colour schemes, widths, paper, many scores."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest

from lightning_sasv.cli import main
from lightning_sasv.report import write_report
from lightning_sasv.report.figures import FIGURES
from tests.evaluation.test_many_scores import frame
from tests.report.conftest import every_kind, write_folder
from tests.report.driving import choose, open_page, requests, settle

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def small_page(small_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("page") / "report.html"
    return write_report(str(small_folder), str(out)).page


def test_names_from_files_are_text(browser: Any, tmp_path: Path) -> None:
    evil = '<img src=x onerror="window.hacked=1"><script>window.hacked=1<'
    folder = write_folder(
        tmp_path / "run",
        ("L3c",),
        corpus=f"<b>{evil}",
        rename=lambda name: evil + name,
        attacks=(evil, "A02", "</script><script>window.hacked=1</script>"),
    )
    (folder / "table.md").write_text(f"# {evil}\n\n| {evil} | b |\n|---|---|\n| 1 | 2 |\n")
    page = write_report(str(folder), str(tmp_path / "page.html")).page
    open_page(browser, page)
    assert browser.execute_script("return window.hacked") is None
    assert not browser.find_elements("css selector", "img")
    assert evil + "L3c" in browser.find_element("css selector", "tr[data-system] td").text
    assert browser.get_log("browser") == []
    assert not [u for u in requests(browser) if not u.startswith(("file:", "data:", "chrome"))]


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two CSS colours (WCAG 2.1)."""

    def luminance(colour: str) -> float:
        channels = [int(v) / 255 for v in re.findall(r"\d+", colour)[:3]]
        linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


COLOURS = """const probe = document.body.appendChild(document.createElement("i"));
const read = (name) => {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
};
return Object.fromEntries(arguments[0].map((name) => [name, read(name)]));"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_schemes_have_contrast(browser: Any, small_page: Path, scheme: str) -> None:
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    open_page(browser, small_page)
    names = ["paper", "card", "ink", "soft", "target", "nontarget", "spoof", "accent"]
    names += [f"s{k}" for k in range(8)]
    found = browser.execute_script(COLOURS, names)
    body = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert body == found["paper"]
    assert (contrast(body, "0, 0, 0") < 2) == (scheme == "dark")
    for background in ("paper", "card"):
        assert contrast(found["ink"], found[background]) > 10
        assert contrast(found["soft"], found[background]) > 4.5
        for name in names[4:]:
            assert contrast(found[name], found[background]) > 3, name


def test_classes_differ_in_more_than_colour(browser: Any, small_page: Path) -> None:
    open_page(browser, small_page)
    shapes = browser.execute_script(
        "return [...document.querySelectorAll('#planes figure:first-child path.marks')]"
        ".map(p => p.getAttribute('class'))"
    )
    kinds = {re.search(r"c-(\w+)", s).group(1): s.split()[1] for s in shapes}  # type: ignore[union-attr]
    assert kinds.keys() == {"target", "nontarget", "spoof"}
    assert len(set(kinds.values())) == 3
    dashes = browser.execute_script(
        "return [...document.querySelectorAll('#distributions .plot-host path.line')]"
        ".map(p => p.getAttribute('stroke-dasharray'))"
    )
    assert len(set(dashes)) == 3


@pytest.mark.parametrize("width", [360, 768, 1600])
def test_nothing_sticks_out_at_any_width(browser: Any, small_page: Path, width: int) -> None:
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    open_page(browser, small_page)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(TEXT_OVERLAPS) == []


TEXT_OVERLAPS = """const found = [];
for (const svg of document.querySelectorAll("svg.plot")) {
  const texts = [...svg.querySelectorAll("text.tick, text.axis")]
    .map((t) => [t, t.getBoundingClientRect()]);
  texts.forEach(([a, p], i) => texts.slice(i + 1).forEach(([b, q]) => {
    const wide = Math.min(p.right, q.right) - Math.max(p.left, q.left);
    const high = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
    if (wide > 1 && high > 3) found.push([svg.ariaLabel, a.textContent, b.textContent]);
  }));
}
return found;"""


def test_text_of_figures_stays_within_them_on_paper(browser: Any, small_page: Path) -> None:
    """Axis labels neither leave the drawing nor meet the heading above it."""
    open_page(browser, small_page)
    browser.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert browser.execute_script(TEXT_OUTSIDE) == []
    assert browser.execute_script(TEXT_OVERLAPS) == []


TEXT_OUTSIDE = """const found = [];
for (const svg of document.querySelectorAll("svg.plot")) {
  const frame = svg.getBoundingClientRect();
  for (const text of svg.querySelectorAll("text.axis")) {
    const box = text.getBoundingClientRect();
    if (box.top < frame.top - 1 || box.bottom > frame.bottom + 1 || box.left < frame.left - 1
        || box.right > frame.right + 1) found.push([svg.ariaLabel, text.textContent]);
  }
}
return found;"""


def test_a_figure_that_the_page_has_never_heard_of_is_drawn(
    browser: Any, small_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FIGURES, "new", every_kind)
    open_page(browser, write_report(str(small_folder), str(tmp_path / "page.html")).page)
    assert browser.get_log("browser") == []
    section = browser.find_element("css selector", "section#new")
    assert "What it shows." in section.text
    assert "<b>rising" in section.text
    kinds = ("path.line.system35", "path.marks.diamond", "line.rule", "path.area", "path.ridge")
    for kind in kinds:
        assert section.find_elements("css selector", f"svg.plot {kind}"), kind


def test_the_page_prints(browser: Any, small_page: Path) -> None:
    open_page(browser, small_page)
    settings = {"printBackground": True, "preferCSSPageSize": True}
    pdf = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", settings)["data"])
    assert pdf.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) >= 4
    assert browser.execute_script("return document.querySelectorAll('svg.plot').length") > 15
    assert browser.get_log("browser") == []


def test_more_than_two_scores_are_drawn_without_an_error(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for split, seed in (("dev", 0), ("eval", 1)):
        frame(seed).write_csv(f"{split}.csv")
    words = ["--systems", "Q3,L3,B1", "--worth", "--replicates", "0", "--out", "out", "--quiet"]
    main(["fuse", "--dev", "dev.csv", "--eval", "eval.csv", *words])
    main(["report", "out", "--replicates", "0", "--quiet"])
    open_page(browser, tmp_path / "out/report.html")
    for name in ("L3", "B1", "Q3"):
        choose(browser, "system", name)
        settle(browser)
    assert [one for one in browser.get_log("browser") if one["level"] == "SEVERE"] == []
    matrix = browser.find_elements("css selector", '[data-grid="score_matrix"] figure.panel')
    assert len(matrix) == 6
    text = browser.find_element("tag name", "main").text
    assert "What each score is worth to Q3" in text
    assert "NaN" not in text
