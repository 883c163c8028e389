"""Whole trainings: the paper's order at full scale, and stacked against separate runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch

from lightning_sasv.callbacks import KeepBest
from lightning_sasv.data import Corpus, make_twin
from lightning_sasv.models import SASVModule
from lightning_sasv.report.table1 import PAPER, make_rows, order_checks
from lightning_sasv.results import read_metrics
from tests.helpers import best_checkpoint, quiet_trainer, run_measured, shared_data

pytestmark = pytest.mark.slow


def test_the_systems_come_out_in_the_order_of_the_paper(tmp_path: Path) -> None:
    """And the two processes of the command stay below 3 GB together."""
    shown, peak = run_measured(tmp_path, "table", "--out=out", "--processes=2")
    metrics = read_metrics(tmp_path / "out/metrics.json")
    assert len(metrics["B1"]["sets"]["eval"]["per_seed"]) == 6
    checks = order_checks(make_rows(metrics, list(PAPER)))
    assert len(checks) == 9
    assert [check.statement for check in checks if not check.holds] == []
    assert "9 of 9 checks hold" in shown
    assert 0.2 < 2 * peak < 3


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return make_twin(0.1)


def last_module(runner: pl.Trainer, seeds: tuple[int, ...]) -> SASVModule:
    module, file = SASVModule(seeds=seeds), best_checkpoint(runner).with_name("last.ckpt")
    module.load_state_dict(torch.load(file, weights_only=True)["state_dict"])
    return module


def test_stacked_training_is_that_of_separate_runs(corpus: Corpus, tmp_path: Path) -> None:
    """Float32, ten epochs: equal dev EERs, and scores that differ by the order of summation."""
    seeds, best = (1986, 1987, 1988), KeepBest(save=False)
    runner = quiet_trainer(tmp_path / "all", epochs=10, best=False, callbacks=[best])
    runner.fit(SASVModule(seeds=seeds), shared_data(corpus, seeds=seeds))
    together = last_module(runner, seeds)
    vectors = corpus.dev.probe_vectors
    for copy, seed in enumerate(seeds):
        runner = quiet_trainer(tmp_path / str(seed), epochs=10)
        runner.fit(SASVModule(seeds=(seed,)), shared_data(corpus, seeds=(seed,)))
        alone = last_module(runner, (seed,))
        with torch.no_grad():
            mine, theirs = together.head.score(vectors)[copy], alone.head.score(vectors)
        assert float((mine - theirs).abs().max()) < 1e-2
        kept = torch.load(best_checkpoint(runner), weights_only=True)
        assert kept["epoch"] == int(best.epoch[copy])
        rate = float(kept["callbacks"]["KeepBest"]["rate"])
        assert float(best.rate[copy]) == pytest.approx(rate, abs=1e-8)
