"""Further scores of the trials of a corpus, from files of other people, beside a run's own pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from lightning_sasv.data.corpus import Corpus, TrialSet
from lightning_sasv.errors import InputError, meant
from lightning_sasv.scores.columns import PAIR, read_columns, score_names
from lightning_sasv.scores.join import join_key
from lightning_sasv.scores.table import ScoreTable
from lightning_sasv.trials import SPLITS, TrialClass

OPTION = "--data.more_scores"


def check_sets(files: Mapping[str, str] | None) -> dict[str, str]:
    """Files of dev and eval, both or none.

    Raises:
        InputError: A set is missing, or there is no such set.
    """
    given = dict(files or {})
    for name in given:
        if name not in SPLITS:
            raise InputError(f"{OPTION}: {name!r} is neither dev nor eval{meant(name, SPLITS)}")
    if given and len(given) < len(SPLITS):
        raise InputError(f"{OPTION}: give files of both sets, {{dev: FILE, eval: FILE}}")
    return given


def with_more_scores(corpus: Corpus, files: Mapping[str, str]) -> Corpus:
    """A corpus whose dev and eval trials have further scores.

    Args:
        corpus: The corpus.
        files: What :func:`check_sets` gave; the trials are found by speaker and utterance, scores
            of countermeasures by utterance where that is all they have.

    Raises:
        InputError: A trial without a score, names that are not the same in both sets, or that are
            those of the run's own pair.
    """
    if not files:
        return corpus
    dev, other = (_scores(getattr(corpus, split), files[split]) for split in SPLITS)
    if dev.keys() != other.keys():
        odd = ", ".join(sorted(dev.keys() ^ other.keys()))
        raise InputError(f"{OPTION}: dev and eval have not the same columns ({odd})")
    return replace(corpus, dev=replace(corpus.dev, more=dev), eval=replace(corpus.eval, more=other))


def _scores(data: TrialSet, file: str) -> dict[str, np.ndarray]:
    """Columns of a file in the order of the trials."""
    table = read_columns(file)
    names = score_names(table)
    if own := [name for name in names if name in PAIR]:
        raise InputError(
            f"{OPTION}: {file} has {own[0]}, which the run computes itself; name the column "
            f"otherwise, as in {own[0].partition('_')[0]}_NAME=FILE"
        )
    if not names:
        raise InputError(f"{OPTION}: {file} has no column asv_…, cm_… or quality_…")
    joined = join_key(table, trials_table(data)).table
    return {name: joined.numbers(name) for name in names}


def trials_table(data: TrialSet) -> ScoreTable:
    """The trials of a set without scores."""
    import polars as pl

    trials = data.trials
    words = {int(code): str(code) for code in TrialClass}
    columns = {name: getattr(trials, name).tolist() for name in ("speaker", "utterance", "attack")}
    labels = [words[code] for code in trials.label.tolist()]
    return ScoreTable(pl.DataFrame(columns | {"label": labels}), Path(data.name))
