"""Error rates of a tandem at any pair of thresholds, and the pairs on the path of one ρ."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lightning_sasv.checks import Floats, blocks
from lightning_sasv.metrics.functional.points import Counts, Index, Points, Steps, operating_points

_ROUNDING = 1e-15  # of a sum of rates: what is smaller counts as 0
_NEAR = 1e-12  # rates that may be equal


class Tandem(NamedTuple):
    """The sorted classes of a tandem: three of the verifier, two of the countermeasure.

    Attributes:
        target: ASV scores of the targets.
        nontarget: ASV scores of the nontargets.
        spoof: ASV scores of the spoofs.
        bona_fide: CM scores of targets and nontargets.
        cm_spoof: CM scores of the spoofs.
    """

    target: Steps
    nontarget: Steps
    spoof: Steps
    bona_fide: Steps
    cm_spoof: Steps

    def points(self) -> tuple[Points, Points]:
        """Every threshold of the verifier and of the countermeasure."""
        return operating_points(*self[:3]), operating_points(*self[3:])


class TandemCurves(NamedTuple):
    """Error rates at the ascending thresholds of each detector; the first accepts all.

    Attributes:
        miss_asv: Targets rejected by the verifier.
        fa_nontarget: Nontargets accepted by the verifier.
        fa_spoof: Spoofs accepted by the verifier.
        miss_cm: Bona fide trials (targets and nontargets) rejected by the countermeasure.
        fa_cm: Spoofs accepted by the countermeasure.
    """

    miss_asv: Floats
    fa_nontarget: Floats
    fa_spoof: Floats
    miss_cm: Floats
    fa_cm: Floats

    @classmethod
    def of(cls, *rejected: Counts) -> TandemCurves:
        """From what the thresholds reject of each class, in the order of :class:`Tandem`."""
        miss_asv, nontarget, spoof, miss_cm, cm_spoof = rejected
        accepted = [(counts[-1] - counts) / counts[-1] for counts in (nontarget, spoof, cm_spoof)]
        missed = miss_asv / miss_asv[-1], miss_cm / miss_cm[-1]
        return cls(missed[0], accepted[0], accepted[1], missed[1], accepted[2])

    def within(self, start: int, stop: int) -> TandemCurves:
        """The same countermeasure with some of the verifier's thresholds."""
        miss, nontarget, spoof = (rate[start:stop] for rate in self[:3])
        return TandemCurves(miss, nontarget, spoof, *self[3:])

    def rates(self, asv: Index | slice | int, cm: Index | int) -> tuple[Floats, Floats, Floats]:
        """Tandem miss, false acceptance of nontargets and of spoofs at pairs of thresholds."""
        passed = 1 - self.miss_cm[cm]
        return (
            1 - passed + passed * self.miss_asv[asv],
            passed * self.fa_nontarget[asv],
            self.fa_cm[cm] * self.fa_spoof[asv],
        )


def curves_at(tandem: Tandem, points: tuple[Points, Points]) -> TandemCurves:
    """Error rates at all thresholds of the two detectors; see :meth:`Tandem.points`."""
    return TandemCurves.of(*points[0].rejected(*tandem[:3]), *points[1].rejected(*tandem[3:]))


class PathBounds(NamedTuple):
    """What exact rates at the ends of bins of thresholds say of the path miss = fa_non.

    All factors of the gap fa_non - fa_spf are monotone along the path, so their values at the ends
    of a bin of ASV thresholds bound it inside, whatever the scores there are.

    Attributes:
        rate: Smallest and largest fa_non in each bin that the path crosses.
        gap: Smallest and largest gap in each of these bins.
        gap_at: Smallest and largest gap at each end of these bins.
        cm: Ends of the CM bins between which the balancing CM threshold lies, at each ASV end.
    """

    rate: tuple[Floats, Floats]
    gap: tuple[Floats, Floats]
    gap_at: tuple[Floats, Floats]
    cm: tuple[Index, Index]

    def possible(self) -> Index:
        """Bins in which the gap can vanish."""
        return np.flatnonzero((self.gap[0] <= _ROUNDING) & (self.gap[1] >= -_ROUNDING))


