"""What the cells of a table mean: labels, attacks, ids, and whose the scores are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

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
    layout_named,
    plain_label,
)
from lightning_sasv.scores.table import ScoreTable, refuse_mixture

if TYPE_CHECKING:
    import polars as pl


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
