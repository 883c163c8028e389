"""Numbers of trials of known corpora: a file that lacks a few of them is noticed without a key."""

from __future__ import annotations

from typing import NamedTuple

from lightning_sasv.errors import InputError
from lightning_sasv.scores.table import ScoreTable

NEARLY = 0.9
"""Share of a corpus's trials from which on a file is taken for the whole corpus."""


class Corpus(NamedTuple):
    """A list of trials that is known.

    Attributes:
        name: What it is.
        prefix: How its utterances begin.
        trials: Trials by label.
    """

    name: str
    prefix: str
    trials: dict[str, int]


KNOWN = (
    Corpus("SASV 2022 dev", "LA_D_", {"target": 1484, "nontarget": 5768, "spoof": 22296}),
    Corpus("SASV 2022 eval", "LA_E_", {"target": 5370, "nontarget": 33327, "spoof": 63882}),
)


def check_complete(table: ScoreTable) -> None:
    """Raise where a table is nearly, but not quite, the whole of a known list of trials.

    Each class must have at most the known number of trials, and all together at least nine tenths
    of them. Smaller selections are left alone: they are meant.
    """
    if "label" not in table or "utterance" not in table or table.has_cm_labels:
        return
    counts = {str(label): count for label, count in table.frame["label"].value_counts().iter_rows()}
    for corpus in KNOWN:
        whole = sum(corpus.trials.values())
        near = NEARLY * whole <= len(table) < whole
        within = all(counts.get(name, 0) <= count for name, count in corpus.trials.items())
        if near and within and table.frame["utterance"].str.starts_with(corpus.prefix).all():
            lacking = ", ".join(
                f"{counts.get(name, 0):,} of {count:,} {name}"
                for name, count in corpus.trials.items()
            )
            raise InputError(
                f"{table.path} ends in line {table.line(len(table) - 1)}: {whole - len(table):,} "
                f"trials of {corpus.name} are missing ({lacking}); give the whole file, or pass "
                "--allow-missing"
            )
