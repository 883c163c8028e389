"""Three gloo processes give the value of one, with uneven shards and empty processes."""

from __future__ import annotations

import itertools
import json
import warnings
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torchmetrics import Metric, MetricCollection

from lightning_sasv.metrics import ADCF, CMEER, SASVEER, TDCF, Cllr, TandemEER
from tests.faults.forks import FORKS, LIMIT
from tests.metrics.metric_classes import ALL, PAIR, Maker

TRIALS = 101
SPLITS = ("even", "uneven", "empty")
GRID = [k / 8 for k in range(-40, 41)]
METRICS: dict[str, Maker] = ALL | {
    "cm_eer": CMEER,
    "binned_eer": lambda: SASVEER(thresholds=GRID),
    "binned_cllr": lambda: Cllr(thresholds=GRID),
    "binned_a_dcf": lambda: ADCF(thresholds=GRID),
    "binned_t_eer": lambda: TandemEER(thresholds=(GRID, GRID)),
    "binned_t_dcf": lambda: TDCF(thresholds=(GRID, GRID)),
    "bits_eer": lambda: SASVEER(thresholds="bits"),
    "bits_cllr": lambda: Cllr(part="calib", thresholds="bits"),
    "bits_t_eer": lambda: TandemEER(thresholds="bits"),
    "on_cpu": lambda: SASVEER(compute_on_cpu=True),
}
SUMS = {"nce"}  # floating-point sums: the order of the terms shows in the last digit
PAIRS = {*PAIR, "binned_t_eer", "binned_t_dcf", "bits_t_eer"}


def trials(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(TRIALS) % 3
    asv = torch.randn(TRIALS, generator=generator, dtype=torch.float64) + 2.0 * (labels == 1)
    cm = torch.randn(TRIALS, generator=generator, dtype=torch.float64) + 2.0 * (labels != 0)
    asv = asv + 1.5 * (labels == 0)  # spoofs sound like the target
    return asv.to(dtype), cm.to(dtype), labels


def feed(metric: Metric, name: str, dtype: torch.dtype, part: slice) -> None:
    asv, cm, labels = (column[part] for column in trials(dtype))
    if labels.numel():
        metric.update(*((asv, cm, labels) if name in PAIRS else (asv + cm, labels)))


def value(name: str, dtype: torch.dtype, part: slice) -> float:
    metric = METRICS[name]().to("cpu")  # moving resets what torchmetrics takes for the type
    feed(metric, name, dtype, part)
    return float(metric.compute())


def values(parts: dict[str, slice]) -> dict[str, float]:
    cases = itertools.product(parts.items(), (torch.float64, torch.float32), METRICS)
    return {
        f"{split} {dtype} {name}": value(name, dtype, part) for (split, part), dtype, name in cases
    }


def collection(part: slice) -> dict[str, float]:
    group = MetricCollection({name: METRICS[name]() for name in ("sasv_eer", "cllr", "min_a_dcf")})
    asv, cm, labels = (column[part] for column in trials(torch.float64))
    if labels.numel():
        group.update(asv + cm, labels)
    return {f"group_{name}": float(x) for name, x in group.compute().items()}


def share(split: str, rank: int, world: int) -> slice:
    """The trials of one process."""
    first = {
        "even": [n * TRIALS // world for n in range(world)],
        "uneven": list(range(world)),
        "empty": [0, *[TRIALS] * (world - 1)],
    }
    edges = [*first[split], TRIALS]
    return slice(edges[rank], edges[rank + 1])


def worker(rank: int, world: int, folder: str) -> None:
    warnings.filterwarnings("ignore", "The ``compute`` method of metric")
    meeting = {"init_method": f"file://{folder}/meeting", "timeout": timedelta(seconds=60)}
    dist.init_process_group("gloo", **meeting, rank=rank, world_size=world)  # type: ignore[arg-type]
    found = values({split: share(split, rank, world) for split in SPLITS})
    found |= collection(share("uneven", rank, world))
    Path(folder, f"{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


@pytest.mark.ddp
@pytest.mark.parametrize("world", [3])
def test_processes_give_the_value_of_one(tmp_path: Path, world: int) -> None:
    group = [
        FORKS.Process(target=worker, args=(rank, world, str(tmp_path))) for rank in range(world)
    ]
    for process in group:
        process.start()
    for process in group:
        process.join(LIMIT)
        process.kill()
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(world)]
    assert all(found == ranks[0] for found in ranks), "every process must see the same value"
    expected = collection(slice(None)) | values(dict.fromkeys(SPLITS, slice(None)))
    assert ranks[0].keys() == expected.keys()
    for key, one in expected.items():
        tolerance = 1e-14 if key.split()[-1] in SUMS else 0
        assert ranks[0][key] == pytest.approx(one, abs=tolerance), key
    assert expected["even torch.float64 sasv_eer"] != expected["even torch.float64 sv_eer"]
