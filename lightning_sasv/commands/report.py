"""``lightning report``: results as a page and as figures."""

from __future__ import annotations

from typing import Any

from lightning_sasv.commands.arguments import options_of
from lightning_sasv.console import print_note
from lightning_sasv.report import write_report


@options_of(write_report)
def report(**options: Any) -> None:
    """Say what :func:`write_report` has written."""
    results, page, files = write_report(**options)
    corpus = ", ".join(results.corpora) or "corpus not named"
    note = " (simulated)" if results.simulated else ""
    print_note(f"{corpus}{note}: {page}, {page.stat().st_size / 1e6:.1f} MB")
    if options["figures"] is not None:
        print_note(f"{len(files)} figure files in {options['figures']}")
