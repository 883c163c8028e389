"""Bootstrap of several systems at once: one set of weights per replicate, for all of them.

Replicate r of a seed draws the same trials for every system, so differences between systems are
paired without further work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lightning_sasv.errors import InputError
from lightning_sasv.evaluation.systems import System, Trials
from lightning_sasv.metrics import bootstrap
from lightning_sasv.metrics.bootstrap import Clusters, Resampled
from lightning_sasv.metrics.registry import Settings, resampled

Progress = Callable[[], object]
"""Called after each replicate."""

WAYS = {"trial": (), "speaker": ("speaker",), "speaker-attack": ("speaker", "attack")}
"""What is drawn with replacement, and the columns that it takes."""


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
    columns = {system.name: system.columns for system in systems}
    clusters = clusters_of(trials, way)
    return bootstrap.resample(
        columns,
        trials.labels,
        wanted,
        clusters,
        replicates,
        seed=seed,
        settings=settings,
        progress=progress,
    )


def clusters_of(trials: Trials, way: str) -> Clusters:
    """The columns whose clusters are drawn."""
    if way not in WAYS:
        raise InputError(f"--ci must be one of {', '.join(WAYS)}, got {way!r}")
    columns = [trials.column(name, f"--ci {way}") for name in WAYS[way]]
    if not columns:
        return None
    return columns[0] if len(columns) == 1 else (columns[0], columns[1])
