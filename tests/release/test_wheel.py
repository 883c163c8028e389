"""What is released: wheel and sdist, used in an empty folder by somebody without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from lightning_sasv import __version__
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.slow

Run = Callable[..., str]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    words = ["-m", "build", "--no-isolation", "--outdir", str(folder), str(REPOSITORY)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return folder


@pytest.fixture(scope="module")
def lightning(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The program of a new environment, run in an empty folder.

    What we depend on is that of this environment, whose path is added; the ``.pth`` file in it that
    leads to the checkout is not obeyed there.
    """
    place = tmp_path_factory.mktemp("installed")
    venv.create(place / "venv", with_pip=False)
    python = place / "venv/bin/python"
    home = sysconfig.get_path("purelib", vars={"base": str(place / "venv")})
    Path(home, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    words = ["install", "--quiet", "--no-deps", "--no-index", "--no-cache-dir"]
    wheel = next(built.glob("*.whl"))
    subprocess.run([*pip, *words, str(wheel)], check=True, capture_output=True)
    empty = place / "empty"
    empty.mkdir()
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COVERAGE"))}

    def run(*words: str, program: str = "lightning") -> str:
        done = subprocess.run(
            [str(place / "venv/bin" / program), *words],
            cwd=empty,
            env=clean,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_wheel_is_used_and_not_the_checkout(lightning: Run) -> None:
    code = "import lightning_sasv as p, torch; print(p.__file__, p.__version__, torch.__file__)"
    used, version, torch = lightning("-c", code, program="python").split()
    assert not Path(used).is_relative_to(REPOSITORY)
    assert Path(used).parents[1].name == "site-packages"
    assert version == __version__
    assert Path(torch).is_relative_to(sysconfig.get_path("purelib"))


def test_first_steps_in_an_empty_folder(lightning: Run) -> None:
    assert "lightning init DIR" in lightning("--help")
    assert lightning("--version", program="lightning-sasv") == f"lightning-sasv {__version__}\n"
    assert "--model.systems" in lightning("fit", "--help")
    assert "\nL3c " in lightning("configs")
    assert lightning("configs", "L3c") == (REPOSITORY / "configs/L3c.yaml").read_text()
    assert "complete " in lightning("completion", "bash")
    assert '"$schema"' in lightning("schema", "fit")
    assert "Makefile" in lightning("init", "my_experiment")


def test_from_training_to_the_page_in_an_empty_folder(lightning: Run) -> None:
    shown = lightning("fit", "--config", "L3c", "--data.scale=0.02", "--trainer.max_epochs=1")
    assert "runs/L3c/version_0" in shown
    run = "runs/L3c/version_0"
    assert "SASV-EER" in lightning("evaluate", f"{run}/scores/eval.csv", "--ci=none")
    assert "report.html" in lightning("report", run)


def test_the_sdist_holds_what_a_clone_holds(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Makefile", "constraints.txt", "CITATION.cff", "tests/release/test_wheel.py"} <= names
    ours = {path.relative_to(REPOSITORY) for path in (REPOSITORY / "configs").rglob("*.yaml")}
    assert {path.as_posix() for path in ours} <= names
    assert not {name for name in names if name.startswith((".git/", ".venv", "runs", "results"))}
