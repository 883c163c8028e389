"""``lightning simulate`` and ``lightning import``: corpora on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning_sasv import data
from lightning_sasv.commands.arguments import options_of
from lightning_sasv.console import print_note


@options_of(data.simulate)
def simulate(**options: Any) -> None:
    """Say what :func:`data.simulate` wrote."""
    corpus, size, out = data.simulate(**options), options["scale"], Path(options["out"])
    print_note(f"twin corpus (simulated, scale {size:g}): {corpus.sizes} in {out}")


@options_of(data.import_corpus)
def import_corpus(**options: Any) -> None:
    """Say what :func:`data.import_corpus` wrote."""
    corpus = data.import_corpus(**options)
    print_note(f"{corpus.name}: {corpus.sizes} in {Path(options['out'])}")
