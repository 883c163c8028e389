"""Costs, intervals and comparisons of the real scores, to the digits that were measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lightning_sasv.checks import as_labels
from lightning_sasv.decisions.costs import PRESETS
from lightning_sasv.fusion import SYSTEMS, fit_systems, fuse_systems
from lightning_sasv.metrics.functional.points import Classes
from lightning_sasv.metrics.registry import Settings, explained, values_of
from lightning_sasv.metrics.speakers import concentration, zoo
from lightning_sasv.scores import read_scores
from lightning_sasv.trials import FusedScores, Scores

SETS = ("dev", "eval")
NO_LLRS = ("B1", "B1v2", "Post")
COSTS = {  # on eval, in the order of the systems; the first three costs only with a-dcf1
    "min_a_dcf": ".5311 .0644 .0861 .0333 .0296 .0306 .0506 .0320 .0290 .0289 .0296",
    "dev_a_dcf": ".5340 .0672 .0891 .0351 .0300 .0314 .0551 .0332 .0295 .0292 .0317",
    "act_a_dcf": "- .6242 .4485 .0823 .0302 .0767 - - .0327 .0568 .0375",
    "policy_a_dcf": "- .0461 .0301 .0360 .0301 .0360 - - .0313 .0424 .0358",
}
ASVSPOOF5 = {
    "act_a_dcf": "- .2958 .1490 .0615 .0334 .0586 - - .0322 .0550 .0409",
    "policy_a_dcf": "- .0608 .0329 .0401 .0329 .0401 - - .0330 .0506 .0409",
}


@pytest.fixture(scope="module")
def scores(shared: Path) -> dict[str, Scores]:
    return {part: read_scores(shared / f"data/sasv2022/{part}_scores.csv") for part in SETS}


@pytest.fixture(scope="module")
def fused(scores: dict[str, Scores]) -> dict[str, dict[str, FusedScores]]:
    """Scores of all eleven systems, fitted on dev."""
    dev = scores["dev"]
    systems = fit_systems(dev.asv, dev.cm, dev.label)
    return {
        part: {
            name: FusedScores(*(np.asarray(side) for side in found))
            for name, found in fuse_systems(systems, one.asv, one.cm).items()
        }
        for part, one in scores.items()
    }


@pytest.mark.parametrize(("costs", "table"), [("a-dcf1", COSTS), ("asvspoof5", ASVSPOOF5)])
def test_four_costs_of_eleven_systems(
    costs: str,
    table: dict[str, str],
    scores: dict[str, Scores],
    fused: dict[str, dict[str, FusedScores]],
) -> None:
    codes = {part: as_labels(one.label) for part, one in scores.items()}
    for place, name in enumerate(SYSTEMS):
        settings = Settings(PRESETS[costs], not_llr=name in NO_LLRS)
        classes = {
            part: Classes(dict(zip(("asv", "cm", "sasv"), one[name], strict=True)), codes[part])
            for part, one in fused.items()
        }
        on_dev = values_of(["a_dcf_threshold"], classes["dev"], settings)["a_dcf_threshold"]
        settings = replace(settings, dev_threshold=on_dev)
        found = explained(list(table), classes["eval"], settings)
        for metric, line in table.items():
            if (value := line.split()[place]) != "-":
                assert found.values[metric] == pytest.approx(float(value), abs=1e-4), name
            elif metric == "act_a_dcf":
                assert found.undefined[metric] == "no LLR"


def test_errors_of_each_speaker(
    scores: dict[str, Scores], fused: dict[str, dict[str, FusedScores]]
) -> None:
    trials = fused["eval"]["L3c"].sasv, scores["eval"].label, scores["eval"].columns()["speaker"]
    found = zoo(*trials)
    assert len(found) == 48
    assert sum(one.misses for one in found) == 76
    worst = sorted(found, key=lambda one: -one.misses)[:4]
    names = ["LA_0038", "LA_0002", "LA_0027", "LA_0004"]
    assert [one.speaker for one in worst] == names
    assert [one.misses for one in worst] == [27, 15, 9, 6]
    assert worst[0].targets == 68
    own = np.array([one.eer for one in found])
    assert np.count_nonzero(own == 0) == 13
    assert f"{100 * np.median(own):.2f} {100 * own.max():.1f}" == "0.48 26.2"
    summary = concentration(*trials)
    assert summary == (48, 76, "LA_0038", 27 / 76, 29)
    assert str(summary) == "48 speakers; 36 % of the misses are of one (LA_0038), 29 have none"
