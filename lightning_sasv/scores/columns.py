"""Several scores of a kind: columns ``asv_…``, ``cm_…`` and ``quality_…`` of one file or of many.

``asv=A,asv_ecapa=B,cm=C`` joins files by trial id, where a file of utterances counts for every
trial of an utterance. ``asv_NAME=FILE`` names a column; those without a name are ``asv_1``,
``asv_2`` and so on in the order given. A file with such columns is taken as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from lightning_sasv.errors import InputError, meant
from lightning_sasv.scores.layouts import is_fusible
from lightning_sasv.scores.read import read_plain
from lightning_sasv.scores.reading import Reading, turned, with_role
from lightning_sasv.scores.sources import Tell, join_all, parts_of, read_source, silent, told
from lightning_sasv.scores.table import ScoreTable, refuse_cells
from lightning_sasv.trials import KINDS, PAIR

_NAMED = re.compile(rf"({'|'.join(KINDS)})(?:_([A-Za-z0-9][\w.+-]*))?=(.+)", re.ASCII | re.DOTALL)


def read_columns(
    text: str, key: ScoreTable | None = None, how: Reading | None = None, tell: Tell = silent
) -> ScoreTable:
    """Read one score file or several with any number of ASV and CM scores, and a key.

    Args:
        text: As for ``read_source``; besides, ``asv=FILE`` and ``cm=FILE`` may stand several times,
            and ``asv_NAME=FILE``, ``cm_NAME=FILE``, ``quality_NAME=FILE`` name their columns.
        key: Trials with labels, which the scores are joined to.
        how: How the files are read.
        tell: Told the layout of each file, and what was left out.

    Raises:
        InputError: A file is given twice, a column has two files, a score is no finite number (with
            its file and line), or trials of one file are not in another.
    """
    how, parts = how or Reading(), [_part(part) for part in parts_of(text)]
    kinds = [(kind, name) for kind, name, _ in parts if kind]
    if not any(name or kind == "quality" for kind, name in kinds) and len({*kinds}) == len(kinds):
        return as_numbers(read_source(text, key, how=how, tell=tell), how.allow_missing)
    tables, notes, seen = list[ScoreTable](), list[str](), dict[str, str]()
    for column, path in _columns(parts):
        table = read_plain(Path(path), how)
        notes += told(table)
        tables.append(as_numbers(_renamed(table, column, how), how.allow_missing))
        for name in score_names(tables[-1]):
            if name in seen:
                raise InputError(f"{path}: {name} is in {seen[name]} already; name it otherwise")
            seen[name] = path
    joined, found = join_all(tables, key, how)
    tell([*notes, *found])
    return joined


def _part(text: str) -> tuple[str, str, str]:
    """Kind and name of a column, where they are said, and its file."""
    found = None if Path(text).exists() else _NAMED.fullmatch(text)
    return (found[1], found[2] or "", found[3]) if found else ("", "", text)


def _columns(parts: Sequence[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """Name of the column of each file, none of a file with columns of its own."""
    found: list[tuple[str, str]] = []
    unnamed = dict.fromkeys(KINDS, 0)
    for kind, name, path in parts:
        unnamed[kind or "asv"] += bool(kind) and not name
        column = f"{kind}_{name or unnamed[kind]}" if kind else ""
        for other, file in found:
            same = Path(file).resolve() == Path(path).resolve()
            if same and other.partition("_")[0] == kind:
                raise InputError(
                    f"{path} is given twice, as {other} and as {column}; leave out one"
                )
            if column and column == other:
                raise InputError(f"{column} is given twice, as {file} and as {path}; name one else")
        found.append((column, path))
    return found


def _renamed(table: ScoreTable, column: str, how: Reading) -> ScoreTable:
    """A table with its one score under the name of a column."""
    if not column:
        return turned(table, how)
    kind = column.partition("_")[0]
    own = [name for name in score_names(table) if name.startswith(f"{kind}_")]
    if len(own) > 1:
        raise InputError(
            f"{table.where()}: {column} could be {' or '.join(own)}; give the file without a name"
        )
    if own and own[0] not in PAIR:
        old = own[0]
    else:
        table = with_role(table, "asv" if kind == "quality" else kind)
        table, old = turned(table, how), f"{'asv' if kind == 'quality' else kind}_score"
    others = [name for name in score_names(table) if name != old]
    return replace(table, frame=table.frame.drop(others).rename({old: column}))


def score_names(table: ScoreTable) -> list[str]:
    """Columns of scores to fuse, ASV first, then CM, then measures of quality."""
    import polars as pl

    found = [
        name
        for name, kind in table.frame.schema.items()
        if is_fusible(name) and (kind.is_float() or kind == pl.String)
    ]
    return sorted(found, key=lambda name: KINDS.index(name.partition("_")[0]))


def as_numbers(table: ScoreTable, allow_missing: bool = False) -> ScoreTable:
    """The table with its scores to fuse as numbers; columns of words under such names are dropped.

    Args:
        table: The table.
        allow_missing: Leave out rows without a number instead of raising.

    Raises:
        InputError: A cell is no finite number; with file and line.
    """
    import polars as pl

    for name in score_names(table):
        cells = table.frame[name]
        values = cells.cast(pl.Float64, strict=False)
        bad = (~values.is_finite()).fill_null(value=True).arg_true()
        if cells.dtype == pl.String and 2 * len(bad) > len(cells):
            table = replace(table, frame=table.frame.drop(name))
            continue
        if len(bad) and allow_missing and len(bad) < len(cells):
            kept = np.setdiff1d(np.arange(len(cells)), bad.to_numpy())
            return as_numbers(table.take(kept).part_of(table, "--allow-missing"), allow_missing)
        refuse_cells(table, name, bad)
        table = replace(table, frame=table.frame.with_columns(values))
    return table


def choose(names: Sequence[str], scores: str | None, drop: str | None) -> list[str]:
    """Columns by patterns: those that ``--scores`` names, without those of ``--drop``.

    Example:
        >>> choose(["asv_a", "cm_b", "cm_c"], "asv_a,cm_*", "cm_c")
        ['asv_a', 'cm_b']
    """
    found = list(names)
    for option, text in (("--scores", scores), ("--drop", drop)):
        patterns = [part for part in re.split(r"[\s,\[\]'\"]+", text or "") if part]
        for one in patterns:
            if not any(fnmatchcase(name, one) for name in names):
                listed = f"there are {', '.join(names)}{meant(one, names)}"
                raise InputError(f"{option} {one}: no such column; {listed}")
        hit = [any(fnmatchcase(name, one) for one in patterns) for name in found]
        if patterns:
            wanted = option == "--scores"
            found = [name for name, is_hit in zip(found, hit, strict=True) if is_hit == wanted]
    return found


def choose_alike(
    dev: ScoreTable, evaluation: ScoreTable, scores: str | None, drop: str | None, tell: Tell
) -> list[ScoreTable]:
    """Both sets with the columns that are to be fused: those of dev, by name.

    Args:
        dev: Development scores.
        evaluation: Evaluation scores.
        scores: Patterns of what is fused, see :func:`choose`.
        drop: Patterns of what is not.
        tell: Told what was left out.

    Raises:
        InputError: A column is missing in eval, or a pattern names none.
    """
    there, other = score_names(dev), score_names(evaluation)
    wanted = choose(there, scores, drop)
    if missing := [name for name in wanted if name not in other]:
        raise InputError(
            f"{evaluation.where()}: no column {', '.join(missing)} (it has "
            f"{', '.join(other) or 'none'}), which {dev.path} has; score eval likewise, or leave "
            f"it out with --drop {missing[0]}"
        )
    if more := [name for name in other if name not in there]:
        tell([f"{evaluation.path}: {', '.join(more)} not in {dev.path}: left out"])
    return [
        replace(one, frame=one.frame.drop([n for n in score_names(one) if n not in wanted]))
        for one in (dev, evaluation)
    ]


def of_network(table: ScoreTable, system: str | None) -> ScoreTable:
    """The trials with the scores of a system's own network in the places of the shared pair.

    A table of seeds and systems has them as ``asv_score_<system>`` and ``cm_score_<system>``.
    """
    own = {name: f"{name}_{system}" for name in PAIR if f"{name}_{system}" in table}
    found = [table.frame[column].alias(name) for name, column in own.items()]
    return replace(table, frame=table.frame.with_columns(found)) if found else table


def matrices(
    table: ScoreTable, names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """ASV scores, CM scores and measures of quality; of a pair (trials,) each, else (trials, n)."""
    if tuple(names) == PAIR:
        return *table.score_pair(), None
    sides = [[name for name in names if name.startswith(f"{kind}_")] for kind in KINDS]
    asv, cm, quality = (
        np.stack([table.numbers(name) for name in side], axis=1) if side else None for side in sides
    )
    if asv is None or cm is None:
        raise InputError(
            f"{table.where()}: {'ASV' if asv is None else 'CM'} scores are missing among "
            f"{', '.join(names) or ', '.join(table.frame.columns)}; fusing needs asv_… and cm_…"
        )
    return asv, cm, quality
