"""Metrics of trials: classes for training loops, and the pure functions they use.

The functions are in ``lightning_sasv.metrics.functional``; importing them does not import
torchmetrics. The classes are imported when first asked for, as are ``Counts`` and ``Bounded`` of
``lightning_sasv.counting``: counts of any number of trials.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_sasv import lazy

if TYPE_CHECKING:
    from lightning_sasv.metrics.classes import ADCF, CMEER, SASVEER, Cllr
    from lightning_sasv.metrics.tandem_classes import TDCF, CrossEntropy, TandemEER

__all__ = ["ADCF", "CMEER", "SASVEER", "TDCF", "Cllr", "CrossEntropy", "TandemEER"]

__getattr__ = lazy(
    __name__,
    {
        ".counting": ["Bounded", "Counts"],
        "classes": ["ADCF", "CMEER", "SASVEER", "Cllr"],
        "tandem_classes": ["TDCF", "CrossEntropy", "TandemEER"],
    },
)
