"""Real audio to a SASV-EER: extract, fit, evaluate on the small corpus of real recordings.

The corpus is small (220 training recordings, 54 target trials in eval, so that one of them is
1.9 % of the miss rate), and its training set has as many bona fide as spoofed recordings where that
of SASV 2022 has nine times fewer. Hence a larger learning rate, more epochs, a stronger penalty,
and class weights that punish accepted spoofs.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from lightning_sasv import cli
from lightning_sasv.data import EmbeddingStore, SASVDataModule
from lightning_sasv.models import SASVModule
from lightning_sasv.report.metrics_file import METRICS_FILE, read_metrics
from tests.helpers import quiet_trainer

SMALL_CORPUS: dict[str, Any] = {"lr": 2e-4, "weight_decay": 0.03, "class_weights": (0.99, 0.01)}
EPOCHS = 40


def evaluate(root: Path, protocols: Path, folder: Path, seed: int) -> dict[str, dict[str, Any]]:
    """Metrics by system on eval, of the checkpoint with the best CM EER on dev."""
    data = SASVDataModule(root=str(root), protocols=str(protocols), seeds=(seed,))
    module = SASVModule(systems=("L3c", "B1"), seeds=(seed,), **SMALL_CORPUS)
    trainer = quiet_trainer(folder, EPOCHS)
    trainer.fit(module, data)
    best = trainer.checkpoint_callback.best_model_path  # type: ignore[union-attr]
    for stage in (trainer.validate, trainer.test):
        stage(module, datamodule=data, ckpt_path=best, verbose=False)
    (found,) = folder.rglob(METRICS_FILE)
    return {name: entry["eval"] for name, entry in read_metrics(found).items()}


def check(metrics: dict[str, dict[str, Any]]) -> None:
    """Far from chance, below 8 %, and better than the plain sum."""
    assert metrics["L3c"]["sasv_eer"] < 0.08
    assert metrics["L3c"]["sasv_eer"] < metrics["B1"]["sasv_eer"] - 0.02
    assert metrics["L3c"]["sv_eer"] < 0.05
    assert metrics["L3c"]["spf_eer"] < 0.25  # attacks that training has not seen


@pytest.mark.parametrize("seed", [1986, 1987])
def test_the_trained_head_on_ready_made_embeddings(shared: Path, tmp_path: Path, seed: int) -> None:
    data = shared / "data"
    check(evaluate(data / "mini_la_embeddings", data / "mini_la" / "LA", tmp_path, seed))


def check_embeddings(found: EmbeddingStore, wanted: EmbeddingStore) -> None:
    """Every wanted embedding is there, with the same values.

    One recording in some hundreds may have two nodes in AASIST's graphs whose scores differ by less
    than the precision of float32; it may take the other order.
    """
    difference = (found.select(wanted.ids) - wanted.vectors).abs().amax(dim=1)
    difference /= wanted.vectors.abs().max()
    assert int((difference > 1e-5).sum()) <= len(wanted) // 100
    assert float(difference.max()) < 0.05


@pytest.mark.slow
def test_from_audio_to_the_sasv_eer(
    shared: Path, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("lightning_sasv.commands.extract", "extract", "audio to embeddings")
    monkeypatch.setitem(cli.COMMANDS, "extract", command)
    audio, out = shared / "data" / "mini_la" / "LA", tmp_path / "embeddings"
    words = ["--audio", audio, "--out", out, "--cm", weights / "AASIST.pth"]
    begin = time.monotonic()
    cli.main(["extract", *map(str, words), "--asv", str(weights / "ecapa"), "--strict"])
    assert time.monotonic() - begin < 1_800
    for path in (shared / "data" / "mini_la_embeddings").glob("*.pk"):
        if path.stem != "asv_embd_trn":  # not needed, hence not made
            found = EmbeddingStore.load(out / f"{path.stem}.safetensors")
            check_embeddings(found, EmbeddingStore.from_pickle(path))
    check(evaluate(out, audio, tmp_path / "run", 1986))
