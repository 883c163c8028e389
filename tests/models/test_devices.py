"""What a GPU would be asked for: nothing without a fixed order, and no fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from lightning_sasv.data.corpus import Corpus
from lightning_sasv.metrics import ADCF, CMEER, SASVEER, TDCF, Cllr, CrossEntropy, TandemEER
from lightning_sasv.models import SASVModule
from tests.helpers import quiet_trainer, shared_data

REFUSED = (
    *(
        "kthvalue",
        "median",
        "nanmedian",
        "histc",
        "put",
        "put_",
        "scatter_reduce",
        "scatter_reduce_",
    ),
    *(
        "nll_loss2d_forward",
        "_ctc_loss",
        "_embedding_bag",
        "max_unpool2d",
        "grid_sampler_2d_backward",
    ),
    *("upsample_bilinear2d_backward", "reflection_pad1d_backward", "replication_pad1d_backward"),
)
"""Operations of torch's list that raise on CUDA where a fixed order is asked for.

Of ``cumsum`` and ``bincount`` it depends on the arguments.
"""


class OnlyInOrder(TorchDispatchMode):
    """Raises what CUDA would raise under ``torch.use_deterministic_algorithms(True)``."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        self.seen.add(name)
        bad = name in REFUSED
        bad |= name in ("cumsum", "cumsum_") and args[0].is_floating_point()
        weights = (kwargs or {}).get("weights", args[1] if len(args) > 1 else None)
        bad |= name == "bincount" and weights is not None
        if bad:
            raise RuntimeError(f"{func} has no fixed order on a GPU")
        return func(*args, **(kwargs or {}))


def test_the_watch_sees_what_torch_lists() -> None:
    ones = torch.ones(3)
    for action in (
        lambda: ones.cumsum(0),
        lambda: torch.bincount(torch.tensor([0, 1, 1]), weights=ones),
        lambda: ones.kthvalue(1),
    ):
        with pytest.raises(RuntimeError, match="no fixed order"), OnlyInOrder():
            action()
    with OnlyInOrder():
        torch.bincount(torch.tensor([0, 1, 1]))


def test_training_scoring_and_fitting_have_a_fixed_order(twin: Corpus, tmp_path: Path) -> None:
    module = SASVModule(systems=("B1", "L3c", "M3"), fusion={"rho": "grid_risk"})
    data = shared_data(twin)
    trainer = quiet_trainer(tmp_path, epochs=1)
    with OnlyInOrder() as watch:
        trainer.fit(module, data)
        trainer.validate(module, data, verbose=False)
        trainer.test(module, data, verbose=False)
    assert {"baddbmm", "_fused_adam_"} <= watch.seen  # forward, backward and step were watched


@pytest.mark.parametrize("kind", [ADCF, CMEER, SASVEER, TDCF, Cllr, CrossEntropy, TandemEER])
def test_metrics_have_a_fixed_order(kind: Any) -> None:
    drawn = torch.Generator().manual_seed(0)
    asv, cm = torch.randn(2, 60, generator=drawn)
    labels = torch.arange(60) % 3
    metric = kind()
    with OnlyInOrder():
        if kind in (TDCF, CrossEntropy, TandemEER):
            metric.update(asv, cm, labels)
        else:
            metric.update(asv, labels)
        metric.compute()


def test_systems_stay_on_the_cpu() -> None:
    module = SASVModule(systems=("L3c",)).to("meta")
    assert {one.device.type for one in module.head.parameters()} == {"meta"}
    buffers = list(module.half().fusion.buffers())
    assert buffers
    assert {one.device.type for one in buffers} == {"cpu"}
    assert {one.dtype for one in buffers if one.is_floating_point()} == {torch.float64}
    names = {f"fusion.{name}" for name, _ in module.fusion.named_buffers()}
    assert set(module._ddp_params_and_buffers_to_ignore) == names
