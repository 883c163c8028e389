"""What each of four real scores is worth: golden values, never from this code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lightning_sasv.evaluation.worth import worth_of
from lightning_sasv.fusion import FusionSystem
from lightning_sasv.metrics.registry import Settings
from lightning_sasv.scores.columns import matrices, read_columns, score_names


def test_each_column_left_out_in_turn(shared: Path) -> None:
    golden = json.loads((shared / "golden/more_scores.json").read_text())
    names, values = golden["columns"], golden["worth"]["values"]
    folder = shared / "data/sasv2022_more"
    tables = {split: read_columns(f"{folder}/{split}_scores.csv") for split in ("dev", "eval")}
    assert score_names(tables["dev"]) == names
    system = FusionSystem(
        calibration="multinomial", order="squares", penalty=1e-4, rule="nonlinear"
    )
    asv, cm, _ = matrices(tables["dev"], names)
    system.fit(asv, cm, tables["dev"].labels(), columns=names)
    found = worth_of({"Q3": system}, tables, Settings(), replicates=0)
    assert [row["column"] for row in found["rows"]] == ["", *names]
    for row in found["rows"]:
        left = [name for name in names if name != row["column"]]
        wanted = values[f"squares 0.0001: {','.join(left)}"]
        for split, key in (("dev", "dev_held_out"), ("eval", "eval")):
            got = {metric: entry["value"] for metric, entry in row["sets"][split].items()}
            limits, own = golden["tolerance"], wanted[key]
            assert 100 * got["sasv_eer"] == pytest.approx(own["sasv_eer"], abs=limits["eer"])
            assert got["cllr"] == pytest.approx(own["cllr"], abs=limits["cllr"])
            assert got["policy_a_dcf"] == pytest.approx(own["policy_a_dcf1"], abs=limits["a_dcf"])
