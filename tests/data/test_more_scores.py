"""Scores of other people beside the pair of a run: ``--data.more_scores`` of fit and table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lightning_sasv.cli import main
from lightning_sasv.data import make_twin
from lightning_sasv.data.datamodule import with_more_scores
from lightning_sasv.errors import InputError
from lightning_sasv.fitted import read_fitted
from lightning_sasv.fusion import FusionSystem
from lightning_sasv.results import METRICS_FILE, read_metrics, read_results
from lightning_sasv.scores import read_table
from lightning_sasv.scores.columns import score_names
from tests.helpers import failure_of

SCALE = 0.01
TINY = (f"--data.scale={SCALE}", "--trainer.max_epochs=1", "--trainer.accelerator=cpu", "--quiet")
NAMES = ("asv_score", "asv_x", "cm_score", "cm_y")
MORE = json.dumps({"dev": "dev.csv", "eval": "eval.csv"})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of further scores for each set of the twin, in another order, CM by utterance."""
    monkeypatch.chdir(tmp_path)
    corpus, rng = make_twin(SCALE), np.random.default_rng(0)
    for data in (corpus.dev, corpus.eval):
        table = data.trials.table(data.name).frame
        same, live = table["label"] == "target", table["label"] != "spoof"
        own = {
            "asv_x": same.cast(pl.Float64) + rng.normal(size=len(table)),
            "cm_y": live.cast(pl.Float64) * 2 + rng.normal(size=len(table)),
        }
        table.with_columns(**own).reverse().write_csv(f"{data.name}.csv")
    return tmp_path


def test_a_trained_head_is_fused_with_scores_of_others(here: Path) -> None:
    main(["fit", "--systems", "M3,B1", "--data.more_scores", MORE, *TINY])
    run = here / "runs/M3/version_0"
    tables = {split: read_table(run / f"scores/{split}.csv") for split in ("dev", "eval")}
    assert score_names(tables["eval"]) == list(NAMES)
    system = read_fitted(run / "fitted/M3.safetensors")
    assert system.columns.names == NAMES
    dev, other = ({n: tables[s].numbers(n) for n in NAMES} for s in ("dev", "eval"))
    sides = [np.stack([dev[n] for n in NAMES[k : k + 2]], axis=1) for k in (0, 2)]
    made = FusionSystem(calibration="multinomial", rule="nonlinear")
    made.fit(*sides, tables["dev"].labels(), columns=NAMES)
    expected = made(*(np.stack([other[n] for n in NAMES[k : k + 2]], axis=1) for k in (0, 2)))
    assert tables["eval"].numbers("sasv_M3") == pytest.approx(expected.sasv.numpy(), rel=1e-5)
    given = pl.read_csv("eval.csv").sort("speaker", "utterance")["asv_x"]
    written = tables["eval"].frame.sort("speaker", "utterance")["asv_x"]
    assert written.to_list() == pytest.approx(given.to_list())
    assert read_results(run).notes == []
    before = read_metrics(run / METRICS_FILE)["M3"]["sets"]["eval"]["values"]
    main(["test", str(run), "--quiet"])
    assert read_metrics(run / METRICS_FILE)["M3"]["sets"]["eval"]["values"] == before


def test_a_table_takes_them_and_tells_its_results_from_those_without(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = ["table", "--seeds=1", "--replicates=0", "--processes=1", *TINY, "--systems", "M3,Post"]
    main([*table, "--data.more_scores", MORE, "--out", "t"])
    assert read_fitted(here / "t/seed1/fitted/M3.safetensors").columns.names == NAMES
    assert read_results("t").notes[1:] == []
    assert "another configuration" in failure_of(capsys, *table, "--out", "t")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"dev": "dev.csv"}, "give files of both sets"),
        (
            {"dev": "dev.csv", "evl": "eval.csv"},
            "'evl' is neither dev nor eval; did you mean eval?",
        ),
        ({"dev": "dev.csv", "eval": "nowhere.csv"}, "nowhere.csv"),
        ({"dev": "dev.csv", "eval": "dev.csv"}, "dev.csv: no score for"),
        ({"dev": "dev.csv", "eval": "lacking.csv"}, "have not the same columns (cm_y)"),
        ({"dev": "own.csv", "eval": "own.csv"}, "own.csv has asv_score, which the run computes"),
    ],
)
def test_mistakes(
    here: Path, files: dict[str, str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pl.read_csv("eval.csv").drop("cm_y").write_csv("lacking.csv")
    pl.read_csv("dev.csv").rename({"asv_x": "asv_score"}).write_csv("own.csv")
    words = ("--systems", "B1", *TINY, "--data.more_scores", json.dumps(files))
    assert said in failure_of(capsys, "fit", *words)
    assert not (here / "runs").exists()


def test_a_corpus_without_further_scores_is_itself() -> None:
    corpus = make_twin(SCALE)
    assert with_more_scores(corpus, {}) is corpus
    with pytest.raises(InputError):
        with_more_scores(corpus, {"dev": "nowhere", "eval": "nowhere"})
