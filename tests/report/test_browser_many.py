"""The page of more than two scores in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lightning_sasv.cli import main
from tests.evaluation.test_many_scores import frame
from tests.report.driving import choose, open_page, settle

pytestmark = pytest.mark.slow


def test_every_figure_is_drawn_without_an_error(
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
