"""Objectives: equations, derivatives, traps, and trainings for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor

from lightning_sasv.data.corpus import Corpus
from lightning_sasv.data.loaders import IGNORE, TrainBlocks
from lightning_sasv.errors import InputError
from lightning_sasv.fusion.rules import fuse
from lightning_sasv.models import SASVModule
from lightning_sasv.models.heads import RECIPES
from lightning_sasv.models.module import Networks
from lightning_sasv.models.objectives import (
    POSTERIORS,
    CMObjective,
    DCFObjective,
    FusedObjective,
    Objective,
    ThreeClassObjective,
    chosen,
)
from tests.helpers import best_checkpoint, quiet_trainer, shared_data
from tests.models.test_module import KilledError, StopAt, same, weights

Logs = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
KIND = torch.tensor([[0, 1, 2, 1, 0, 2, 1, IGNORE], [1, 1, 1, 0, 0, 1, 1, 1]])
COUNTS = torch.tensor([[2, 3, 2], [2, 6, 0]])  # the second lacks a class

OBJECTIVES: list[Objective] = [
    CMObjective(),
    *(FusedObjective((0.3, 0.7), rule) for rule in (*POSTERIORS, None)),
    *(DCFObjective(rule=rule, copies=2).double() for rule in (*POSTERIORS, None)),
    ThreeClassObjective((10, 1, 1)),
]


def scored(objective: Objective, spread: float = 3.0) -> tuple[Tensor, Any]:
    """Scores in float64, and the batch that they are of."""
    draw = torch.Generator().manual_seed(1)
    three = isinstance(objective, ThreeClassObjective)
    shape = (*KIND.shape, 3) if three else KIND.shape
    scores = torch.randn(shape, generator=draw, dtype=torch.float64) * spread
    cosine = torch.rand(KIND.shape, generator=draw, dtype=torch.float64) * 1.2 - 0.2
    return scores, objective.batch(KIND, COUNTS, cosine, torch.float64)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda one: type(one).__name__)
def test_derivatives_are_those_of_the_loss(objective: Objective) -> None:
    scores, batch = scored(objective)
    gradient, *others = objective.derivative(scores, batch)
    step = 1e-6
    found = torch.zeros_like(scores)
    for place in range(scores.numel()):
        move = torch.zeros_like(scores).view(-1)
        move[place] = step
        ends = [objective.losses(scores + s * move.view_as(scores), batch).sum() for s in (1, -1)]
        found.view(-1)[place] = (ends[0] - ends[1]).detach() / (2 * step)
    torch.testing.assert_close(gradient, found, rtol=1e-6, atol=1e-9)
    assert not gradient[0, -1].any(), "padding"
    for parameter, mine in zip(objective.parameters(), others, strict=True):
        with torch.no_grad():
            ends = []
            for sign in (1, -2):  # there, and to the other side
                parameter += sign * step
                ends.append(objective.losses(scores, batch).sum())
            parameter += step
        assert float(mine.sum()) == pytest.approx(float(ends[0] - ends[1]) / (2 * step), rel=1e-5)


def test_the_closed_forms_of_the_page() -> None:
    """dℓ/dc of ``fused`` as it is derived by hand."""
    c = torch.linspace(-30, 30, 25, dtype=torch.float64).repeat(2, 1)
    a = torch.linspace(-0.2, 0.9, 25, dtype=torch.float64).repeat(2, 1)
    kind = torch.tensor([[1] * 25, [2] * 25])
    q, p = c.sigmoid(), a.sigmoid() * c.sigmoid()
    product = torch.stack([-(1 - q)[0], (p * (1 - q) / (1 - p))[1]])
    half = ((a + q) / 2).clamp(1e-4, 1 - 1e-4)
    inside = (half > 1e-4) & (half < 1 - 1e-4)
    addend = torch.stack([-(q * (1 - q) / 2 / half)[0], (q * (1 - q) / 2 / (1 - half))[1]])
    for rule, expected in (("sigmoid_product", product), ("sigmoid_sum", addend * inside)):
        objective = FusedObjective(rule=rule)
        batch = objective.batch(kind, torch.tensor([[0, 25, 0], [0, 0, 25]]), a, torch.float64)
        found = objective.derivative(c, batch)[0] * 25
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)


def test_losses_are_twins_of_the_rules() -> None:
    a, c = torch.rand(50, dtype=torch.float64), torch.randn(50, dtype=torch.float64) * 4
    for rule, divisor in (("sigmoid_product", 1), ("sigmoid_sum", 2)):
        log_p, log_rest = POSTERIORS[rule].logs(a, c)
        torch.testing.assert_close(log_p.exp(), fuse(rule, 0.5, a, c) / divisor)
        torch.testing.assert_close(log_rest.exp(), 1 - log_p.exp())


@pytest.mark.parametrize("objective", OBJECTIVES[:7], ids=lambda one: type(one).__name__)
def test_extreme_scores_stay_finite(objective: Objective) -> None:
    kind, counts = torch.tensor([[1, 0, 2] * 2]), torch.tensor([[2, 2, 2]])
    scores = torch.tensor([[100.0] * 3 + [-100.0] * 3])
    cosine = torch.tensor([[0.5, -0.9, 1.0] * 2])
    single = DCFObjective(rule=objective.rule) if isinstance(objective, DCFObjective) else objective
    batch = single.batch(kind, counts, cosine, torch.float32)
    loss, (gradient, *_) = single.losses(scores, batch), single.derivative(scores, batch)
    assert loss.isfinite().all()
    assert gradient.isfinite().all()
    if isinstance(objective, FusedObjective) and objective.rule == "sigmoid_product":
        share = float(batch.weight[0, 3]) * (0.5 if isinstance(objective, DCFObjective) else 1)
        assert float(gradient[0, 3]) == pytest.approx(-share), "a lost target is still pulled up"


def forces(logs: Logs) -> tuple[float, float]:
    """How hard targets pull a saturated bona fide probe up, and nontargets down, by the sampler."""
    found = []
    for share, cosine, sign in ((0.5, 0.52, 0), (0.25, 0.06, 1)):
        c = torch.tensor(9.0, dtype=torch.float64, requires_grad=True)
        loss = -logs(torch.tensor(cosine, dtype=torch.float64), c)[sign]
        (slope,) = torch.autograd.grad(loss, c)
        q = c.detach().sigmoid()
        found.append(share * float((slope / (q * (1 - q))).abs()))
    return found[0], found[1]


def test_bona_fide_speech_is_not_given_up() -> None:
    """The inequality that tells sane losses from those that collapse, at q → 1."""

    def as_logit(asv: Tensor, cm: Tensor) -> tuple[Tensor, Tensor]:
        score = asv + cm.sigmoid()
        return score.sigmoid().log(), (-score).sigmoid().log()

    def as_mean(asv: Tensor, cm: Tensor) -> tuple[Tensor, Tensor]:
        p = (asv.sigmoid() + cm.sigmoid()) / 2
        return p.log(), (1 - p).log()

    for posterior in POSTERIORS.values():
        up, down = forces(posterior.logs)
        assert up > 1.2 * down
    for known in (as_logit, as_mean):
        up, down = forces(known)
        assert up < 0.7 * down, "the known failures fail"


def test_auto_is_fused_for_post_and_b1v2_alone() -> None:
    found = {name: chosen("auto", [name]) for name in ("Post", "B1v2", "L3", "B1")}
    assert found["Post"] == ("fused", "sigmoid_product")
    assert found["B1v2"] == ("fused", "sigmoid_sum")
    assert found["L3"][0] == found["B1"][0] == chosen("auto", ["Post", "L3"])[0] == "cm"
    assert chosen("fused", ["L3", "B1v2", "Post"]) == ("fused", "sigmoid_sum")
    module = SASVModule(systems=("Post",))
    assert (module.hparams["objective"], module.compares) == ("fused", True)
    assert SASVModule().hparams["class_weights"] == (0.1, 0.9)
    for wrong in ({"objective": "fusd"}, {"objective": "three_class"}, {"monitor": "val/loss"}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            SASVModule(**wrong)  # type: ignore[arg-type]


TRAINED = {
    "Post": {"systems": ("Post",)},
    "B1v2": {"systems": ("B1v2",)},
    "a_dcf": {"systems": ("Post",), "objective": "a_dcf"},
    "E2": {"systems": ("E2",), **RECIPES["E2"]},
    "E3": {"systems": ("E3",), **RECIPES["E3"]},
    "F2": {"systems": ("F2",), **RECIPES["F2"]},
    "F3": {"systems": ("F3",), **RECIPES["F3"], "dropout": 0.2},
    "F2 a_dcf": {"systems": ("F2",), **RECIPES["F2"], "objective": "a_dcf"},
}


def fitted(corpus: Corpus, folder: Path, epochs: int, *seeds: int, **settings: Any) -> SASVModule:
    """A module after so many epochs."""
    own = {name: settings.pop(name) for name in [*settings] if name in ("precision", "callbacks")}
    ckpt = settings.pop("ckpt", None)
    module, data = SASVModule(seeds=seeds, **settings), shared_data(corpus, seeds=seeds)
    quiet_trainer(folder, epochs=epochs, best=False, **own).fit(module, data, ckpt_path=ckpt)
    return module


@pytest.mark.parametrize("name", ["cm", *TRAINED])
def test_stacked_seeds_are_separate_runs(twin: Corpus, tmp_path: Path, name: str) -> None:
    steps = -(-len(twin.train.utterances) // 24)
    settings, epochs = TRAINED.get(name, {}) | {"hidden_dims": (16,)}, -(-300 // steps)
    settings |= {"precision": "64-true", "lr": 1e-3}
    together = fitted(twin, tmp_path / "all", epochs, 11, 12, **settings)
    for copy, seed in enumerate((11, 12)):
        alone = fitted(twin, tmp_path / str(seed), epochs, seed, **settings)
        for mine, own in zip(together.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(mine[copy : copy + 1], own, rtol=0, atol=1e-9)


@pytest.mark.parametrize("objective", ["fused", "a_dcf"])
def test_stacked_networks_are_separate_runs(twin: Corpus, tmp_path: Path, objective: str) -> None:
    """As a table trains them: systems × seeds, each as by itself, and the dev losses logged."""
    settings = {"hidden_dims": (16,), "lr": 1e-3, "monitor": "val/a_dcf", "objective": objective}
    networks = Networks(("Post", "B1v2"), (11, 12), **settings)
    data = shared_data(twin, seeds=networks.seeds)
    trainer = quiet_trainer(tmp_path / "all", epochs=1, best=False, precision="64-true")
    trainer.fit(networks, data)
    for copy, (name, seed) in enumerate((n, s) for n in ("Post", "B1v2") for s in (11, 12)):
        own = settings | {"precision": "64-true", "systems": (name,)}
        alone = fitted(twin, tmp_path / str(copy), 1, seed, **own)
        logged = trainer.callback_metrics[f"val/loss/{name}/seed{seed}"]
        loss = alone.trainer.callback_metrics["val/loss"]
        assert float(logged) == pytest.approx(float(loss), rel=1e-6)
        mine = networks.alone(copy, (name,))
        for one, other in zip(mine.head.parameters(), alone.head.parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-9)
        assert networks.dev_rates[copy] == pytest.approx(alone.dev_rates[0], abs=1e-9)
        for setting in ("objective", "class_weights", "monitor"):
            assert mine.hparams[setting] == alone.hparams[setting]
    with pytest.raises(InputError, match="a network that several share"):
        SASVModule(systems=(), monitor="val/a_dcf")


@pytest.mark.parametrize("name", TRAINED)
def test_resumed_to_the_same_bits(twin: Corpus, tmp_path: Path, name: str) -> None:
    whole = fitted(twin, tmp_path / "whole", 2, 3, **TRAINED[name])
    path = tmp_path / "broken.ckpt"
    broken = {"callbacks": [StopAt(1, 31, path)], **TRAINED[name]}  # of 34 steps
    with pytest.raises(KilledError):
        fitted(twin, tmp_path / "broken", 2, 3, **broken)
    resumed = fitted(twin, tmp_path / "resumed", 2, 3, ckpt=path, **TRAINED[name])
    for mine, own in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(mine, own)
    assert "asv_train" in torch.load(path, weights_only=True)["made_with"]["corpus"]


@pytest.mark.parametrize("name", ["cm", *TRAINED])
def test_training_lowers_the_loss_and_its_metric(twin: Corpus, tmp_path: Path, name: str) -> None:
    class Spy(pl.Callback):
        def __init__(self) -> None:
            self.seen: list[dict[str, float]] = []

        def on_validation_end(self, trainer: pl.Trainer, *_: Any) -> None:
            self.seen.append({n: float(v) for n, v in trainer.callback_metrics.items()})

    spy = Spy()
    settings = TRAINED.get(name, {}) | {"callbacks": [spy], "lr": 2e-4}
    module = fitted(twin, tmp_path, 4, 5, **settings)
    first, last = spy.seen[0], spy.seen[-1]
    monitor = module.objective_of(0).monitor
    assert last["val/loss"] < first["val/loss"]
    assert last[monitor] <= first[monitor]
    assert module.dev_rates == [pytest.approx(last[monitor], abs=1e-6)]


def test_cm_is_trained_to_the_same_bits_as_ever(twin: Corpus, tmp_path: Path) -> None:
    """The steps of the plain recipe in closed form, w (σ(s) − y), which nothing may change."""
    mine = fitted(twin, tmp_path, 1, 7)
    plain = SASVModule(seeds=(7,)).head
    adam = torch.optim.Adam(plain.parameters(), lr=5e-5, weight_decay=1e-3, fused=True)
    blocks = TrainBlocks(twin.train, [7], 24)
    for first in range(blocks.steps):
        block = blocks[0, first, first + 1]
        label, weight = block.label[0], torch.tensor([0.1, 0.9])
        norm = (block.counts[0].float() @ weight).unsqueeze(-1)
        share = torch.where(label == IGNORE, 0, weight[label.clamp(min=0)] / norm)
        score = plain.score(block.vectors[0])
        adam.zero_grad()
        score.backward((score.detach().sigmoid() - (label == 1).float()) * share)
        adam.step()
    assert same(weights(mine), dict(plain.state_dict()))


def test_the_monitor_is_a_setting(twin: Corpus, tmp_path: Path) -> None:
    for monitor, objective in (
        ("val/cm_eer", "cm"), ("val/sasv_eer", "fused"), ("val/a_dcf", "cm")
    ):  # fmt: skip
        module = SASVModule(systems=("L3",), monitor=monitor, objective=objective)
        trainer = quiet_trainer(tmp_path / monitor[4:], epochs=1)
        trainer.fit(module, shared_data(twin))
        assert module.dev_rates == [pytest.approx(float(trainer.callback_metrics[monitor]))]


def test_a_checkpoint_of_an_objective_is_loaded(twin: Corpus, tmp_path: Path) -> None:
    module = SASVModule(systems=("Post",), objective="a_dcf")
    trainer = quiet_trainer(tmp_path, epochs=1)
    trainer.fit(module, shared_data(twin))
    found = SASVModule.load_from_checkpoint(best_checkpoint(trainer))
    assert same(weights(found), weights(module))
    assert found.hparams["objective"] == "a_dcf"
    trainer.test(found, shared_data(twin), verbose=False)
