"""What counts say of each column, as :mod:`lightning_sasv.metrics.bounds` takes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.counting.column import UNIT, Column, by_class
from lightning_sasv.metrics.bounds import Bounded, View, available, bounded
from lightning_sasv.metrics.registry import Settings

if TYPE_CHECKING:
    from lightning_sasv.counting.state import Counts


def view_of(column: Column, codes: NDArray[np.int8], fine: bool = True) -> View:
    """All trials of a column, on the fine grid or on that by row."""
    rows = codes.size
    if fine:
        order = np.argsort(column.fine_bins)
        grid, bins, counts = column.fine_grid, column.fine_bins[order], column.fine[:, order]
    else:
        order = np.argsort(column.bins)
        grid, bins = column.grid, column.bins[order]
        counts = by_class(column.counts(rows), codes)[:, order].astype(np.int64)
    losses, infinite = column.losses(rows), by_class(column.infinite(rows), codes)
    sums = [0, 0, 0]
    for code, loss in zip(codes.tolist(), losses, strict=True):
        sums[code] += loss
    in_bits = [
        math.inf if lost else total / UNIT / math.log(2)
        for total, lost in zip(sums, infinite.tolist(), strict=True)
    ]
    rejected = by_class(column.rejected(rows), codes).astype(np.int64)
    return View(grid.lower(bins), grid.upper(bins), counts, column.cuts, rejected, in_bits)


def metrics_of(
    counts: Counts, settings: Settings, names: Sequence[str] | None = None
) -> dict[str, Bounded]:
    """Metrics with bounds, those that are undefined left out.

    Args:
        counts: The state.
        settings: Costs and conventions.
        names: These metrics alone.

    Example:
        >>> from lightning_sasv.counting import Counts
        >>> counts = Counts()
        >>> counts.add(["target", "nontarget", "spoof"], sasv=[3.0, 1.0, 0.0])
        >>> counts.metrics(names=["cllr"])["cllr"].exact
        True
    """
    views = {name: view_of(column, counts.codes) for name, column in counts.columns.items()}
    return bounded(views, settings, names or available(views, settings))
