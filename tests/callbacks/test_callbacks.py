"""Fitting on dev scores, order of callbacks, files of results, and the best epoch.

That is the one of the lowest dev CM EER, the earliest of equals, never one without a number.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint

from lightning_sasv.callbacks import FitFusion, KeepBest, WriteResults, checkpoint_in_use
from lightning_sasv.data.corpus import Corpus
from lightning_sasv.errors import InputError
from lightning_sasv.files import sha256
from lightning_sasv.fusion import build_system
from lightning_sasv.metrics.functional import sasv_eers
from lightning_sasv.models import SASVModule
from lightning_sasv.scores import read_scores
from tests.helpers import best_checkpoint, metrics_in, plain_trainer, quiet_trainer, shared_data

SYSTEMS = ("L3c", "B1")


@pytest.fixture(scope="module")
def run(twin: Corpus, tmp_path_factory: pytest.TempPathFactory) -> tuple[pl.Trainer, Path]:
    """A finished run: fit, then validate and test of the best checkpoint."""
    folder = tmp_path_factory.mktemp("run")
    module, data = SASVModule(systems=SYSTEMS, lr=1e-3), shared_data(twin)
    trainer = quiet_trainer(folder, epochs=3)
    trainer.fit(module, data)
    trainer.validate(module, data, ckpt_path="best", verbose=False)
    trainer.test(module, data, ckpt_path="best", verbose=False)
    return trainer, Path(trainer.log_dir)


def test_checkpoint_has_the_systems_of_its_own_weights(
    run: tuple[pl.Trainer, Path], twin: Corpus
) -> None:
    """ModelCheckpoint is listed first, and still saves after the fit of the same epoch."""
    checkpoint = torch.load(best_checkpoint(run[0]), weights_only=True)
    module = SASVModule(systems=SYSTEMS)
    module.load_state_dict(checkpoint["state_dict"])
    dev = twin.dev
    with torch.no_grad():
        cm = module.head.score(dev.probe_vectors)[dev.probe_of_trial]
    fresh = build_system("L3c").fit(dev.asv_scores, cm, dev.label)
    assert module.fusion["L3c"].is_fitted
    for name, value in fresh.state_dict().items():
        torch.testing.assert_close(
            module.fusion["L3c"].state_dict()[name].double(), value.double(), rtol=1e-6, atol=1e-8
        )


@pytest.mark.parametrize("place", [0, 1])
def test_monitored_value_comes_from_the_callback(twin: Corpus, tmp_path: Path, place: int) -> None:
    """A checkpoint can monitor what FitFusion logs, on whichever side of it it is listed.

    The value that the checkpoint was chosen by is that of the same epoch, not of the one before.
    """
    seen: list[float] = []

    class Note(pl.Callback):
        def on_validation_end(self, trainer: pl.Trainer, *_: Any) -> None:
            seen.append(float(trainer.callback_metrics["val/B1/sasv_eer"]))

    monitor = ModelCheckpoint(tmp_path, "x-{epoch}", monitor="val/B1/sasv_eer", save_top_k=-1)
    callbacks: list[pl.Callback] = [FitFusion(), Note()]
    callbacks.insert(place, monitor)
    trainer = plain_trainer(3, callbacks)
    trainer.fit(SASVModule(systems=SYSTEMS), shared_data(twin))
    assert [float(value) for value in monitor.best_k_models.values()] == seen
    assert len(set(seen)) > 1, "the same value in every epoch: the test shows nothing"


def test_scores_on_disk(run: tuple[pl.Trainer, Path], twin: Corpus) -> None:
    module = run[0].lightning_module
    for data in (twin.dev, twin.eval):
        table = read_scores(run[1] / "scores" / f"{data.name}.csv")
        for name in ("speaker", "utterance", "attack", "label"):
            np.testing.assert_array_equal(getattr(table, name), getattr(data.trials, name))
        np.testing.assert_array_equal(table.asv, data.asv_scores.double())
        fused = module.fusion["L3c"](table.asv, table.cm)
        np.testing.assert_allclose(table.extra["sasv_L3c"], fused.sasv, rtol=1e-12)
        np.testing.assert_allclose(table.extra["sasv_B1"], table.asv + table.cm, rtol=1e-12)


def test_metrics_on_disk_and_in_the_log(run: tuple[pl.Trainer, Path]) -> None:
    metrics = metrics_in(run[1])
    assert list(metrics) == sorted(SYSTEMS)
    for name in SYSTEMS:
        assert metrics[name]["corpus"] == "twin"
        assert metrics[name]["seed"] == 1986
        for split in ("dev", "eval"):
            table = read_scores(run[1] / "scores" / f"{split}.csv")
            rates = sasv_eers(table.extra[f"sasv_{name}"], table.label)
            for task in ("sasv", "sv", "spf"):
                assert metrics[name][split][f"{task}_eer"] == getattr(rates, task)
    assert 0 <= metrics["L3c"]["fitted"]["rho"] <= 1
    logged = run[0].callback_metrics
    for key in ("sasv_eer", "cllr", "min_a_dcf"):
        assert float(logged[f"eval/{key}"]) == pytest.approx(metrics["L3c"]["eval"][key], abs=1e-6)
        assert float(logged[f"eval/B1/{key}"]) == pytest.approx(
            metrics["B1"]["eval"][key], rel=1e-6
        )


def test_nothing_is_refitted_outside_of_fit(
    run: tuple[pl.Trainer, Path], twin: Corpus, tmp_path: Path
) -> None:
    """Other dev trials in ``validate`` and ``test`` leave the fitted state alone."""
    checkpoint = best_checkpoint(run[0])
    before = torch.load(checkpoint, weights_only=True)["state_dict"]
    other = replace(twin, dev=replace(twin.eval, name="dev"))  # a fit on these would differ
    module, trainer = SASVModule(systems=SYSTEMS), quiet_trainer(tmp_path)
    for stage in (trainer.validate, trainer.test):
        stage(module, shared_data(other), ckpt_path=checkpoint, verbose=False)
    after = module.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    scored = trainer.lightning_module.scored_trials()
    changed = module.fusion["L3c"].fit(scored.asv, scored.cm[0], scored.label)
    state = changed.state_dict()
    assert any(not torch.equal(before[f"fusion.L3c.{key}"], state[key]) for key in state)


def test_partial_validation_fits_nothing_and_does_not_crash(twin: Corpus, tmp_path: Path) -> None:
    module = SASVModule(systems=("L3c",))
    data = shared_data(twin, score_batch_size=1)
    with pytest.warns(UserWarning, match="lacks a class"):
        quiet_trainer(tmp_path, epochs=1, limit_val_batches=1, callbacks=[]).fit(module, data)
    assert not module.fusion["L3c"].is_fitted


def test_unwritable_folder_is_reported_before_the_work(twin: Corpus, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    trainer = quiet_trainer(tmp_path, epochs=1)
    writer = next(c for c in trainer.callbacks if isinstance(c, WriteResults))
    writer.folder = str(blocked / "out")
    module = SASVModule()
    before = module.head.get_parameter("weight_0").clone()
    with pytest.raises(InputError, match="cannot write to output directory"):
        trainer.fit(module, shared_data(twin))
    assert torch.equal(before, module.head.get_parameter("weight_0"))


def test_failed_write_leaves_no_file(
    twin: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, data = SASVModule(), shared_data(twin)
    trainer = quiet_trainer(tmp_path, epochs=1)
    trainer.fit(module, data)

    def full(*_: Any) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left"):
        trainer.test(module, data, verbose=False)
    assert not (Path(trainer.log_dir) / "metrics.json").exists()
    assert list((Path(trainer.log_dir) / "scores").iterdir()) == []


class Scripted(SASVModule):
    """A module whose dev CM EERs are given: one list per seed, one rate per epoch."""

    def __init__(self, rates: list[list[float]], **kwargs: Any) -> None:
        super().__init__(seeds=tuple(range(len(rates))), **kwargs)
        self.rates = rates
        self.heads: list[torch.Tensor] = []

    def on_validation_epoch_end(self) -> None:
        self.dev_rates = [rates[self.current_epoch] for rates in self.rates]
        self.log("val/cm_eer", self.dev_rates[0])
        self.heads.append(self.head.get_parameter("weight_0").detach().clone())


CASES = {
    "tie in the middle": ([0.3, 0.1, 0.2, 0.1], 1),
    "all alike": ([0.2, 0.2, 0.2, 0.2], 0),
    "tie at the end": ([0.3, 0.2, 0.1, 0.1], 2),
    "best in the end": ([0.4, 0.3, 0.2, 0.1], 3),
    "no number at first": ([math.nan, 0.2, 0.2, 0.3], 1),
}


@pytest.mark.parametrize("name", CASES)
def test_checkpoint_of_one_seed(name: str, twin: Corpus, tmp_path: Path) -> None:
    rates, epoch = CASES[name]
    module, trainer = Scripted([rates]), quiet_trainer(tmp_path, epochs=4)
    trainer.fit(module, shared_data(twin, seeds=(0,)))
    best = torch.load(best_checkpoint(trainer), weights_only=True)
    assert best["epoch"] == epoch
    assert torch.equal(best["state_dict"]["head.weight_0"], module.heads[epoch])
    digest, steps = sha256(best_checkpoint(trainer)), best["global_step"]
    named = {"file": "best.ckpt", "epoch": epoch, "step": steps, "sha256": digest}
    assert checkpoint_in_use(trainer) == named
    torch.save(best | {"epoch": 7}, best_checkpoint(trainer))  # not the one that is in use
    assert checkpoint_in_use(trainer) is None


def test_the_checkpoint_that_was_loaded_is_named(twin: Corpus, tmp_path: Path) -> None:
    module, trainer = SASVModule(hidden_dims=(4,)), quiet_trainer(tmp_path, epochs=1)
    assert checkpoint_in_use(trainer) is None
    trainer.fit(module, shared_data(twin))
    last = best_checkpoint(trainer).with_name("last.ckpt")
    trainer.validate(module, shared_data(twin), ckpt_path=last, verbose=False)
    found = checkpoint_in_use(trainer)
    assert found is not None
    assert (found["file"], found["epoch"], found["sha256"]) == ("last.ckpt", 0, sha256(last))


def test_each_of_several_seeds_keeps_its_own(twin: Corpus) -> None:
    scripts, epochs = zip(*CASES.values(), strict=True)
    module, best = Scripted(list(scripts)), KeepBest(save=False)
    trainer = plain_trainer(4, [best], enable_checkpointing=False)
    trainer.fit(module, shared_data(twin, seeds=module.seeds))
    assert best.epoch.tolist() == list(epochs)
    for copy, epoch in enumerate(epochs):
        assert torch.equal(best.head["weight_0"][copy], module.heads[epoch][copy])
