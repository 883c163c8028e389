"""``lightning configs``, ``init``, ``schema`` and ``completion``: first steps, help for editors."""

from __future__ import annotations

import sys
from typing import Any

from lightning_sasv import starting
from lightning_sasv.commands.arguments import options_of
from lightning_sasv.console import print_note


@options_of("starting.configs")
def configs(**options: Any) -> None:
    """Show what :func:`starting.configs` gives."""
    sys.stdout.write(starting.configs(**options))


@options_of("starting.schema")
def schema(**options: Any) -> None:
    """Show what :func:`starting.schema` gives."""
    sys.stdout.write(starting.schema(**options))


@options_of("starting.completion")
def completion(**options: Any) -> None:
    """Show what :func:`starting.completion` gives."""
    sys.stdout.write(starting.completion(**options))


@options_of("starting.init")
def init(**options: Any) -> None:
    """Say what :func:`starting.init` wrote."""
    print_note(f"{starting.init(**options)}: config.yaml, Makefile, README.md; go on with `make`")
