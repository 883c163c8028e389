"""Other optimisers, schedules, clipping; and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import StochasticWeightAveraging
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.optim.lr_scheduler import ExponentialLR, ReduceLROnPlateau

from lightning_sasv.data.corpus import Corpus
from lightning_sasv.errors import InputError
from lightning_sasv.models import SASVModule
from lightning_sasv.models.training import Choice
from tests.helpers import failure_of, quiet_trainer, shared_data
from tests.models.test_cm_head import plain_copy
from tests.models.test_module import plain_losses, same, weights

SGD = Choice(torch.optim.SGD, {"lr": 0.5, "momentum": 0.5})


def fit(
    twin: Corpus, folder: Path, *seeds: int, ckpt: Path | None = None, **settings: Any
) -> tuple[SASVModule, pl.Trainer]:
    module = SASVModule(seeds=seeds or (3,)).double()
    module.optimizer = settings.pop("optimizer", SGD)
    module.lr_scheduler = settings.pop("lr_scheduler", None)
    settings = {"epochs": 2, "precision": "64-true", "best": False} | settings
    trainer = quiet_trainer(folder, **settings)
    trainer.fit(module, shared_data(twin, steps_per_block=7, seeds=module.seeds), ckpt_path=ckpt)
    return module, trainer


@pytest.mark.parametrize(
    ("algorithm", "clip"), [("norm", clip_grad_norm_), ("value", clip_grad_value_)]
)
def test_a_plain_loop_of_the_same_optimiser_schedule_and_clipping(
    twin: Corpus, tmp_path: Path, algorithm: str, clip: Any
) -> None:
    limit = {"norm": 0.02, "value": 0.002}[algorithm]
    plain = plain_copy(SASVModule(seeds=(3,)).double().head)
    module, trainer = fit(
        twin,
        tmp_path,
        lr_scheduler=Choice(ExponentialLR, {"gamma": 0.1}),
        gradient_clip_val=limit,
        gradient_clip_algorithm=algorithm,
    )
    assert trainer.gradient_clip_val == limit  # said as it was given
    optimizer = torch.optim.SGD(plain.parameters(), **SGD.settings)
    schedule = ExponentialLR(optimizer, 0.1)
    clipped = 0
    for epoch in range(2):
        for loss in plain_losses(plain, twin, epoch):
            optimizer.zero_grad()
            loss.backward()
            norm = clip(plain.parameters(), limit)
            clipped += norm is None or bool(norm > limit)
            optimizer.step()
        schedule.step()
    assert clipped, "nothing to clip: the test shows nothing"
    for mine, theirs in zip(plain_copy(module.head).parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


def test_stacked_seeds_are_clipped_each_by_itself(twin: Corpus, tmp_path: Path) -> None:
    together, _ = fit(twin, tmp_path / "all", 11, 12, epochs=1, gradient_clip_val=0.02)
    for copy, seed in enumerate((11, 12)):
        alone, _ = fit(twin, tmp_path / str(seed), seed, epochs=1, gradient_clip_val=0.02)
        for name, value in weights(alone).items():
            torch.testing.assert_close(weights(together)[name][[copy]], value, rtol=0, atol=1e-9)


def test_a_schedule_goes_on_where_it_was(twin: Corpus, tmp_path: Path) -> None:
    schedule = Choice(ExponentialLR, {"gamma": 0.5})
    whole, _ = fit(twin, tmp_path / "whole", lr_scheduler=schedule, epochs=3)
    _, first = fit(twin, tmp_path / "part", lr_scheduler=schedule, epochs=2)
    last = Path(first.log_dir or "") / "checkpoints" / "last.ckpt"
    rest, _ = fit(twin, tmp_path / "rest", lr_scheduler=schedule, epochs=3, ckpt=last)
    assert same(weights(whole), weights(rest))


def test_a_plateau_follows_a_logged_value(twin: Corpus, tmp_path: Path) -> None:
    never_better = {"patience": 0, "factor": 0.1, "threshold": 1e9, "threshold_mode": "abs"}
    plateau = Choice(ReduceLROnPlateau, never_better)
    _, trainer = fit(twin, tmp_path, lr_scheduler=plateau, epochs=3)
    assert trainer.optimizers[0].param_groups[0]["lr"] == pytest.approx(0.5 * 0.01)


@pytest.mark.parametrize(
    ("kind", "seeds", "reason"),
    [
        (torch.optim.LBFGS, (3,), "LBFGS computes the loss several times"),
        (torch.optim.Adafactor, (3, 4), "Adafactor would mix the 2 seeds"),
    ],
)
def test_optimisers_that_cannot_be_used(kind: Any, seeds: tuple[int, ...], reason: str) -> None:
    module = SASVModule(seeds=seeds)
    module.optimizer = Choice(kind)
    with pytest.raises(InputError, match=reason):
        module.configure_optimizers()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"accumulate_grad_batches": 2}, r"set --data\.batch_size"),
        ({"callbacks": [StochasticWeightAveraging(0.1)]}, "best epoch, not an average"),
    ],
)
def test_what_has_no_meaning_is_refused(
    twin: Corpus, tmp_path: Path, settings: Any, reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        fit(twin, tmp_path, **settings)


def test_our_settings_beside_another_optimiser_are_refused_with_a_way_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["fit", "--config", "E2", "--data.scale=0.01", "--optimizer", "torch.optim.SGD"]
    words += ["--optimizer.lr=0.1", "--check"]
    assert "by --model.lr 5e-05" in failure_of(capsys, *words)
    module = SASVModule(lr_decay=1e-4)
    module.optimizer = SGD
    with pytest.raises(InputError, match=r"--model\.lr_decay 0"):
        module.configure_optimizers()
