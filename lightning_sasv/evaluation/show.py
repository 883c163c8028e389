"""The results of an evaluation on the terminal."""

from __future__ import annotations

from lightning_sasv.evaluation.run import EvaluationResult
from lightning_sasv.report import tables


def show_evaluation(result: EvaluationResult, costs: str) -> None:
    """Print metrics, breakdowns and comparisons.

    Args:
        result: What was found.
        costs: What the user called the costs.
    """
    counts = ", ".join(f"{count:,} {label}" for label, count in result.counts.items())
    intervals = {
        system: {metric: one.interval() for metric, one in found.items()}
        for system, found in result.intervals.items()
    }
    caption = (
        f"EERs: {result.options.settings.convention} convention; Cllr in bits; a-DCF costs {costs}"
    )
    if result.options.ci:
        caption += (
            f"; 95 % intervals by {result.options.ci}, {result.options.replicates} replicates"
        )
    tables.print_metrics(result.metrics, intervals, f"{counts} trials", caption)
    for column, systems in result.groups.items():
        for system, groups in systems.items():
            tables.print_groups(system, column, groups)
    for metric in dict.fromkeys(one.metric for one in result.comparisons):
        tables.print_comparisons(result.comparisons, metric)
