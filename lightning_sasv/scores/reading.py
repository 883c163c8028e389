"""How score files are read where the user says more than their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from lightning_sasv.errors import InputError
from lightning_sasv.scores.layouts import ROLES, columns_described, labels_described
from lightning_sasv.scores.table import ScoreTable


@dataclass(frozen=True)
class Reading:
    """How a file is read, as far as the user says so.

    Attributes:
        format: Name of its layout (``layouts.LAYOUTS``) or its columns; recognised when not given.
        labels: What labels mean, beyond the words in circulation.
        ids: ``none`` takes each row for a trial, ``name`` takes folders and file endings off.
        allow_missing: Leave out rows without a number instead of raising.
        mend: Accept a byte-order mark and Windows line ends.
        negate: Roles whose scores change their sign.
        log: Roles whose scores are likelihood ratios, of which the logarithm is taken.
    """

    format: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    ids: Literal["none", "name"] | None = None
    allow_missing: bool = False
    mend: bool = True
    negate: tuple[str, ...] = ()
    log: tuple[str, ...] = ()


def reading(
    format: str | None = None,
    columns: str | None = None,
    labels: str | None = None,
    ids: Literal["none", "name"] | None = None,
    negate: str | None = None,
    log: str | None = None,
    allow_missing: bool = False,
) -> Reading:
    """How files are read, from the words of the command line."""
    if format and columns:
        raise InputError("--format and --columns both say what the columns are; give one of them")
    roles = [tuple((text or "").replace(",", " ").split()) for text in (negate, log)]
    for option, given in zip(("--negate", "--log"), roles, strict=True):
        wrong = [role for role in given if role not in ROLES]
        if wrong:
            raise InputError(f"{option} {wrong[0]}: expected {', '.join(ROLES)}")
    described = columns_described(columns) and f"{columns} " if columns else None  # never a name
    return Reading(
        described or format, labels_described(labels), ids, allow_missing,
        negate=roles[0], log=roles[1],
    )  # fmt: skip


def turned(table: ScoreTable, how: Reading) -> ScoreTable:
    """The table with the sign or the logarithm of its scores, where the user asks for it."""
    import polars as pl

    notes = []
    for role in how.log:
        for name in _columns_of(table, role, "--log"):
            low = (table.frame[name] <= 0).arg_true()
            if len(low):
                raise InputError(
                    f"{table.where(int(low[0]), name)}: {name} is {table.frame[name][low[0]]}; "
                    f"--log {role} is for likelihood ratios, which are greater than 0"
                )
            table = replace(table, frame=table.frame.with_columns(pl.col(name).log()))
            notes.append(f"{table.path}: {name} is the logarithm of what the file says")
    for role in how.negate:
        for name in _columns_of(table, role, "--negate"):
            table = replace(table, frame=table.frame.with_columns(-pl.col(name)))
            notes.append(f"{table.path}: {name} has the other sign than in the file")
    return replace(table, notes=(*table.notes, *notes))


def _columns_of(table: ScoreTable, role: str, option: str) -> list[str]:
    found = [name for name in table.score_columns if name.partition("_")[0] == role]
    if not found:
        have = ", ".join(table.score_columns) or "no scores"
        raise InputError(f"{table.where()}: {option} {role}: the file has {have}")
    return found
