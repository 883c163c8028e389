"""Several comparisons at once: adjusted p-values, letters of systems, how many speakers it takes.

Holm, "A simple sequentially rejective multiple test procedure", 1979; Benjamini and Hochberg,
"Controlling the false discovery rate", 1995; compact letters as Piepho, "An algorithm for a
letter-based representation of all-pairwise comparisons", 2004, defines them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np

from lightning_sasv.checks import Floats
from lightning_sasv.metrics.intervals import is_clear
from lightning_sasv.numerics import normal_quantile

Adjust: TypeAlias = Literal["holm", "bh", "none"]


def holm(p_values: Sequence[float]) -> Floats:
    """Holm's adjusted p: the largest of (m − j + 1) p_(j) up to its own place, at most 1.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        array([0.03, 0.06, 0.06])
    """
    p = np.asarray(p_values, float)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    return np.minimum(adjusted, 1.0)


def benjamini_hochberg(p_values: Sequence[float]) -> Floats:
    """Benjamini and Hochberg's adjusted p: the smallest of (m/j) p_(j) from its own place on.

    Example:
        >>> benjamini_hochberg([0.01, 0.04, 0.03])
        array([0.03, 0.04, 0.04])
    """
    p = np.asarray(p_values, float)
    order = np.argsort(p, kind="stable")[::-1]
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum.accumulate(p[order] * (p.size / np.arange(p.size, 0, -1)))
    return np.minimum(adjusted, 1.0)


ADJUSTMENTS: Mapping[Adjust, Callable[[Sequence[float]], Floats]] = {
    "holm": holm,
    "bh": benjamini_hochberg,
    "none": lambda p_values: np.asarray(p_values, float),
}
"""Ways of adjusting the p-values of a family."""


def replicates_needed(comparisons: int, alpha: float = 0.05) -> int:
    """Replicates from which on Holm over so many comparisons can reject: n >= 2 m/α − 1.

    The smallest p is 2/(n + 1), and Holm's first step multiplies it by m.

    Example:
        >>> replicates_needed(55), replicates_needed(10), replicates_needed(1)
        (2199, 399, 39)
    """
    n = max(1, int(2 * comparisons / alpha) - 2)
    while not is_clear(comparisons * (2 / (n + 1)), alpha):
        n += 1
    return n


def speakers_needed(
    difference: float,
    deviation: float,
    speakers: int,
    comparisons: int = 1,
    alpha: float = 0.05,
    power: float = 0.8,
) -> float:
    """Speakers that would tell a difference of this size apart.

    n = S ((z_{1−α/2m} + z_power) se / |d|)². The observed difference of a winner flatters, so
    these are at least as many as it takes.

    Args:
        difference: d, as observed.
        deviation: se, the standard deviation of the paired replicates.
        speakers: S, of which there were so many.
        comparisons: m of a family adjusted by Holm.
        alpha: Of the family.
        power: Chance of telling them apart.

    Example:
        >>> round(speakers_needed(0.22, 0.089, 48))
        62
    """
    if difference == 0 or not math.isfinite(deviation):
        return math.inf
    z = normal_quantile(1 - alpha / 2 / comparisons) + normal_quantile(power)
    return speakers * (z * deviation / abs(difference)) ** 2


def letters(order: Sequence[str], apart: Collection[frozenset[str]]) -> dict[str, str]:
    """Compact letters: two systems share one exactly where they are not told apart.

    Each letter is a largest set of systems none of which are told apart; the first letters are
    those of the first systems.

    Args:
        order: Systems, the best first.
        apart: Pairs that are told apart.

    Example:
        >>> letters("ABC", [frozenset("AC")])
        {'A': 'a', 'B': 'ab', 'C': 'b'}
    """
    place = {name: k for k, name in enumerate(order)}
    alike = {
        one: {other for other in order if other != one and frozenset((one, other)) not in apart}
        for one in order
    }
    groups: list[list[str]] = []

    def grow(group: set[str], candidates: set[str], done: set[str]) -> None:  # Bron and Kerbosch
        if not candidates and not done:
            groups.append(sorted(group, key=place.__getitem__))
        for name in sorted(candidates, key=place.__getitem__):
            grow(group | {name}, candidates & alike[name], done & alike[name])
            candidates, done = candidates - {name}, done | {name}

    grow(set(), set(order), set())
    groups.sort(key=lambda group: [place[name] for name in group])
    return {
        name: "".join(_letter(k) for k, group in enumerate(groups) if name in group)
        for name in order
    }


def _letter(number: int) -> str:
    """One of a to z, then a1, b1 and so on."""
    turn, place = divmod(number, 26)
    return chr(ord("a") + place) + (str(turn) if turn else "")
