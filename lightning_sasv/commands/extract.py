"""``lightning extract``: audio to embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning_sasv import frontends
from lightning_sasv.commands.arguments import options_of
from lightning_sasv.console import print_line, print_written, progress
from lightning_sasv.errors import InputError

_SHOWN = 10
"""Failures that are listed on the terminal; the manifest has them all."""


def _short(text: str, length: int = 100) -> str:
    return text if len(text) <= length else f"{text[:length]}…"


@options_of(frontends.extract)
def extract(**options: Any) -> None:
    """Say what :func:`frontends.extract` has made."""
    with progress("utt", output=True) as begin:
        results = frontends.extract(**options, begin=begin)
    _summarise(results, Path(options["out"]))
    if options["shard"] is not None:
        print_line("Next, with all shards: lightning import SHARD... --out DIR")
    elif {"cm_embd_trn", "asv_embd_dev", "asv_embd_eval"} <= results.keys():
        protocols = options["protocol"] or options["audio"]
        print_line(f"Next: lightning fit --data.root {options['out']} --data.protocols {protocols}")


def _summarise(results: Mapping[str, Any], target: Path) -> None:
    """Say what was made, and what could not be and why."""
    failures = [
        (stem, name, why) for stem, r in results.items() for name, why in r.failures.items()
    ]
    made = [(stem, result) for stem, result in results.items() if result.store is not None]
    for stem, result in made:
        rate = f", {result.computed / result.seconds:.1f} a second" if result.computed else ""
        print_line(
            f"{stem}: {len(result.store):,} embeddings, {result.computed:,} of them new{rate}"
        )
    for stem, name, why in failures[:_SHOWN]:
        print_line(f"  {stem} lacks {_short(name)}: {_short(why, 500)}")
    if len(failures) > _SHOWN:
        print_line(f"  and {len(failures) - _SHOWN} more; manifest.json lists them all")
    if not made:
        raise InputError(f"none of the recordings could be embedded; see manifest.json in {target}")
    print_written(target)
