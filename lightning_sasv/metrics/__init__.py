"""Metrics of trials: classes for training loops, and the pure functions they use.

The functions are in ``lightning_sasv.metrics.functional``; importing them does not import
torchmetrics. The classes are imported when first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lightning_sasv.metrics.a_dcf import ADCF
    from lightning_sasv.metrics.cllr import Cllr
    from lightning_sasv.metrics.cross_entropy import CrossEntropy
    from lightning_sasv.metrics.eer import CMEER, SASVEER
    from lightning_sasv.metrics.t_dcf import TDCF
    from lightning_sasv.metrics.tandem_eer import TandemEER

__all__ = ["ADCF", "CMEER", "SASVEER", "TDCF", "Cllr", "CrossEntropy", "TandemEER"]

_MODULES = {
    "ADCF": "a_dcf",
    "CMEER": "eer",
    "SASVEER": "eer",
    "TDCF": "t_dcf",
    "Cllr": "cllr",
    "CrossEntropy": "cross_entropy",
    "TandemEER": "tandem_eer",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
