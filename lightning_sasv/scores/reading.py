"""How score files are read where the user says more than their names."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypedDict, TypeVar, Unpack, get_type_hints

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
        log: Roles whose scores are likelihood ratios (base 1), of which the logarithm is taken, or
            logarithms of another base than e, which become natural ones.
    """

    format: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    ids: Literal["none", "name"] | None = None
    allow_missing: bool = False
    mend: bool = True
    negate: tuple[str, ...] = ()
    log: Mapping[str, float] = field(default_factory=dict)


class ReadingOptions(TypedDict, total=False):
    """What people say of score files beyond their names; options of every command that reads some.

    Args:
        columns: What the columns of the files are, e.g. utterance,score,label; - skips one.
        labels: What labels are, e.g. bona=1,spoof=0.
        ids: none takes each row for a trial, name takes folders and file endings off.
        negate: Roles whose scores change their sign: asv, cm or sasv.
        log: Roles whose scores are likelihood ratios, of which the logarithm is taken; asv=10 says
            that they are logarithms of base 10, which become natural ones.
    """

    columns: str | Mapping[str, str] | None
    labels: str | None
    ids: Literal["none", "name"] | None
    negate: str | None
    log: str | None


F = TypeVar("F", bound=Callable[..., Any])


def takes_reading_options(function: F) -> F:
    """Show a function's ``**said: Unpack[ReadingOptions]`` one by one, in signature and help."""
    own, shared = inspect.signature(function), get_type_hints(ReadingOptions)
    *options, rest = own.parameters.values()
    options += [
        rest.replace(name=name, kind=rest.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in shared.items()
    ]
    vars(function)["__signature__"] = own.replace(parameters=options)
    lines = (inspect.getdoc(ReadingOptions) or "").partition("Args:\n")[2].rstrip()
    described = rf"    \*\*{rest.name}: .*(\n {{8}}.*)*"
    function.__doc__ = re.sub(described, lines, inspect.getdoc(function) or "")
    return function


def reading(
    format: str | None = None, allow_missing: bool = False, **said: Unpack[ReadingOptions]
) -> Reading:
    """How files are read, from the words of the command line.

    Columns that are a mapping are those of a frame, which has its own names.
    """
    columns = said.get("columns")
    if format and columns:
        raise InputError("--format and --columns both say what the columns are; give one of them")
    described = None
    if isinstance(columns, str):
        described = columns_described(columns) and f"{columns} "  # never a name
    return Reading(
        described or format, labels_described(said.get("labels")), said.get("ids"), allow_missing,
        negate=tuple(_roles("--negate", said.get("negate"))), log=_bases(said.get("log")),
    )  # fmt: skip


def _roles(option: str, text: str | None) -> list[str]:
    roles = (text or "").replace(",", " ").split()
    wrong = [role for role in roles if role not in ROLES]
    if wrong:
        raise InputError(f"{option} {wrong[0]}: expected {', '.join(ROLES)}")
    return roles


def _bases(text: str | None) -> dict[str, float]:
    """Base of the logarithms of each role, 1 of likelihood ratios.

    Example:
        >>> _bases("asv=10,cm")
        {'asv': 10.0, 'cm': 1.0}
    """
    found = {}
    for word in (text or "").replace(",", " ").split():
        role, sign, base = word.partition("=")
        _roles("--log", role)
        if sign and not (base.isdigit() and int(base) > 1):
            raise InputError(
                f"--log {word}: the base of logarithms is a whole number such as {role}=10 or "
                f"{role}=2; --log {role} takes the logarithm of likelihood ratios"
            )
        found[role] = float(base) if sign else 1.0
    return found


def turned(table: ScoreTable, how: Reading) -> ScoreTable:
    """The table with the sign or the logarithm of its scores, where the user asks for it."""
    import polars as pl

    notes = []
    for role, base in how.log.items():
        for name in _columns_of(table, role, "--log"):
            if base > 1:
                scaled, said = pl.col(name) * math.log(base), f"turned from base {base:g} to e"
            else:
                _refuse_no_ratio(table, role, name)
                scaled, said = pl.col(name).log(), "the logarithm of what the file says"
            table = replace(table, frame=table.frame.with_columns(scaled))
            notes.append(f"{table.path}: {name} is {said}")
    for role in how.negate:
        for name in _columns_of(table, role, "--negate"):
            table = replace(table, frame=table.frame.with_columns(-pl.col(name)))
            notes.append(f"{table.path}: {name} has the other sign than in the file")
    return replace(table, notes=(*table.notes, *notes))


def _refuse_no_ratio(table: ScoreTable, role: str, name: str) -> None:
    low = (table.frame[name] <= 0).arg_true()
    if len(low):
        raise InputError(
            f"{table.where(int(low[0]), name)}: {name} is {table.frame[name][low[0]]}; "
            f"--log {role} is for likelihood ratios, which are greater than 0"
        )


def _columns_of(table: ScoreTable, role: str, option: str) -> list[str]:
    found = [name for name in table.score_columns if name.partition("_")[0] == role]
    if not found:
        have = ", ".join(table.score_columns) or "no scores"
        raise InputError(f"{table.where()}: {option} {role}: the file has {have}")
    return found
