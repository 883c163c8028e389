"""Systems compared: paired differences of a family, adjusted p-values, and what they say in words.

A verdict rests on the adjusted p of draws over speakers alone. Differences are those of the same
draws (and training seeds) of both systems, their interval is the percentile one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from lightning_sasv.checks import check_known
from lightning_sasv.errors import InputError, meant
from lightning_sasv.metrics.families import ADJUSTMENTS, Adjust, letters, speakers_needed
from lightning_sasv.metrics.intervals import Interval, Resampled, is_clear, over_seeds
from lightning_sasv.metrics.registry import METRICS, ON_PAGE
from lightning_sasv.numerics import student_below

PRIMARY = "sasv_eer"
"""The metric that decides; others are families of their own, called secondary."""

_SPOKEN = {"holm": "Holm", "bh": "Benjamini–Hochberg", "none": "unadjusted, one"}


@dataclass(frozen=True)
class Comparison:
    """Two systems in one metric.

    Attributes:
        metric: The metric.
        first: Name of the first system.
        second: Name of the second system.
        difference: Metric of the first minus that of the second.
        low: Lower end of its 95 % interval.
        high: Upper end.
        p: Two-sided, 2 (1 + k) / (n + 1) with k the replicates on the rarer side of 0.
        p_adjusted: The same, adjusted for the family.
        family: What was compared together, and how it was adjusted.
        method: Of the interval.
        drawn: What was drawn: ``speaker``, ``impostor``, ``attack``; or ``trial``.
        verdict: What it means, in words.
        speakers_needed: How many it would take at least to tell the two apart; NaN where they are,
            or where speakers were not drawn.
    """

    metric: str
    first: str
    second: str
    difference: float
    low: float
    high: float
    p: float
    p_adjusted: float
    family: str
    method: str
    drawn: tuple[str, ...]
    verdict: str
    speakers_needed: float = math.nan

    def as_dict(self) -> dict[str, Any]:
        """The comparison as plain values, as results files have it."""
        found = {**asdict(self), "drawn": list(self.drawn)}
        del found["speakers_needed"]
        return found

    @property
    def apart(self) -> bool:
        """Whether the two are told apart."""
        judged = self.drawn != ("trial",) and not math.isnan(self.low)  # of enough speakers
        return judged and is_clear(self.p_adjusted)


@dataclass(frozen=True)
class _Family:
    """What the comparisons of a family share."""

    metric: str
    size: int
    words: str
    adjust: Adjust
    drawn: tuple[str, ...]


def choose_reference(
    systems: Sequence[str],
    given: str | None,
    on_dev: Mapping[str, float] | None,
    here: Mapping[str, float],
) -> tuple[str, bool]:
    """The system that others are compared with, and whether all pairs are the family.

    Choosing the best on the very trials of the comparison is a comparison too, so that all pairs
    must be counted then.

    Args:
        systems: Names of the systems.
        given: Name that was asked for.
        on_dev: Metric of each system on dev, where it is known.
        here: Metric of each system on the trials of the comparison.

    Raises:
        InputError: No such system.

    Example:
        >>> choose_reference(["A", "B"], None, {"A": 0.2, "B": 0.1}, {"A": 0.1, "B": 0.3})
        ('B', False)
        >>> choose_reference(["A", "B"], None, None, {"A": 0.1, "B": 0.3})
        ('A', True)
    """
    if given is not None:
        if given not in systems:
            there = f"there are {', '.join(systems)}{meant(given, systems)}"
            raise InputError(f"--reference: no system {given!r}; {there}")
        return given, False
    known = here if on_dev is None else on_dev
    ranked = sorted(systems, key=lambda name: (math.isnan(known[name]), known[name], name))
    return ranked[0], on_dev is None


def pairs_of(systems: Sequence[str], reference: str | None) -> list[tuple[str, str]]:
    """Each system with the reference, or all pairs without one.

    Example:
        >>> pairs_of(["A", "B", "C"], "B"), len(pairs_of(["A", "B", "C"], None))
        ([('A', 'B'), ('C', 'B')], 3)
    """
    if reference is None:
        return list(combinations(systems, 2))
    return [(name, reference) for name in systems if name != reference]


def compare(
    metric: str,
    systems: Mapping[str, Sequence[Resampled]],
    reference: str | None = None,
    adjust: Adjust = "holm",
    drawn: Sequence[str] = ("speaker",),
    *,
    seeds_vary: bool = True,
) -> list[Comparison]:
    """Differences of a family in one metric, with adjusted p-values and verdicts.

    Args:
        metric: Name in the registry.
        systems: By name the metric of each training seed, all on the same draws; one seed is a
            sequence of one.
        reference: System that the others are compared with; all pairs without one.
        adjust: ``holm``, ``bh`` or ``none``.
        drawn: What was drawn; named in the results.
        seeds_vary: Whether intervals hold the spread of the seeds too; see :func:`over_seeds`.

    Example:
        >>> low, high = Resampled(0.01, np.full(39, 0.01)), Resampled(0.03, np.full(39, 0.03))
        >>> compare("sasv_eer", {"A": [high], "B": [low]}, "B", drawn=("trial",))[0].p
        0.05
    """
    check_known("adjust", adjust, Adjust)
    pairs = pairs_of(list(systems), reference)
    against = f"pair{'s' * (len(pairs) > 1)}" if reference is None else f"against {reference}"
    words = f"{len(pairs)} {against}, {adjust}"
    family = _Family(metric, len(pairs), words, adjust, tuple(drawn))
    by_seed = [
        [one - other for one, other in zip(systems[first], systems[second], strict=True)]
        for first, second in pairs
    ]
    differences = [over_seeds(seeds, vary=seeds_vary) for seeds in by_seed]
    adjusted = ADJUSTMENTS[adjust]([one.p_value for one in differences])
    return [
        _compared(family, pair, one, [seed.value for seed in seeds], float(p))
        for pair, one, seeds, p in zip(pairs, differences, by_seed, adjusted, strict=True)
    ]


def _compared(
    family: _Family,
    pair: tuple[str, str],
    one: Resampled,
    by_seed: Sequence[float],
    p_adjusted: float,
) -> Comparison:
    interval = one.interval(method="percentile")
    words = _verdict(family, pair, one, interval, p_adjusted)
    if seeds_are_clear(by_seed) and not is_clear(p_adjusted) and one.speakers is not None:
        words = f"all {len(by_seed)} seeds agree, the speakers do not: {words}"
    ends, ps = (interval.low, interval.high), (one.p_value, p_adjusted)
    how = family.words, str(interval.method)
    wanted = math.nan if is_clear(p_adjusted) else _needed(family, one)
    found = Comparison(family.metric, *pair, one.value, *ends, *ps, *how, family.drawn, words)
    return replace(found, speakers_needed=wanted)


def _needed(family: _Family, one: Resampled) -> float:
    """Speakers that a difference needs; NaN where that is no more than there are, or no number."""
    if one.speakers is None or one.value == 0:
        return math.nan
    tests = family.size if family.adjust == "holm" else 1
    deviation = float(np.nanstd(one.replicates, ddof=1))
    wanted = speakers_needed(one.value, deviation, one.speakers, tests)
    return wanted if one.speakers < wanted < 1e6 else math.nan


def seeds_are_clear(differences: Sequence[float], alpha: float = 0.05) -> bool:
    """Whether a t-test over training seeds tells two systems apart, speakers left aside.

    Example:
        >>> seeds_are_clear([0.09, 0.1, 0.08]), seeds_are_clear([0.1])
        (True, False)
    """
    d = np.asarray(differences, float)
    if d.size < 2 or not (spread := float(d.std(ddof=1))) > 0:
        return False
    t = abs(float(d.mean())) / (spread / math.sqrt(d.size))
    return 2 * student_below(-t, d.size - 1) <= alpha


def _verdict(
    family: _Family, pair: tuple[str, str], one: Resampled, found: Interval, p_adjusted: float
) -> str:
    """A difference in words."""
    if one.value == 0 and not np.nan_to_num(one.replicates).any():
        return f"{pair[0]} and {pair[1]} are equal"
    if math.isnan(found.low):
        return f"{pair[0]} and {pair[1]}: no verdict, {found.note.removeprefix('no interval: ')}"
    p = f"p = {p_adjusted:.2g}, {_SPOKEN[family.adjust]} of {family.size}"
    if not is_clear(p_adjusted):
        return _not_apart(family, pair, one, found, p)
    entry, ends = METRICS[family.metric], sorted((abs(found.low), abs(found.high)))
    size, low, high = (entry.text(x, ON_PAGE) for x in (abs(one.value), *ends))
    unit = {"rate": " points", "bits": " bits"}.get(entry.unit, "")
    lower, higher = pair if one.value < 0 else pair[::-1]
    words = f"{lower} is lower than {higher} by {size}{unit}"
    if one.speakers is not None:
        return f"{words} (95 %: {low} to {high}; {one.speakers} speakers; {p})"
    return (
        f"{words} (95 %: {low} to {high}; {p}): clear on these trials; speakers are not known to "
        "these draws, so no verdict on others"
    )


def _not_apart(
    family: _Family, pair: tuple[str, str], one: Resampled, found: Interval, p: str
) -> str:
    entry = METRICS[family.metric]
    size, low, high = (entry.text(x, ON_PAGE) for x in (one.value, found.low, found.high))
    where = "these trials" if one.speakers is None else f"{one.speakers} speakers"
    words = (
        f"{pair[0]} and {pair[1]} cannot be told apart on {where} "
        f"(difference {size}, {low} to {high}; {p})"
    )
    if math.isnan(wanted := _needed(family, one)):
        return words
    return f"{words}; at least {float(f'{wanted:.2g}'):,.0f} speakers would be needed"


def not_distinguishable(comparisons: Sequence[Comparison], reference: str) -> list[str]:
    """Systems that a family does not tell apart from the reference.

    Args:
        comparisons: Of one metric.
        reference: Name of a system.

    Example:
        >>> not_distinguishable([], "A")
        []
    """
    pairs = ((one, {one.first, one.second}) for one in comparisons)
    near = [pair for one, pair in pairs if reference in pair and not one.apart]
    return [name for pair in near for name in pair if name != reference]


def letters_of(comparisons: Sequence[Comparison], order: Sequence[str]) -> dict[str, str]:
    """Compact letters of all pairs in one metric; see :func:`.families.letters`.

    Args:
        comparisons: All pairs.
        order: Systems, the best first.

    Example:
        >>> letters_of([], ["A", "B"])
        {'A': 'a', 'B': 'a'}
    """
    return letters(order, {frozenset((one.first, one.second)) for one in comparisons if one.apart})
