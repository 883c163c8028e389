"""``lightning drift``, ``verify``, ``enrol`` and ``serve``: what a bundle says."""

from __future__ import annotations

import json as json_text
from typing import Any

from lightning_sasv import deploy, service
from lightning_sasv.commands.arguments import options_of
from lightning_sasv.console import print_line, print_note, print_notes, print_written, progress
from lightning_sasv.deploy.verifying import VerifiedList
from lightning_sasv.files import finite


@options_of(deploy.drift, typed={"columns": str | None})
def drift(json: bool, **options: Any) -> None:
    """Print what :func:`deploy.drift` finds."""
    found = deploy.drift(**options, tell=print_notes)
    if json:
        print_line(json_text.dumps(finite(found.as_json()), allow_nan=False))
        return
    for line in found.lines():
        print_line(line)


@options_of(deploy.verify)
def verify(json: bool, **options: Any) -> None:
    """Print what :func:`deploy.verify` decides."""
    with progress("probe") as begin:
        found = deploy.verify(**options, tell=print_notes, begin=begin)
    if isinstance(found, VerifiedList):
        rows = list(found.cells()) if json else []
        lines = [json_text.dumps(finite(row), allow_nan=False) for row in rows]
        said = ", ".join(f"{count} {word}" for word, count in found.counts.items())
        lines += [] if json else [f"{len(found.rows)} probes: {said}"]
    else:
        lines = [json_text.dumps(finite(found.as_json()))] if json else found.lines()
    for line in lines:
        print_line(line)
    if isinstance(found, VerifiedList) and not json:
        print_written(found.out)


@options_of(deploy.enrol)
def enrol(**options: Any) -> None:
    """Say what :func:`deploy.enrol` has kept or removed."""
    path = deploy.enrol(**options, tell=print_notes)
    kept = options["forget"] is None
    print_note(f"Kept in {path}, readable by you alone" if kept else f"Removed {path}")


@options_of(service.serve)
def serve(**options: Any) -> None:
    """Run :func:`service.serve` until it is stopped."""
    service.serve(**options, tell=print_notes)
