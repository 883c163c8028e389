"""``lightning table`` (every system, every seed, beside the paper's) and ``lightning sweep``."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from lightning_sasv import experiment
from lightning_sasv.commands.arguments import options_of
from lightning_sasv.console import (
    Terminal,
    print_checked,
    print_note,
    print_notes,
    print_written,
    quiet,
)
from lightning_sasv.experiment.sweep import SweepRun
from lightning_sasv.metrics_file import values_in
from lightning_sasv.results import METRICS_FILE, read_metrics, value_of
from lightning_sasv.trials import SPLITS

SHORT = {
    **{name: f"model.{name}" for name in ("lr", "weight_decay", "hidden_dims", "class_weights")},
    **{"epochs": "trainer.max_epochs", "trim": "model.fusion.trim"},
    **{"seed_everything": "seeds", "model.systems": "systems"},
}
"""Other names of options: short forms, and what `lightning fit` has one of."""


@options_of("experiment.table", SHORT)
def table(**options: Any) -> None:
    """Run, and show the table."""
    quiet()
    start = time.perf_counter()
    found = experiment.table(**options)
    if options["check"]:
        print_checked(found.remarks)
        return
    from lightning_sasv.report.table1_text import print_checks, print_table1  # not before the work

    print_table1(found)
    print_checks(found.checks)
    print_notes(found.warnings)
    print_written(found.folder)
    print_note(f"took {time.perf_counter() - start:.0f} s")


@options_of("experiment.sweep")
def sweep(**options: Any) -> None:
    """Run, and show what the runs found."""
    experiment.sweep(**options, tell=_print_runs)


def _shown(value: object) -> str:
    """A value of a point, of a search's numbers four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _print_runs(runs: Sequence[SweepRun]) -> None:
    """A row for each system of each run: the point, its SASV-EER, its folder."""
    from lightning_sasv.metrics.registry import BRIEF, METRICS
    from lightning_sasv.report.tables import make_table

    metric, every = METRICS["sasv_eer"], list(dict.fromkeys(n for run in runs for n in run.point))
    given = {name: {_shown(run.point.get(name, "")) for run in runs} for name in every}
    names = [name for name in every if len(runs) == 1 or len(given[name]) > 1]
    table = make_table([*names, "system"], ["dev", "eval"], title=f"{metric.title()} of the runs")
    table.add_column("folder", overflow="fold")
    for column in table.columns[: len(names)]:  # numbers stay readable where lines are short
        column.no_wrap, column.overflow = False, "fold"
    for run in runs:
        values, folder = [_shown(run.point.get(name, "")) for name in names], run.folder
        for system, entry in read_metrics(folder / METRICS_FILE).items() if folder else ():
            rates = [value_of(values_in(entry, split), "sasv_eer") for split in SPLITS]
            found = [metric.text(rate, BRIEF) for rate in rates]
            table.add_row(*values, system, *found, os.path.relpath(str(folder)))
    if table.row_count:
        Terminal(wrap=True).print(table)
