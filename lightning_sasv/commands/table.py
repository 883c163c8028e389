"""``lightning table`` (every system, every seed, beside the paper's) and ``lightning sweep``."""

from __future__ import annotations

import time
from typing import Any

from lightning_sasv import experiment
from lightning_sasv.commands.arguments import options_of
from lightning_sasv.console import print_note, print_notes, print_written, quiet
from lightning_sasv.experiment import sweep

__all__ = ["sweep", "table"]


SHORT = {
    **{name: f"model.{name}" for name in ("lr", "weight_decay", "hidden_dims", "class_weights")},
    **{"epochs": "trainer.max_epochs", "trim": "model.fusion.trim"},
    **{"seed_everything": "seeds", "model.systems": "systems"},
}
"""Other names of options: short forms, and what `lightning fit` has one of."""


@options_of(experiment.table, SHORT)
def table(**options: Any) -> None:
    """Run, and show the table."""
    quiet()
    start = time.perf_counter()
    found = experiment.table(**options)
    from lightning_sasv.report.table1_text import print_checks, print_table1  # not before the work

    print_table1(found.rows, found.remarks)
    print_checks(found.checks)
    print_notes(found.warnings)
    print_written(found.folder)
    print_note(f"took {time.perf_counter() - start:.0f} s")
