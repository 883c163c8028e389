"""From tables of scores to results: metrics, intervals, comparisons, fused scores, decisions."""

from lightning_sasv.evaluation.compare import Comparison, compare_systems
from lightning_sasv.evaluation.decide import Decisions, decide_trials
from lightning_sasv.evaluation.fuse import FusedResults, fuse_tables, write_results
from lightning_sasv.evaluation.intervals import Progress, Resampled, resample
from lightning_sasv.evaluation.systems import Evaluated, System, Trials, breakdown, metrics_of

__all__ = [
    "Comparison",
    "Decisions",
    "Evaluated",
    "FusedResults",
    "Progress",
    "Resampled",
    "System",
    "Trials",
    "breakdown",
    "compare_systems",
    "decide_trials",
    "fuse_tables",
    "metrics_of",
    "resample",
    "write_results",
]
