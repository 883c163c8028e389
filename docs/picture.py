"""Draw docs/images/report.png anew: `make docs-picture` (minutes, and headless Chromium).

The picture is the top and the what-if panel of the report of one training on the full twin.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from lightning_sasv.cli import main
from tests.report.conftest import FLAGS, installed_browser

PICTURE = Path(__file__).parent / "images" / "report.png"
SYSTEMS = "[L3c,B1,B1c,L2,L2c,L3,B1v2,Post]"
WIDTH, MARGIN = 1265, 12


def make_report(folder: Path) -> Path:
    """The page of one training on the twin."""
    with contextlib.chdir(folder):
        main(["fit", "--config", "L3c", "--model.systems", SYSTEMS, "--quiet"])
    run = (folder / "runs/L3c/version_0").rename(folder / "twin")  # the title of the page
    main(["report", str(run)])
    return run / "report.html"


def photograph(page: Path) -> Image.Image:
    """The two parts of the page, one above the other."""
    browser = open_browser()
    browser.set_window_size(WIDTH + 15, 4000)
    browser.get(page.as_uri())
    bottoms = (
        "const at = s => document.querySelector(s).getBoundingClientRect();"
        "return [0, at('.cards').bottom, at('#whatif').top, at('.whatif').bottom]"
    )
    top, cards, panel, controls = map(int, browser.execute_script(bottoms))
    whole = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
    browser.quit()
    parts = [(top, cards + MARGIN), (panel - MARGIN, controls + MARGIN)]
    picture = Image.new("RGB", (WIDTH, sum(low - high for high, low in parts)))
    at = 0
    for high, low in parts:
        picture.paste(whole.crop((0, high, WIDTH, low)), (0, at))
        at += low - high
    return picture


def open_browser() -> Any:
    """Headless Chromium."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    found = installed_browser()
    if isinstance(found, str):
        raise SystemExit(found)
    options = webdriver.ChromeOptions()
    options.binary_location = found[0]
    for flag in FLAGS:
        options.add_argument(flag)
    return webdriver.Chrome(options, Service(found[1]))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        picture = photograph(make_report(Path(folder)))
    PICTURE.parent.mkdir(exist_ok=True)
    picture.quantize(64, dither=Image.Dither.NONE).save(PICTURE, optimize=True)
