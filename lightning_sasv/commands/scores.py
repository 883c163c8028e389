"""``lightning evaluate``, ``fuse``, ``decide``, ``convert`` and others: scores of any system.

What one command needs beside the others it imports itself: ``evaluate`` starts at once.
"""

from __future__ import annotations

from typing import Any

from lightning_sasv import evaluation, scores
from lightning_sasv.commands.arguments import DESCRIBED, options_of
from lightning_sasv.console import print_note, print_notes, print_written, progress
from lightning_sasv.evaluation.results_table import Results
from lightning_sasv.report.tables import (
    print_counted,
    print_evaluation,
    print_policies,
    print_results,
    print_verdicts,
)


@options_of("evaluation.evaluate", typed={"files": list[str], **DESCRIBED})
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
        result.write_figures(figures, overwrite)


@options_of("evaluation.merge")
def merge(**options: Any) -> None:
    """Say what :func:`evaluation.merge` wrote."""
    print_written(evaluation.merge(**options, tell=print_notes))


@options_of("evaluation.fuse", typed=DESCRIBED)
def fuse(**options: Any) -> None:
    """Show what :func:`evaluation.fuse` finds."""
    with progress() as begin:
        results = evaluation.fuse(**options, tell=print_notes, begin=begin)
    print_results(results.metrics, results.corpus)
    if results.worth is not None:
        from lightning_sasv.report.sections import print_worth

        print_worth(results.worth)
    print_written(options["out"])


@options_of("evaluation.referee")
def referee(**options: Any) -> None:
    """Show the verdicts of :func:`evaluation.referee`."""
    from lightning_sasv.evaluation.claims import sources_of

    verdicts = evaluation.referee(**options)
    print_verdicts([one.cells for one in verdicts], sources_of(verdicts))
    if options["markdown"] is not None:
        print_written(options["markdown"])


@options_of("evaluation.decide", typed=DESCRIBED)
def decide(**options: Any) -> None:
    """Show what the decisions of :func:`evaluation.decide` cost."""
    found = evaluation.decide(**options, tell=print_notes)
    title = f"Decisions at costs {options['costs']}" + (f"; {found.note}" if found.note else "")
    print_policies(found.results, title, (found.system, found.policy))
    print_written(options["out"])


@options_of("evaluation.transfer", typed=DESCRIBED)
def transfer(**options: Any) -> None:
    """Show what :func:`evaluation.transfer` finds."""
    from lightning_sasv.report.sections import print_transfer

    with progress() as begin:
        found = evaluation.transfer(**options, tell=print_notes, begin=begin)
    print_transfer(found.content)
    print_written(options["out"])


@options_of("scores.convert", typed=DESCRIBED)
def convert(**options: Any) -> None:
    """Say what :func:`scores.convert` wrote, or what became of a ``metrics.json``."""
    if options["to"] == "metrics-v1":
        from lightning_sasv.results import write_version_1

        print_written(write_version_1(options["file"], options["out"], options["overwrite"]))
        return
    print_written(scores.convert(**options, tell=print_notes))


@options_of("report.write_report")
def report(**options: Any) -> None:
    """Say what :func:`report.write_report` has written."""
    from lightning_sasv.report import write_report
    from lightning_sasv.results import Results

    results, page, files = write_report(**options)
    if isinstance(results, Results):
        about = results.about
    else:
        about = f"{sum(results.trials.values()):,} trials, counted"
    print_note(f"{about}: {page}, {page.stat().st_size / 1e6:.1f} MB")
    if options["figures"] is not None:
        print_note(f"{len(files)} figure files in {options['figures']}")
