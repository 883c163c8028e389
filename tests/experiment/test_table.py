"""`lightning table`: results, what is kept, what is noticed, what is written."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from lightning_sasv.cli import main
from lightning_sasv.data.corpus import Corpus
from lightning_sasv.errors import InputError
from lightning_sasv.experiment import run as run_module
from lightning_sasv.experiment.settings import Experiment, parse_seeds
from lightning_sasv.experiment.training import train_heads
from lightning_sasv.fitted import load_systems
from lightning_sasv.fusion import PAPER_SYSTEMS, SYSTEMS, system_names
from lightning_sasv.models import SASVModule
from lightning_sasv.report.order import order_checks
from lightning_sasv.report.table1 import COLUMNS, PAPER, make_rows
from lightning_sasv.scores import read_scores
from tests.helpers import quiet_trainer, shared_data

SMALL = ["--data.scale", "0.02", "--epochs", "2", "--replicates", "50"]


def table(out: Path, *args: str, seeds: str = "1-2") -> dict[str, Any]:
    main(["table", "--out", str(out), "--seeds", seeds, *SMALL, *args])
    return json.loads((out / "metrics.json").read_text())


def files(folder: Path) -> dict[str, bytes]:
    """Content of everything but the training logs."""
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and "training" not in p.parts
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("table") / "out"
    table(out)
    return out


def test_everything_is_written(finished: Path) -> None:
    metrics = json.loads((finished / "metrics.json").read_text())
    assert set(metrics) == set(PAPER_SYSTEMS)
    for seed in (1, 2):
        folder = finished / f"seed{seed}"
        own = json.loads((folder / "metrics.json").read_text())
        assert load_systems(folder).keys() == set(PAPER_SYSTEMS)
        for name in PAPER_SYSTEMS:
            assert own[name]["seed"] == seed
            assert own[name]["corpus"] == "twin"
            assert metrics[name]["per_seed"][str(seed)] == own[name]["eval"]
            assert ("ci" in own[name]) == (seed == 1)
        scores = read_scores(folder / "scores" / "eval.csv")
        fused = load_systems(folder)["L3c"](scores.asv, scores.cm).sasv
        assert (fused.numpy() == scores.extra["sasv_L3c"]).all()
    for name in PAPER_SYSTEMS:
        values = [v["sasv_eer"] for v in metrics[name]["per_seed"].values()]
        assert metrics[name]["eval"]["sasv_eer"] == pytest.approx(sum(values) / 2)
        assert metrics[name]["ci"]["low"] <= values[0] <= metrics[name]["ci"]["high"]


def test_every_page_says_that_the_twin_is_simulated(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table(finished)
    shown = capsys.readouterr().out
    for text in (shown, (finished / "table.md").read_text(), (finished / "table.tex").read_text()):
        assert "Simulated" in text
    with (finished / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["corpus"] for row in rows} == {"twin"}
    assert len(rows) == len(PAPER_SYSTEMS) * len(COLUMNS)


def test_finished_seeds_are_not_trained_again(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(finished)

    def fail(*_: Any) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(run_module, "train_heads", fail)
    table(finished)
    assert files(finished) == before


def test_only_missing_seeds_and_systems_are_computed(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    trained: list[tuple[int, ...]] = []

    def spy(experiment: Any, data: Any, *args: Any) -> Any:
        trained.append(data.seeds)
        return train_heads(experiment, data, *args)

    monkeypatch.setattr(run_module, "train_heads", spy)
    table(out, "--systems", "B1", seeds="1-2")
    table(out, "--systems", "B1,L3c", seeds="1-3")
    assert trained == [(1, 2), (1, 2), (3,)]
    metrics = json.loads((out / "metrics.json").read_text())
    assert set(metrics) == {"B1", "L3c"}
    whole = json.loads((finished / "metrics.json").read_text())
    for seed in ("1", "2"):
        for name in ("B1", "L3c"):
            assert metrics[name]["per_seed"][seed] == whole[name]["per_seed"][seed]


def test_another_configuration_is_noticed(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(finished)
    with pytest.raises(SystemExit) as ended:
        main(["table", "--out", str(finished), "--seeds", "1-2", *SMALL, "--epochs", "1"])
    assert ended.value.code == 2
    assert "another configuration" in capsys.readouterr().err
    assert files(finished) == before


def test_overwrite_replaces_them(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "seedling").mkdir(parents=True)
    (out / "seedling" / "mine.txt").write_text("not a result")
    table(out, "--systems", "B1")
    first = files(out)
    table(out, "--systems", "B1", "--data.twin_seed", "5", "--overwrite", "true")
    assert files(out).keys() == first.keys()
    assert files(out) != first
    assert (out / "seedling" / "mine.txt").exists()


def test_seed_checkpoint_can_be_tested(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    checkpoint = finished / "seed2" / "checkpoints" / "best.ckpt"
    main(["test", "--ckpt_path", str(checkpoint), "--data.scale", "0.02"])
    found = json.loads(next(tmp_path.rglob("metrics.json")).read_text())
    expected = json.loads((finished / "seed2" / "metrics.json").read_text())
    for name in PAPER_SYSTEMS:
        assert found[name]["eval"]["sasv_eer"] == expected[name]["eval"]["sasv_eer"]
        assert found[name]["seed"] == 2


def test_best_epoch_of_each_seed_is_that_of_its_own_run(twin: Corpus, tmp_path: Path) -> None:
    """Stacked seeds keep what ModelCheckpoint keeps in separate runs of ``fit``."""
    seeds, experiment = (21, 22, 23), Experiment(epochs=4)
    _, module, best = train_heads(
        experiment, shared_data(twin, seeds=seeds), tmp_path / "all", False
    )
    for copy, seed in enumerate(seeds):
        alone = SASVModule(seeds=(seed,))
        trainer = quiet_trainer(tmp_path / str(seed), epochs=4)
        trainer.fit(alone, shared_data(twin, seeds=(seed,)))
        kept = torch.load(trainer.checkpoint_callback.best_model_path, weights_only=True)
        assert kept["epoch"] == int(best.epoch[copy])
        for name, value in module.head.select(copy).state_dict().items():
            torch.testing.assert_close(value, kept["state_dict"][f"head.{name}"], rtol=0, atol=1e-4)


def test_submitted_jobs_give_the_same_results(finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    table(out, "--systems", "B1,L3c", "--launcher", "local", "--seeds_per_job", "2")
    mine, theirs = (json.loads((f / "metrics.json").read_text()) for f in (out, finished))
    for name in ("B1", "L3c"):
        assert mine[name]["per_seed"] == theirs[name]["per_seed"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--seeds", "x"], "cannot read 'x'"),
        (["--seeds", "1,1"], "twice"),
        (["--systems", "B1,L9"], "L9"),
        (["--epochs", "0"], "--epochs"),
        (["--replicates", "-1"], "--replicates"),
        (["--data.root", "nowhere"], "no data folder at nowhere"),
        (["--launcher", "moon"], "moon"),
        (["--launcher", "local", "--seeds_per_job", "0"], "--seeds_per_job"),
    ],
)
def test_mistakes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], args: list[str], words: str
) -> None:
    out = tmp_path / "out"
    with pytest.raises(SystemExit) as ended:
        main(["table", "--out", str(out), "--data.scale", "0.02", *args])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err
    assert not list(out.rglob("*.json"))


def test_unwritable_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as ended:
        main(["table", "--out", str(tmp_path / "file" / "out"), *SMALL])
    assert ended.value.code == 2
    assert "cannot write to output directory" in capsys.readouterr().err


def test_parsing() -> None:
    assert parse_seeds("1986-1988, 3") == [1986, 1987, 1988, 3]
    assert system_names("paper") == list(PAPER_SYSTEMS)
    assert system_names("all") == list(SYSTEMS)
    assert system_names("L3c,B1,L3c") == ["L3c", "B1"]
    with pytest.raises(InputError, match="names no seed"):
        parse_seeds("5-3")


def _seed_metrics(seed: int, shift: float) -> dict[str, Any]:
    values = {
        name: {key: row[key] / (100 if key in ("sasv_eer", "t_eer") else 1) for key in COLUMNS}
        for name, row in PAPER.items()
    }
    for row in values.values():
        row["sasv_eer"] += shift
    values["L3"] |= {"t_eer": None, "t_eer_closest": 0.0168}
    return {name: {"corpus": "x", "seed": seed, "eval": row} for name, row in values.items()}


def test_rows_are_means_beside_the_paper() -> None:
    rows = {
        r.system: r
        for r in make_rows([_seed_metrics(1, 0.0), _seed_metrics(2, 0.002)], list(PAPER))
    }
    for name, row in rows.items():
        cell = row.cells["sasv_eer"]
        assert cell.mean == pytest.approx(PAPER[name]["sasv_eer"] + 0.1)
        assert cell.spread == pytest.approx(0.2 / math.sqrt(2))
        assert cell.paper == PAPER[name]["sasv_eer"]
        assert row.cells["t_eer"].mean == pytest.approx(PAPER[name]["t_eer"])
        assert row.cells["t_eer"].marked == (name == "L3")


def test_order_checks_hold_for_the_paper_itself_and_can_fail() -> None:
    seeds = [_seed_metrics(1, 0.0)]
    assert all(check.holds for check in order_checks(make_rows(seeds, list(PAPER))))
    assert order_checks(make_rows(seeds, ["B1"])) == []
    for name, key, value in (
        ("B1", "sasv_eer", 0.1),
        ("L2", "sasv_eer", 0.01),
        ("B1c", "sasv_eer", 0.01),
        ("L3", "sasv_eer", 0.03),
        ("L3c", "sasv_eer", 0.03),
        ("L3c", "cllr", 0.4),
        ("B1", "cllr", 0.9),
        ("B1", "t_eer", 0.03),
    ):
        broken = _seed_metrics(1, 0.0)
        broken[name]["eval"][key] = value
        assert not all(c.holds for c in order_checks(make_rows([broken], list(PAPER)))), name
