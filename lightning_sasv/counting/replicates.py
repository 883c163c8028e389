"""Intervals from counts: replicates of the bootstrap over clusters as products of matrices.

A replicate draws speakers (and attacks) exactly as :mod:`lightning_sasv.metrics.bootstrap` does, so
replicate r is the same whether trials or bins are weighted. Counts of a replicate are
W[r, row] · counts[row, bin], whatever the number of trials; each metric then has bounds. Order
statistics are monotone: an end of an interval lies between those of the bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Floats
from lightning_sasv.counting.by_trial import Cells, is_drawn, numbers
from lightning_sasv.counting.closed import Block, closed_form
from lightning_sasv.counting.column import Column, block_of
from lightning_sasv.counting.sums import in_bits
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.bootstrap import GROUPS, NOT_CLUSTERED, draw, generator
from lightning_sasv.metrics.bounds import Ends, available, bounded
from lightning_sasv.metrics.functional.points import Index
from lightning_sasv.metrics.intervals import Interval, Method, Resampled, check_replicates
from lightning_sasv.metrics.registry import Settings
from lightning_sasv.trials import TrialClass

if TYPE_CHECKING:
    from lightning_sasv.counting.state import Counts

_AT_ONCE = 100
_EXACT = 1 << 24
"""Whole numbers up to this are exact in single precision, which is faster."""


COARSE = "the grid is coarse here: try --grid 9"
"""Said where the bounds of an end exceed a tenth of half the interval."""


class CountedInterval(NamedTuple):
    """An interval from counts.

    Attributes:
        value: The metric of all trials, on the grid by row.
        low: Lower end; NaN where there is no interval.
        high: Upper end.
        low_bounds: Least value of each replicate.
        high_bounds: Greatest value of each replicate.
        replicates: Value of each replicate on the grid.
        low_between: Between which values the lower end lies.
        high_between: Between which values the upper end lies.
        undefined: Replicates that lack a class.
        method: How the ends were found.
        note: What must be said about it; mostly nothing.
    """

    value: float
    low: float
    high: float
    low_bounds: Floats
    high_bounds: Floats
    replicates: Floats
    low_between: tuple[float, float]
    high_between: tuple[float, float]
    undefined: int
    method: Method
    note: str = ""

    @property
    def ends(self) -> Ends:
        """Between which values both ends lie."""
        return self.low_between, self.high_between

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.high - self.low) / 2


class Drawn(NamedTuple):
    """A metric in all replicates: its value on the grid, and its bounds."""

    grid: Resampled
    low: Resampled
    high: Resampled

    def interval(self, alpha: float = 0.05, method: Method | None = None) -> CountedInterval:
        """BCa levels from the grid's values; ends between the order statistics of the bounds.

        Args:
            alpha: Share outside the interval.
            method: ``bca`` by default, or one that takes the same levels of all replicates.
        """
        found, low, high = (self._ends(one, alpha, method) for one in self)
        note = found.note
        width = max(high.low - low.low, high.high - low.high)
        if width > 0.1 * found.half_width > 0:
            note = "; ".join(filter(None, [note, COARSE]))
        return CountedInterval(
            self.grid.value,
            found.low,
            found.high,
            self.low.replicates,
            self.high.replicates,
            self.grid.replicates,
            (low.low, high.low),
            (low.high, high.high),
            found.undefined,
            found.method,
            note,
        )

    def _ends(self, one: Resampled, alpha: float, method: Method | None) -> Interval:
        if method in (None, "bca"):
            return one.at_levels_of(self.grid, alpha)
        return one.interval(alpha, method)


def intervals_of(
    counts: Counts,
    names: Sequence[str],
    clusters: str | None,
    n: int,
    alpha: float,
    seed: int,
    settings: Settings,
) -> dict[str, CountedInterval]:
    """Intervals of metrics.

    Args:
        counts: The state.
        names: Metrics.
        clusters: ``speaker`` or ``speaker-attack``; ``None`` draws trials, see :mod:`.by_trial`.
        n: Replicates.
        alpha: Share outside the interval.
        seed: Replicate r depends on (seed, r) alone.
        settings: Costs and conventions.

    Raises:
        InputError: Clusters that the state does not know, an unknown metric, too few replicates.
    """
    check_replicates(n, alpha)
    found = drawn(counts, names, clusters, n, seed, settings)
    return {name: one.interval(alpha) for name, one in found.items()}


def drawn(
    counts: Counts,
    names: Sequence[str],
    clusters: str | None,
    n: int,
    seed: int,
    settings: Settings,
) -> dict[str, Drawn]:
    """All replicates of metrics; arguments as for :func:`intervals_of`."""
    known = available(counts.columns, settings)
    if unknown := [name for name in names if name not in known]:
        raise InputError(f"counts give no {unknown[0]}; expected some of {', '.join(known)}")
    if clusters is None:
        return _drawn_trials(counts, names, n, seed, settings)
    rows = _Rows(counts, clusters)
    once = iter([np.ones((1, len(counts.rows)), np.int64)])
    ways = (once, rows.left_out(), rows.weights(n, seed))
    products = {
        name: _Product(column, counts.codes, counts.order)
        for name, column in counts.columns.items()
    }
    value, left_out, replicated = (_values(products, way, settings, names) for way in ways)
    return {
        name: Drawn(
            *(
                Resampled(
                    float(value[name][k, 0]), replicated[name][k], left_out[name][k], rows.speakers
                )
                for k in range(3)
            )
        )
        for name in names
        if not np.isnan(value[name][1, 0])
    }


def _drawn_trials(
    counts: Counts, names: Sequence[str], n: int, seed: int, settings: Settings
) -> dict[str, Drawn]:
    if unknown := [name for name in names if not is_drawn(name)]:
        raise InputError(f"counts do not know {unknown[0]} of drawn trials; draw speakers")
    cells = {name: Cells(column, counts.codes, seed) for name, column in counts.columns.items()}
    ways = iter([np.array([-1])]), numbers(n, _AT_ONCE)
    value, replicated = (_values(cells, way, settings, names) for way in ways)
    return {
        name: Drawn(*(Resampled(float(value[name][k, 0]), replicated[name][k]) for k in range(3)))
        for name in names
        if not np.isnan(value[name][1, 0])
    }


class _Rows:
    """How often each row counts in each replicate."""

    def __init__(self, counts: Counts, clusters: str | None) -> None:
        if clusters not in ("speaker", "speaker-attack"):
            raise InputError(
                f"counts are drawn by 'speaker', 'speaker-attack' or, of trials, None; got "
                f"{clusters!r}"
            )
        speakers = counts.speakers
        columns = [[speakers[number] for number in counts.order]]
        if clusters == "speaker-attack":
            columns.append([counts.rows[number].attack for number in counts.order])
        self._columns: list[tuple[int, NDArray[np.intp]]] = []
        for names in columns:
            known = sorted(set(names) - {NOT_CLUSTERED})
            if not known:
                what = "speakers" if not self._columns else "attacks"
                raise InputError(f"these counts know no {what}: count again with that column")
            place = {name: number for number, name in enumerate(known)}
            numbers = np.array([place.get(name, len(known)) for name in names])
            self._columns.append((len(known), numbers))
        self.speakers = self._columns[0][0]

    def weights(self, n: int, seed: int) -> Iterator[NDArray[np.int64]]:
        """Blocks (replicates, rows) of the weights of each replicate."""
        for start in range(0, n, _AT_ONCE):
            block = []
            for replicate in range(start, min(start + _AT_ONCE, n)):
                rng = generator(seed, replicate)
                weights: NDArray[np.int64] = np.ones(len(self._columns[0][1]), np.int64)
                for number, rows in self._columns:
                    weights = weights * np.append(draw(rng, number), 1)[rows]
                block.append(weights)
            yield np.array(block)

    def left_out(self) -> Iterator[NDArray[np.int64]]:
        """The same without each speaker in turn, or each group of them where there are many."""
        groups = self._columns[0][1] % GROUPS
        groups[self._columns[0][1] == self.speakers] = -1
        every = np.arange(min(self.speakers, GROUPS))
        for start in range(0, every.size, _AT_ONCE):
            yield (groups[None] != every[start : start + _AT_ONCE, None]).astype(np.int64)


class _Product:
    """The counts of a column as matrices by class."""

    def __init__(self, column: Column, codes: NDArray[np.int8], order: Index) -> None:
        rows, codes = codes.size, codes[order]
        ascending = np.argsort(column.bins)
        grid, bins = column.grid, column.bins[ascending]
        self._bins, self._cuts = (grid.lower(bins), grid.upper(bins)), column.cuts
        counts = column.counts(rows)
        losses = np.array([in_bits(loss) for loss in column.sums.losses(rows)])
        losses = np.where(column.sums.infinite(rows) > 0, np.inf, losses)
        rejected = column.sums.rejected(rows)
        self._parts = []
        for code in TrialClass:
            own = np.flatnonzero(codes == int(code))
            trials = np.asarray(counts[order[own]].sum(axis=0)).reshape(-1)[ascending]
            used, largest = np.flatnonzero(trials), float(trials.max(initial=0))
            part = block_of(counts, order[own], ascending[used])
            single = part.astype(np.float32) if largest < _EXACT else part
            more = losses[order[own]], rejected[order[own]]
            self._parts.append((own, used, single, largest, *more))

    def block(self, weights: NDArray[np.int64]) -> Block:
        """The column in some replicates."""
        counts = np.zeros((len(self._parts), len(weights), self._bins[0].size))
        losses, rejected = [], []
        for place, (own, used, part, largest, loss, cut) in zip(counts, self._parts, strict=True):
            drawn = weights[:, own]
            kind = np.float32 if float(drawn.max(initial=0)) * largest < _EXACT else np.float64
            place[:, used] = drawn.astype(kind) @ part.astype(kind, copy=False)
            with np.errstate(invalid="ignore"):
                sums = drawn * loss[None]
            if not np.isfinite(loss).all():  # 0 times infinity is nothing
                sums[drawn == 0] = 0.0
            losses.append(sums.sum(axis=1))
            rejected.append(drawn @ cut)
        return Block(self._bins, self._cuts, counts, np.stack(rejected), np.stack(losses))


def _values(
    products: Mapping[str, _Product | Cells],
    blocks: Iterator[NDArray[np.int64]],
    settings: Settings,
    names: Sequence[str],
) -> dict[str, Floats]:
    """Value, least and greatest value of each metric in each replicate, (3, replicates)."""
    found: dict[str, list[Floats]] = {name: [] for name in names}
    for weights in blocks:
        own = {name: product.block(weights) for name, product in products.items()}
        slow = []
        for name in names:
            ends = closed_form(name, own, settings)
            if ends is None:
                slow.append(name)
            else:
                found[name].append(ends)
        one_by_one = {name: np.full((3, len(weights)), np.nan) for name in slow}
        for k in range(len(weights) if slow else 0):
            views = {name: block.view(k) for name, block in own.items()}
            for name, one in bounded(views, settings, slow).items():
                one_by_one[name][:, k] = one[:3]
        for name, rows in one_by_one.items():
            found[name].append(rows)
    return {name: np.concatenate(parts, axis=1) for name, parts in found.items()}
