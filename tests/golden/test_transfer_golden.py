"""dev → eval of SASV 2022 is a benign transfer; a shift of the scores is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from lightning_sasv import evaluation

GOLDEN = {  # dev EER; eval EER, HTER pooled, macro in per cent; a-DCF (asvspoof5) min, carried
    "B1": (13.866, 20.614, 20.368, 25.163, 0.1695, 0.1706),
    "B1c": (2.359, 2.775, 2.791, 3.360, 0.0539, 0.0554),
    "L2c": (1.212, 1.583, 1.571, 1.868, 0.0331, 0.0337),
    "L3": (1.015, 1.434, 1.421, 1.678, 0.0295, 0.0305),
    "L3c": (1.013, 1.415, 1.433, 1.683, 0.0302, 0.0316),
    "L3t": (0.876, 1.378, 1.375, 1.594, 0.0295, 0.0299),
}
"""Published with the scores, never from this code."""


@pytest.fixture(scope="module")
def run(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The systems fitted on dev of SASV 2022."""
    folder, data = tmp_path_factory.mktemp("transfer"), shared / "data/sasv2022"
    files = {split: str(data / f"{split}_scores.csv") for split in ("dev", "eval")}
    evaluation.fuse(**files, systems=",".join(GOLDEN), out=str(folder / "run"))
    return folder


def audited(run: Path, scores: Path, **options: Any) -> dict[str, Any]:
    how = {"costs": "asvspoof5", "overwrite": True, "out": str(run / "out"), "system": "L3"}
    return evaluation.transfer(
        fitted=str(run / "run"), scores=str(scores), **{**how, **options}
    ).content


def test_nothing_is_lost_from_dev_to_eval(run: Path, shared: Path) -> None:
    eval_scores = shared / "data/sasv2022/eval_scores.csv"
    content = audited(run, eval_scores, trials="20,100", speakers="1,16", methods="threshold")
    assert content["speakers"] == 48
    for name, (dev, *rates, least, carried) in GOLDEN.items():
        entry = content["systems"][name]
        found = [100 * entry["target"][key] for key in ("sasv_eer", "hter", "hter_macro")]
        assert 100 * entry["source"]["sasv_eer"] == pytest.approx(dev, abs=6e-4)
        assert found == pytest.approx(rates, abs=6e-4)
        costs = [entry["target"][key] for key in ("min_a_dcf", "dev_a_dcf")]
        assert costs == pytest.approx([least, carried], abs=6e-5)
        assert entry["verdict"].startswith("nothing lost"), entry["verdict"]
    rows = {
        (row["unit"], row["n"]): row
        for row in content["budget"]
        if (row["method"], row["measure"]) == ("threshold", "hter")
    }
    assert 55 < rows["trials", 20]["undefined"] < 90  # 73 of 200 elsewhere; 0.9476^20 of 200 are 68
    assert 100 * rows["trials", 20]["median"] == pytest.approx(2.76, abs=1.0)
    assert 100 * rows["trials", 100]["median"] == pytest.approx(1.43, abs=0.25)
    assert 100 * rows["speakers", 16]["median"] == pytest.approx(1.49, abs=0.15)
    assert rows["trials", 20]["median"] > rows["trials", 20]["carried"]
    assert 100 * rows["trials", 20]["carried"] == pytest.approx(1.421, abs=0.01)
    assert len(content["by"]["attack"]) == 13


def test_a_shift_is_a_loss(run: Path, shared: Path) -> None:
    frame = pl.read_csv(shared / "data/sasv2022/eval_scores.csv")
    moved = frame.with_columns(
        pl.when(pl.col("label") == "spoof")
        .then(pl.col("cm_score") + 3)
        .otherwise(pl.col("cm_score"))
    )
    assert not moved.equals(frame)
    moved.write_csv(run / "moved.csv")
    content = audited(run, run / "moved.csv", trials="", speakers="", systems="L3,L3c")
    for entry in content["systems"].values():
        assert entry["verdict"].startswith("lost: HTER"), entry["verdict"]
