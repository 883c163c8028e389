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
from lightning_sasv.models.inner_steps import bare_step, is_plain
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


def trained(
    optimizer: torch.optim.Optimizer, weight: torch.nn.Parameter, bare: bool
) -> list[float]:
    for number in range(5):
        weight.grad = torch.linspace(-1, 1, 3) * (number + 1)
        (bare_step(optimizer) if bare else optimizer.step)()
    return weight.tolist()


@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1, "betas": (0.8, 0.9), "eps": 1e-3}])
def test_bare_steps_are_adams_own(options: dict[str, Any]) -> None:
    found, states = [], []
    for bare in (False, True):
        weight = torch.nn.Parameter(torch.ones(3))
        adam = torch.optim.Adam([weight], lr=0.1, fused=True, **options)
        found.append(trained(adam, weight, bare))
        states.append(adam.state_dict()["state"][0])
    assert found[0] == found[1] != [1, 1, 1]
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    assert bare_step(adam) != adam.step


def test_only_an_adam_nobody_listens_to_is_stripped() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    kinds = [torch.optim.AdamW([weight], fused=True), torch.optim.Adam([weight], amsgrad=True)]
    kinds += [torch.optim.Adam([weight], fused=True, maximize=True), torch.optim.Adam([weight])]
    heard = torch.optim.Adam([weight], fused=True)
    heard.register_step_post_hook(lambda *_: None)
    scheduled = torch.optim.Adam([weight], fused=True)
    torch.optim.lr_scheduler.StepLR(scheduled, 1)
    for optimizer in (*kinds, heard, scheduled):
        trained(optimizer, weight, bare=False)
        assert bare_step(optimizer) == optimizer.step
