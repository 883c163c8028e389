"""The docs site: it builds, nothing in it is broken, and what would be is found."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from lightning_sasv.cli import COMMANDS
from lightning_sasv.data.profiles import profiles
from lightning_sasv.decisions import PRESETS
from lightning_sasv.fusion import KNOWN
from lightning_sasv.metrics.registry import METRICS
from lightning_sasv.scores import LAYOUTS
from tests.site.conftest import run

pytestmark = pytest.mark.slow

PAGES = ("", "paper/", "reference/layouts/", "api/decisions/", "recipes/threshold/")
EQUATION = re.compile(r"\$\$[^$]+\$\$\n\n(.*?)(?=\n\n)", re.DOTALL)
API = dict.fromkeys(("metrics", "fusion", "decisions", "deploy", "evaluation", "scores"))
API |= dict.fromkeys(("data", "models", "frontends"))
API |= {"functional": "metrics.functional"}
"""Pages of packages, and what these are called where that is another name."""


@pytest.mark.parametrize("page", PAGES)
def test_pages_open_without_complaints_and_ask_nobody_else(
    browser: Any, address: str, page: str
) -> None:
    browser.get(f"{address}/{page}")
    assert browser.find_element("css selector", "h1").text
    asked = [json.loads(one["message"])["message"] for one in browser.get_log("performance")]
    urls = [one["params"]["request"]["url"] for one in asked if one["method"].endswith("BeSent")]
    assert urls
    assert all(url.startswith((address, "data:", "blob:")) for url in urls), urls
    assert [one["message"] for one in browser.get_log("browser")] == []
    for width in (400, 1280):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        heights = browser.execute_script(
            "return [...document.querySelectorAll('.equation')].map(e => e.clientHeight)"
        )
        assert all(height > 20 for height in heights)
        assert bool(heights) == (page == "paper/")


def test_the_picture_of_the_report_is_small_and_shown(site: Path) -> None:
    assert "images/report.png" in (site / "index.html").read_text()
    assert (site / "images/report.png").stat().st_size < 150_000


def test_tables_have_every_entry_of_their_registries(site: Path) -> None:
    wanted = {
        "metrics": METRICS,
        "layouts": LAYOUTS,
        "systems": KNOWN,
        "costs": PRESETS,
        "corpora": profiles(),
        "options": [f"lightning {name}" for name in COMMANDS],
    }
    for page, names in wanted.items():
        text = (site / "reference" / page / "index.html").read_text()
        assert [name for name in names if f">{name}<" not in text] == []


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    for page, module in API.items():
        text = (site / "api" / page / "index.html").read_text()
        anchors = {
            one.rpartition(".")[2] for one in re.findall(r'id="(lightning_sasv[^"]*)"', text)
        }
        found = importlib.import_module(f"lightning_sasv.{module or page}")
        named = {name for name in found.__all__ if callable(getattr(found, name))}
        assert named - anchors <= {"load_bundle"}, page  # another name of load


def test_every_equation_of_the_paper_is_there_with_its_function(
    repository: Path, shared: Path
) -> None:
    page = (repository / "docs" / "paper.md").read_text()
    labels = re.findall(r"\\label\{(eq:\w+)\}", (shared / "paper.tex").read_text())
    assert len(labels) > 20
    assert [label for label in labels if f"`{label}`" not in page] == []
    explained = EQUATION.findall(page)
    assert len(explained) == page.count("$$") / 2 > 20
    assert all(re.match(r"\*Computed by\*\s\[.*?\]\(api/\w+\.md#", text) for text in explained)


@pytest.fixture(scope="module")
def project(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of a few pages, which the builder takes as they are."""
    folder = tmp_path_factory.mktemp("copy")
    config = yaml.safe_load((site.parent / "mkdocs.yml").read_text())
    config |= {"nav": ["index.md", "api.md"], "docs_dir": "pages"}
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(config))
    for name in ("docs", "lightning_sasv"):
        (folder / name).symlink_to(site.parent / name)
    (folder / "pages/stylesheets").mkdir(parents=True)
    (folder / "pages/stylesheets/pages.css").write_text("")
    (folder / "pages/api.md").write_text("# Costs\n\n::: lightning_sasv.decisions.costs\n")
    return folder


def test_mkdocs_builds_the_same_file(site: Path, tmp_path: Path) -> None:
    """Material for MkDocs is its theme, which is not installed here; the rest is the same."""
    config = yaml.safe_load((site.parent / "mkdocs.yml").read_text())
    assert config["theme"]["name"] == "material"
    config |= {"theme": "mkdocs", "docs_dir": str(site.parent / config["docs_dir"])}
    config["site_dir"] = str(tmp_path / "site")
    (site.parent / "mkdocs-plain.yml").write_text(yaml.safe_dump(config))
    mkdocs = str(Path(sys.executable).with_name("mkdocs"))
    run([mkdocs, "build", "--strict", "--quiet", "-f", "mkdocs-plain.yml"], site.parent)
    built, plain = (
        {p.relative_to(s) for p in s.rglob("*.html")} for s in (site, tmp_path / "site")
    )
    assert built == {path for path in plain if path.name != "search.html"}


FINE = {"[fine](api.md#lightning_sasv.decisions.costs.CostModel)": "No issues found"}
BROKEN = {
    "[page](nowhere.md)": "page does not exist",
    "[anchor](api.md#nowhere)": "anchor does not exist",
    "[name][lightning_sasv.decisions.nobody]": "unresolved autoref",
}
UNKNOWN = {"::: lightning_sasv.decisions.nobody": "nobody could not be found"}


