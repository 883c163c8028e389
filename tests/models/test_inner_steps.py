"""Steps without Lightning's overhead: the same weights, and nobody who listens is left out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.profilers import SimpleProfiler

from lightning_sasv.data.corpus import Corpus
from lightning_sasv.models import SASVModule
from lightning_sasv.models.inner_steps import is_plain
from tests.helpers import quiet_trainer, shared_data


class Listener(pl.Callback):
    """Counts what Lightning tells of each step."""

    def __init__(self) -> None:
        self.heard: Counter[str] = Counter()

    def on_before_backward(self, *_: Any) -> None:
        self.heard["before backward"] += 1

    def on_after_backward(self, *_: Any) -> None:
        self.heard["after backward"] += 1

    def on_before_optimizer_step(self, *_: Any) -> None:
        self.heard["before step"] += 1


def fit(corpus: Corpus, folder: Path, **kwargs: Any) -> tuple[pl.Trainer, dict[str, torch.Tensor]]:
    module, trainer = SASVModule(lr=1e-3), quiet_trainer(folder, epochs=2, **kwargs)
    trainer.fit(module, shared_data(corpus))
    return trainer, module.head.state_dict()


@pytest.fixture(scope="module")
def plain(
    twin: Corpus, tmp_path_factory: pytest.TempPathFactory
) -> tuple[pl.Trainer, dict[str, torch.Tensor]]:
    return fit(twin, tmp_path_factory.mktemp("plain"))


def test_steps_are_counted(plain: tuple[pl.Trainer, Any], twin: Corpus) -> None:
    trainer = plain[0]
    assert is_plain(trainer)
    assert trainer.global_step == 2 * -(-len(twin.train.utterances) // 24)
    saved = torch.load(trainer.checkpoint_callback.best_model_path, weights_only=True)
    assert saved["global_step"] == (saved["epoch"] + 1) * trainer.global_step // 2


def test_a_callback_that_listens_hears_every_step(
    plain: tuple[pl.Trainer, dict[str, torch.Tensor]], twin: Corpus, tmp_path: Path
) -> None:
    listener = Listener()
    trainer, weights = fit(twin, tmp_path, callbacks=[listener])
    assert not is_plain(trainer)
    steps = plain[0].global_step
    assert trainer.global_step == steps
    assert listener.heard == dict.fromkeys(
        ("before backward", "after backward", "before step"), steps
    )
    assert all(torch.equal(weights[name], value) for name, value in plain[1].items())


def test_a_profiler_sees_every_step(twin: Corpus, tmp_path: Path) -> None:
    trainer, _ = fit(twin, tmp_path, profiler=SimpleProfiler())
    seen = trainer.profiler.recorded_durations["optimizer_step"]
    assert len(seen) == trainer.global_step > 0


def test_mixed_precision_takes_lightnings_way(
    plain: tuple[pl.Trainer, dict[str, torch.Tensor]], twin: Corpus, tmp_path: Path
) -> None:
    trainer, weights = fit(twin, tmp_path, precision="bf16-mixed")
    assert not is_plain(trainer)
    assert trainer.global_step == plain[0].global_step
    for name, value in plain[1].items():
        torch.testing.assert_close(weights[name], value, rtol=0.2, atol=0.02)
