"""Counts: everything that metrics, intervals and comparisons need, of any number of trials.

Kept are, by enrolled speaker and class (of spoofs: by attack), how many trials fall into each bin
of a :class:`~lightning_sasv.metrics.binned.Grid`; on a finer grid the same by class alone;
how many each *cut* rejects, a threshold that must be exact; and the sums of the losses of Cllr in
whole numbers. All of it is added when states are merged, so the order does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lightning_sasv.checks import (
    ArrayLike,
    Codes,
    as_labels,
    as_scores,
    check_same_length,
)
from lightning_sasv.counting.column import Column
from lightning_sasv.counting.rows import Row, Rows
from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.bootstrap import NOT_CLUSTERED
from lightning_sasv.metrics.functional.dcf import a_dcf_weights, bayes_threshold, cm_dcf_weights
from lightning_sasv.metrics.functional.points import Index
from lightning_sasv.metrics.registry import DEFAULTS, Settings
from lightning_sasv.trials import TrialClass, claimed_speakers

if TYPE_CHECKING:
    from lightning_sasv.counting.replicates import CountedInterval
    from lightning_sasv.metrics.binned import Bounded

COLUMNS = ("asv", "cm", "sasv")
TANDEM_BITS = 9
"""The t-EER is a product of rates, so that its bounds are wider: ``asv`` and ``cm`` get these."""


class Source(NamedTuple):
    """One input that was counted.

    Attributes:
        name: Its name.
        rows: Its trials.
        size: Its bytes, 0 where there is no file.
        ids: Sum of 64-bit hashes of its trials, modulo 2^64: the same trials have the same sum.
    """

    name: str
    rows: int
    size: int = 0
    ids: int = 0

    @property
    def trials(self) -> tuple[object, ...]:
        """What tells its trials from others: their names, else those of the file."""
        return (self.rows, self.ids) if self.ids else tuple(self)


class Counts:
    """Counts of trials on a grid.

    Args:
        columns: Scores to count: some of ``asv``, ``cm``, ``sasv``.
        grid: Bins of an octave are at least 2^grid; of ``asv`` and ``cm`` at least 2^9.
        costs: Cost models of the a-DCF, or names of presets; their Bayes thresholds are cuts.
        tandem_costs: The same of the countermeasure's DCF.
        cuts: Further thresholds at which the counts shall be exact: of ``sasv``, or by column.
        edges: Thresholds in place of the grid, such as quantiles of a sample: of every column, or
            by column. All states that are merged must have the same.

    Attributes:
        sources: What was counted.

    Example:
        >>> counts = Counts()
        >>> counts.add(["target", "nontarget", "spoof"], sasv=[3.0, 1.0, 0.0])
        >>> counts.metrics()["sasv_eer"].high
        0.0
    """

    def __init__(
        self,
        columns: Sequence[str] = ("sasv",),
        grid: int = 7,
        costs: CostModel | str | Iterable[CostModel | str] = "a-dcf1",
        tandem_costs: CostModel | str | Iterable[CostModel | str] = "asvspoof5",
        cuts: Iterable[float] | Mapping[str, Iterable[float]] = (),
        edges: Sequence[float] | Mapping[str, Sequence[float]] = (),
    ) -> None:
        if not columns or not set(columns) <= set(COLUMNS):
            raise InputError(f"columns must be some of {', '.join(COLUMNS)}, got {list(columns)}")
        fused, cm = (
            {bayes_threshold(weights(as_cost_model(one))) for one in _several(models)}
            for models, weights in ((costs, a_dcf_weights), (tandem_costs, cm_dcf_weights))
        )
        points = {bayes_threshold((miss * p, fa * (1 - p))) for p, miss, fa in DEFAULTS.asv_points}
        more = cuts if isinstance(cuts, Mapping) else {"sasv": cuts}
        exact = {
            name: own | set(more.get(name, ()))
            for name, own in (("sasv", fused), ("cm", cm), ("asv", points))
        }
        self.columns: dict[str, Column] = {
            name: Column(
                name,
                grid if name == "sasv" else max(grid, TANDEM_BITS),
                sorted(exact[name]),
                edges.get(name, ()) if isinstance(edges, Mapping) else edges,
            )
            for name in sorted(columns)
        }
        self.sources: list[Source] = []
        self._rows = Rows()

    @property
    def rows(self) -> list[Row]:
        """What is drawn as one, in the order of the counts."""
        return self._rows.known

    @property
    def codes(self) -> Codes:
        """Class of each row."""
        return np.array([row.code for row in self.rows], np.int8)

    @property
    def speakers(self) -> list[str]:
        """Enrolled speaker of each row, as they are drawn: models of one speaker are one."""
        known = list(
            dict.fromkeys(row.speaker for row in self.rows if row.speaker != NOT_CLUSTERED)
        )
        claimed = dict(zip(known, claimed_speakers(known), strict=True))
        return [claimed.get(row.speaker, NOT_CLUSTERED) for row in self.rows]

    @property
    def order(self) -> Index:
        """The rows in ascending order of their names: sums over them do not depend on splits."""
        return np.array(sorted(range(len(self.rows)), key=self.rows.__getitem__), np.intp)

    @property
    def trials(self) -> dict[str, int]:
        """Trials of each class."""
        column = next(iter(self.columns.values()))
        totals = column.fine.sum(axis=1)
        return {str(code): int(totals[code]) for code in TrialClass}

    @property
    def trials_by_row(self) -> dict[Row, int]:
        """Trials of each row."""
        column = next(iter(self.columns.values()))
        return dict(zip(self.rows, column.trials_of_rows(len(self.rows)).tolist(), strict=True))

    def add(
        self,
        labels: ArrayLike,
        clusters: ArrayLike | None = None,
        attacks: ArrayLike | None = None,
        *,
        source: Source | None = None,
        **columns: ArrayLike,
    ) -> None:
        """Count some trials.

        Args:
            labels: ``TrialClass`` codes or words.
            clusters: Enrolled speaker of each trial.
            attacks: Attack of each trial; those of bona fide trials do not matter.
            source: Where they come from, said once for each input.
            **columns: Scores by name, all of those that the state has.

        Raises:
            InputError: A column is missing or unknown, lengths that differ, or a NaN.

        Example:
            >>> counts = Counts()
            >>> counts.add(["spoof", "target"], ["anna", "anna"], ["A1", "-"], sasv=[0.0, 1.0])
            >>> [tuple(row) for row in counts.rows]
            [('anna', 1, '-'), ('anna', 0, 'A1')]
        """
        if columns.keys() != self.columns.keys():
            raise InputError(f"this state counts {list(self.columns)}, got {sorted(columns)}")
        codes = as_labels(labels)
        scores = {name: as_scores(values, name) for name, values in columns.items()}
        check_same_length({**scores, "labels": codes})
        rows = self._rows.numbers(codes, clusters, attacks)
        for name, values in scores.items():
            self.columns[name].add(rows, codes, values)
        if source is not None:
            self.sources.append(source)

    def merge(self, other: Counts) -> Counts:
        """Add another state to this one.

        Cuts that only one of the two has are dropped: costs there become bounds.

        Raises:
            InputError: Other columns or edges, or a source that both have counted.

        Example:
            >>> both = Counts()
            >>> for score in (1.0, 2.0):
            ...     one = Counts()
            ...     one.add(["target"], sasv=[score])
            ...     _ = both.merge(one)
            >>> both.trials["target"]
            2
        """
        if other.columns.keys() != self.columns.keys():
            raise InputError(
                f"states of different columns cannot be merged: {list(self.columns)} and "
                f"{list(other.columns)}"
            )
        for name, column in other.columns.items() if self.rows and other.rows else ():
            if column.edges != self.columns[name].edges:
                raise InputError(
                    f"states of different edges of {name} cannot be merged; count with the same "
                    "ones, or with none: grids of bits can"
                )
        known = {one.trials for one in self.sources}
        twice = [one.name for one in other.sources if one.trials in known]
        if twice:
            raise InputError(f"{twice[0]} is in both states: its trials would count twice")
        self.sources += other.sources
        if not other.rows:  # an empty state is neutral, whatever its grid
            return self
        if not self.rows:
            self.adopt(other.rows)
            self.columns = {name: column.copy() for name, column in other.columns.items()}
            return self
        numbers = self._rows.places(other.rows)
        for name, column in other.columns.items():
            self.columns[name].merge(column, numbers)
        return self

    def __add__(self, other: Counts) -> Counts:
        """A new state of both."""
        return Counts(tuple(self.columns)).merge(self).merge(other)

    def metrics(
        self, settings: Settings = DEFAULTS, names: Sequence[str] | None = None
    ) -> dict[str, Bounded]:
        """Every metric that the columns allow, each with bounds; see :func:`.views.metrics_of`."""
        from lightning_sasv.counting.views import metrics_of

        return metrics_of(self, settings, names)

    def refine(
        self,
        batches: Iterable[Mapping[str, ArrayLike]],
        settings: Settings = DEFAULTS,
        names: Sequence[str] | None = None,
        everything: bool = False,
    ) -> dict[str, Bounded]:
        """The same, exact, from a second look at the trials; see :func:`.refine.refined`."""
        from lightning_sasv.counting.refine import refined

        return refined(self, batches, settings, names, everything)

    def bootstrap(
        self,
        names: Sequence[str],
        clusters: str | None = "speaker",
        n: int = 1000,
        alpha: float = 0.05,
        seed: int = 0,
        settings: Settings = DEFAULTS,
    ) -> dict[str, CountedInterval]:
        """Intervals of metrics; see :func:`.replicates.intervals_of`."""
        from lightning_sasv.counting.replicates import intervals_of

        return intervals_of(self, names, clusters, n, alpha, seed, settings)

    def save(self, path: str | Path) -> Path:
        """Write ``path``, ``….counts.safetensors``; equal states are equal bytes."""
        from lightning_sasv.counting.file import save_counts

        return save_counts(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Counts:
        """Read what :meth:`save` wrote."""
        from lightning_sasv.counting.file import load_counts

        return load_counts(path)

    def adopt(self, rows: Sequence[Row]) -> None:
        """Take over the rows of a state, in their order, before anything is counted."""
        self._rows = Rows(rows)


def _several(models: Any) -> list[CostModel | str]:
    return [models] if isinstance(models, str | CostModel) else list(models)


def merged(states: Iterable[Counts]) -> Counts:
    """All states as one.

    Raises:
        InputError: There is none, or two cannot be merged.

    Example:
        >>> merged([Counts(), Counts()]).trials["spoof"]
        0
    """
    whole: Counts | None = None
    for state in states:
        whole = state if whole is None else whole.merge(state)
    if whole is None:
        raise InputError("nothing to merge")
    return whole
