"""Every metric class by the name of its value, and how to feed it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from lightning_sasv.metrics import ADCF, SASVEER, TDCF, Cllr, CrossEntropy, TandemEER

Columns = dict[str, np.ndarray]
Maker = Callable[..., Metric]

ONE_SCORE: dict[str, Maker] = {
    "sasv_eer": SASVEER,
    "sv_eer": lambda **kw: SASVEER(task="sv", **kw),
    "spf_eer": lambda **kw: SASVEER(task="spf", **kw),
    "cllr": Cllr,
    "cllr_min": lambda **kw: Cllr(part="min", **kw),
    "cllr_calib": lambda **kw: Cllr(part="calib", **kw),
    "min_a_dcf": ADCF,
    "act_a_dcf": lambda **kw: ADCF(kind="actual", **kw),
}
PAIR: dict[str, Maker] = {
    "t_eer": TandemEER,
    "min_t_dcf": TDCF,
    "min_t_dcf_legacy": lambda **kw: TDCF(version="legacy", **kw),
    "nce": CrossEntropy,
}
ALL = ONE_SCORE | PAIR


def tensors(simulated: Columns, name: str) -> tuple[Tensor, ...]:
    columns = ("asv", "cm") if name in PAIR else ("sasv",)
    return tuple(torch.from_numpy(simulated[key]) for key in (*columns, "labels"))


def feed(metric: Metric, columns: tuple[Tensor, ...], batch: int) -> Metric:
    for start in range(0, len(columns[-1]), batch):
        metric.update(*(column[start : start + batch] for column in columns))
    return metric
