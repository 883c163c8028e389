"""Bundles of the real SASV 2022 scores: golden values without bounds, better LLRs with them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lightning_sasv.decisions import PRESETS, empirical_cost
from lightning_sasv.deploy import load, write_bundle
from lightning_sasv.fusion import build_system
from lightning_sasv.metrics.functional import cllr, sasv_eers
from lightning_sasv.trials import Scores


@pytest.mark.parametrize(
    ("name", "fused", "asv", "cm"),
    # Cllr of the fused score, of the ASV LLR and of the CM LLR, each without and with bounds.
    [
        ("L3", (0.170, 0.070), (0.180, 0.081), (0.103, 0.062)),
        ("L3t", (0.063, 0.064), (0.082, 0.082), (0.032, 0.032)),
    ],
)
def test_bounds_mend_calibration_and_leave_the_decisions(
    name: str,
    fused: tuple[float, float],
    asv: tuple[float, float],
    cm: tuple[float, float],
    real: tuple[Scores, Scores],
    shared: Path,
    tmp_path: Path,
) -> None:
    dev, trials = real
    system = build_system(name).fit(np.array(dev.asv), np.array(dev.cm), np.array(dev.label))
    label = np.array(trials.label)
    scorer = load(write_bundle(tmp_path / name, system, dev, PRESETS["asvspoof5"], name=name))
    free, held = (scorer(trials.asv, trials.cm, bounds=bounds) for bounds in (False, True))
    golden = json.loads((shared / "golden" / "systems.json").read_text())["systems"]
    if name in golden:
        assert 100 * sasv_eers(free.score, label).sasv == pytest.approx(
            golden[name]["eval"]["sasv_eer"], abs=1e-6
        )
    target, nontarget, spoof = (label == code for code in (1, 2, 0))
    for number, verdict in enumerate((free, held)):
        found = (
            cllr(verdict.score[target], verdict.score[~target]),
            cllr(verdict.asv_llr[target], verdict.asv_llr[nontarget]),
            cllr(verdict.cm_llr[target], verdict.cm_llr[spoof]),
        )
        expected = (fused[number], asv[number], cm[number])
        assert found == pytest.approx(expected, abs=6e-4)
    costs = [
        empirical_cost(verdict.accepted, label, scorer.costs).normalised.item()
        for verdict in (free, held)
    ]
    assert costs[1] == pytest.approx(costs[0], abs=1e-4)
