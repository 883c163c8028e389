"""Tables in memory: frames of polars, pandas or pyarrow, and dictionaries of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from lightning_sasv.errors import InputError
from lightning_sasv.scores.layouts import LABELS, LAYOUTS, column_named
from lightning_sasv.scores.meaning import canonical, with_role
from lightning_sasv.scores.read import plain_types
from lightning_sasv.scores.reading import Reading, turned
from lightning_sasv.scores.table import ScoreTable, check_duplicates, check_numbers
from lightning_sasv.trials import TrialClass

Frame: TypeAlias = Any
"""A frame of polars, pandas or pyarrow, or a dictionary of arrays."""

NAME = Path("frame")
"""What stands in the place of a file in messages and names."""


def read_frame(frame: Frame, how: Reading, columns: Mapping[str, str] | None = None) -> ScoreTable:
    """A frame as a table; columns are taken as arrays of numpy, so that pandas needs no pyarrow.

    Args:
        frame: The frame; its columns are called as in files. Numbers as labels are ``TrialClass``
            codes unless ``how`` says otherwise; 0 and 1 alone may be anything.
        how: What labels and ids are.
        columns: Our names of columns by those in the frame; the roles ``asv``, ``cm``, ``sasv``
            stand for their scores.

    Raises:
        InputError: Something of the frame cannot be used.
    """
    import polars as pl

    frame = frame.collect() if isinstance(frame, pl.LazyFrame) else frame
    named: dict[str, Any] = {}
    for name, values in _arrays(frame).items():
        ours = column_named((columns or {}).get(name, name))
        if ours in named:
            raise InputError(f"{NAME}: two columns are {ours}, one of them {name!r}; rename one")
        named[ours] = values
    lost = [name for name in columns or {} if name not in _names(frame)]
    if lost:
        raise InputError(f"columns: no column {lost[0]!r}; there are {', '.join(_names(frame))}")
    if "label" in named and not how.labels:
        named["label"] = _words(named["label"])
    try:
        plain = plain_types(NAME, pl.DataFrame(named))
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise InputError(f"{NAME}: {' '.join(str(error).split())[:200]}") from None
    table = ScoreTable(plain, NAME, "parquet", lambda row: row + 1)
    table = canonical(table, LAYOUTS["parquet"], how.labels)
    table = check_numbers(turned(with_role(table, None), how), how.allow_missing)
    check_duplicates(table, () if how.ids == "none" else table.ids)
    return table


def _names(frame: Frame) -> list[str]:
    return [str(name) for name in getattr(frame, "column_names", None) or _keys(frame)]


def _keys(frame: Frame) -> Any:
    return frame.columns if hasattr(frame, "columns") else frame.keys()


def _arrays(frame: Frame) -> dict[str, Any]:
    """The columns as arrays."""
    if not isinstance(frame, Mapping) and not hasattr(frame, "columns"):
        raise InputError(
            f"{type(frame).__name__} is no table: give a frame of polars, pandas or pyarrow, a "
            "dictionary of arrays, or paths"
        )
    arrays = {name: np.asarray(frame[name]) for name in _names(frame)}
    deep = [name for name, values in arrays.items() if values.ndim != 1]
    if deep:
        raise InputError(f"{NAME}, column {deep[0]}: expected one value per trial")
    return {
        n: v.astype(str) if v.dtype.kind == "O" and None not in v else v for n, v in arrays.items()
    }


def _words(labels: Any) -> Any:
    """Labels as words; whole numbers are ``TrialClass`` codes."""
    if np.asarray(labels).dtype.kind not in "iuf":
        return labels
    codes, there = {int(code) for code in TrialClass}, np.unique(labels).tolist()
    if there == [0, 1]:
        raise InputError(
            f"{NAME}: labels 0 and 1 alone do not tell what they are; give words, or "
            "labels='bona=1,spoof=0' (or 'target=1,nontarget=0', 'target=1,spoof=0')"
        )
    wrong = [value for value in there if value not in codes]
    if wrong:
        raise InputError(
            f"{NAME}: label {wrong[0]} is none of 0 (spoof), 1 (target), 2 (nontarget); give "
            "words, or labels='bona=1,spoof=0'"
        )
    return np.asarray(LABELS)[labels.astype(int)]
