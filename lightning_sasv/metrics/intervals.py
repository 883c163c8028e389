"""How sure a value is: intervals and p-values from replicates, and what must be said beside them.

The ends of an interval are order statistics of the n replicates. With m the largest whole number
for which 2 m / (n + 1) <= α, the percentile interval is [x_(m), x_(n+1−m)], and it excludes 0
exactly where the two-sided p = 2 (1 + k) / (n + 1) is at most α, k being the replicates on the
rarer side of 0. So interval and p never contradict each other; n below 2/α − 1 gives no interval.

Values: BCa over clusters (Efron, "Better bootstrap confidence intervals", 1987) at a widened level
(Hesterberg, "What teachers should know about the bootstrap", 2015). Differences: percentile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from lightning_sasv.checks import Floats
from lightning_sasv.errors import InputError
from lightning_sasv.numerics import normal_below, normal_quantile, student_quantile

Method: TypeAlias = Literal["bca", "percentile", "interpolated"]
"""``interpolated`` is the percentile between order statistics, as numpy and packages have it."""

FEWEST_SPEAKERS = 10
"""Fewer give no interval: their own values say more."""
FEW_SPEAKERS = 30
FEW_REPLICATES = 400


class Interval(NamedTuple):
    """Ends of an interval and how they were found.

    Attributes:
        low: Lower end; NaN where there is no interval.
        high: Upper end.
        level: Share that it claims to hold, 0.95.
        method: ``bca``, ``percentile`` or ``interpolated``.
        replicates: How many replicates it comes from.
        undefined: How many of them had no value and were left out.
        note: What must be said about it; mostly nothing.

    Example:
        >>> Interval(0.0, 0.5, 0.95, "bca", 1000, 0).half_width
        0.25
    """

    low: float
    high: float
    level: float
    method: Method
    replicates: int
    undefined: int = 0
    note: str = ""

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Resampled:
    """A metric, its replicates, and its values without each cluster.

    Attributes:
        value: The metric of the trials as they are.
        replicates: Its value in each replicate; NaN where a class was not drawn.
        left_out: Its value without each enrolled speaker in turn (of very many, without each of
            some groups of them), if clusters were drawn.
        speakers: How many clusters there are, if not those left out; ``None`` for trials.

    Example:
        >>> Resampled(20.0, np.arange(39.0)).interval()[:4]
        (0.0, 38.0, 0.95, 'percentile')
    """

    value: float
    replicates: Floats
    left_out: Floats | None = None
    speakers: int | None = None

    def __post_init__(self) -> None:
        if self.speakers is None and self.left_out is not None:
            object.__setattr__(self, "speakers", self.left_out.size)

    def __sub__(self, other: Resampled) -> Resampled:
        """The difference of two metrics of the same draws."""
        pair = self.left_out, other.left_out
        left_out = None if pair[0] is None or pair[1] is None else pair[0] - pair[1]
        speakers = None if left_out is None else self.speakers
        replicates = self.replicates - other.replicates
        return Resampled(self.value - other.value, replicates, left_out, speakers)

    @property
    def undefined(self) -> int:
        """How many replicates have no value."""
        return int(np.isnan(self.replicates).sum())

    @property
    def p_value(self) -> float:
        """:func:`two_sided_p` of the replicates."""
        return two_sided_p(self.replicates)

    def interval(self, alpha: float = 0.05, method: Method | None = None) -> Interval:
        """Interval that leaves a share ``alpha`` outside.

        Args:
            alpha: Half of it lies on either side.
            method: By default ``bca`` over clusters, ``percentile`` over trials.

        Raises:
            InputError: Too few replicates for any such interval.
        """
        check_replicates(self.replicates.size, alpha)
        wanted: Method = method or ("percentile" if self.left_out is None else "bca")
        defined = np.sort(self.replicates[~np.isnan(self.replicates)])
        none = Interval(math.nan, math.nan, 1 - alpha, wanted, self.replicates.size, self.undefined)
        if (few := _too_few(self.speakers, defined.size, alpha)) is not None:
            return none._replace(note=few)
        if wanted == "bca":
            return self._bca(defined, alpha, none)
        find = percentile_ends if wanted == "percentile" else interpolated_ends
        low, high = find(defined, alpha)
        return none._replace(low=low, high=high)

    def at_levels_of(self, other: Resampled, alpha: float = 0.05) -> Interval:
        """The interval at the levels that BCa finds for other replicates of the same draws."""
        wanted = other.interval(alpha)
        defined = np.sort(self.replicates[~np.isnan(self.replicates)])
        if math.isnan(wanted.low) or wanted.method != "bca" or not defined.size:
            return wanted if math.isnan(wanted.low) else self.interval(alpha, "percentile")
        of_other = np.sort(other.replicates[~np.isnan(other.replicates)])
        low, high = ends(defined, *other._tails(of_other, alpha))
        return wanted._replace(low=low, high=high)

    def _tails(self, defined: Floats, alpha: float) -> tuple[float, float]:
        if self.left_out is None or self.speakers is None:
            return math.nan, math.nan
        bias, skew = bias_of(self.value, defined), acceleration(self.left_out)
        return bca_tails(bias, skew, widened(alpha, self.speakers))

    def _bca(self, defined: Floats, alpha: float, none: Interval) -> Interval:
        tails = self._tails(defined, alpha)
        if math.isnan(sum(tails)):
            why = "BCa needs clusters" if self.left_out is None else "BCa is undefined here"
            return self.interval(alpha, "percentile")._replace(note=f"percentile: {why}")
        low, high = ends(defined, *tails)
        beyond = min(tails) * (defined.size + 1) < 1
        note = "an end is the outermost replicate" if beyond else ""
        return none._replace(low=low, high=high, note=note)


def percentile_ends(replicates: Floats, alpha: float = 0.05) -> tuple[float, float]:
    """Percentile interval: the m-th replicate from either side, m = ⌊(α/2) (n + 1)⌋.

    Args:
        replicates: NaN is left out, infinity is ordered.
        alpha: Share outside the interval.

    Returns:
        Both ends; NaN where fewer than 2/α − 1 replicates have a value.

    Example:
        >>> percentile_ends(np.arange(1.0, 1000.0))
        (25.0, 975.0)
    """
    defined = np.sort(replicates[~np.isnan(replicates)])
    m = outer_rank(defined.size, alpha)
    if m < 1:
        return math.nan, math.nan
    return float(defined[m - 1]), float(defined[-m])


def interpolated_ends(replicates: Floats, alpha: float = 0.05) -> tuple[float, float]:
    """The linearly interpolated percentiles α/2 and 1 − α/2, for comparison with other tools.

    Example:
        >>> interpolated_ends(np.arange(101.0))
        (2.5, 97.5)
    """
    ascending = np.sort(replicates[~np.isnan(replicates)])
    if not ascending.size:
        return math.nan, math.nan
    return _percentile(ascending, alpha / 2), _percentile(ascending, 1 - alpha / 2)


def _percentile(ascending: Floats, share: float) -> float:
    """Linearly interpolated percentile; infinite values may be among them."""
    place = share * (ascending.size - 1)
    below = int(place)
    a, b = float(ascending[below]), float(ascending[min(below + 1, ascending.size - 1)])
    return a if a == b or place == below else a + (place - below) * (b - a)


def ends(ascending: Floats, below: float, above: float) -> tuple[float, float]:
    """The replicates that leave a share below and a share above; at most the outermost ones.

    Example:
        >>> ends(np.arange(1.0, 100.0), 0.05, 0.1)
        (5.0, 90.0)
    """
    n = ascending.size
    low, high = (min(max(int(share * (n + 1)), 1), n) for share in (below, above))
    return float(ascending[low - 1]), float(ascending[n - high])


def outer_rank(n: int, alpha: float) -> int:
    """Largest m with 2 m / (n + 1) <= α: how many replicates from the end an end lies.

    Example:
        >>> outer_rank(1000, 0.05), outer_rank(39, 0.05), outer_rank(38, 0.05)
        (25, 1, 0)
    """
    m = int(alpha * (n + 1) / 2) + 1
    while m and not is_clear(2 * m / (n + 1), alpha):
        m -= 1
    return m


def is_clear(p_value: float, alpha: float = 0.05) -> bool:
    """Whether p <= α, but for rounding: 55 times 2/2200 is 0.05.

    Example:
        >>> is_clear(55 * (2 / 2200)), is_clear(0.0501)
        (True, False)
    """
    return p_value <= alpha * (1 + 1e-12)


def two_sided_p(differences: Floats) -> float:
    """2 (1 + k) / (n + 1), at most 1, with k of the n defined replicates on the rarer side of 0.

    Example:
        >>> two_sided_p(np.ones(9))
        0.2
    """
    defined = differences[~np.isnan(differences)]
    rarer = min(int(np.count_nonzero(defined <= 0)), int(np.count_nonzero(defined >= 0)))
    return min(1.0, 2 * (1 + rarer) / (defined.size + 1))


def widened(alpha: float, speakers: int) -> float:
    """α′ of the widened level: α′/2 = Φ(−√(S/(S−1)) t_{1−α/2, S−1}).

    It makes up for the spread of few clusters, which the bootstrap understates.

    Example:
        >>> [round(widened(0.05, speakers) / 2, 4) for speakers in (48, 20, 10)]
        [0.021, 0.0159, 0.0086]
    """
    t = student_quantile(1 - alpha / 2, speakers - 1)
    return 2 * normal_below(-math.sqrt(speakers / (speakers - 1)) * t)


def bias_of(value: float, replicates: Floats) -> float:
    """z₀ = Φ⁻¹((#{θ* < θ} + ½ #{θ* = θ}) / n); infinite where all lie on one side.

    Example:
        >>> bias_of(1.0, np.array([0.0, 1.0, 2.0]))
        0.0
    """
    below, equal = np.count_nonzero(replicates < value), np.count_nonzero(replicates == value)
    return normal_quantile(float((below + equal / 2) / replicates.size))


def acceleration(left_out: Floats) -> float:
    """A = Σ d³ / 6 (Σ d²)^{3/2}, d = mean − value without a speaker; NaN where that is 0/0.

    Example:
        >>> acceleration(np.array([1.0, 2.0, 3.0])), acceleration(np.ones(3))
        (0.0, nan)
    """
    if not np.isfinite(left_out).all():
        return math.nan
    d = left_out.mean() - left_out
    scale = np.abs(d).max()
    if scale <= 1e-12 * np.abs(left_out).max():  # no spread but that of rounding
        return math.nan
    d = d / scale
    return float((d**3).sum() / (6 * (d**2).sum() ** 1.5))


def bca_tails(bias: float, skew: float, alpha: float) -> tuple[float, float]:
    """Shares of replicates below the lower end and above the upper one.

    Φ(z₀ + (z₀ + z) / (1 − a (z₀ + z))) for z = Φ⁻¹(α/2), and one minus that for −z; NaN where z₀
    or a are not finite, or the denominator is not positive.

    Example:
        >>> [round(share, 6) for share in bca_tails(0.0, 0.0, 0.05)]
        [0.025, 0.025]
    """
    found = []
    for sign in (1.0, -1.0):
        z = bias + sign * normal_quantile(alpha / 2)
        if not (math.isfinite(z) and 1 - skew * z > 0):
            return math.nan, math.nan
        found.append(normal_below(sign * (bias + z / (1 - skew * z))))
    return found[0], found[1]


def over_seeds(seeds: Sequence[Resampled], seed: int = 0, *, vary: bool = True) -> Resampled:
    """The mean over K training seeds, which vary beside the speakers.

    Replicate b is θ*_b = (1/K) Σ_k M_k(w_b) + (s/√K) t_b: the same speakers are drawn for all
    seeds, s is the spread of the K values (K − 1) and t_b is drawn from Student's t with K − 1
    degrees. One seed has no spread: what is left is that of the speakers.

    Args:
        seeds: The metric of each seed, or a difference of two systems, on the same draws.
        seed: Of the t_b, which are the same for all systems.
        vary: Whether the seeds vary; else what is left is the spread of the speakers.

    Example:
        >>> one = Resampled(1.0, np.array([0.5, 1.5]))
        >>> over_seeds([one, one, one]).replicates
        array([0.5, 1.5])
    """
    values = np.array([one.value for one in seeds])
    replicates = np.mean([one.replicates for one in seeds], axis=0)
    parts = [one.left_out for one in seeds if one.left_out is not None]
    left_out = np.mean(parts, axis=0) if len(parts) == len(seeds) else None
    if vary and len(seeds) > 1 and (spread := float(values.std(ddof=1))) > 0:
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence((seed, len(seeds)))))
        t = rng.standard_t(len(seeds) - 1, replicates.size)
        replicates = replicates + spread / math.sqrt(len(seeds)) * t
    return Resampled(float(values.mean()), replicates, left_out, seeds[0].speakers)


def check_replicates(n: int, alpha: float = 0.05) -> None:
    """Refuse what is no share, and fewer replicates than an interval has ends.

    Raises:
        InputError: ``alpha`` outside (0, 1), or ``n`` below 2/α − 1 or no whole number.

    Example:
        >>> check_replicates(39)
    """
    if not 0 < alpha < 1:
        raise InputError(
            f"alpha must be a fraction between 0 and 1 (0.05 for 95 % intervals), got {alpha}"
        )
    if not isinstance(n, int | np.integer):
        raise InputError(f"the number of replicates must be whole, got {n!r}")
    if n < 1 or outer_rank(n, alpha) < 1:
        raise InputError(
            f"{n} replicates give no {100 * (1 - alpha):g} % interval; "
            f"take at least {math.ceil(2 / alpha - 1 - 1e-9)}, better 1000"
        )


def _too_few(speakers: int | None, defined: int, alpha: float) -> str | None:
    """Why there is no interval."""
    if speakers is not None and speakers < FEWEST_SPEAKERS:
        few = "1 speaker is" if speakers == 1 else f"{speakers} speakers are"
        return f"no interval: {few} too few"
    if outer_rank(defined, alpha) < 1:
        return f"no interval: {defined} replicates have a value"
    return None


def cautions(n: int, speakers: int | None) -> list[str]:
    """What must be said of intervals: about few replicates, few speakers, or none known.

    Coverage is what was measured on the trials of SASV 2022, speakers redrawn.

    Args:
        n: Replicates.
        speakers: Enrolled speakers; ``None`` where trials were drawn.

    Example:
        >>> cautions(1000, 48)
        ['48 speakers: intervals of this kind hold the truth in about 9 of 10 cases']
    """
    found = []
    if n < FEW_REPLICATES:
        found.append(
            f"{n} replicates: the ends vary by about {120 / math.sqrt(n):.0f} % of an interval's "
            "width; take 1000"
        )
    if speakers is None:
        found.append("drawn by trial: intervals are too narrow for other speakers")
    elif speakers < FEWEST_SPEAKERS:
        few = "1 speaker is" if speakers == 1 else f"{speakers} speakers are"
        found.append(f"{few} too few for intervals")
    else:
        cases = "4 of 5" if speakers < FEW_SPEAKERS else "9 of 10"
        found.append(
            f"{speakers} speakers: intervals of this kind hold the truth in about {cases} cases"
        )
    return found
