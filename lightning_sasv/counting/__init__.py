"""Evaluation of any size: counts of trials on a grid, bounds from them, and their files."""

from lightning_sasv.counting.state import Counts
from lightning_sasv.metrics.binned import Bounded

__all__ = ["Bounded", "Counts"]
