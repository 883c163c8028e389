"""The concurrent point: where a tandem's three error rates are equal.

Where miss = fa_non, the countermeasure passes q = 1 / (1 + Pfa_non - Pmiss_asv) of the bona fide
trials, and both rates are Pfa_non q. As the ASV threshold rises q grows from 1/2 to 1 (at the
ASV's own EER), so the CM threshold falls: one monotone path through all threshold pairs. Along it
the gap Pfa_non q - Pfa_cm Pfa_spf is continuous, and the concurrent point is where it vanishes.

All factors are monotone along the path, so their values at both ends of a block of thresholds bound
the gap within the block: blocks that cannot hold a root are never looked into.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lightning_sasv.checks import Floats
from lightning_sasv.metrics.functional.points import Index, Steps
from lightning_sasv.metrics.functional.tandem import Tandem

_BLOCKS = 256  # per class
_SAME = 1e-9  # places closer than this are one: distinct ones are 1 / trials apart
_ROUNDING = 1e-15  # of a difference of products of rates: what is smaller counts as 0


class Meeting(NamedTuple):
    """A concurrent point on the straight lines between operating points.

    Attributes:
        value: The common error rate.
        asv_thresholds: The neighbouring ASV thresholds; -inf accepts all.
        asv_rates: Targets rejected, nontargets and spoofs accepted at each of them, (3, 2).
        miss_cm: CM miss rate of the point.
    """

    value: float
    asv_thresholds: Floats
    asv_rates: Floats
    miss_cm: float


def find_meeting(tandem: Tandem) -> Meeting | None:
    """First concurrent point in ascending order of the ASV threshold, ``None`` without any.

    Args:
        tandem: Sorted scores of the classes.

    Returns:
        The point, found to machine precision.
    """
    coarse = Stretch(tandem, _grid(tandem), from_start=True)
    q, fa, spoof = coarse.passed, coarse.fa[: coarse.inside], coarse.spoof[: coarse.inside]
    strict, lax = cm_false_acceptance(tandem, 1 - q)
    lowest = fa[1:] * q[:-1] - lax[1:] * spoof[:-1]
    highest = fa[:-1] * q[1:] - strict[:-1] * spoof[1:]
    possible = np.flatnonzero((lowest <= _ROUNDING) & (highest >= -_ROUNDING))
    for block in (*possible, coarse.inside - 1):
        thresholds = _within(tandem, coarse.thresholds, int(block))
        found = Stretch(tandem, thresholds, from_start=block == 0).root()
        if found is not None:
            return found
    return None


def cm_false_acceptance(tandem: Tandem, miss: Floats) -> tuple[Floats, Floats]:
    """CM false acceptance where its miss rate has a given value: the smallest and the largest.

    They differ where only spoofs lie between two bona fide scores: the curve is vertical there.

    Args:
        tandem: Sorted scores of the classes.
        miss: CM miss rates, below 1.

    Returns:
        False-acceptance rates of spoofs at the strictest and the laxest such point.
    """
    bona_fide, spoof = tandem.bona_fide, tandem.cm_spoof
    upper, lower = around(bona_fide, miss)
    above = bona_fide.values.take(np.minimum(lower, bona_fide.values.size - 1))  # next to go
    last = bona_fide.values.take(np.maximum(upper - 1, 0))  # last rejected, if any
    start = bona_fide.below(above) / bona_fide.total
    stop = np.where(upper > 0, bona_fide.rejected(last), 0.0)
    strict = (spoof.total - spoof.below(above)) / spoof.total
    lax = np.where(upper > 0, spoof.accepted(last), 1.0)
    inside = stop > start
    share = np.clip((miss - start) / np.where(inside, stop - start, 1.0), 0.0, 1.0)
    between = strict + share * (lax - strict)
    return np.where(inside, between, strict), np.where(inside, between, lax)


def around(steps: Steps, share: Floats) -> tuple[Index, Index]:
    """Smallest rank whose summed weight is at least, and largest whose is at most, a share.

    Summed weights are whole, so a share that rounding separates from a whole one is that one.
    """
    weight = share * steps.total
    whole = np.rint(weight)
    weight = np.where(np.abs(weight - whole) < 1e-15 * steps.total, whole, weight)
    upper = np.searchsorted(steps.counts, weight)
    return upper, np.searchsorted(steps.counts, weight, side="right") - 1


class Stretch:
    """Consecutive ASV operating points of the path miss = fa_non.

    Only the first ``inside`` of them lie on the path; if there is one more, the path ends between
    the two, where Pmiss_asv = Pfa_non, at the share ``end`` of the way.
    """

    def __init__(self, tandem: Tandem, thresholds: Floats, *, from_start: bool) -> None:
        miss, fa, spoof = asv_rates(tandem, thresholds)
        if from_start:
            miss[0], fa[0], spoof[0] = 0.0, 1.0, 1.0  # "accept all", below any score
        beyond = np.flatnonzero(fa < miss)
        self.inside = int(beyond[0]) if beyond.size else thresholds.size
        kept = slice(self.inside + 1)
        self.tandem, self.thresholds = tandem, thresholds[kept]
        self.miss, self.fa, self.spoof = miss[kept], fa[kept], spoof[kept]
        self.passed = 1 / (1 + (self.fa - self.miss)[: self.inside])
        last = self.inside - 1
        self.end = float(last)
        if beyond.size:
            above = self.fa[last] - self.miss[last]
            self.end += float(above / (above + self.miss[last + 1] - self.fa[last + 1]))

    def root(self) -> Meeting | None:
        """First root of the gap, ``None`` without any."""
        places = self._places()
        middles = (places[1:] + places[:-1]) / 2
        strict, lax = (_snap(gap) for gap in self._gaps(places))
        steps = np.flatnonzero((strict == 0) | (lax == 0) | (strict > 0) & (lax < 0))
        at_step = float(places[steps[0]]) if steps.size else math.inf
        # Between two places the gap is a parabola: three points give it.
        start, middle, stop = lax[:-1], _snap(self._gaps(middles)[0]), strict[1:]
        a, b = 2 * (start + stop - 2 * middle), 4 * middle - 3 * start - stop
        with np.errstate(divide="ignore", invalid="ignore"):
            turn = np.where(a != 0, -b / (2 * a), -1.0)
            lowest = _snap(start + turn * (b + turn * a))
        dips = (turn > 0) & (turn < 1) & (start * lowest < 0)
        pieces = np.flatnonzero((start * stop < 0) | (start * middle < 0) | dips)
        in_piece = math.inf
        if pieces.size:
            k = pieces[0]
            share = _first_root(float(a[k]), float(b[k]), float(start[k]))
            in_piece = float(places[k] + share * (places[k + 1] - places[k]))
        place = min(at_step, in_piece)
        return self._meeting(place) if place < math.inf else None

    def _places(self) -> Floats:
        """Where the path bends, as index of the ASV point plus share of the way to the next.

        That is at every ASV point, and where the CM passes a whole number of bona fide trials.
        """
        surplus = self.fa - self.miss
        low, high = surplus[: self.inside].min(), surplus[0]
        if self.end > self.inside - 1:
            low = 0.0
        bona_fide = self.tandem.bona_fide
        lowest, highest = (around(bona_fide, np.array(d / (1 + d))) for d in (low, high))
        levels = bona_fide.counts[int(lowest[0]) : int(highest[1]) + 1] / bona_fide.total
        levels = levels / (1 - levels)  # of Pfa_non - Pmiss_asv
        points = np.arange(surplus.size, dtype=np.float64)
        bends = np.interp(levels, surplus[::-1], points[::-1])
        bends = np.where(np.abs(bends - np.rint(bends)) < _SAME, np.rint(bends), bends)
        places = np.unique(np.concatenate([points[: self.inside], bends, [self.end]]))
        places = places[places <= self.end]
        return places[np.append(np.diff(places) > _SAME, True)]

    def _rates(self, places: Floats) -> tuple[Floats, Floats, Floats]:
        """ASV rates at places on the path."""
        before = np.minimum(places.astype(np.intp), self.thresholds.size - 1)
        after = np.minimum(before + 1, self.thresholds.size - 1)
        share = places - before
        rates = (self.miss, self.fa, self.spoof)
        x, y, z = (r[before] + share * (r[after] - r[before]) for r in rates)
        return x, y, z

    def _gaps(self, places: Floats) -> tuple[Floats, Floats]:
        """(fa_non - fa_spf) / passed of the tandem, with the strictest and the laxest CM."""
        miss, fa, spoof = self._rates(places)
        total = 1 + np.maximum(fa - miss, 0.0)
        strict, lax = cm_false_acceptance(self.tandem, 1 - 1 / total)
        return fa - strict * spoof * total, fa - lax * spoof * total

    def _meeting(self, place: float) -> Meeting:
        miss, fa, _ = (float(rate[0]) for rate in self._rates(np.array([place])))
        passed = 1 / (1 + max(fa - miss, 0.0))
        before = int(place)
        after = min(before + (place > before), self.thresholds.size - 1)
        pair = [before, after]
        rates = np.stack([rate[pair] for rate in (self.miss, self.fa, self.spoof)])
        return Meeting(fa * passed, self.thresholds[pair], rates, 1 - passed)


def _snap(gaps: Floats) -> Floats:
    """Differences that are rounding errors become 0."""
    return np.where(np.abs(gaps) < _ROUNDING, 0.0, gaps)


def _first_root(a: float, b: float, c: float) -> float:
    """Smallest root in [0, 1] of a x² + b x + c, which has one there."""
    root = math.sqrt(max(b * b - 4 * a * c, 0.0))
    half = -(b + math.copysign(root, b)) / 2
    roots = [x / y for x, y in ((half, a), (c, half)) if y]
    return min((x for x in roots if 0 <= x <= 1), default=1.0)


def asv_rates(tandem: Tandem, thresholds: Floats) -> tuple[Floats, Floats, Floats]:
    """ASV rates at thresholds: targets rejected, nontargets accepted, spoofs accepted."""
    nontarget, spoof = (part.accepted(thresholds) for part in (tandem.nontarget, tandem.spoof))
    return tandem.target.rejected(thresholds), nontarget, spoof


def _grid(tandem: Tandem) -> Floats:
    """A coarse choice of ASV thresholds, from "accept all" to "reject all"."""
    parts = [steps.values for steps in tandem[:3]]
    chosen = [part[:: max(part.size // _BLOCKS, 1)] for part in parts]
    top = max(part[-1] for part in parts)
    return np.concatenate([[-math.inf], np.unique(np.concatenate([*chosen, [top]]))])


def _within(tandem: Tandem, thresholds: Floats, block: int) -> Floats:
    """Every distinct ASV score of a block, after the threshold that starts it."""
    start, stop = thresholds[block], thresholds[block + 1]
    slices = []
    for steps in tandem[:3]:
        low = int(np.searchsorted(steps.values, start, side="right")) if block else 0
        slices.append(steps.values[low : np.searchsorted(steps.values, stop, side="right")])
    return np.concatenate([[start], np.unique(np.concatenate(slices))])
