"""Whole trainings: the paper's order at full scale, and stacked against separate runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from lightning_sasv.data import Corpus, make_twin
from lightning_sasv.experiment.settings import Experiment
from lightning_sasv.experiment.training import train_heads
from lightning_sasv.models import SASVModule
from lightning_sasv.report.table1 import PAPER, make_rows, order_checks
from tests.helpers import quiet_trainer, run_measured, shared_data

pytestmark = pytest.mark.slow


def test_the_systems_come_out_in_the_order_of_the_paper(tmp_path: Path) -> None:
    """And the two processes of the command stay below 3 GB together."""
    shown, peak = run_measured(tmp_path, "table", "--out=out", "--processes=2")
    seeds = [json.loads(p.read_text()) for p in sorted(tmp_path.glob("out/seed*/metrics.json"))]
    assert len(seeds) == 6
    checks = order_checks(make_rows(seeds, list(PAPER)))
    assert len(checks) == 9
    assert [check.statement for check in checks if not check.holds] == []
    assert "9 of 9 checks hold" in shown
    assert 0.2 < 2 * peak < 3


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return make_twin(0.1)


def test_stacked_training_is_that_of_separate_runs(corpus: Corpus, tmp_path: Path) -> None:
    """Float32, ten epochs: equal dev EERs, and scores that differ by the order of summation."""
    seeds, experiment = (1986, 1987, 1988), Experiment()
    data = shared_data(corpus, seeds=seeds)
    _, _, best = train_heads(experiment, data, tmp_path / "all", False)
    last = torch.load(tmp_path / "all" / "last.ckpt", weights_only=True)["state_dict"]
    vectors = corpus.dev.probe_vectors
    for copy, seed in enumerate(seeds):
        alone = SASVModule(seeds=(seed,))
        runner = quiet_trainer(tmp_path / str(seed), epochs=experiment.epochs)
        runner.fit(alone, shared_data(corpus, seeds=(seed,)))
        end = SASVModule(seeds=seeds)
        end.load_state_dict({k: v for k, v in last.items() if k.startswith("head.")}, strict=False)
        with torch.no_grad():
            mine, theirs = end.head.score(vectors)[copy], alone.head.score(vectors)
        assert float((mine - theirs).abs().max()) < 1e-2
        kept = torch.load(runner.checkpoint_callback.best_model_path, weights_only=True)
        assert kept["epoch"] == int(best.epoch[copy])
        rate = float(runner.checkpoint_callback.best_model_score)
        assert float(best.rate[copy]) == pytest.approx(rate, abs=1e-8)
