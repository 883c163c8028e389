"""``lightning fuse``, ``decide``, ``convert`` and ``referee``: score files of any system."""

from __future__ import annotations

from typing import Any

from lightning_sasv import evaluation, scores
from lightning_sasv.commands.arguments import DESCRIBED, options_of
from lightning_sasv.console import print_notes, print_written, progress
from lightning_sasv.evaluation.claims import sources_of
from lightning_sasv.report.tables import print_policies, print_results, print_verdicts
from lightning_sasv.report.transfer_text import print_transfer
from lightning_sasv.report.worth_text import print_worth
from lightning_sasv.results import write_version_1


@options_of(evaluation.fuse, typed=DESCRIBED)
def fuse(**options: Any) -> None:
    """Show what :func:`evaluation.fuse` finds."""
    with progress() as begin:
        results = evaluation.fuse(**options, tell=print_notes, begin=begin)
    print_results(results.metrics, results.corpus)
    if results.worth is not None:
        print_worth(results.worth)
    print_written(options["out"])


@options_of(evaluation.referee)
def referee(**options: Any) -> None:
    """Show the verdicts of :func:`evaluation.referee`."""
    verdicts = evaluation.referee(**options)
    print_verdicts([one.cells for one in verdicts], sources_of(verdicts))
    if options["markdown"] is not None:
        print_written(options["markdown"])


@options_of(evaluation.decide, typed=DESCRIBED)
def decide(**options: Any) -> None:
    """Show what the decisions of :func:`evaluation.decide` cost."""
    found = evaluation.decide(**options, tell=print_notes)
    title = f"Decisions at costs {options['costs']}" + (f"; {found.note}" if found.note else "")
    print_policies(found.results, title, (found.system, found.policy))
    print_written(options["out"])


@options_of(evaluation.transfer, typed=DESCRIBED)
def transfer(**options: Any) -> None:
    """Show what :func:`evaluation.transfer` finds."""
    with progress() as begin:
        found = evaluation.transfer(**options, tell=print_notes, begin=begin)
    print_transfer(found.content)
    print_written(options["out"])


@options_of(scores.convert, typed=DESCRIBED)
def convert(**options: Any) -> None:
    """Say what :func:`scores.convert` wrote, or what became of a ``metrics.json``."""
    if options["to"] == "metrics-v1":
        print_written(write_version_1(options["file"], options["out"], options["overwrite"]))
        return
    print_written(scores.convert(**options, tell=print_notes))
