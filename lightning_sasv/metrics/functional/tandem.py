"""Error rates of a tandem at any pair of thresholds, and the pairs on the path of one ρ."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import BLOCK, Floats
from lightning_sasv.metrics.functional.concurrent import Tandem
from lightning_sasv.metrics.functional.sorting import merged

Index = NDArray[np.intp]

_ROUNDING = 1e-15  # of a sum of rates: what is smaller counts as 0
_NEAR = 1e-12  # rates that may be equal
_REFINE = 8  # ASV thresholds of one level per threshold of the level above


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

    def rates(self, asv: Index | int, cm: Index | int) -> tuple[Floats, Floats, Floats]:
        """Tandem miss, false acceptance of nontargets and of spoofs at pairs of thresholds."""
        passed = 1 - self.miss_cm[cm]
        return (
            1 - passed + passed * self.miss_asv[asv],
            passed * self.fa_nontarget[asv],
            self.fa_cm[cm] * self.fa_spoof[asv],
        )


def thresholds_of(tandem: Tandem) -> tuple[Floats, Floats]:
    """Every threshold of the verifier and of the countermeasure: -inf, then each distinct score."""
    asv = merged(*(steps.values for steps in tandem[:3]))
    cm = merged(*(steps.values for steps in tandem[3:]))
    return np.concatenate([[-math.inf], asv]), np.concatenate([[-math.inf], cm])


def curves_at(tandem: Tandem, asv: Floats, cm: Floats) -> TandemCurves:
    """Error rates at all thresholds of the two detectors; see :func:`thresholds_of`."""
    return TandemCurves(
        tandem.target.curve(asv, accepted=False),
        tandem.nontarget.curve(asv, accepted=True),
        tandem.spoof.curve(asv, accepted=True),
        tandem.bona_fide.curve(cm, accepted=False),
        tandem.cm_spoof.curve(cm, accepted=True),
    )


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
        asv: Index of each ASV threshold that has a balancing CM threshold.
        upper: Index of the first CM threshold with miss >= fa.
        miss: Tandem miss rates at ``upper - 1`` and at ``upper``.
        fa: (1 - ρ) fa_non + ρ fa_spf at ``upper - 1`` and at ``upper``.
    """

    asv: Index
    upper: Index
    miss: tuple[Floats, Floats]
    fa: tuple[Floats, Floats]

    def nearest(self) -> tuple[Floats, Index]:
        """Mean of the two rates at the CM threshold where they differ least, and that threshold."""
        below = np.abs(self.miss[0] - self.fa[0]) <= np.abs(self.miss[1] - self.fa[1])
        miss, fa = (np.where(below, *pair) for pair in (self.miss, self.fa))
        return (miss + fa) / 2, self.upper - below

    def interpolated(self) -> tuple[Floats, Index]:
        """The common rate on the straight line between the two thresholds, and the upper one."""
        gap, overshoot = self.fa[0] - self.miss[0], self.miss[1] - self.fa[1]
        share = gap / (gap + overshoot)
        return self.miss[0] + share * (self.miss[1] - self.miss[0]), self.upper


def path_points(curves: TandemCurves, rho: float) -> Iterator[PathPoints]:
    """Balance the tandem at every ASV threshold, block by block.

    At a fixed ASV threshold miss - fa grows with the CM threshold from Pmiss - Pfa < 0 to 1, and at
    a fixed CM threshold it grows with the ASV threshold. So bisection finds the balance, and the
    balance of a coarse subset of ASV thresholds brackets that of all others.

    Args:
        curves: Error rates of the two detectors.
        rho: Share of spoofs among the negatives.

    Yields:
        The brackets of consecutive ASV thresholds; those without a balance are left out.
    """
    passed = 1 - curves.miss_cm
    size = _path_size(curves, rho)
    starts = np.arange(0, size, BLOCK)
    whole = np.zeros(1, np.intp), np.full(1, passed.size - 1)
    coarse = _Sums.of(curves, passed, rho, starts)
    bounds = np.append(_bisect(coarse, np.arange(starts.size), *whole), 0)
    for start, low, high in zip(starts, bounds[1:], bounds[:-1], strict=True):
        asv = np.arange(int(start), min(int(start) + BLOCK, size))
        found = _balance_all(_Sums.of(curves, passed, rho, asv), int(low), int(high))
        rates = [curves.rates(asv, at) for at in (found - 1, found)]
        miss, fa = ([rate[0] for rate in rates], [_mix(*rate[1:], rho) for rate in rates])
        yield PathPoints(asv, found, (miss[0], miss[1]), (fa[0], fa[1]))


