"""``lightning simulate``, ``import``, ``download`` and ``extract``: corpora on disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning_sasv import data, frontends
from lightning_sasv.commands.arguments import options_of
from lightning_sasv.console import print_line, print_note, print_written, progress
from lightning_sasv.errors import InputError

CORPUS = ("sasv2022-protocols", "sasv2022-embeddings")
"""What of `lightning download` a corpus to train on consists of."""

_SHOWN = 10
"""Failures of an extraction that are listed on the terminal; the manifest has them all."""


@options_of("data.simulate")
def simulate(**options: Any) -> None:
    """Say what :func:`data.simulate` wrote."""
    from lightning_sasv.data.profiles import profile_named

    corpus, size, out = data.simulate(**options), options["scale"], Path(options["out"])
    alone = profile_named(options["corpus"]).train is None
    written = f"{len(corpus.eval.trials):,} eval trials" if alone else corpus.sizes
    print_note(f"twin corpus (simulated, scale {size:g}): {written} in {out}")


@options_of("data.import_corpus", typed={"root": list[str]})
def import_corpus(root: list[str], **options: Any) -> None:
    """Say what :func:`data.import_corpus` wrote, or what shards were joined to."""
    from lightning_sasv.frontends.manifest import are_shards, join_shards

    if are_shards(root):
        for stem, number in join_shards(root, options["out"], options["overwrite"]).items():
            print_note(f"{stem}: {number:,} embeddings of {len(root)} shards")
        print_written(options["out"])
        return
    if len(root) > 1:
        raise InputError(f"{root[1]} holds no shard of `lightning extract --shard`; give one ROOT")
    corpus = data.import_corpus(root[0], **options)
    print_note(f"{corpus.name}: {corpus.sizes} in {Path(options['out'])}")


@options_of("data.download")
def download(**options: Any) -> None:
    """Say what :func:`data.download` left, and what can be done with it."""
    with progress("bytes") as begin:
        done = data.download(**options, begin=begin)
    name, size = options["name"], sum(source.size for source in done.files)
    print_line(
        f"{name}: {len(done.files)} files, {size:,} bytes, each with its pinned SHA-256, "
        f"{done.folder}"
    )
    for terms in dict.fromkeys((one.repository, one.terms) for one in done.files if one.terms):
        print_line(f"{terms[0]}: {terms[1]}, says its owner; do not pass its files on")
    for path, trials in done.tables.items():
        print_line(f"{path}: {trials:,} trials")
    if name in CORPUS:
        print_line(f"next: {_next_step(done.folder)}")


def _next_step(folder: Path) -> str:
    """What is still to be fetched for a corpus, or what can be done with it now."""
    from lightning_sasv.data.downloads import SOURCES

    for name in CORPUS:
        if not all((folder / source.place).is_file() for source in SOURCES[name]):
            return f"lightning download {name} --out {folder}"
    return f"lightning table --data.root {folder}"


@options_of("frontends.extract")
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


def _short(text: str, length: int = 100) -> str:
    return text if len(text) <= length else f"{text[:length]}…"
