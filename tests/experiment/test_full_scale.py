"""Whole trainings: the paper's order at full scale, and stacked against separate runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning as pl
import torch

from lightning_sasv.callbacks import KeepBest
from lightning_sasv.cli import main
from lightning_sasv.data import Corpus, make_twin
from lightning_sasv.fusion import SYSTEMS
from lightning_sasv.fusion.rules import fuse
from lightning_sasv.metrics.functional import sasv_eers
from lightning_sasv.metrics.intervals import over_seeds
from lightning_sasv.models import SASVModule
from lightning_sasv.report.sure import draw_seeds
from lightning_sasv.report.table1 import PAPER, make_rows, order_checks
from lightning_sasv.results import read_metrics
from lightning_sasv.scores import read_scores
from tests.helpers import best_checkpoint, quiet_trainer, run_measured, shared_data

pytestmark = pytest.mark.slow

ROWS = {"B1": 21.45, "B1c": 3.07, "L2": 4.05, "L2c": 1.72, "L3": 1.55, "L3c": 1.57}
"""SASV-EER %, as it was before Post and B1v2 had networks of their own."""


def test_the_systems_come_out_in_the_order_of_the_paper(tmp_path: Path) -> None:
    """And the two processes of the command stay below 3 GB together."""
    shown, peak = run_measured(tmp_path, "table", "--out=out", "--processes=2", "--replicates=199")
    metrics = read_metrics(tmp_path / "out/metrics.json")
    assert len(metrics["B1"]["sets"]["eval"]["per_seed"]) == 6
    checks = order_checks(make_rows(metrics, list(PAPER)))
    assert len(checks) == 9
    assert [check.statement for check in checks if not check.holds] == []
    assert "9 of 9 checks hold" in shown
    assert 0.2 < 2 * peak < 3
    rates = {name: own["sets"]["eval"]["values"]["sasv_eer"] for name, own in metrics.items()}
    shared = {name: _by_the_shared_network(tmp_path / "out", name) for name in ("Post", "B1v2")}
    assert 100 * np.array([*shared.values()]) == pytest.approx([1.583, 2.332], abs=2e-3)
    assert rates["Post"] < shared["Post"]
    assert rates["B1v2"] <= 0.0195
    assert {name: round(100 * rates[name], 2) for name in ROWS} == ROWS


def _by_the_shared_network(folder: Path, name: str) -> float:
    """Mean SASV-EER of a system's rule on the scores that the other systems fuse."""
    files = [read_scores(one) for one in sorted(folder.glob("seed*/scores/eval.csv"))]
    assert len(files) == 6
    fused = [(fuse(SYSTEMS[name]["rule"], 0.5, one.asv, one.cm), one.label) for one in files]
    return float(np.mean([sasv_eers(*one).sasv for one in fused]))


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


SPEAKERS = {"L3c": (0.88, 2.25), "L2": (3.28, 5.44)}
SEEDS_AND_SPEAKERS = {"L3c": (0.88, 2.28), "L2": (2.94, 5.76)}


def test_intervals_over_seeds_and_speakers_on_the_twin(tmp_path: Path) -> None:
    """Scale 0.1, five epochs, six seeds: means, spreads and percentile intervals, per cent."""
    names = list(SPEAKERS)
    options = ["--systems", ",".join(names), "--data.scale", "0.1", "--epochs", "5"]
    main(["table", "--out", str(tmp_path / "out"), *options, "--processes", "1"])
    metrics = read_metrics(tmp_path / "out/metrics.json")
    for name, mean, spread in (("L3c", 1.54, 0.10), ("L2", 4.44, 0.85)):
        own = metrics[name]["sets"]["eval"]
        assert 100 * own["values"]["sasv_eer"] == pytest.approx(mean, abs=0.006)
        assert 100 * own["spread"]["sasv_eer"] == pytest.approx(spread, abs=0.006)
    draws = draw_seeds(sorted(tmp_path.glob("out/seed*")), names, 1000)
    for table, vary in ((SPEAKERS, False), (SEEDS_AND_SPEAKERS, True)):
        for name, (low, high) in table.items():
            seeds = [one[name]["sasv_eer"] for one in draws]
            found = over_seeds(seeds, vary=vary).interval(method="percentile")
            ends = 100 * found.low, 100 * found.high
            assert ends == pytest.approx((low, high), abs=0.04 * (high - low)), name
