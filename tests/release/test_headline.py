"""The headline of README.md is what the tool prints on the real scores."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lightning_sasv.cli import main
from tests.conftest import REPOSITORY

ROW = r"^\| (\w+),? .*\| (two|four).*?\| \**([\d.]+)\** \[([\d.]+), ([\d.]+)\] \|$"
ROWS = re.findall(ROW, (REPOSITORY / "README.md").read_text(encoding="utf-8"), re.M)
PLACES = {"two": "sasv2022", "four": "sasv2022_more"}


@pytest.mark.slow
@pytest.mark.parametrize("scores", PLACES)
def test_values_and_intervals(
    scores: str, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {system: numbers for system, which, *numbers in ROWS if which == scores}
    assert said.keys() == {"two": {"L3c", "Q3cv", "M3"}, "four": {"Q3cv"}}[scores]
    monkeypatch.chdir(tmp_path)
    place = shared / "data" / PLACES[scores]
    sets = [f"--{part}={place / part}_scores.csv" for part in ("dev", "eval")]
    main(["fuse", *sets, f"--systems={','.join(said)}", "--out=fused", "--quiet"])
    main(["evaluate", "fused/scores/eval.csv", "--json=found.json", "--quiet"])
    found = json.loads(Path("found.json").read_text())["systems"]
    for system, numbers in said.items():
        own = found[system]["sets"]["eval"]
        interval = own["intervals"]["sasv_eer"]
        values = [own["values"]["sasv_eer"], interval["low"], interval["high"]]
        assert [f"{100 * value:.2f}" for value in values] == numbers, system
