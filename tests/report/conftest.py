"""Folders of results, the page made from them, and a real browser to open it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from lightning_sasv.cli import main
from lightning_sasv.decisions import CostModel, simulate
from lightning_sasv.fitted import save_system
from lightning_sasv.fusion import fit_systems, fuse_systems
from lightning_sasv.metrics_file import Metrics
from lightning_sasv.record import Origin, Trials, unrecorded
from lightning_sasv.report.curves import Material
from lightning_sasv.report.description import Axis, Figure, Panel, Series
from lightning_sasv.report.sure import draw_seed
from lightning_sasv.report.table1_text import write_table
from lightning_sasv.results import (
    Results,
    read_metrics,
    read_results,
    set_entries,
    write_metrics,
)
from lightning_sasv.scores import write_scores
from lightning_sasv.scores.table import from_scores
from lightning_sasv.trials import Scores
from tests.packages import installed

BROWSER = ("chromium", "chromium-driver")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
)


def drawn(
    trials: int, seed: int, attacks: tuple[str, ...] = ("A01", "A02", "A03"), speakers: int = 7
) -> Scores:
    """Simulated trials of unequal classes."""
    priors = CostModel(p_target=0.25, p_nontarget=0.35, p_spoof=0.4)
    found = simulate(trials, priors, seed=seed)
    label = found.labels
    attack = np.where(label == 0, np.array(attacks)[np.arange(trials) % len(attacks)], "-")
    return Scores(
        found.asv / 5,
        2 * found.cm + 1,
        label,
        speaker=np.array([f"spk{k % speakers}" for k in range(trials)]),
        utterance=np.array([f"utt{k}" for k in range(trials)]),
        attack=attack,
    )


def write_folder(
    folder: Path,
    systems: tuple[str, ...] = ("B1", "L2c", "L3c"),
    corpus: str = "somewhere",
    rename: Callable[[str], str] = str,
    attacks: tuple[str, ...] = ("A01", "A02", "A03"),
    speakers: int = 7,
    **about: Any,
) -> Path:
    """A small folder of results, as the training and fusion commands write it."""
    sets = {"dev": drawn(900, 1, attacks), "eval": drawn(1500, 2, attacks, speakers)}
    fitted = fit_systems(sets["dev"].asv, sets["dev"].cm, sets["dev"].label, systems)
    metrics: Metrics = {rename(name): {"fitted": {}, "sets": {}} for name in fitted}
    metrics = {name: own | {"fitted_on": unrecorded()} for name, own in metrics.items()}
    for split, scores in sets.items():
        fused = fuse_systems(fitted, scores.asv, scores.cm)
        trials = Trials(from_scores(scores, folder))
        for name, entry in set_entries(fused, trials, Origin(corpus, **about)).items():
            metrics[rename(name)]["sets"][split] = entry
        extra = {f"sasv_{rename(name)}": value.sasv.numpy() for name, value in fused.items()}
        write_scores(folder / "scores" / f"{split}.csv", Scores(**vars(scores) | {"extra": extra}))
    for name, system in fitted.items():
        save_system(folder / "fitted" / f"{rename(name)}.safetensors", system, {"corpus": corpus})
    write_metrics(folder / "metrics.json", metrics)
    return folder


def write_small_table(folder: Path, seeds: tuple[int, ...] = (1, 2, 3)) -> Path:
    """A table of the twin, whose seeds have the same scores but for a constant."""
    names, metrics = ("B1", "L2c", "L3c"), []
    for seed in seeds:
        about = {"seeds": (seed,), "simulated": True, "scale": 0.1, "speakers": 12}
        own = write_folder(folder / f"seed{seed}", names, "twin", **about)
        metrics.append(read_metrics(own / "metrics.json"))
    draws = [draw_seed(folder / f"seed{seed}", names, 119) for seed in seeds]
    for seed, one in zip(seeds, metrics, strict=True):
        one["L3c"]["sets"]["eval"]["values"]["sasv_eer"] = 0.01 * seed
    write_table(folder, metrics, names, draws)
    return folder


def every_kind(material: Material) -> Figure:
    """A figure that nobody has written code for, with every kind of series."""
    x, y = np.linspace(0, 1, 5), np.linspace(0, 2, 5)
    grid = x[:, None] - y
    kinds = [
        Series("line", "system35", x, y, "<b>rising", marked=[2], hover="at {x:.1f}"),
        Series("points", "spoof", x, y, "some", mark="diamond"),
        Series("rule", "threshold", [0.5]),
        Series("density", "target", (0.0, 1.0), y, "dense"),
        Series("ridge", "target", (0.0, 1.0), y, base=0.5, value=1.0),
        Series(
            "level", "bayes", x, y, z=grid, source={"pair": 0, "policy": "bayes", "costs": "equal"}
        ),
    ]
    names = [(k, f"t{k}") for k in range(5)]
    table = Panel(
        Axis(0, 4, "", names), Axis(0, 4, "", names), [Series("cells", "spoof", z=abs(grid))]
    )
    panels = [Panel(Axis(0, 1, "a"), Axis(0, 2, "b"), kinds, "<i>one", notes=["noted"]), table]
    return Figure("new", "A <new> figure", panels, "What it shows.")


@pytest.fixture(scope="session")
def small_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("small") / "run")


@pytest.fixture(scope="session")
def small(small_folder: Path) -> Results:
    return read_results(small_folder)


@pytest.fixture(scope="session")
def real_folder(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Systems of three pairs on the real scores, by the command that users type."""
    data, out = shared / "data" / "sasv2022", tmp_path_factory.mktemp("real") / "fused"
    files = ["--dev", str(data / "dev_scores.csv"), "--eval", str(data / "eval_scores.csv")]
    systems = "B1,B1c,L2,L2c,L3,L3c,B1v2,Post,L3t,M3,J3"  # whose pairs a page holds whole
    main(["fuse", *files, "--systems", systems, "--out", str(out), "--name", "SASV 2022"])
    return out


@pytest.fixture(scope="session")
def real(real_folder: Path) -> Results:
    return read_results(real_folder)


@pytest.fixture(scope="session")
def real_page(real_folder: Path) -> Path:
    """The page of the real scores, by the command that users type."""
    main(["report", str(real_folder), "--replicates", "400"])
    return real_folder / "report.html"


def _missing(reason: str) -> NoReturn:
    """Skip, but never in CI: there the browser is part of the test."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def _found() -> tuple[str, str] | None:
    """Paths of the browser and its driver, if both are installed."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    return None if browser is None or driver is None else (browser, driver)


def installed_browser() -> tuple[str, str] | str:
    """Browser and driver, Debian's packages installed if they are missing; or why not."""
    return installed(BROWSER, _found)


@pytest.fixture(scope="session")
def chromium() -> tuple[str, str]:
    """Paths of the browser and its driver; where they cannot be had, a skip, in CI a failure."""
    found = _found() or installed_browser()
    if isinstance(found, str):
        _missing(found)
    return found


@pytest.fixture(scope="session")
def driver(chromium: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A headless browser with an empty profile that records its console and its requests."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium[0]
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, Service(chromium[1]))
    driver.set_script_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture
def browser(driver: Any) -> Any:
    """The browser with an empty page, no emulation and empty records."""
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    driver.get("about:blank")
    for kind in ("browser", "performance"):
        driver.get_log(kind)
    return driver