def path_bounds(curves: TandemCurves) -> PathBounds:
    """Bounds along the path miss = fa_non from the rates at the ends of bins of thresholds."""
    last = int(np.argmax(curves.fa_nontarget < curves.miss_asv))  # the path ends in the bin before
    miss, fa, spoof = (rate[: last + 1] for rate in curves[:3])
    passed = 1 / (1 + np.maximum(fa - miss, 0))
    above = np.maximum(np.searchsorted(curves.miss_cm, 1 - passed - _NEAR) - 1, 0)
    below = np.searchsorted(curves.miss_cm, 1 - passed + _NEAR, side="right")
    below = np.minimum(below, curves.miss_cm.size - 1)
    lax, strict = curves.fa_cm[above], curves.fa_cm[below]
    rate = fa[1:] * passed[:-1], fa[:-1] * passed[1:]
    gap = rate[0] - lax[1:] * spoof[:-1], rate[1] - strict[:-1] * spoof[1:]
    gap_at = fa * passed - lax * spoof, fa * passed - strict * spoof
    return PathBounds(rate, gap, gap_at, (above, below))


class PathPoints(NamedTuple):
    """For each ASV threshold the neighbouring CM thresholds between which the tandem balances.

    Attributes:
        lower: Index of the CM threshold before ``upper``, of equal ones the first.
        upper: Index of the first CM threshold with miss >= fa, for each ASV threshold of the path.
        miss: Tandem miss rates at ``lower`` and at ``upper``.
        fa: (1 - ρ) fa_non + ρ fa_spf at ``lower`` and at ``upper``.
    """

    lower: Index
    upper: Index
    miss: tuple[Floats, Floats]
    fa: tuple[Floats, Floats]

    def nearest(self) -> tuple[Floats, Index]:
        """Mean of the two rates at the CM threshold where they differ least, and that threshold.

        Of equal differences the lower threshold counts.
        """
        gaps = [np.abs(miss - fa) for miss, fa in zip(self.miss, self.fa, strict=True)]
        below = gaps[0] <= gaps[1] + _ROUNDING
        miss, fa = (np.where(below, *pair) for pair in (self.miss, self.fa))
        return (miss + fa) / 2, np.where(below, self.lower, self.upper)

    def interpolated(self) -> tuple[Floats, Index]:
        """The common rate on the straight line between the two thresholds, and the upper one."""
        gap, overshoot = self.fa[0] - self.miss[0], self.miss[1] - self.fa[1]
        share = gap / (gap + overshoot)
        return self.miss[0] + share * (self.miss[1] - self.miss[0]), self.upper


def path_points(curves: TandemCurves, rho: float) -> PathPoints:
    """Balance the tandem at every ASV threshold that can be balanced: those of the path, the first.

    Args:
        curves: Error rates of the two detectors.
        rho: Share of spoofs among the negatives.
    """
    return _balanced(curves.within(0, _path_size(curves, rho)), rho)


def _path_size(curves: TandemCurves, rho: float) -> int:
    """How many ASV thresholds can be balanced.

    The difference never grows with the ASV threshold; a rounding error of one counts as none, so
    that no balance lies at the first CM threshold. "Accept all" is on the path, "reject all" not.
    """
    mixed = (1 - rho) * curves.fa_nontarget + rho * curves.fa_spoof
    return int(np.argmin(curves.miss_asv < mixed - _ROUNDING))


def _balanced(curves: TandemCurves, rho: float) -> PathPoints:
    """The balance at each ASV threshold, all of which are on the path."""
    upper = _balance(curves, rho)
    lower, flat = upper - 1, np.flatnonzero(rho * curves.fa_spoof == 0)
    if flat.size:  # spoofs between bona fide scores change nothing there
        lower[flat] = np.searchsorted(curves.miss_cm, curves.miss_cm.take(lower[flat]))
    rates = [curves.rates(slice(None), cm) for cm in (lower, upper)]
    miss, fa = ([r[0] for r in rates], [(1 - rho) * r[1] + rho * r[2] for r in rates])
    return PathPoints(lower, upper, (miss[0], miss[1]), (fa[0], fa[1]))


def _balance(curves: TandemCurves, rho: float) -> Index:
    """First CM threshold with miss >= fa for each ASV threshold, by bisection.

    At a fixed ASV threshold miss - fa grows with the CM threshold from Pmiss - Pfa < 0 to 1.
    """
    x = 1 - curves.miss_asv + (1 - rho) * curves.fa_nontarget
    y = rho * curves.fa_spoof
    last = curves.miss_cm.size - 1
    low, high = np.ones(x.size, np.intp), np.full(x.size, last)
    for _ in range(last.bit_length()):  # miss >= fa is passed x + fa_cm y <= 1
        middle = (low + high) // 2
        passed, fa_cm = 1 - curves.miss_cm.take(middle), curves.fa_cm.take(middle)
        enough = passed * x + fa_cm * y <= 1
        high = np.where(enough, middle, high)
        low = np.where(enough, low, np.minimum(middle + 1, high))
    return high


