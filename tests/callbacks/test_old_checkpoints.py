"""Checkpoints of version 0.1 are read: trainings go on from them, heads are tested, none is lost.

The files were written by that version, on the twin at scale 0.01 with a head of widths 8 and 4:
``last.ckpt`` and ``best.ckpt`` by a ``fit`` of two epochs, whose best is the first, ``stack.ckpt``
and ``table.ckpt`` by a ``table`` of seeds 1 and 2 (to resume from, and of seed 1 alone).
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from lightning_sasv.callbacks import KeepBest
from lightning_sasv.cli import main
from lightning_sasv.data import Corpus, make_twin
from lightning_sasv.models import SASVModule
from tests.helpers import metrics_in, quiet_trainer, shared_data

OLD = Path(__file__).parents[1] / "checkpoints_of_0_1"
RUN = Path("runs/L3c/version_0")


@pytest.fixture(scope="module")
def tiny() -> Corpus:
    return make_twin(0.01)


def read(path: Path) -> dict[str, Any]:
    return torch.load(path, weights_only=True)


def fit(folder: Path, monkeypatch: pytest.MonkeyPatch, *args: str) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    main(["fit", "--config", str(OLD / "config.yaml"), "--trainer.max_epochs=4", *args])
    return read(RUN / "checkpoints" / "last.ckpt")


def test_a_training_goes_on_with_its_configuration_and_its_best_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "resumed" / RUN / "checkpoints"
    place.mkdir(parents=True)
    for name in ("last.ckpt", "best.ckpt"):
        shutil.copy(OLD / name, place)
    whole = fit(tmp_path / "whole", monkeypatch)
    resumed = fit(tmp_path / "resumed", monkeypatch, "--ckpt_path=last")
    assert (resumed["epoch"], resumed["global_step"]) == (3, whole["global_step"])
    for name, value in whole["state_dict"].items():  # the first two epochs ran elsewhere
        torch.testing.assert_close(resumed["state_dict"][name], value, rtol=1e-3, atol=1e-4)
    best = resumed["callbacks"]["KeepBest"]
    assert best["epoch"].tolist() == [read(OLD / "best.ckpt")["epoch"]] == [0]
    assert torch.equal(
        best["head"]["weight_0"], read(OLD / "best.ckpt")["state_dict"]["head.weight_0"]
    )
    metrics = [metrics_in(tmp_path / n / RUN) for n in ("whole", "resumed")]
    for name in ("L3c", "B1"):
        mine, theirs = (one[name]["eval"]["sasv_eer"] for one in metrics)
        assert mine == pytest.approx(theirs, abs=1e-3)


@pytest.mark.parametrize(("name", "seed"), [("best", 1986), ("table", 1)])
def test_heads_and_fitted_systems_are_tested(
    name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["test", "--ckpt_path", str(OLD / f"{name}.ckpt"), "--data.scale=0.01"])
    found = metrics_in(next(tmp_path.rglob("metrics.json")).parent)
    assert found["L3c"]["seed"] == seed
    state = read(OLD / f"{name}.ckpt")["state_dict"]
    assert found["L3c"]["fitted"]["rho"] == float(state["fusion.L3c.rho"])
    assert found["L3c"]["eval"]["sasv_eer"] < 0.05 < found["B1"]["eval"]["sasv_eer"]


def test_a_finished_stack_of_a_table_is_only_loaded(tiny: Corpus, tmp_path: Path) -> None:
    module, best = (
        SASVModule(hidden_dims=(8, 4), lr=1e-2, systems=(), seeds=(1, 2)),
        KeepBest(save=False),
    )
    trainer = quiet_trainer(tmp_path, epochs=2, best=False, callbacks=[best])
    data = shared_data(tiny, scale=0.01, seeds=(1, 2))
    trainer.fit(module, data, ckpt_path=OLD / "stack.ckpt")
    assert best.epoch.tolist() == [0, 0]
    state = read(OLD / "table.ckpt")["state_dict"]
    for name, value in module.alone(0, ()).state_dict().items():
        assert torch.equal(value, state[name])
