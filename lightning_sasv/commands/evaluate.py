"""``lightning evaluate``, which imports nothing of fusion and of counts: it starts at once."""

from __future__ import annotations

from typing import Any

from lightning_sasv import evaluation
from lightning_sasv.commands.arguments import DESCRIBED, options_of
from lightning_sasv.console import print_notes, progress
from lightning_sasv.evaluation.results_table import Results
from lightning_sasv.report.tables import print_counted, print_evaluation


@options_of(evaluation.evaluate, typed={"files": list[str], **DESCRIBED})
def evaluate(
    json: str | None, csv: str | None, figures: str | None, overwrite: bool, **options: Any
) -> None:
    """Show what :func:`evaluation.evaluate` finds, then write it: a full disk costs no result."""
    with progress() as begin:
        result = evaluation.evaluate(**options, tell=print_notes, begin=begin)
    show = print_evaluation if isinstance(result, Results) else print_counted
    show(result)
    if json is not None:
        result.write(json, overwrite)
    if csv is not None:
        result.write_csv(csv, overwrite)
    if figures is not None:
        from lightning_sasv.evaluation.curves import write_figures

        write_figures(result, figures, overwrite)
