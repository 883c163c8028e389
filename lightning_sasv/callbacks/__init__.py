"""Lightning callbacks: fitting fusion systems on dev scores, writing results."""

from lightning_sasv.callbacks.fit_fusion import FitFusion
from lightning_sasv.callbacks.keep_best import KeepBest, SaveLast, StopEarly, checkpoint_in_use
from lightning_sasv.callbacks.standard import LeaveSignals
from lightning_sasv.callbacks.write_results import LogFigures, WriteResults

__all__ = [
    "FitFusion",
    "KeepBest",
    "LeaveSignals",
    "LogFigures",
    "SaveLast",
    "StopEarly",
    "WriteResults",
    "checkpoint_in_use",
]