class PathPair(NamedTuple):
    """A threshold pair of the path of one ρ.

    Attributes:
        asv: Index of the ASV threshold.
        cm: Index of the CM threshold.
        mean: t-EER there by the mean rule, (miss + (1 - ρ) fa_non + ρ fa_spf) / 2.
    """

    asv: int
    cm: int
    mean: float


def closest_pair(curves: TandemCurves, rho: float = 0.5) -> PathPair:
    """Threshold pair at which the three tandem error rates differ least: closest to concurrency.

    The residual max(miss, fa_non, fa_spf) - min(miss, fa_non, fa_spf) is 0 at a concurrent point
    and nowhere else. It needs no division, so no threshold has to be left out; and it is small
    only where the rates are alike. At the end of the path where the verifier accepts everything
    the rates are near 1/3, 2/3 and 0: that end is chosen only if the countermeasure is no better
    than chance. Of equal residuals the first in ascending order of the ASV threshold counts.
    """

    def residual(part: TandemCurves, cm: Index) -> Floats:
        rates = part.rates(slice(None), cm)
        return np.maximum.reduce(rates) - np.minimum.reduce(rates)

    return _smallest(curves, rho, residual)


def ratio_pair(curves: TandemCurves, rho: float = 0.5) -> PathPair:
    """Threshold pair with the smallest abs(Pfa_non / Pfa_spf - Pfa_cm / (1 - Pmiss_cm)).

    The choice of the t-EER's reference search. Without a concurrent point it may be the end of the
    path where the verifier accepts everything: both ratios are bounded there, 1 and 0, while the
    first grows without limit where spoofs are rejected before nontargets.
    """

    def difference(part: TandemCurves, cm: Index) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):  # 0/0, inf - inf: no candidates
            ratio_asv = part.fa_nontarget / part.fa_spoof
            ratio_cm = part.fa_cm[cm] / (1 - part.miss_cm[cm])
            gap = np.abs(ratio_asv - ratio_cm)
        return np.where(np.isnan(gap), math.inf, gap)

    return _smallest(curves, rho, difference)


def _smallest(
    curves: TandemCurves, rho: float, measure: Callable[[TandemCurves, Index], Floats]
) -> PathPair:
    """First pair of the path that has the smallest measure.

    Block by block: neighbours on the path look at neighbouring CM thresholds, which a processor's
    cache then holds.
    """
    found = []
    for block in blocks(_path_size(curves, rho)):
        part = curves.within(block.start, block.stop)
        mean, cm = _balanced(part, rho).nearest()
        measured = measure(part, cm)
        k = int(np.argmin(measured))
        found.append((measured[k], PathPair(block.start + k, int(cm[k]), float(mean[k]))))
    return min(found)[1]


def bracket(curves: TandemCurves) -> tuple[float, float, bool]:
    """Smallest and largest value a concurrent point can have, and whether one must exist.

    Only bins where the gap of the path miss = fa_non can vanish remain. Where it certainly changes
    its sign, it does vanish.
    """
    bounds = path_bounds(curves)
    lowest, highest = (gap[:-1] for gap in bounds.gap_at)  # at thresholds on the path
    certain = bool((lowest > _NEAR).any() and (highest < -_NEAR).any())
    possible = bounds.possible()
    if not possible.size:
        return math.inf, -math.inf, False
    low, high = bounds.rate
    return float(low[possible].min()), float(high[possible].max()), certain


def closest_bracket(curves: TandemCurves) -> tuple[float, float]:
    """Smallest and largest t-EER that the pair closest to concurrency can have.

    Between two ASV thresholds of the grid the balancing CM threshold lies between those of the
    two, and with it every rate. Pairs whose residual must exceed what some threshold of the grid
    reaches for certain are not the closest.
    """
    upper = path_points(curves, 0.5).upper
    at = np.arange(upper.size)
    low, high = _rate_spans(curves, (at, at), (upper - 1, upper))
    best = (high.max(axis=0) - low.min(axis=0)).min()
    low, high = _rate_spans(curves, (at, at + 1), (np.append(upper[1:], 1) - 1, upper))
    possible = low.max(axis=0) - high.min(axis=0) <= best + _NEAR
    ends = [(rates[0] + (rates[1] + rates[2]) / 2) / 2 for rates in (low, high)]
    return float(ends[0][possible].min()), float(ends[1][possible].max())


def _rate_spans(
    curves: TandemCurves, asv: tuple[Index, Index], cm: tuple[Index, Index]
) -> tuple[Floats, Floats]:
    """Smallest and largest miss, fa_non and fa_spf between two ASV and two CM thresholds."""
    lax, strict = (curves.rates(a, c) for a, c in zip(asv, cm, strict=True))
    return np.stack([lax[0], *strict[1:]]), np.stack([strict[0], *lax[1:]])