def _path_size(curves: TandemCurves, rho: float) -> int:
    """Number of ASV thresholds with miss < fa when the countermeasure accepts all.

    Found by bisection: the difference never grows with the ASV threshold. One that is a rounding
    error counts as none, so that every balance lies after the beginning of the path.
    """
    low, high = 0, curves.miss_asv.size - 1  # "accept all" is on the path, "reject all" is not
    while high - low > 1:
        middle = (low + high) // 2
        at = slice(middle, middle + 1)
        fa = _mix(curves.fa_nontarget[at], curves.fa_spoof[at], rho)
        if (curves.miss_asv[at] < fa - _ROUNDING).all():
            low = middle
        else:
            high = middle
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

    def residual(asv: Index, cm: Index) -> Floats:
        spread: Floats = np.ptp(np.stack(curves.rates(asv, cm)), axis=0)
        return spread

    return _smallest(curves, rho, residual)


def ratio_pair(curves: TandemCurves, rho: float = 0.5) -> PathPair:
    """Threshold pair with the smallest abs(Pfa_non / Pfa_spf - Pfa_cm / (1 - Pmiss_cm)).

    The choice of the t-EER's reference search. Without a concurrent point it may be the end of the
    path where the verifier accepts everything: both ratios are bounded there, 1 and 0, while the
    first grows without limit where spoofs are rejected before nontargets.
    """

    def difference(asv: Index, cm: Index) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):  # 0/0, inf - inf: no candidates
            ratio_asv = curves.fa_nontarget[asv] / curves.fa_spoof[asv]
            ratio_cm = curves.fa_cm[cm] / (1 - curves.miss_cm[cm])
            gap = np.abs(ratio_asv - ratio_cm)
        return np.where(np.isnan(gap), math.inf, gap)

    return _smallest(curves, rho, difference)


def _smallest(
    curves: TandemCurves, rho: float, measure: Callable[[Index, Index], Floats]
) -> PathPair:
    """First pair of the path that has the smallest measure."""
    best, pair = math.inf, None
    for points in path_points(curves, rho):
        mean, at_cm = points.nearest()
        values = measure(points.asv, at_cm)
        k = int(np.argmin(values))
        if pair is None or values[k] < best:
            best = float(values[k])
            pair = PathPair(int(points.asv[k]), int(at_cm[k]), float(mean[k]))
    assert pair is not None  # "accept all" of the verifier is on every path
    return pair


def _mix(fa_nontarget: Floats, fa_spoof: Floats, rho: float) -> Floats:
    return (1 - rho) * fa_nontarget + rho * fa_spoof


class _Sums(NamedTuple):
    """miss >= fa is passed * x + fa_cm * y <= 1: two factors per CM and per ASV threshold."""

    passed: Floats
    fa_cm: Floats
    x: Floats
    y: Floats

    @classmethod
    def of(cls, curves: TandemCurves, passed: Floats, rho: float, asv: Index) -> _Sums:
        x = 1 - curves.miss_asv.take(asv) + (1 - rho) * curves.fa_nontarget.take(asv)
        return cls(passed, curves.fa_cm, x, rho * curves.fa_spoof.take(asv))

    def enough(self, at: Index, cm: Index) -> NDArray[np.bool_]:
        total = self.passed.take(cm) * self.x.take(at)
        total += self.fa_cm.take(cm) * self.y.take(at)
        return total <= 1


def _balance_all(sums: _Sums, lowest: int, highest: int) -> Index:
    """First CM threshold with miss >= fa for every ASV threshold, coarse to fine."""
    size = sums.x.size
    step = _REFINE ** int(math.log(size, _REFINE))
    low, high = np.full(1, lowest), np.full(1, highest)
    found = np.empty(0, np.intp)
    while step >= 1:
        at = np.arange(0, size, step)
        if found.size:
            low = np.repeat(np.append(found[1:], lowest), _REFINE)[: at.size]
            high = np.repeat(found, _REFINE)[: at.size]
        found = _bisect(sums, at, low, high)
        step //= _REFINE
    return found


def _bisect(sums: _Sums, at: Index, low: Index, high: Index) -> Index:
    """First CM threshold with miss >= fa, known to lie in [low, high]."""
    low, high = (np.broadcast_to(end, at.shape).copy() for end in (low, high))
    active = np.flatnonzero(low < high)
    while active.size:
        middle = (low.take(active) + high.take(active)) // 2
        enough = sums.enough(at.take(active), middle)
        high[active[enough]] = middle[enough]
        low[active[~enough]] = middle[~enough] + 1
        active = active[low.take(active) < high.take(active)]
    return low
