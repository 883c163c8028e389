"""Driving the page in a browser: opening it, moving its controls, reading its numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lightning_sasv.decisions import CostModel

READY = """const done = arguments[0];
const look = () => document.documentElement.dataset.ready ? done(performance.now())
  : setTimeout(look, 5);
look();"""
SETTLED = """const done = arguments[0];
requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0)));"""
FIELDS = ("c_miss", "c_fa_nontarget", "c_fa_spoof", "p_target", "p_nontarget", "p_spoof")


def open_page(browser: Any, page: Path) -> float:
    """Open a page; milliseconds from navigation until every figure is drawn."""
    browser.get(page.as_uri())
    return float(browser.execute_async_script(READY))


def settle(browser: Any) -> None:
    """Wait until what a control has started is shown."""
    browser.execute_async_script(SETTLED)


def numbers(browser: Any) -> dict[str, float]:
    """The unrounded values behind all read-outs and controls."""
    found = browser.execute_script(
        "return [...document.querySelectorAll('[data-value]')].map(e => [e.id, e.dataset.value])"
    )
    return {name: float(value) for name, value in found}


def model_of(browser: Any) -> CostModel:
    """Costs and priors as the controls have them."""
    found = numbers(browser)
    return CostModel(**{name: found[f"value-{name}"] for name in FIELDS})


def press(browser: Any, slider: str, key: str, times: int) -> None:
    """Move a slider by the keyboard, as a user does."""
    browser.find_element("id", slider).send_keys(*[key] * times)
    settle(browser)


def choose(browser: Any, select: str, text: str) -> None:
    """Choose an option of a list by what it says."""
    from selenium.webdriver.support.ui import Select

    Select(browser.find_element("id", select)).select_by_visible_text(text)
    settle(browser)


def requests(browser: Any) -> list[str]:
    """Everything that the browser has asked for since the last call."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
    sockets = [e["params"] for e in events if e["method"] == "Network.webSocketCreated"]
    return [e["request"]["url"] for e in sent] + [e["url"] for e in sockets]
