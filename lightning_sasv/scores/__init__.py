"""Score files: any layout in, one table inside, any layout out, joined by trial id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_sasv import lazy
from lightning_sasv.scores.layouts import LAYOUTS, Layout, layout_named
from lightning_sasv.scores.read import read_scores, read_table
from lightning_sasv.scores.sources import convert
from lightning_sasv.scores.table import ScoreTable
from lightning_sasv.scores.write import write_scores, write_table

if TYPE_CHECKING:
    from lightning_sasv.scores.stream import scan

__all__ = ["LAYOUTS", "Layout", "ScoreTable", "layout_named"]
__all__ += ["convert", "read_scores", "read_table", "scan", "write_scores", "write_table"]

__getattr__ = lazy(__name__, {"stream": ["scan"]})
