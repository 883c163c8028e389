"""Bringing scores and keys together: by trial id, whatever the order of the rows.

Rows are matched through a 64-bit hash of their ids, sorted once on either side; every match is
verified on the ids themselves, and should two ids share a hash, the ids are joined literally.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from lightning_sasv.errors import InputError
from lightning_sasv.scores.layouts import is_fusible
from lightning_sasv.scores.table import ScoreTable, id_hashes, names_of, plain_names

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Joined:
    """Scores beside a key.

    Attributes:
        table: The trials of the key that have scores, in the order of the key, with the columns of
            both; what both have is the key's.
        rows: Their rows in the key.
        missing: How many trials of the key have no score.
        extra: How many scores belong to no trial of the key.
        notes: What happened, for the user.
    """

    table: ScoreTable
    rows: np.ndarray
    missing: int
    extra: int
    notes: tuple[str, ...]


def join_key(scores: ScoreTable, key: ScoreTable, allow_missing: bool = False) -> Joined:
    """Give scores the labels of a key.

    Trials are matched by speaker and utterance; where one side only has utterances, by utterance
    (a countermeasure's score then counts for every trial of its utterance). A file without ids is
    matched by row: the numbers of rows must agree.

    Args:
        scores: Trials with scores.
        key: Trials with labels.
        allow_missing: Leave out trials of the key that have no score, instead of raising.

    Raises:
        InputError: A trial of the key without score, labels that contradict the key, or files that
            cannot be matched.
    """
    ids = min(scores.ids, key.ids, key=len)
    if not ids:
        return _join_rows(scores, key)
    place = match(scores, key, ids)
    found = place >= 0
    missing = np.flatnonzero(~found)
    if len(missing) and (not allow_missing or len(missing) == len(key)):
        raise InputError(_missing(scores, key, ids, missing))
    notes = []
    if len(missing):
        notes.append(
            f"{scores.path}: {len(missing):,} of {len(key):,} trials of the key are left "
            f"out, having no score: {names_of(key, ids, missing)}"
        )
    used = np.zeros(len(scores), dtype=bool)
    used[place[found]] = True
    extra = np.flatnonzero(~used)
    if len(extra):
        notes.append(
            f"{scores.path}: {len(extra):,} of {len(scores):,} scores belong to no trial "
            f"of the key and are left out: {names_of(scores, ids, extra)}"
        )
    rows = np.flatnonzero(found)
    table = beside(scores, key, rows, place[found])
    table = replace(table, expected=key.expected, cause=key.cause)
    if len(missing):
        table = table.part_of(key, "--allow-missing")
    return Joined(table, rows, len(missing), len(extra), tuple(notes))


def match(scores: ScoreTable, key: ScoreTable, ids: Sequence[str]) -> np.ndarray:
    """For each row of the key the row of the scores with the same ids, −1 where there is none."""
    ours, theirs = id_hashes(scores, ids), id_hashes(key, ids)
    order = _argsort(ours)
    ranked = ours[order]
    if (ranked[1:] == ranked[:-1]).any():
        _refuse_repeated(scores, ids)
        return _match_literally(scores, key, ids)
    asked = _argsort(theirs)
    wanted = theirs[asked]
    place = np.full(len(key), -1, dtype=np.int64)
    if np.array_equal(ranked, wanted):  # the same trials on both sides
        place[asked] = order
    else:
        at = np.searchsorted(ranked, wanted).clip(max=len(ranked) - 1)
        place[asked] = np.where(ranked[at] == wanted, order[at], -1)
    found = slice(None) if (place >= 0).all() else np.flatnonzero(place >= 0)
    for name in ids:
        if not (key.frame[name][found] == scores.frame[name][place[found]]).all():
            return _match_literally(scores, key, ids)
    return place


def _argsort(values: np.ndarray) -> np.ndarray:
    """Indices in ascending order of the values; polars sorts faster than numpy here."""
    import polars as pl

    return pl.Series(values).arg_sort().to_numpy().astype(np.int64)


def _match_literally(scores: ScoreTable, key: ScoreTable, ids: Sequence[str]) -> np.ndarray:
    import polars as pl

    rows = scores.frame.select(ids).with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("_row")
    )
    joined = key.frame.select(ids).join(rows, on=list(ids), how="left", maintain_order="left")
    return joined["_row"].fill_null(-1).to_numpy()


def _refuse_repeated(scores: ScoreTable, ids: Sequence[str]) -> None:
    """Trials share an utterance, and the key has only utterances: which score would count?"""
    repeated = scores.frame.select(ids).is_duplicated().arg_true().to_numpy()
    if len(repeated):
        raise InputError(
            f"{scores.where(int(repeated[0]))}: the scores are of trials, several for an "
            f"utterance ({names_of(scores, ids, repeated[:1])}), and the key only names those; "
            "give a key of trials"
        )


def nothing_shared(scores: ScoreTable, key: ScoreTable, ids: Sequence[str]) -> str:
    """What is said of two files that share no trial."""
    return _missing(scores, key, ids, np.arange(len(key)))


def _missing(scores: ScoreTable, key: ScoreTable, ids: Sequence[str], missing: np.ndarray) -> str:
    remedy = "score them, or pass --allow-missing to leave them out"
    if len(missing) == len(key):
        first = names_of(scores, ids, [0])
        remedy = f"the two files share no trial (the scores begin with {first}); give the right key"
        found = _would_match(scores, key, ids)
        if found:
            remedy = f"without folders and file endings {found:,} would match: --ids name"
        elif found := _would_match(scores, key, ids, lower=True):
            remedy = f"in lower case {found:,} would match; write the ids of both files alike"
    return (
        f"{scores.path}: no score for {len(missing):,} of {len(key):,} trials of "
        f"{key.where(int(missing[0]))} and after: {names_of(key, ids, missing)}; {remedy}"
    )


def _would_match(
    scores: ScoreTable, key: ScoreTable, ids: Sequence[str], lower: bool = False
) -> int:
    """How many trials of the key would have a score if ids had no folders and file endings."""
    import polars as pl

    ours, theirs = (plain_names(one.frame.select(ids)) for one in (scores, key))
    if lower:
        ours, theirs = (one.select(pl.all().str.to_lowercase()) for one in (ours, theirs))
    ours, theirs = ours.unique(), theirs.unique()
    return theirs.join(ours, on=list(ids), how="semi").height


def beside(scores: ScoreTable, key: ScoreTable, rows: np.ndarray, place: np.ndarray) -> ScoreTable:
    """Columns of the key, then those of the scores that the key has not."""
    import polars as pl

    left = key.frame[rows] if len(rows) < len(key) else key.frame
    own = scores.score_columns
    own += [name for name in scores.frame.columns if name not in (*left.columns, *own)]
    checked = ["label"] if "label" in scores and "label" in key else []
    right = scores.frame.select(*own, *checked)[place]
    if checked:
        _check_labels(scores, left["label"], right["label"], place)
    left = left.drop([name for name in own if name in left.columns])
    frame = pl.concat([left, right.select(own)], how="horizontal")
    lines, others = scores.line, [name for name in left.columns if is_fusible(name)]
    others += [name for name in key.score_columns if name in left.columns]
    joined = key.places(others, rows) | scores.places(scores.joined, place)
    return replace(scores, frame=frame, line=lambda row: lines(int(place[row])), joined=joined)


def _check_labels(scores: ScoreTable, key: pl.Series, own: pl.Series, place: np.ndarray) -> None:
    """Raise where the score file's own labels contradict the key."""
    coarse = (key == "bonafide").any() or (own == "bonafide").any()
    wrong = (key == "spoof") != (own == "spoof") if coarse else key != own
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        raise InputError(
            f"{scores.where(int(place[row]))}: label {own[row]!r} where the key says "
            f"{key[row]!r} ({int(wrong.sum()):,} such trials); use the right key"
        )


def _join_rows(scores: ScoreTable, key: ScoreTable) -> Joined:
    """By row, for files without ids."""
    if len(scores) != len(key):
        raise InputError(
            f"{scores.path}, line {scores.line(len(scores) - 1)}: {len(scores):,} rows where "
            f"{key.path} has {len(key):,}; without trial ids the rows must correspond"
        )
    rows = np.arange(len(key))
    note = f"{scores.path}: no trial ids to join by; row n was taken for row n of {key.path}"
    return Joined(beside(scores, key, rows, rows), rows, 0, 0, (note,))


def unpaired(asv: ScoreTable, cm: ScoreTable) -> ScoreTable | None:
    """Trials of a verifier, then those of a countermeasure, where they are not the same.

    Nothing where they can be joined: by ids of which some are the same, or by rows of as many
    trials whose labels agree.
    """
    import polars as pl

    if not {"label"} <= set(asv.frame.columns) & set(cm.frame.columns):
        return None
    ids = min(asv.ids, cm.ids, key=len)
    if ids:
        if asv.frame.select(ids).join(cm.frame.select(ids), on=list(ids), how="semi").height:
            return None
    elif len(asv) == len(cm):
        spoof, spoofed = (one.frame["label"] == "spoof" for one in (asv, cm))
        if (spoof == spoofed).all():
            return None
    scores = ("asv_score", "cm_score")
    common = [name for name in asv.frame.columns if name in cm and name not in scores]
    both = pl.concat([asv.frame.select(*common, scores[0]), cm.frame.select(*common, scores[1])],
                     how="diagonal").fill_null(float("nan"))  # fmt: skip
    note = (
        f"{asv.path} and {cm.path} are unpaired: t-DCF and t-EER are those of the two "
        "distributions; SASV-EER, Cllr and a-DCF need one score per trial"
    )
    return replace(asv, frame=both, by_row=True, unpaired=True, notes=(note,))


def stacked(tables: Sequence[ScoreTable]) -> ScoreTable:
    """Tables one below the other, with the columns that all of them have."""
    import polars as pl

    common = [c for c in tables[0].frame.columns if all(c in table for table in tables)]
    ends = np.cumsum([len(table) for table in tables])

    def place(row: int) -> tuple[ScoreTable, int]:
        at = int(np.searchsorted(ends, row, side="right"))
        return tables[at], row - int(ends[at]) + len(tables[at])

    def line(row: int) -> int:
        table, own = place(row)
        return table.line(own)

    def where(row: int, column: str) -> str:
        table, own = place(row)
        return table.where(own, column)

    frame = pl.concat([table.frame.select(common) for table in tables])
    columns = {"", *(column for table in tables for column in table.joined)}
    joined = {column: partial(where, column=column) for column in columns}
    return replace(tables[0], frame=frame, line=line, joined=joined)
