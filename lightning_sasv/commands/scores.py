"""``lightning fuse``, ``evaluate``, ``decide`` and ``convert``: score files of any system."""

from __future__ import annotations

from typing import Any

from lightning_sasv import evaluation, scores
from lightning_sasv.commands.arguments import options_of
from lightning_sasv.console import print_notes, print_written, progress
from lightning_sasv.evaluation.claims import sources_of
from lightning_sasv.evaluation.counted import CountedResults
from lightning_sasv.evaluation.curves import write_figures
from lightning_sasv.report.tables import (
    print_counted,
    print_evaluation,
    print_policies,
    print_results,
    print_verdicts,
)
from lightning_sasv.report.worth_text import print_worth
from lightning_sasv.results import write_version_1

DESCRIBED = {"columns": str | None}
"""Columns of files are described in words; those of frames, in Python, by a mapping."""


@options_of(evaluation.fuse, typed=DESCRIBED)
def fuse(**options: Any) -> None:
    """Show what :func:`evaluation.fuse` finds."""
    with progress() as begin:
        results = evaluation.fuse(**options, tell=print_notes, begin=begin)
    print_results(results.metrics, results.corpus)
    if results.worth is not None:
        print_worth(results.worth)
    print_written(options["out"])


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


@options_of(evaluation.referee)
def referee(**options: Any) -> None:
    """Show the verdicts of :func:`evaluation.referee`."""
    verdicts = evaluation.referee(**options)
    print_verdicts([one.cells for one in verdicts], sources_of(verdicts))


@options_of(evaluation.decide, typed=DESCRIBED)
def decide(**options: Any) -> None:
    """Show what the decisions of :func:`evaluation.decide` cost."""
    found = evaluation.decide(**options, tell=print_notes)
    title = f"Decisions at costs {options['costs']}" + (f"\n{found.note}" if found.note else "")
    print_policies(found.results, title, (found.system, found.policy))
    print_written(options["out"])


@options_of(scores.convert, typed=DESCRIBED)
def convert(**options: Any) -> None:
    """Say what :func:`scores.convert` wrote, or what became of a ``metrics.json``."""
    if options["to"] == "metrics-v1":
        print_written(write_version_1(options["file"], options["out"], options["overwrite"]))
        return
    print_written(scores.convert(**options, tell=print_notes))
