"""Differences between systems, with a verdict in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from lightning_sasv.metrics.bootstrap import Resampled, percentile_interval, two_sided_p
from lightning_sasv.metrics.registry import METRICS, metrics_for

Replicates = Mapping[str, Mapping[str, Resampled]]


@dataclass(frozen=True)
class Difference:
    """A difference under one way of drawing.

    Attributes:
        low: Lower end of the percentile interval.
        high: Upper end.
        p_value: Two-sided, 2 (1 + k) / (n + 1) with k the replicates on the rarer side of 0.
    """

    low: float
    high: float
    p_value: float

    @property
    def clear(self) -> bool:
        """Whether the interval lies on one side of 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Comparison:
    """Two systems in one metric.

    Attributes:
        metric: The metric.
        first: Name of the first system.
        second: Name of the second system.
        difference: Metric of the first minus that of the second.
        ways: The difference by ``trial`` and, where speakers are known, by ``speaker``.
        verdict: What it means, in words.
    """

    metric: str
    first: str
    second: str
    difference: float
    ways: dict[str, Difference]
    verdict: str


def compared_metrics() -> list[str]:
    """Names of the metrics that are compared."""
    return [metric.name for metric in metrics_for("compared")]


def compare_systems(
    ways: Mapping[str, Replicates], metrics: Sequence[str] | None = None
) -> list[Comparison]:
    """Every pair of systems in every metric that both have.

    Args:
        ways: Replicates of the systems by way of drawing (``trial``, ``speaker``), the same seed.
        metrics: Metrics to compare; by default those that the registry says.
    """
    by_trial = next(iter(ways.values()))
    return [
        _compare(metric, first, second, ways)
        for metric in (compared_metrics() if metrics is None else metrics)
        for first, second in combinations(by_trial, 2)
        if metric in by_trial[first] and metric in by_trial[second]
    ]


def _compare(metric: str, first: str, second: str, ways: Mapping[str, Replicates]) -> Comparison:
    found = {}
    difference = math.nan
    for way, systems in ways.items():
        one, other = systems[first][metric], systems[second][metric]
        difference = one.value - other.value
        found[way] = paired_difference(one.replicates - other.replicates)
    lower = METRICS[metric].lower_is_better is not False
    words = verdict(first, second, difference if lower else -difference, found)
    return Comparison(metric, first, second, difference, found, words)


def paired_difference(replicates: np.ndarray) -> Difference:
    """95 % interval and p-value of the difference in each replicate."""
    return Difference(*percentile_interval(replicates), two_sided_p(replicates))


def verdict(first: str, second: str, difference: float, ways: Mapping[str, Difference]) -> str:
    """A difference in words: better, better on these speakers only, or not to be told apart.

    Args:
        first: Name of the first system.
        second: Name of the second system.
        difference: First minus second, of a metric of which lower is better.
        ways: The difference by way of drawing.
    """
    if difference == 0 and all(way.low == way.high == 0 for way in ways.values()):
        return f"{first} and {second} are equal"
    better, worse = (first, second) if difference < 0 else (second, first)
    trial = ways["trial"].clear
    speaker = ways["speaker"].clear if "speaker" in ways else None
    if trial and speaker:
        return f"{better} is better than {worse}"
    if trial and speaker is None:
        return f"{better} is better than {worse} on these trials (speakers are not known)"
    if trial:
        return f"{better} is better than {worse} on these speakers; others may tell otherwise"
    if speaker:
        return f"{better} seems better than {worse}, but not beyond the chance of the trials"
    return f"{first} and {second} cannot be told apart"
