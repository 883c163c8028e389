"""Trials of the bins that can hold an answer, as a second reading finds them.

Equal scores of a class are one value with a number, so that memory is that of the distinct scores:
many trials of few values (rounded scores, those of 32 bits) take no more than few. Bins that are
crowded all the same (1e6 + s) are first counted by the next bits of their scores, in a reading of
its own: each is one or several bins then, of which few can hold an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Codes, Floats, as_labels, as_scores
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.binned import View, at_ordinals, ordinals
from lightning_sasv.trials import TrialClass

if TYPE_CHECKING:
    from lightning_sasv.counting.state import Counts

Mask = NDArray[np.bool_]
FEW = 1 << 21
"""Trials that are kept as they come."""
PARTS = 20
"""Crowded bins are told apart by so many further bits, all of them together."""
_EMPTY, _OCCUPIED, _WANTED = np.int8(0), np.int8(1), np.int8(2)


class OtherTrialsError(InputError):
    """Trials that are read again are not those that were counted.

    Args:
        column: The column that shows it.
    """

    def __init__(self, column: str) -> None:
        super().__init__(f"the {column} scores are not those that were counted")


class Gathered:
    """Distinct scores of each class, and how many trials have each."""

    def __init__(self) -> None:
        self._parts: list[tuple[Floats, Codes]] = []
        self._waiting = 0
        self._known = [(np.empty(0), np.empty(0, np.int64)) for _ in TrialClass]

    def add(self, scores: Floats, codes: Codes) -> None:
        """Take some trials."""
        self._parts.append((scores, codes))
        self._waiting += scores.size
        if self._waiting > max(FEW, sum(values.size for values, _ in self._known)):
            self._count()

    def of(self, codes: Iterable[int]) -> tuple[Floats, NDArray[np.int64]]:
        """Scores of some classes, those of each ascending, and how many trials have each."""
        self._count()
        values, weights = zip(*(self._known[code] for code in codes), strict=True)
        return np.concatenate(values), np.concatenate(weights)

    @property
    def totals(self) -> list[int]:
        """Trials of each class."""
        self._count()
        return [int(weights.sum()) for _, weights in self._known]

    def _count(self) -> None:
        if not self._parts:
            return
        scores, classes = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        for code, (values, weights) in enumerate(self._known):
            new, times = np.unique(scores[classes == code], return_counts=True)
            if values.size:
                every = np.concatenate([values, new])
                order = np.argsort(every, kind="stable")
                every = every[order]
                first = np.flatnonzero(np.append(True, every[1:] != every[:-1]))
                new = every[first]
                times = np.add.reduceat(np.concatenate([weights, times])[order], first)
            self._known[code] = new, times.astype(np.int64)
        self._parts, self._waiting = [], 0


def gather(
    counts: Counts,
    views: Mapping[str, View],
    masks: Mapping[str, Mask],
    batches: Iterable[Mapping[str, Any]],
    parts: Mapping[str, _Parts] | None = None,
) -> dict[str, Gathered]:
    """Trials of each column in some bins, compared with the counts there.

    Args:
        counts: The state.
        views: What is known of each column.
        masks: The bins of each.
        batches: The trials.
        parts: Bins in parts, whose largest floats stand for the scores.

    Raises:
        OtherTrialsError: They are not those that were counted.
    """
    found = {name: Gathered() for name in views}
    for name, scores, codes in _wanted(counts, views, masks, batches):
        found[name].add(scores if parts is None else parts[name].around(scores)[1], codes)
    for name, trials in found.items():
        if trials.totals != views[name].counts[:, masks[name]].sum(axis=1).tolist():
            raise OtherTrialsError(name)
    return found


def _wanted(
    counts: Counts,
    views: Mapping[str, View],
    masks: Mapping[str, Mask],
    batches: Iterable[Mapping[str, Any]],
) -> Iterator[tuple[str, Floats, Codes]]:
    """Column, scores and classes of the trials in some bins, batch by batch."""
    tables = {}
    for name, column in counts.columns.items():
        table = np.zeros(column.fine_grid.size, np.int8)
        table[column.fine_bins] = _OCCUPIED
        table[column.fine_grid.bins(views[name].edges[masks[name]])] = _WANTED
        tables[name] = table
    for batch in batches:
        codes = as_labels(batch["labels"])
        for name, table in tables.items():
            scores, view = as_scores(batch[name], name), views[name]
            kind = table.take(counts.columns[name].fine_grid.bins(scores))
            if kind.min(initial=_WANTED) == _EMPTY:
                raise OtherTrialsError(name)
            rows = np.flatnonzero(kind == _WANTED)
            if view.edges.size > counts.columns[name].fine_bins.size:  # some are parts of bins
                at = np.minimum(np.searchsorted(view.edges, scores[rows]), view.edges.size - 1)
                rows = rows[masks[name][at]]
            yield name, scores[rows], codes[rows]


def parted(
    counts: Counts,
    views: Mapping[str, View],
    masks: Mapping[str, Mask],
    batches: Iterable[Mapping[str, Any]],
) -> dict[str, View]:
    """The views with some bins in parts, by the next bits of the scores of their trials.

    Raises:
        OtherTrialsError: The trials are not those that were counted.
    """
    parts = {name: _Parts(view, masks[name]) for name, view in views.items()}
    found = gather(counts, views, masks, batches, parts)
    return {name: part.view(found[name]) for name, part in parts.items()}


class _Parts:
    """Bins of a view, each in parts of as many neighbouring floats.

    Args:
        view: The column.
        mask: Its bins that are parted.
    """

    def __init__(self, view: View, mask: Mask) -> None:
        self._view, self._mask = view, mask
        self._edges, starts = view.edges[mask], view.starts[mask]
        starts = np.where(starts == -np.finfo(np.float64).max, -np.inf, starts)  # in that bin too
        self._first, self._last = ordinals(starts), ordinals(self._edges)
        bits = max(2, PARTS - self._edges.size.bit_length())  # one more than rounding can cost
        wide = np.frexp((self._last - self._first).astype(np.float64))[1]
        self._shift = np.maximum(wide - bits, 0).astype(np.int64)

    def around(self, scores: Floats) -> tuple[Floats, Floats]:
        """Smallest and largest float of the part in which each score lies."""
        at = np.minimum(np.searchsorted(self._edges, scores), self._edges.size - 1)
        first, shift = self._first[at], self._shift[at]
        start = first + (((ordinals(scores) - first) >> shift) << shift)
        last = start + np.minimum((np.int64(1) << shift) - 1, self._last[at] - start)
        return at_ordinals(start), at_ordinals(last)

    def view(self, found: Gathered) -> View:
        """The column with its parts, of which those without trials are left out."""
        own = [found.of([int(code)]) for code in TrialClass]
        edges = np.unique(np.concatenate([values for values, _ in own]))
        counts = np.zeros((len(own), edges.size), np.int64)
        for code, (values, trials) in enumerate(own):
            counts[code, np.searchsorted(edges, values)] = trials
        starts, kept = self.around(edges)[0] if edges.size else edges, ~self._mask
        order = np.argsort(every := np.concatenate([self._view.edges[kept], edges]))
        return self._view._replace(
            starts=np.concatenate([self._view.starts[kept], starts])[order],
            edges=every[order],
            counts=np.concatenate([self._view.counts[:, kept], counts], axis=1)[:, order],
        )
