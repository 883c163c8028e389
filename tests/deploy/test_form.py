"""The form of the service in a browser: two recordings, a decision, a point on the plane."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.conftest import Place
from tests.deploy.test_serve import Service
from tests.report.conftest import browser, chromium, driver  # noqa: F401
from tests.report.driving import READY, requests

ANSWERED = """const done = arguments[0];
const look = () => document.documentElement.dataset.answered ? done(1) : setTimeout(look, 20);
look();"""


@pytest.fixture
def service(place: Place, tmp_path: Path) -> Iterator[Service]:
    running = Service(place, tmp_path)
    yield running
    running.stop()


def text_of(page: Any, name: str) -> str:
    return str(page.find_element("id", name).text)


def test_two_recordings_become_a_decision_on_the_plane(
    service: Service,
    place: Place,
    tmp_path: Path,
    browser: Any,  # noqa: F811
) -> None:
    browser.get(f"http://127.0.0.1:{service.port}/")
    browser.execute_async_script(READY)
    assert len(browser.find_elements("css selector", "rect.cell")) > 10
    plane = service.ask("GET", "/plane")[1]
    assert set(plane["cells"]) <= set("aru")
    assert len(plane["cells"]) == plane["size"] ** 2
    browser.find_element("id", "enrol").send_keys(f"{place['a']}\n{place['b']}")
    browser.find_element("id", "probe").send_keys(str(place["x"]))
    browser.find_element("id", "send").click()
    browser.execute_async_script(ANSWERED)
    sounds = {name: place[name].read_bytes() for name in "abx"}
    wanted = service.verify(enrol=[sounds["a"], sounds["b"]], probe=sounds["x"])[1]
    assert text_of(browser, "decision") == wanted["decision"]
    assert text_of(browser, "reason") == wanted["reason"]
    point = browser.find_element("id", "point")
    share = (wanted["asv_score"] - plane["asv"][0]) / (plane["asv"][1] - plane["asv"][0])
    expected = 30 + 380 * min(1, max(0, share))
    assert float(point.get_attribute("cx")) == pytest.approx(expected, abs=0.01)
    (tmp_path / "text.wav").write_text("no audio")
    browser.find_element("id", "probe").send_keys(str(tmp_path / "text.wav"))
    browser.find_element("id", "send").click()
    browser.execute_async_script(ANSWERED)
    assert text_of(browser, "decision") == "no decision"
    assert "cannot be read as audio" in text_of(browser, "reason")
    asked = requests(browser)
    assert all(f"127.0.0.1:{service.port}" in url for url in asked if url.startswith("http"))
    browser.get(f"http://127.0.0.1:{service.port}/docs")
    browser.execute_async_script(READY)
    assert "POST /verify" in browser.find_element("id", "paths").text
