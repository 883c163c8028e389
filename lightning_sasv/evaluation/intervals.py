"""Bootstrap of several systems at once: one set of weights per replicate, for all of them.

Replicate r of a seed draws the same trials for every system, so differences between systems are
paired without further work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lightning_sasv.errors import InputError
from lightning_sasv.evaluation.systems import System, Trials
from lightning_sasv.metrics.functional import Settings
from lightning_sasv.metrics.functional.bootstrap import percentile_interval
from lightning_sasv.metrics.functional.families import as_columns, build_families
from lightning_sasv.metrics.functional.resampling import Clusters, replicate_weights
from lightning_sasv.metrics.functional.sorted_trials import Drawn
from lightning_sasv.metrics.registry import resampled

Progress = Callable[[], object]
"""Called after each replicate."""

WAYS = {"trial": (), "speaker": ("speaker",), "speaker-attack": ("speaker", "attack")}
"""What is drawn with replacement, and the columns that it takes."""


@dataclass(frozen=True)
class Resampled:
    """A metric and its replicates.

    Attributes:
        value: The metric of the trials as they are.
        replicates: Its value in each replicate; NaN where a class was not drawn.
    """

    value: float
    replicates: np.ndarray

    def interval(self, alpha: float = 5) -> tuple[float, float]:
        """Percentile interval that leaves ``alpha`` per cent outside; NaN if nothing is defined."""
        return percentile_interval(self.replicates, alpha)

    def as_dict(self) -> dict[str, float]:
        """Value and interval as plain values."""
        low, high = self.interval()
        return {"value": self.value, "low": low, "high": high, "undefined": self.undefined}

    @property
    def undefined(self) -> int:
        """How many replicates have no value."""
        return int(np.isnan(self.replicates).sum())


def metrics_with_intervals(system: System, llrs: bool = False) -> list[str]:
    """Metrics that a system's columns allow.

    Args:
        system: The system.
        llrs: Whether its ASV and CM scores are log-likelihood ratios.
    """
    needed = resampled(llrs)
    return [name for name, columns in needed.items() if set(columns) <= system.columns.keys()]


def resample(
    systems: Sequence[System],
    trials: Trials,
    way: str,
    replicates: int,
    settings: Settings,
    *,
    seed: int = 0,
    names: Mapping[str, Sequence[str]] | None = None,
    progress: Progress | None = None,
) -> dict[str, dict[str, Resampled]]:
    """Replicates of the metrics of every system.

    Args:
        systems: The systems.
        trials: Their trials.
        way: ``trial``, ``speaker`` or ``speaker-attack``: what is drawn with replacement.
        replicates: How many times.
        settings: Costs and conventions.
        seed: Replicate r depends on (seed, r) alone.
        names: Metrics of each system; by default all that its columns allow.
        progress: Called after each replicate.

    Returns:
        Replicates by system and metric. Metrics that the classes of these trials do not allow are
        left out.
    """
    if replicates < 1:
        raise InputError(f"--replicates must be at least 1, got {replicates}")
    wanted = names or {system.name: metrics_with_intervals(system) for system in systems}
    evaluate = _evaluator(systems, trials, wanted, settings)
    size = len(trials.labels)
    once = evaluate(np.ones(size, dtype=np.int16))
    rows = np.empty((replicates, len(once)))
    drawn = replicate_weights(size, clusters_of(trials, way), replicates, seed)
    for row, weights in enumerate(drawn):
        rows[row] = evaluate(weights)
        if progress is not None:
            progress()
    keys = [(system.name, metric) for system in systems for metric in wanted[system.name]]
    found: dict[str, dict[str, Resampled]] = {system.name: {} for system in systems}
    for place, (name, metric) in enumerate(keys):
        if not np.isnan(once[place]):
            found[name][metric] = Resampled(once[place], rows[:, place])
    return found


def _evaluator(
    systems: Sequence[System],
    trials: Trials,
    wanted: Mapping[str, Sequence[str]],
    settings: Settings,
) -> Callable[[np.ndarray], list[float]]:
    """Function of the trials' weights that gives the wanted metrics, system after system."""
    families = {}
    for system in systems:
        columns, codes = as_columns(system.columns, wanted[system.name], trials.labels)
        families[system.name] = build_families(wanted[system.name], columns, codes, settings)

    def evaluate(weights: np.ndarray) -> list[float]:
        results: list[float] = []
        for name, parts in families.items():
            values: dict[str, float] = {}
            drawn = Drawn(weights)
            for family in parts:
                values |= family(drawn)
            results += [values[metric] for metric in wanted[name]]
        return results

    return evaluate


def clusters_of(trials: Trials, way: str) -> Clusters:
    """The columns whose clusters are drawn."""
    if way not in WAYS:
        raise InputError(f"--ci must be one of {', '.join(WAYS)}, got {way!r}")
    columns = [trials.column(name, f"--ci {way}") for name in WAYS[way]]
    if not columns:
        return None
    return columns[0] if len(columns) == 1 else (columns[0], columns[1])