@pytest.mark.parametrize("planted", [FINE, BROKEN, UNKNOWN])
def test_planted_faults_end_the_build(project: Path, planted: dict[str, str]) -> None:
    (project / "pages/index.md").write_text("\n\n".join(["# Page", *planted, ""]))
    zensical = str(Path(sys.executable).with_name("zensical"))
    told = run([zensical, "build", "--clean", "--strict"], project, code=planted is not FINE)
    assert all(said in told for said in planted.values()), told


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ('<a href="other.html#here">', None),
        ('<a href="nowhere.html">', "page.html: nowhere.html: nothing is there"),
        ('<a href="other.html#nowhere">', "no anchor #nowhere"),
        ('<a href="../outside.html">', "nothing is there"),
        ('<img src="nowhere.png">', "page.html: nowhere.png: nothing is there"),
        ('<script src="https://cdn.example/x.js"></script>', "loads https://cdn.example/x.js"),
        ('<link rel="stylesheet" href="//fonts.example/x.css">', "from the network"),
    ],
)
def test_what_the_builder_does_not_see_is_found(
    tools: Any, tmp_path: Path, planted: str, said: str | None
) -> None:
    (tmp_path / "page.html").write_text(planted)
    (tmp_path / "other.html").write_text('<h1 id="here">')
    found = list(tools.links.problems(tmp_path))
    assert len(found) == bool(said)
    assert said is None or said in found[0]


def test_styles_that_load_from_afar_are_found(tools: Any, tmp_path: Path) -> None:
    (tmp_path / "x.css").write_text("@font-face { src: url('https://fonts.example/x.woff2') }")
    assert list(tools.links.problems(tmp_path)) == ["x.css: loads something from the network"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[a](corpora.md#x)", "[a](../corpora.md#x)"),
        ("[safe](../SECURITY.md)", "[safe](../security.md)"),
        ("![p](images/report.png)", "![p](../images/report.png)"),
        ("[experiments/scale](../experiments/scale/README.md)", "`experiments/scale/README.md`"),
        ("[code](../lightning_sasv/cli.py)", "code (`lightning_sasv/cli.py`)"),
        ("`[a](nowhere.md)`", "`[a](nowhere.md)`"),
        ("```\n[a](nowhere.md)\n```", "```\n[a](nowhere.md)\n```"),
        ("[out](https://example.org/nowhere)", "[out](https://example.org/nowhere)"),
    ],
)
def test_links_lead_to_pages_or_become_paths(tools: Any, text: str, wanted: str) -> None:
    generate = tools.generate
    where = {path.resolve(): name for name, path in generate.pages().items()}
    source = _Text(generate.DOCS / "planted.md", text)
    assert generate.page("below/planted.md", source, where) == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a](nowhere.md)", "a link to nowhere.md, which is not there"),
        ("<!-- table: nothing -->", "no table nothing"),
        ("$\\nothing$", "nothing is not known"),
        ("$$\\frac{1}{2$$", "'}' is missing"),
    ],
)
def test_pages_that_would_be_broken_are_refused(tools: Any, text: str, said: str) -> None:
    generate = tools.generate
    with pytest.raises(generate.PageError, match=re.escape(said)):
        generate.page("planted.md", _Text(generate.DOCS / "planted.md", text), {})


def test_pages_and_navigation_agree(tools: Any) -> None:
    names = [*tools.generate.pages(), *tools.generate.rendered()]
    with pytest.raises(tools.generate.PageError, match=r"new\.md is not in the navigation"):
        tools.generate.check_navigation([*names, "new.md"])
    with pytest.raises(tools.generate.PageError, match=r"of the navigation is not there"):
        tools.generate.check_navigation(names[1:])


class _Text:
    """A page that is not on disk."""

    def __init__(self, path: Path, text: str) -> None:
        self.parent, self.text, self.name = path.parent, text, path

    def read_text(self, _: str) -> str:
        return self.text

    def __str__(self) -> str:
        return str(self.name)


@pytest.mark.parametrize(
    ("latex", "wanted"),
    [
        ("x_1^2", "<msubsup><mi>x</mi><mn>1</mn><mn>2</mn></msubsup>"),
        (r"\frac{a}{2}", "<mfrac><mrow><mi>a</mi></mrow><mrow><mn>2</mn></mrow></mfrac>"),
        (r"\text{fa, non}", "<mtext>fa, non</mtext>"),
        (r"a - b", "<mi>a</mi><mo>−</mo><mi>b</mi>"),
        (r"\log x", '<mi>log</mi><mspace width="0.17em"></mspace><mi>x</mi>'),
        (
            r"\log(x)",
            '<mi>log</mi><mo stretchy="false">(</mo><mi>x</mi><mo stretchy="false">)</mo>',
        ),
        ("p(x|y) < 1", '<mo stretchy="false">&#124;</mo>'),
        ("a < b", "<mo>&lt;</mo>"),
        (r"\mathbf{\pi}", '<mi style="font-weight:bold">π</mi>'),
        (r"\sum_{i=1}^n", "<munderover><mo>∑</mo>"),
    ],
)
def test_equations(tools: Any, latex: str, wanted: str) -> None:
    assert wanted in tools.equations.mathml(latex)


def test_only_equations_are_taken_for_equations(tools: Any) -> None:
    text = "costs $5 and $6; `$x$` in code; $HOME\n\n```sh\necho $a $b\n```\n"
    assert tools.equations.convert(text) == text
    assert tools.equations.convert("so $x$.") == f"so <span>{tools.equations.mathml('x')}</span>."
