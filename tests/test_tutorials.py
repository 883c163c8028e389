"""The tutorials run from beginning to end, become pages, and show what theory says."""

from __future__ import annotations

import importlib.util
import io
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from lightning_sasv.decisions.simulation import COVARIANCE, MEANS
from lightning_sasv.trials import TrialClass
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.slow

FOLDER = REPOSITORY / "docs/tutorials"
FIRST, SECOND, THIRD = "1_paper_in_ten_minutes", "2_train_and_compare", "3_fuse_and_decide"
FIGURES = {FIRST: 4, SECOND: 4, THIRD: 3}


def _renderer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("render_tutorials", FOLDER / "render.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RENDER = _renderer()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The pages of all tutorials, and what their scripts defined."""
    folder = tmp_path_factory.mktemp("site") / "tutorials"
    return folder, {name: one.names for name, one in RENDER.write(folder).items()}


def test_every_script_is_a_page_with_its_figures(site: tuple[Path, dict[str, Any]]) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    folder, names = site
    assert list(names) == [path.stem for path in RENDER.SCRIPTS] == list(FIGURES)
    for name, count in FIGURES.items():
        page = (folder / f"{name}.md").read_text()
        assert page.startswith("# ")
        assert page.count("```") % 2 == 0
        shown = re.findall(r"!\[(.+?)\]\((.+?)\)", page)
        assert len(shown) == count
        for title, file in shown:
            assert len(title) > 10, "every figure has a title"
            image = plt.imread(io.BytesIO((folder / file).read_bytes()))
            assert image.std() > 0.02, f"{file} is blank"
        for target in re.findall(r"(?<!!)\[[^\]]+\]\(([\w./]+)\)", page):
            assert (folder / target).is_file() or (FOLDER / target).is_file(), f"{name}: {target}"
        assert "Traceback" not in page
        assert "/tmp" not in page, "a page names a folder of this machine"
    index = (FOLDER / "index.md").read_text()
    assert all(f"({name}.py)" in index for name in FIGURES)


def test_the_paper_in_ten_minutes(site: tuple[Path, dict[str, Any]]) -> None:
    names = site[1][FIRST]
    eers = {name: eer for name, (eer, _) in names["found"].items()}
    assert eers["B1"] > 1.5 * eers["B1c"] > 1.5 * eers["L2"]
    assert eers["L2"] > 1.3 * eers["L3"]
    assert eers["L3"] == pytest.approx(eers["true"], abs=0.004)
    assert names["gap"] < 1e-9, "prior ⊕ likelihood = posterior"
    assert names["verdicts"] == {"linear": True, "bayes": False, "utility": False}
    costs = {name: float(one.cost) for name, one in names["outcome"].items()}
    best, wrong_prior, linear = (
        costs[name]
        for name in ("optimal, flat prior", "optimal, mismatched prior", "linear, flat prior")
    )
    assert best < wrong_prior < linear
    optimal, summed = (
        names["accept"](names["composition"], "equal", policy) for policy in ("bayes", "linear")
    )
    assert not (optimal & ~summed).any(), "the linear policy accepts whatever the optimal one does"
    assert (summed & ~optimal).any()


def test_rates_of_the_linear_policy_are_those_of_the_gaussians(
    site: tuple[Path, dict[str, Any]],
) -> None:
    """The sum of the true LLRs is a linear map of the scores, hence normal in each class."""
    outcome = site[1][FIRST]["outcome"]["linear, flat prior"]
    mean, inverse = np.array(MEANS), np.linalg.inv(np.array(COVARIANCE))
    spoof, target, nontarget = mean
    weight = inverse @ (2 * target - nontarget - spoof)
    constant = -target @ inverse @ target + (nontarget @ inverse @ nontarget) / 2
    constant += (spoof @ inverse @ spoof) / 2
    spread = np.sqrt(weight @ np.array(COVARIANCE) @ weight)
    accepted = norm.cdf((mean @ weight + constant) / spread)
    found = {
        TrialClass.SPOOF: outcome.p_fa_spoof,
        TrialClass.TARGET: 1 - outcome.p_miss,
        TrialClass.NONTARGET: outcome.p_fa_nontarget,
    }
    for code, rate in found.items():
        sure = 4 * np.sqrt(accepted[code] * (1 - accepted[code]) / 6_600)
        assert rate == pytest.approx(accepted[code], abs=sure)


def test_train_and_compare(site: tuple[Path, dict[str, Any]]) -> None:
    names = site[1][SECOND]
    assert names["of"]["simulated"] is True
    assert names["of"]["speakers"] == 48
    for one in names["eers"].values():
        assert all(
            hull <= value + 1e-9 for hull, value in zip(names["eers"]["rocch"], one, strict=True)
        )
    widths = {key: high - low for key, (low, high) in names["intervals"].items()}
    assert widths["trial", "four times"] < 0.75 * widths["trial", "once"]
    assert widths["speaker", "four times"] == pytest.approx(widths["speaker", "once"], rel=0.1)
    misses = sum(own.misses for own in names["errors"])
    targets = sum(own.targets for own in names["errors"])
    assert 100 * misses / targets == pytest.approx(names["value"], abs=0.2)
    good = {"L3t", "L3c", "M3"}
    assert len(names["differences"]) == 10
    for pair in names["differences"]:
        assert pair.apart == (not {pair.first, pair.second} <= good), pair.verdict


def test_fuse_and_decide(site: tuple[Path, dict[str, Any]]) -> None:
    names = site[1][THIRD]
    theory = names["by_theory"]
    sure = 4 * np.sqrt(theory * (1 - theory) / 1_920)
    assert names["measured"] == pytest.approx(theory, abs=sure)
    assert names["agreement"] > 0.995
    assert all(names["loss"][column][1] > 0 for column in ("asv_a", "asv_b"))
    assert all(
        names["loss"][column][1] < 0 < names["loss"][column][2] for column in ("cm_a", "cm_b")
    )
    bayes, at_eer = names["prices"].values()
    assert bayes < 1.05 * names["least"]
    assert at_eer > 1.5 * bayes
    paid, left_open = names["paid"], names["left_open"]
    assert paid == sorted(paid)
    assert paid[-1] < names["never"]
    assert left_open == sorted(left_open, reverse=True)
    said = [one.decision for one in names["answers"].values()]
    assert said == ["accept", "reject", "reject"]


def test_cells_of_a_script() -> None:
    script = "before = 1\n# %% [markdown]\n# # Title\n#\n# text\n\n# %%\nx = 1\n\n# %%\n"
    text, code = RENDER.cells(script)
    assert text == (True, "# Title\n\ntext", 3)
    assert code == (False, "x = 1", 8)


def test_a_cell_that_fails_is_named(tmp_path: Path) -> None:
    path = tmp_path / "9_wrong.py"
    path.write_text("# %%\nx = 1\n# %%\nprint(x)\nnowhere\n")
    with pytest.raises(
        RENDER.CellError, match=r"9_wrong\.py, cell of line 4: NameError: .*nowhere"
    ):
        RENDER.render(path)
