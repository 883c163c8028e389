"""How score files are read: what the user says of them, and what their cells mean."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, get_type_hints

from lightning_sasv.errors import InputError
from lightning_sasv.scores.layouts import (
    BONAFIDE_ATTACK,
    FILLERS,
    LABELS,
    LAYOUTS,
    ROLES,
    STAR,
    WORDS,
    Layout,
    columns_described,
    labels_described,
    layout_named,
    plain_label,
)
from lightning_sasv.scores.table import ScoreTable, refuse_mixture

if TYPE_CHECKING:
    import polars as pl


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

    def of_key(self, format: str | None) -> Reading:
        """How the key of such files is read, which has a layout of its own and no scores."""
        return Reading(format, self.labels, self.ids, self.allow_missing)


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


def layout_of(table: ScoreTable) -> Layout:
    """The layout that a table was read as."""
    return layout_named(table.layout) if table.layout != "columns" else LAYOUTS["csv"]


def canonical(table: ScoreTable, layout: Layout, labels: Mapping[str, str]) -> ScoreTable:
    """Empty fillers dropped, labels as an enumeration, one way to write bona fide speech."""
    frame, notes = _without_fillers(table.frame, layout), list(table.notes)
    if STAR in frame.columns:
        frame = _without_star(table, frame)
    if "attack" in frame.columns:
        words = [*(word for word in WORDS if WORDS[word] == "bonafide"), "a00"]
        words.append(layout.bonafide_attack.lower())
        frame = frame.with_columns(_nothing("attack", words))
    if "codec_quality" in frame.columns:  # uncoded speech of ASVspoof 5: 0 in eval, - elsewhere
        frame = frame.with_columns(_nothing("codec_quality", ["0"]))
    if layout.claimed:
        frame = frame.with_columns(_label_of_speakers(frame, layout.claimed))
    if "label" in frame.columns:
        frame = frame.with_columns(_labels(table, frame["label"], layout, labels))
    if table.guessed and _same(frame, "speaker", "utterance"):
        frame = frame.drop("speaker")
        notes.append(f"{table.path}: speaker and utterance are the same: speakers are unknown")
    table = replace(table, frame=frame, notes=tuple(notes))
    if "track_2_tag" in table:  # the ASVspoof 5 key has rows that are no trials
        table = table.take((frame["track_2_tag"] != "dummy").arg_true().to_numpy())
    return table


def _nothing(column: str, words: Sequence[str]) -> pl.Expr:
    """A column in which some words say that nothing was done."""
    import polars as pl

    said = pl.col(column).cast(pl.String)
    nothing = said.str.strip_chars().str.to_lowercase().is_in(words)
    return pl.when(nothing).then(pl.lit(BONAFIDE_ATTACK)).otherwise(said).alias(column)


def _same(frame: pl.DataFrame, first: str, second: str) -> bool:
    """Whether two columns hold the same in every row, and not always the same."""
    there = {first, second} <= set(frame.columns) and frame[first].n_unique() > 1
    return there and bool((frame[first] == frame[second]).all())


def _without_fillers(frame: pl.DataFrame, layout: Layout) -> pl.DataFrame:
    """Columns that a layout keeps free: dropped where they are, kept where they say something."""
    frame = frame.drop([name for name in layout.columns if name.startswith("-")])
    fillers = [name for name in layout.columns if name.startswith("_")]
    empty = [name for name in fillers if frame[name].is_in(FILLERS).all()]
    return frame.drop(empty).rename({n: n.removeprefix("_") for n in fillers if n not in empty})


def _without_star(table: ScoreTable, frame: pl.DataFrame) -> pl.DataFrame:
    """Enrolment and test in one cell, between them a star."""
    import polars as pl

    cells = frame[STAR]
    wrong = cells.str.count_matches("*", literal=True) != 1
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        raise InputError(
            f"{table.where(row)}: {cells[row]!r} is not ENROLMENT*TEST; mend this line"
        )
    both = cells.str.split_exact("*", 1).struct
    ids = [both.field(f"field_{n}").alias(name) for n, name in enumerate(("speaker", "utterance"))]
    return pl.DataFrame(ids).hstack(frame.drop(STAR).get_columns())


def _label_of_speakers(frame: pl.DataFrame, claimed: str) -> pl.Expr:
    """Target where the claimed speaker is the real one; spoof where there is an attack."""
    import polars as pl

    same = pl.col(claimed) == pl.col("real_speaker")
    label = pl.when(same).then(pl.lit("target")).otherwise(pl.lit("nontarget"))
    if "attack" in frame.columns:
        spoof = pl.col("attack") != BONAFIDE_ATTACK
        label = pl.when(spoof).then(pl.lit("spoof")).otherwise(label)
    return label.alias("label")


def _labels(
    table: ScoreTable, words: pl.Series, layout: Layout, said: Mapping[str, str]
) -> pl.Series:
    import polars as pl

    if words.dtype.is_float():
        words = words.cast(pl.String)
    known = {plain_label(word): label for word, label in layout.labels.items()} | dict(said)
    meant = {
        word: known[plain_label(word)] for word in words.unique() if plain_label(word) in known
    }
    coded = words.replace_strict(meant, default=None, return_dtype=pl.Enum(LABELS))
    if coded.null_count():
        row = int(coded.is_null().arg_max() or 0)
        raise InputError(f"{table.where(row)}: {_unknown_label(words, words[row], layout)}")
    refuse_mixture(table, coded)
    return coded.rename("label")


def _unknown_label(words: pl.Series, word: str, layout: Layout) -> str:
    """What a label is, and how to say what it means."""
    own = dict.fromkeys(layout.labels.values())
    written = [next(word for word in layout.labels if layout.labels[word] == one) for one in own]
    seen = sorted({plain_label(one) for one in words.unique()})
    two = "bona=1,spoof=0 or target=1,nontarget=0"
    example = "target=1,nontarget=2,spoof=0" if len(seen) > 2 else two
    if len(seen) > 4 or plain_label(word) in WORDS:
        return f"unknown label {word!r}; {layout.name} has {', '.join(written)}"
    return (
        f"unknown label {word!r}; {layout.name} has {', '.join(written)}; the column has "
        f"{', '.join(seen)}: say which is which, e.g. --labels {example}"
    )


def with_role(table: ScoreTable, role: str | None) -> ScoreTable:
    """Give the one column of scores its role; where its layout has none, by the labels."""
    if role is not None and role not in ROLES:
        raise InputError(f"unknown role {role!r} of a score; expected one of {', '.join(ROLES)}")
    scores = table.score_columns
    if role is None:
        if scores or "score" not in table:
            return table
        role, note = _role_of(table)
        frame = table.frame.rename({"score": f"{role}_score"})
        return replace(table, frame=frame, notes=(*table.notes, *note))
    if f"{role}_score" in scores:
        others = [name for name in scores if name != f"{role}_score"]
        return replace(table, frame=table.frame.drop(others))
    column = "score" if not scores and "score" in table else scores[0] if len(scores) == 1 else None
    if column is None:
        raise InputError(
            f"{table.where()}: no column {role}_score among {', '.join(table.frame.columns)}; "
            f"{role}=FILE needs it"
        )
    return replace(table, frame=table.frame.rename({column: f"{role}_score"}))


def _role_of(table: ScoreTable) -> tuple[str, list[str]]:
    """The side that scores speak for: what their layout is for, else what the labels tell apart."""
    layout = layout_of(table)
    if table.has_cm_labels:
        return "cm", []
    if not layout.role_by_labels or "label" not in table:
        return layout.role or "sasv", []
    if (table.frame["label"] != "spoof").all():
        return "asv", []
    said = "labels have three classes: the scores are taken for SASV scores"
    return "sasv", [f"{table.path}: {said}; asv=FILE or cm=FILE says otherwise"]
