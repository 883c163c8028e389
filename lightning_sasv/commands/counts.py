"""``lightning merge``: states that ``evaluate --state`` wrote."""

from __future__ import annotations

from typing import Any

from lightning_sasv import evaluation
from lightning_sasv.commands.arguments import options_of
from lightning_sasv.console import print_notes, print_written


@options_of(evaluation.merge)
def merge(**options: Any) -> None:
    """Say what :func:`evaluation.merge` wrote."""
    print_written(evaluation.merge(**options, tell=print_notes))
