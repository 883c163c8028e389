"""``lightning evaluate`` and ``merge``, which import nothing of fusion: they start at once."""

from __future__ import annotations

from typing import Any

from lightning_sasv import evaluation
from lightning_sasv.commands.arguments import DESCRIBED, options_of
from lightning_sasv.console import print_notes, print_written, progress
from lightning_sasv.evaluation.counted import CountedResults
from lightning_sasv.evaluation.curves import write_figures
from lightning_sasv.report.tables import print_counted, print_evaluation


@options_of(evaluation.evaluate, typed={"files": list[str], **DESCRIBED})
def evaluate(
    json: str | None, csv: str | None, figures: str | None, overwrite: bool, **options: Any
) -> None:
    """Show what :func:`evaluation.evaluate` finds, then write it: a full disk costs no result."""
    with progress() as begin:
        result = evaluation.evaluate(**options, tell=print_notes, begin=begin)
    show = print_counted if isinstance(result, CountedResults) else print_evaluation
    show(result)
    if json is not None:
        result.write(json, overwrite)
    if csv is not None:
        result.write_csv(csv, overwrite)
    if figures is not None:
        write_figures(result, figures, overwrite)


@options_of(evaluation.merge)
def merge(**options: Any) -> None:
    """Say what :func:`evaluation.merge` wrote."""
    print_written(evaluation.merge(**options))
