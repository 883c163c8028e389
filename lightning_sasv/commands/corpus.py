"""``lightning simulate`` and ``lightning import``: corpora on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning_sasv import data
from lightning_sasv.commands.arguments import options_of
from lightning_sasv.console import print_note, print_written
from lightning_sasv.data.profiles import profile_named
from lightning_sasv.errors import InputError


@options_of(data.simulate)
def simulate(**options: Any) -> None:
    """Say what :func:`data.simulate` wrote."""
    corpus, size, out = data.simulate(**options), options["scale"], Path(options["out"])
    alone = profile_named(options["corpus"]).train is None
    written = f"{len(corpus.eval.trials):,} eval trials" if alone else corpus.sizes
    print_note(f"twin corpus (simulated, scale {size:g}): {written} in {out}")


@options_of(data.import_corpus, typed={"root": list[str]})
def import_corpus(root: list[str], **options: Any) -> None:
    """Say what :func:`data.import_corpus` wrote, or what shards were joined to."""
    from lightning_sasv.frontends.shards import are_shards, join_shards

    if are_shards(root):
        for stem, number in join_shards(root, options["out"], options["overwrite"]).items():
            print_note(f"{stem}: {number:,} embeddings of {len(root)} shards")
        print_written(options["out"])
        return
    if len(root) > 1:
        raise InputError(f"{root[1]} holds no shard of `lightning extract --shard`; give one ROOT")
    corpus = data.import_corpus(root[0], **options)
    print_note(f"{corpus.name}: {corpus.sizes} in {Path(options['out'])}")
