"""The concurrent point of scores that are not sorted: only those near it are looked at one by one.

Both columns are counted in buckets, at whose ends all error rates are known. What lies outside the
buckets in which the point can be enters as one lump below and one above.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import BLOCK, Codes, Floats
from lightning_sasv.metrics.functional.buckets import Buckets
from lightning_sasv.metrics.functional.concurrent import Meeting, Stretch, Tandem
from lightning_sasv.metrics.functional.sorting import ascending, merged
from lightning_sasv.metrics.functional.steps import Steps
from lightning_sasv.metrics.functional.tandem import TandemCurves, path_bounds
from lightning_sasv.trials import TrialClass

MANY = 1 << 14
"""Trials from which on a window saves time."""

_NUMBER = 4096  # buckets of a column
_SAMPLE = 4096  # trials that tell where the buckets should lie
_MOST = 0.25  # of the trials in a window: more are better sorted all

_TAR, _NON, _SPF = TrialClass.TARGET, TrialClass.NONTARGET, TrialClass.SPOOF

Index = NDArray[np.intp]


class NoWindowError(Exception):
    """The trials must be sorted: they have no narrow window."""


class Near(NamedTuple):
    """A concurrent point and what is needed to describe it.

    Attributes:
        tandem: The scores near it, with lumps for the others.
        meeting: The point.
    """

    tandem: Tandem
    meeting: Meeting


def meeting_near(asv: Floats, cm: Floats, codes: Codes) -> Near | None:
    """First concurrent point, as :func:`find_meeting` of the sorted classes gives it.

    Args:
        asv: ASV score of each trial.
        cm: CM score of each trial.
        codes: ``TrialClass`` codes, each with trials.

    Returns:
        The point; ``None`` without any.

    Raises:
        NoWindowError: When no narrow window holds it.
    """
    first, second = _Counted(asv, codes), _Counted(cm, codes)
    found = _possible(first, second)
    if found is None:
        return None
    start, stop, cm_start, cm_stop = found
    verifier = first.window(first.widened(start, stop, *TrialClass)[0], stop)
    countermeasure = second.window(*second.widened(cm_start, cm_stop, _TAR, _NON))
    tandem = Tandem(
        verifier.steps(_TAR),
        verifier.steps(_NON),
        verifier.steps(_SPF),
        countermeasure.steps(_TAR, _NON),
        countermeasure.steps(_SPF),
    )
    inside = verifier.buckets >= start
    scores = merged(ascending(verifier.scores[inside]))
    lower = verifier.scores[~inside]
    begin = float(lower.max()) if lower.size else -math.inf
    stretch = Stretch(tandem, np.append(begin, scores), from_start=not lower.size)
    meeting = stretch.root()
    if meeting is None:
        return None
    if countermeasure.under[_SPF] and not tandem.bona_fide.around(np.array(meeting.miss_cm))[1]:
        raise NoWindowError  # the point's CM thresholds are among the spoofs of the lump
    return Near(tandem, meeting)


class _Counted:
    """A column of scores counted in buckets, class by class."""

    def __init__(self, scores: Floats, codes: Codes) -> None:
        self.scores, self.codes = scores, codes
        sample = scores[:: max(scores.size // _SAMPLE, 1)]
        low, high = float(sample.min()), float(sample.max())
        if not (
            math.isfinite(low) and 0 < high - low < math.inf and _NUMBER / (high - low) < math.inf
        ):
            raise NoWindowError
        self.buckets = Buckets(low, high, _NUMBER)
        counts = np.zeros(_NUMBER * len(TrialClass), dtype=np.intp)
        for start in range(0, scores.size, BLOCK):
            block = slice(start, start + BLOCK)
            places = self.buckets.of(scores[block]) * len(TrialClass) + codes[block]
            counts += np.bincount(places, minlength=counts.size)
        self.counts = counts.reshape(_NUMBER, len(TrialClass))

    def rejected(self, *classes: TrialClass) -> Floats:
        """Share of some classes below the end of each bucket; the first accepts all."""
        counts = self.counts[:, list(classes)].sum(axis=1)
        total = np.cumsum(np.append(0, counts))
        share: Floats = total / total[-1]
        return share

    def accepted(self, member: TrialClass) -> Floats:
        """Share of a class above the end of each bucket."""
        total = np.cumsum(np.append(0, self.counts[:, member]))
        share: Floats = (total[-1] - total) / total[-1]
        return share

    def widened(self, start: int, stop: int, *classes: TrialClass) -> tuple[int, int]:
        """Buckets from ``start`` to before ``stop``, and on either side the next with a trial."""
        some = self.counts[:, list(classes)].sum(axis=1) > 0
        below, above = np.flatnonzero(some[:start]), np.flatnonzero(some[stop:])
        first = int(below[-1]) if below.size else start
        return first, stop + int(above[0]) + 1 if above.size else stop

    def window(self, start: int, stop: int) -> _Window:
        """The scores of the buckets from ``start`` to ``stop``, which is not among them."""
        if self.counts[start:stop].sum() > _MOST * self.scores.size:
            raise NoWindowError
        parts: list[tuple[Floats, Codes, Index]] = []
        for begin in range(0, self.scores.size, BLOCK):
            block = slice(begin, begin + BLOCK)
            buckets = self.buckets.of(self.scores[block])
            kept = np.flatnonzero((buckets >= start) & (buckets < stop))
            parts.append((self.scores[block][kept], self.codes[block][kept], buckets[kept]))
        scores, codes, buckets = (np.concatenate(column) for column in zip(*parts, strict=True))
        lumps = self.counts[:start].sum(axis=0), self.counts[stop:].sum(axis=0)
        return _Window(scores, codes, buckets, *lumps)


class _Window(NamedTuple):
    """Trials of neighbouring buckets, and how many of each class lie below and above."""

    scores: Floats
    codes: Codes
    buckets: Index
    under: Index
    over: Index

    def steps(self, *classes: TrialClass) -> Steps:
        """Distribution of some classes, with lumps at the infinities where there are any."""
        own = ascending(self.scores[np.isin(self.codes, classes)])
        under, over = (int(lump[list(classes)].sum()) for lump in (self.under, self.over))
        values = np.concatenate([[-math.inf] * (under > 0), own, [math.inf] * (over > 0)])
        weights = np.ones(values.size, dtype=np.int64)
        if under:
            weights[0] = under
        if over:
            weights[-1] = over
        return Steps(values, weights)


def _possible(first: _Counted, second: _Counted) -> tuple[int, int, int, int] | None:
    """Buckets of the ASV scores in which a point can lie, and those of the CM scores there."""
    curves = TandemCurves(
        first.rejected(_TAR),
        first.accepted(_NON),
        first.accepted(_SPF),
        second.rejected(_TAR, _NON),
        second.accepted(_SPF),
    )
    bounds = path_bounds(curves)
    found = bounds.possible()
    if not found.size:
        return None
    start, stop = int(found[0]), int(found[-1]) + 1
    # Spoofs below every bona fide trial are rejected at no cost, whatever their order.
    none = int(np.searchsorted(curves.miss_cm, 0.0, side="right")) - 1
    above, below = (ends[start : stop + 1] for ends in bounds.cm)
    return start, stop, max(int(above.min()), none), int(below.max())
