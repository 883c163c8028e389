"""Evaluation of any size: counts of trials on a grid, bounds from them, and their files."""

from lightning_sasv.counting.bounds import Bounded
from lightning_sasv.counting.state import Counts

__all__ = ["Bounded", "Counts"]
