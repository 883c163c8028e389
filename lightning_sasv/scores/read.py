"""Reading score files and keys of any layout."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lightning_sasv.errors import InputError
from lightning_sasv.scores.detect import find_layout
from lightning_sasv.scores.layouts import (
    BONAFIDE_ATTACK,
    LABELS,
    LAYOUTS,
    ROLES,
    SCORES,
    Layout,
    is_number,
    layout_named,
)
from lightning_sasv.scores.parquet import DAMAGED, MAGIC, check_parquet
from lightning_sasv.scores.table import (
    TEXT,
    ScoreTable,
    check_duplicates,
    check_numbers,
    refuse_mixture,
)
from lightning_sasv.scores.text import Shape, first_bytes, load, not_a_number, read_grid
from lightning_sasv.trials import Scores

if TYPE_CHECKING:
    import polars as pl


def read_scores(path: str | Path, format: str | None = None, mend: bool = False) -> Scores:
    """Read a labelled file of ASV and CM scores as plain arrays; see :func:`read_table`."""
    table = read_table(path, format, mend=mend)
    table.need(["label", "asv_score", "cm_score"], "a table of score pairs")
    return table.to_scores()


def read_table(
    path: str | Path, format: str | None = None, *, role: str | None = None, mend: bool = False
) -> ScoreTable:
    """Read a score file or a key.

    Args:
        path: The file.
        format: Name of its layout (``layouts.LAYOUTS``); recognised when not given.
        role: Which side a file with one column of scores speaks for: ``asv``, ``cm`` or ``sasv``;
            by default what its layout is for, and ``cm`` where labels say bona fide or spoof.
        mend: Accept a byte-order mark and Windows line ends, which are refused otherwise.

    Returns:
        The trials in the order of the file.

    Raises:
        InputError: The file cannot be read, has a row of another length, a missing column, a score
            that is no finite number (SASV scores may be infinite), an unknown label, or a trial
            twice; with file, line and remedy.
    """
    path = Path(path)
    table = _read_parquet(path, format) or _read_text(path, format, mend)
    table = replace(table, frame=_with_role(table, role))
    check_numbers(table)
    layout = layout_named(table.layout)
    if not layout.repeats:
        check_duplicates(table, ("utterance",) if layout.of_utterances else table.ids)
    return table


def _read_text(path: Path, format: str | None, mend: bool) -> ScoreTable:
    source = load(path, mend)
    found = find_layout(path, source, format)
    layout = found.layout
    numbers = [name for name in found.columns if name == "score" or is_number(name)]
    texts = numbers if layout.absent else []
    shape = Shape(found.columns, [] if texts else numbers, found.separator, found.header)
    grid = read_grid(path, source, shape)
    table = ScoreTable(grid.frame, path, layout.name, grid.line, found.guessed)
    table = replace(table, frame=_without_absent(table, texts))
    if layout.name == "csv":
        table = replace(table, frame=_numbers_where_exact(table.frame))
    return _canonical(table, layout)


def _without_absent(table: ScoreTable, names: list[str]) -> pl.DataFrame:
    """Scores of a layout where ``-`` says that a whole column is absent."""
    import polars as pl

    frame = table.frame
    for name in names:
        if (frame[name] == "-").all():
            frame = frame.drop(name)
            continue
        numbers = frame[name].cast(pl.Float64, strict=False)
        if numbers.null_count():
            row = int(numbers.is_null().arg_max() or 0)
            raise InputError(not_a_number(table.path, table.line(row), name, frame[name][row]))
        frame = frame.with_columns(numbers)
    return frame


def _numbers_where_exact(frame: pl.DataFrame) -> pl.DataFrame:
    """Further columns as numbers where their text is exactly how we write those numbers."""
    import polars as pl

    for name, kind in frame.schema.items():
        if name in ("label", *TEXT) or kind != pl.String:
            continue
        numbers = frame[name].cast(pl.Float64, strict=False)
        if not numbers.null_count() and (numbers.cast(pl.String) == frame[name]).all():
            frame = frame.with_columns(numbers)
    return frame


def _canonical(table: ScoreTable, layout: Layout) -> ScoreTable:
    """Empty fillers dropped, labels as an enumeration, one way to write bona fide speech."""
    import polars as pl

    frame = _without_fillers(table.frame, layout)
    if "attack" in frame.columns:
        bonafide = pl.col("attack").is_in(["bonafide", layout.bonafide_attack])
        attack = pl.when(bonafide).then(pl.lit(BONAFIDE_ATTACK)).otherwise(pl.col("attack"))
        frame = frame.with_columns(attack.alias("attack"))
    if layout.claimed:
        frame = frame.with_columns(_label_of_speakers(frame, layout.claimed))
    if "label" in frame.columns:
        frame = frame.with_columns(_labels(table, frame["label"], layout))
    table = replace(table, frame=frame)
    if "track_2_tag" in table:  # the ASVspoof 5 key has rows that are no trials
        table = table.take((frame["track_2_tag"] != "dummy").arg_true().to_numpy())
    return table


def _without_fillers(frame: pl.DataFrame, layout: Layout) -> pl.DataFrame:
    """Columns that a layout keeps free: dropped where they are, kept where they say something."""
    fillers = [name for name in layout.columns if name.startswith("_")]
    empty = [name for name in fillers if (frame[name] == BONAFIDE_ATTACK).all()]
    return frame.drop(empty).rename({n: n.removeprefix("_") for n in fillers if n not in empty})


def _label_of_speakers(frame: pl.DataFrame, claimed: str) -> pl.Expr:
    """Target where the claimed speaker is the real one; spoof where there is an attack."""
    import polars as pl

    same = pl.col(claimed) == pl.col("real_speaker")
    label = pl.when(same).then(pl.lit("target")).otherwise(pl.lit("nontarget"))
    if "attack" in frame.columns:
        spoof = pl.col("attack") != BONAFIDE_ATTACK
        label = pl.when(spoof).then(pl.lit("spoof")).otherwise(label)
    return label.alias("label")


def _labels(table: ScoreTable, words: pl.Series, layout: Layout) -> pl.Series:
    import polars as pl

    if words.dtype.is_float():
        words = words.cast(pl.String)
    coded = words.replace_strict(layout.labels, default=None, return_dtype=pl.Enum(LABELS))
    if coded.null_count():
        row = int(coded.is_null().arg_max() or 0)
        raise InputError(
            f"{table.where(row)}: unknown label {words[row]!r}; {layout.name} has "
            f"{', '.join(layout.labels)}"
        )
    refuse_mixture(table, coded)
    return coded.rename("label")


def _with_role(table: ScoreTable, role: str | None) -> pl.DataFrame:
    """Give the one column of scores its role."""
    if role is not None and role not in ROLES:
        raise InputError(f"unknown role {role!r} of a score; expected one of {', '.join(ROLES)}")
    scores = table.score_columns
    if role is None:
        if scores or "score" not in table:
            return table.frame
        role = "cm" if table.has_cm_labels else layout_named(table.layout).role
        return table.frame.rename({"score": f"{role}_score"})
    if f"{role}_score" in scores:
        others = [name for name in scores if name != f"{role}_score"]
        return table.frame.drop(others)
    column = "score" if not scores and "score" in table else scores[0] if len(scores) == 1 else None
    if column is None:
        raise InputError(
            f"{table.where()}: no column {role}_score among {', '.join(table.frame.columns)}; "
            f"{role}=FILE needs it"
        )
    return table.frame.rename({column: f"{role}_score"})


def _read_parquet(path: Path, format: str | None) -> ScoreTable | None:
    import polars as pl

    is_parquet = first_bytes(path) == MAGIC
    named = layout_named(format).name if format else None
    if not is_parquet and named != "parquet":
        return None
    if named not in (None, "parquet"):
        raise InputError(f"{path}, line 1: this is a Parquet file, not {format}; drop --format")
    try:
        check_parquet(path)
        with path.open("rb") as file:  # any name, also one that is no text
            frame = pl.read_parquet(file)
    except InputError:
        raise
    except (*DAMAGED, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(
            f"{path}: not a readable Parquet file ({reason}); write it again"
        ) from None
    table = ScoreTable(_plain_types(path, frame), path, "parquet", lambda row: row + 1, not format)
    return _canonical(table, LAYOUTS["parquet"])


def _plain_types(path: Path, frame: pl.DataFrame) -> pl.DataFrame:
    """Numbers as float64, the rest as text, nothing missing."""
    import polars as pl

    if not frame.height or not frame.width:
        raise InputError(f"{path}: the file has no trials; write it again")
    missing = [s.name for s in frame.null_count() if s[0]]
    if missing:
        row = int(frame[missing[0]].is_null().arg_max() or 0)
        raise InputError(f"{path}, row {row + 1}, column {missing[0]}: a value is missing")
    for name, kind in frame.schema.items():
        wanted = pl.Float64 if kind.is_numeric() and name not in ("label", *TEXT) else pl.String
        try:
            frame = frame.with_columns(pl.col(name).cast(wanted))
        except pl.exceptions.PolarsError:
            raise InputError(f"{path}, column {name}: cannot use values of type {kind}") from None
        if wanted == pl.String and (name in SCORES or is_number(name)):
            raise InputError(f"{path}, column {name}: holds {kind}, not numbers; write numbers")
    return frame
