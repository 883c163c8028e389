"""Version, citation and Dockerfile say what the package and the README say."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from lightning_sasv import __version__
from lightning_sasv.cli import main
from tests.conftest import REPOSITORY

CITATION = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text(encoding="utf-8"))


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "lightning_sasv/__init__.py"
    written = rf"""["']{re.escape(__version__)}["']"""
    files = [*(REPOSITORY / "lightning_sasv").rglob("*.py"), REPOSITORY / "Makefile"]
    found = [path.name for path in files if re.search(written, path.read_text(encoding="utf-8"))]
    assert found == ["__init__.py"]
    assert re.search(rf"^## {re.escape(__version__)}\b", _text("CHANGELOG.md"), re.M)


def test_the_citation_is_of_this_version_and_has_what_the_format_asks_for() -> None:
    assert CITATION["version"] == __version__
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION["license"] == "Apache-2.0"
    for work in (CITATION, *CITATION["references"]):
        assert work["title"]
        assert work["authors"]
        assert all(one.keys() in ({"name"}, {"family-names", "given-names"}) for one in _of(work))
    assert CITATION["message"]


def test_the_paper_is_cited_as_it_names_itself(shared: Path) -> None:
    paper, text = CITATION["references"][0], (shared / "paper.tex").read_text(encoding="utf-8")
    assert f"\\title{{{paper['title']}}}" in text
    named = re.findall(r"\\name\[.*?\]\{(.*?)\}\{(.*?)\}", text)
    assert [(one["given-names"], one["family-names"]) for one in _of(paper)] == named
    assert paper["year"] == 2024
    assert paper["conference"]["name"] == "Interspeech 2024"


def _of(work: dict[str, Any]) -> list[dict[str, str]]:
    authors: list[dict[str, str]] = work["authors"]
    return authors


def _text(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


def _steps() -> list[list[str]]:
    """What the Dockerfile runs, as words: RUN lines, and its CMD."""
    steps = [shlex.split(line) for line in re.findall(r"^RUN (.*)$", _text("Dockerfile"), re.M)]
    (last,) = re.findall(r"^CMD (\[.*\])$", _text("Dockerfile"), re.M)
    return [*steps, yaml.safe_load(last)]


def test_the_dockerfile_has_no_step_of_its_own() -> None:
    known = ("FROM", "WORKDIR", "COPY", "ARG", "RUN", "CMD")
    lines = [line for line in _text("Dockerfile").splitlines() if line and line[0] != "#"]
    assert {line.split()[0] for line in lines} == set(known)
    pages = _text("README.md") + _text("CONTRIBUTING.md")
    said = set(re.findall(r"\bmake ([a-z][\w-]*)", pages))
    targets = set(re.findall(r"^([a-z][\w-]*):", _text("Makefile"), re.M))
    assert [words[:2] for words in _steps()] == [
        ["make", "setup"],
        ["make", "table"],
        ["make", "table"],
    ]
    assert {words[1] for words in _steps()} <= said & targets
    wanted = tomllib.loads(_text("pyproject.toml"))["project"]["requires-python"]
    version = re.search(r"^FROM python:(3\.\d+)$", _text("Dockerfile"), re.M)
    assert version
    assert int(version[1][2:]) >= int(wanted.removeprefix(">=3."))


@pytest.mark.parametrize("words", _steps(), ids=shlex.join)
def test_a_step_of_the_dockerfile_is_a_sound_command(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dry = ["make", "--dry-run", "--no-print-directory", *words[1:]]
    done = subprocess.run(dry, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    if words[1] == "setup":
        assert "venv" in done.stdout or "Nothing to be done" in done.stdout
        return
    run = shlex.split(done.stdout.splitlines()[-1])
    assert Path(run[0]).name == "lightning"
    monkeypatch.chdir(tmp_path)
    small = ["--data.scale=0.02", "--out=out"]
    main([*run[1:], *small, "--check"])
    assert not list(tmp_path.iterdir())
