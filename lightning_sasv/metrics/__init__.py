"""Metrics of trials: classes for training loops, and the pure functions they use.

The functions are in ``lightning_sasv.metrics.functional``; importing them does not import
torchmetrics. The classes are imported when first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_sasv import lazy

if TYPE_CHECKING:
    from lightning_sasv.metrics.a_dcf import ADCF
    from lightning_sasv.metrics.cllr import Cllr
    from lightning_sasv.metrics.cross_entropy import CrossEntropy
    from lightning_sasv.metrics.eer import CMEER, SASVEER
    from lightning_sasv.metrics.t_dcf import TDCF
    from lightning_sasv.metrics.tandem_eer import TandemEER

__all__ = ["ADCF", "CMEER", "SASVEER", "TDCF", "Cllr", "CrossEntropy", "TandemEER"]

__getattr__ = lazy(
    __name__,
    {
        "ADCF": "a_dcf",
        "CMEER": "eer",
        "SASVEER": "eer",
        "TDCF": "t_dcf",
        "Cllr": "cllr",
        "CrossEntropy": "cross_entropy",
        "TandemEER": "tandem_eer",
    },
)
