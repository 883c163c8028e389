"""Helpers and jobs of `table` import our modules, and believe no damaged note in its folder."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lightning_sasv.cli import main
from lightning_sasv.experiment import launch as launch_module
from lightning_sasv.experiment import run as run_module
from lightning_sasv.experiment.recipe import Recipe, digest
from lightning_sasv.experiment.run import Job
from lightning_sasv.experiment.workers import Workers
from lightning_sasv.program import Program, using
from tests.hostile.conftest import Attack
from tests.hostile.corpus import MARK
from tests.hostile.helper_work import note, note_job, nothing

pytestmark = pytest.mark.slow

STANDARD = ("pickle", "random", "tempfile", "torch", "numpy", "signal", "submitit")


@pytest.fixture
def shadows(here: Path) -> None:
    """Modules beside the data that would be taken for those of Python and of its packages."""
    for name in STANDARD:
        (here / f"{name}.py").write_text(f"open({str(here / MARK)!r}, 'w')\nraise SystemExit(9)\n")


@pytest.mark.usefixtures("shadows")
@pytest.mark.parametrize("said", [Program(), Program(trust_config=True, quiet=True, limits=2)])
def test_helpers_import_nothing_from_the_current_folder(here: Path, said: Program) -> None:
    """But what the user trusts, when there is no other module of the name."""
    with using(said):
        Workers(nothing).run(lambda: None, note, [(here / "noted",)])
    handed, last = (here / "noted").read_text().splitlines()
    assert handed == str(said)
    assert (last == str(here)) is said.trust_config
    assert not (here / MARK).exists()


@pytest.mark.usefixtures("shadows")
def test_submitted_jobs_import_nothing_from_the_current_folder(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("submitit")
    said = Program(trust_config=True, wait=True)
    monkeypatch.setattr(run_module, "begin", lambda *_: (None, "key", [1]))
    monkeypatch.setattr(run_module, "run_job", note_job)
    with using(said):
        launch_module.launch(Job(Recipe(), (1,), ("B1",), here / "out"), "local")
    assert (here / "out" / "noted").read_text().splitlines() == [str(said), str(here)]
    assert not (here / MARK).exists()


@pytest.mark.usefixtures("shadows")
def test_commands_import_nothing_from_the_current_folder(here: Path) -> None:
    command = [str(Path(sys.executable).parent / "lightning"), "table", "--processes=2"]
    command += ["--seeds=1,2", "--seeds_per_job=1", "--systems=B1", "--data.scale=0.02"]
    command += ["--epochs=1", "--replicates=0", "--out=out"]
    (here / "matplotlibrc").write_bytes(b"\xff")  # not UTF-8: whoever reads it fails
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (here / MARK).exists()


TABLE = ["table", "--seeds=1", "--systems=B1", "--data.scale=0.02", "--epochs=1"]
TABLE += ["--replicates=0", "--processes=1"]
NOTES: dict[str, Any] = {
    "a list": [],
    "a text": "x",
    "nothing": None,
    "nested": "[" * 200_000,
    "no JSON": "{",
    "cut off": '{"lightning_sasv": "0.1.0",',
    "a number for seeds": {"seeds": 7},
    "lists for seeds": {"seeds": [[1]]},
    "negative": {"seeds": [-1]},
    "words": {"seeds": ["1"]},
    "truth": {"seeds": [True]},
    "twice": {"seeds": [1, 1]},
    "none": {"seeds": []},
    "too many": {"seeds": list(range(2000))},
}


@pytest.fixture(scope="module")
def table_of_one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished table."""
    folder = tmp_path_factory.mktemp("table")
    main([*TABLE, "--out", str(folder / "out")])
    return folder / "out"


@pytest.mark.parametrize("name", NOTES)
def test_damaged_notes_of_a_table(
    name: str, table_of_one: Path, here: Path, attack: Attack
) -> None:
    out = here / "out"
    shutil.copytree(table_of_one, out)
    [group] = out.glob("training/*/group.json")
    key, noted = json.loads(group.read_text())["key"], NOTES[name]
    files = [out / "recipe.json", group]
    if isinstance(noted, dict):
        noted = {"key": key, **noted}
        files = [out / "training" / digest([key, noted["seeds"]]) / "group.json"]
        files[0].parent.mkdir(exist_ok=True)
    (out / "seed1" / "metrics.json").write_text("{}")  # something is missing
    for file in files:
        before = file.read_bytes() if file.exists() else None
        file.write_text(noted if isinstance(noted, str) else json.dumps(noted))
        said = attack(*TABLE, "--out", "out")
        unknown = name != "cut off" and file.name == "recipe.json"  # as if it were not ours
        words = "out holds other files" if unknown else f"{file.relative_to(here)} is damaged"
        assert words in said
        if before is not None:
            file.write_bytes(before)
