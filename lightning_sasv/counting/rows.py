"""Rows of counts: what a replicate draws as one, numbered in the order in which it was seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Codes
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.bootstrap import NOT_CLUSTERED
from lightning_sasv.metrics.functional.points import Index
from lightning_sasv.trials import TrialClass


class Row(NamedTuple):
    """What a replicate draws as one.

    Attributes:
        speaker: Enrolled speaker, ``-`` where unknown.
        code: ``TrialClass`` code.
        attack: Attack of spoofs, ``-`` where unknown and of bona fide trials.
    """

    speaker: str
    code: int
    attack: str


class Names:
    """Numbers of names; one that is new gets the next.

    Example:
        >>> Names().numbers(np.array(["b", "a", "b"]), 3, "clusters")
        array([0, 1, 0])
    """

    def __init__(self, first: Iterable[str] = ()) -> None:
        self.known: dict[str, int] = {}
        self._kind: Any = None  # the same as a type of polars, whose look-up is the fastest
        for name in first:
            self._add(name)

    def numbers(self, names: Any, size: int, what: str) -> Index:
        """The number of each name, of ``-`` where there are none.

        Raises:
            InputError: There are not as many as trials.
        """
        import polars as pl

        if names is None:
            return np.full(size, self._add(NOT_CLUSTERED), np.intp)
        if not isinstance(names, pl.Series):
            array = np.asarray(names)
            if array.ndim != 1:
                raise InputError(f"{what} have shape {array.shape}; there are {size} labels")
            names = pl.Series(array.astype(str) if array.dtype.kind not in "UT" else array)
        if len(names) != size:
            raise InputError(f"{what} have shape ({len(names)},); there are {size} labels")
        if isinstance(names.dtype, pl.Enum) and not names.null_count():
            words = names.dtype.categories
            return self.numbers(words, len(words), what).take(names.to_physical().to_numpy())
        names = names.cast(pl.String).fill_null(NOT_CLUSTERED)
        found = names.cast(self._type(), strict=False)
        if found.null_count():
            for name in names.filter(found.is_null()).unique(maintain_order=True):
                self._add(name)
            found = names.cast(self._type())
        return found.to_physical().to_numpy().astype(np.intp)

    def _add(self, name: str) -> int:
        if name not in self.known:
            self.known[name], self._kind = len(self.known), None
        return self.known[name]

    def _type(self) -> Any:
        import polars as pl

        if self._kind is None:
            self._kind = pl.Enum(list(self.known))
        return self._kind


class Rows:
    """Numbers of rows.

    Attributes:
        known: The rows in the order of their numbers.
    """

    def __init__(self, known: Sequence[Row] = ()) -> None:
        self.known: list[Row] = []
        self._speakers, self._attacks = Names(), Names([NOT_CLUSTERED])
        self._table = np.full((0, 0), -1, np.intp)  # by speaker, and class or attack
        if known:
            at = self._cells(*_columns(known))
            self.known = list(known)
            self._table.reshape(-1)[at] = np.arange(len(known))

    def numbers(self, codes: Codes, clusters: Any, attacks: Any) -> Index:
        """The row of each trial."""
        cells = self._cells(codes, clusters, attacks)
        rows = self._table.take(cells)
        if rows.min(initial=0) < 0:
            self._add(cells[rows < 0])
            rows = self._table.take(cells)
        return rows

    def places(self, rows: Sequence[Row]) -> Index:
        """The numbers of some rows."""
        return self.numbers(*_columns(rows))

    def _cells(self, codes: Codes, clusters: Any, attacks: Any) -> Index:
        """Place of the speaker and of the class or attack of each trial in the table."""
        speakers = self._speakers.numbers(clusters, codes.size, "clusters")
        cells = (codes == TrialClass.NONTARGET).astype(np.intp)
        spoof = codes == TrialClass.SPOOF
        if attacks is None:
            cells[spoof] = 2
        else:
            kinds = self._attacks.numbers(attacks, codes.size, "attacks")
            np.copyto(cells, kinds + 2, where=spoof)
        self._grow()
        speakers *= self._table.shape[1]
        cells += speakers
        return cells

    def _grow(self) -> None:
        """Make room for all speakers and attacks."""
        have, shape = self._table, (len(self._speakers.known), 2 + len(self._attacks.known))
        if shape[0] > have.shape[0] or shape[1] > have.shape[1]:
            self._table = np.full([2 * n for n in shape], -1, np.intp)
            self._table[: have.shape[0], : have.shape[1]] = have

    def _add(self, cells: Index) -> None:
        """Number rows that are new."""
        speakers, attacks = list(self._speakers.known), list(self._attacks.known)
        for cell in np.flatnonzero(np.bincount(cells)).tolist():
            speaker, kind = divmod(cell, self._table.shape[1])
            code = (TrialClass.TARGET, TrialClass.NONTARGET, TrialClass.SPOOF)[min(kind, 2)]
            self._table[speaker, kind] = len(self.known)
            self.known.append(Row(speakers[speaker], int(code), attacks[max(kind - 2, 0)]))


def _columns(rows: Sequence[Row]) -> tuple[Codes, NDArray[np.str_], NDArray[np.str_]]:
    """Class, speaker and attack of each row."""
    speakers, codes, attacks = zip(*rows, strict=True)
    return np.array(codes, np.int8), np.array(speakers), np.array(attacks)
