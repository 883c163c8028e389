"""Metric classes in a MetricCollection and in a checkpoint."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch import nn
from torchmetrics import MetricCollection

from lightning_sasv.metrics import SASVEER, CrossEntropy
from tests.metrics.metric_classes import ALL, Columns, feed, tensors


def through_a_file(module: nn.Module) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric")
def test_collection_of_every_class(simulated: Columns, expected: dict[str, float]) -> None:
    everything = MetricCollection({name: make() for name, make in ALL.items()})
    columns = {name: torch.from_numpy(simulated[name]) for name in ("asv", "cm", "labels")}
    columns["scores"] = torch.from_numpy(simulated["sasv"])
    for k in range(0, 1200, 150):
        everything.update(**{name: x[k : k + 150] for name, x in columns.items()})
    values = {name: float(value) for name, value in everything.compute().items()}
    assert values == pytest.approx({name: expected[name] for name in ALL}, abs=1e-12)
    assert len(everything.compute_groups) == 3, "one score, the pair, and sums"
    metrics = dict(everything.items(copy_state=False))
    assert metrics["cllr"].scores is metrics["sasv_eer"].scores, "shared states are kept once"
    again = MetricCollection({name: make() for name, make in ALL.items()})
    again.load_state_dict(through_a_file(everything))
    restored = {name: float(m.compute()) for name, m in again.items()}
    assert restored == pytest.approx(values, abs=1e-15)


def test_collection_does_not_merge_other_grids_or_priors() -> None:
    """After the first batch the sums are equal; after the second they must not be shared."""
    grids = {"coarse": [-1.0, 1.0], "fine": [-0.1, 0.1]}
    group = MetricCollection({k: SASVEER(thresholds=grid) for k, grid in grids.items()})
    alone = {k: SASVEER(thresholds=grid) for k, grid in grids.items()}
    labels = torch.tensor([1, 1, 2, 0])
    for scores in ([2.0, 2.0, -2.0, -2.0], [0.5, -0.5, 0.5, -0.5]):
        for metric in (group, *alone.values()):
            metric.update(torch.tensor(scores), labels)
    values = {k: float(x) for k, x in group.compute().items()}
    assert values == {k: float(x.compute()) for k, x in alone.items()}
    assert values["coarse"] != values["fine"]
    priors = MetricCollection({k: CrossEntropy(k) for k in ("equal", "a-dcf1")})
    kept = {k: CrossEntropy(k) for k in ("equal", "a-dcf1")}
    for size in (60.0, 1.0):
        sure = torch.tensor([size, size, -size, size]), torch.tensor([size, size, size, -size])
        for metric in (priors, *kept.values()):
            metric.update(*sure, labels)
    assert {k: float(x) for k, x in priors.compute().items()} == (
        {k: float(x.compute()) for k, x in kept.items()}
    )


def test_binned_states_survive_a_checkpoint_but_not_another_grid(simulated: Columns) -> None:
    scores, labels = tensors(simulated, "sasv_eer")
    grid = torch.linspace(-4, 6, 101)
    first, second = SASVEER(thresholds=grid), SASVEER(thresholds=grid)
    first.update(scores, labels)
    second.load_state_dict(first.state_dict())
    second.update(scores[:0], labels[:0])
    assert float(second.compute()) == float(first.compute())
    with pytest.raises(RuntimeError, match="Unexpected key"):
        SASVEER(thresholds=2 * grid).load_state_dict(first.state_dict())


@pytest.mark.parametrize("name", ALL)
def test_states_survive_a_checkpoint(
    name: str, simulated: Columns, expected: dict[str, float]
) -> None:
    make = ALL[name]
    columns = tensors(simulated, name)
    first = nn.ModuleDict({"metric": make()})
    feed(first["metric"], tuple(x[:700] for x in columns), 100)  # type: ignore[arg-type]
    second = nn.ModuleDict({"metric": make()})
    second.load_state_dict(through_a_file(first))
    resumed = feed(second["metric"], tuple(x[700:] for x in columns), 100)  # type: ignore[arg-type]
    assert float(resumed.compute()) == pytest.approx(expected[name], abs=1e-12)
