"""``lightning report``: results as a page and as figures."""

from __future__ import annotations

from typing import Any

from lightning_sasv.commands.arguments import options_of
from lightning_sasv.console import print_note
from lightning_sasv.report import write_report
from lightning_sasv.results import Results


@options_of(write_report)
def report(**options: Any) -> None:
    """Say what :func:`write_report` has written."""
    results, page, files = write_report(**options)
    if isinstance(results, Results):
        about = ", ".join(results.corpora) or "corpus not named"
        about += " (simulated)" if results.simulated else ""
    else:
        about = f"{sum(results.trials.values()):,} trials, counted"
    print_note(f"{about}: {page}, {page.stat().st_size / 1e6:.1f} MB")
    if options["figures"] is not None:
        print_note(f"{len(files)} figure files in {options['figures']}")
