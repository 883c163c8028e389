"""Trials of the bins that can hold an answer, as a second reading finds them.

Equal scores of a class are one value with a number, so that memory is that of the distinct scores:
many trials of few values (rounded scores, those of 32 bits) take no more than few.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Codes, Floats, as_labels, as_scores
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.binned import View
from lightning_sasv.trials import TrialClass

if TYPE_CHECKING:
    from lightning_sasv.counting.state import Counts

Mask = NDArray[np.bool_]
FEW = 1 << 21
"""Trials that are kept as they come."""
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
) -> dict[str, Gathered]:
    """Trials of each column in some bins, compared with the counts there.

    Raises:
        OtherTrialsError: They are not those that were counted.
    """
    tables = {}
    for name, column in counts.columns.items():
        table = np.zeros(column.fine_grid.size, np.int8)
        table[column.fine_bins] = _OCCUPIED
        table[np.sort(column.fine_bins)[masks[name]]] = _WANTED
        tables[name] = table
    found = {name: Gathered() for name in tables}
    for batch in batches:
        codes = as_labels(batch["labels"])
        for name, table in tables.items():
            scores = as_scores(batch[name], name)
            kind = table.take(counts.columns[name].fine_grid.bins(scores))
            if kind.min(initial=_WANTED) == _EMPTY:
                raise OtherTrialsError(name)
            rows = np.flatnonzero(kind == _WANTED)
            found[name].add(scores[rows], codes[rows])
    for name, trials in found.items():
        if trials.totals != views[name].counts[:, masks[name]].sum(axis=1).tolist():
            raise OtherTrialsError(name)
    return found
