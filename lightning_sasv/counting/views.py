"""What counts say of each column, as :mod:`lightning_sasv.metrics.bounds` takes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.counting.column import Column, by_class
from lightning_sasv.counting.sums import in_bits
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.binned import Bounded, View
from lightning_sasv.metrics.bootstrap import NOT_CLUSTERED
from lightning_sasv.metrics.bounds import available, bounded
from lightning_sasv.metrics.registry import Settings
from lightning_sasv.trials import TrialClass

if TYPE_CHECKING:
    from lightning_sasv.counting.state import Counts


GROUPED = ("speaker", "attack")
"""What rows are told apart by."""


def view_of(
    column: Column,
    codes: NDArray[np.int8],
    fine: bool = True,
    kept: NDArray[np.bool_] | None = None,
) -> View:
    """All trials of a column on the fine grid or on that by row, or those of some rows on it."""
    rows = codes.size
    if kept is not None:
        codes = np.where(kept, codes, -1)  # of no class
    if fine and kept is None:
        order = np.argsort(column.fine_bins)
        grid, bins, counts = column.fine_grid, column.fine_bins[order], column.fine[:, order]
    else:
        order = np.argsort(column.bins)
        grid, bins = column.grid, column.bins[order]
        counts = by_class(column.counts(rows), codes)[:, order].astype(np.int64)
    losses, infinite = column.sums.losses(rows), by_class(column.sums.infinite(rows), codes)
    sums = [0, 0, 0]
    for code, loss in zip(codes.tolist(), losses, strict=True):
        if code >= 0:
            sums[code] += loss
    bits = [
        math.inf if lost else in_bits(total)
        for total, lost in zip(sums, infinite.tolist(), strict=True)
    ]
    rejected = by_class(column.sums.rejected(rows), codes).astype(np.int64)
    return View(grid.lower(bins), grid.upper(bins), counts, column.cuts, rejected, bits)


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


def by_group(counts: Counts, column: str, settings: Settings) -> dict[str, dict[str, Bounded]]:
    """Metrics of each speaker, or of each attack, which all bona fide trials join.

    Args:
        counts: The state.
        column: ``speaker`` or ``attack``.
        settings: Costs and conventions.

    Returns:
        Values with bounds on the grid by row, by group in ascending order of their names.

    Raises:
        InputError: The state does not know the column.
    """
    codes, names = counts.codes, np.array([getattr(row, column) for row in counts.rows])
    spoof = codes == int(TrialClass.SPOOF)
    among = spoof if column == "attack" else np.ones(codes.size, np.bool_)
    groups = sorted(set(names[among].tolist()) - {NOT_CLUSTERED})
    if not groups:
        raise InputError(f"--by {column}: these counts know no {column}s")
    found = {}
    for group in groups:
        kept = names == group
        if column == "attack":
            kept = (kept & spoof) | ~spoof
        views = {
            name: view_of(one, codes, fine=False, kept=kept) for name, one in counts.columns.items()
        }
        found[group] = bounded(views, settings, available(views, settings))
    return found
