"""Every run-time dependency is documented with its licence and its reason."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest


def plain(requirement: str) -> str:
    return re.split(r"[\[<>=~ ]", requirement)[0].lower().replace("_", "-")


def test_every_dependency_is_documented(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"]]
    wanted += [one for extra, group in extras.items() if extra != "dev" for one in group]
    names = set(map(plain, wanted))
    rows = (repository / "docs" / "dependencies.md").read_text().splitlines()
    documented = {row.split("|")[1].strip().lower() for row in rows if row.startswith("| ")}
    assert names <= documented
    assert documented - names <= {"package"}


def test_constraints_pin_every_dependency(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    extras = [text for group in project["optional-dependencies"].values() for text in group]
    wanted = set(map(plain, [*project["dependencies"], *extras]))
    lines = (repository / "constraints.txt").read_text().splitlines()
    pinned = {plain(line) for line in lines if "==" in line}
    assert wanted <= pinned
    assert "torch==2.13.0" in lines


def test_hashes_are_of_the_pinned_versions(repository: Path) -> None:
    def pins(name: str) -> set[str]:
        lines = (repository / name).read_text().splitlines()
        words = [line.split(" ")[0] for line in lines if not line.startswith("#")]
        return {word.lower().replace("_", "-") for word in words}

    assert pins("constraints.txt") - pins("constraints-hashed.txt") == {"torch==2.13.0"}
    assert pins("constraints-hashed.txt") <= pins("constraints.txt")
    lines = (repository / "constraints-hashed.txt").read_text().splitlines()
    hashed = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"\S+==\S+ --hash=sha256:[0-9a-f]{64}", line) for line in hashed)


def test_the_wheel_holds_everything_that_the_package_reads(repository: Path) -> None:
    wheel = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is there in CI")
    files = wheel.WheelBuilder(str(repository)).recurse_included_files()
    shipped = {file.distribution_path for file in files}
    package = [path for path in (repository / "lightning_sasv").rglob("*") if path.is_file()]
    wanted = {p.relative_to(repository).as_posix() for p in package if "__pycache__" not in p.parts}
    configs = {p.relative_to(repository) for p in (repository / "configs").rglob("*.yaml")}
    wanted |= {f"lightning_sasv/{path.as_posix()}" for path in configs}
    assert {"lightning_sasv/py.typed", "lightning_sasv/data/sources.json"} <= wanted <= shipped
