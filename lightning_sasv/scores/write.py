"""Writing score files and keys of any layout, atomically."""

from __future__ import annotations

import filecmp
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lightning_sasv.errors import InputError
from lightning_sasv.files import atomic_path
from lightning_sasv.places import refuse
from lightning_sasv.scores.layouts import BONAFIDE_ATTACK, SCORES, STAR, Layout, layout_named
from lightning_sasv.scores.table import ScoreTable, from_scores
from lightning_sasv.trials import Scores

if TYPE_CHECKING:
    import polars as pl

_FIRST = ("speaker", "utterance", "attack", "label", "asv_score", "cm_score")
UNKNOWN_SPEAKER = "-"
"""Real speaker of a nontarget trial whose table does not say who it is."""


def write_scores(path: str | Path, scores: Scores) -> Path:
    """Write our score table (CSV), atomically. Numbers are written so that they read back exactly.

    Columns: ``speaker,utterance,attack,label,asv_score,cm_score`` as far as they are there, then
    the further ones.
    """
    return write_table(path, from_scores(scores, Path(path)), "csv")


def write_table(
    path: str | Path, table: ScoreTable, format: str = "csv", column: str | None = None
) -> Path:
    """Write a table in a layout.

    Args:
        path: File to write.
        table: What to write.
        format: Name of the layout.
        column: The score to write where the layout has room for one; by default the one of the
            layout's role.

    Raises:
        InputError: The table lacks a column that the layout has, or holds something that cannot be
            written in it; nothing is written then.
    """
    layout = layout_named(format)
    frame = _arranged(table, layout, column) if layout.columns else _own(table)
    with atomic_path(path) as temporary, temporary.open("wb") as file:  # any name
        if layout.name == "parquet":
            frame.write_parquet(file)
            return Path(path)
        if layout.name == "json-lines":
            frame.write_ndjson(file)
            return Path(path)
        if layout.name == "arrays":
            from lightning_sasv.scores.kinds import write_arrays

            write_arrays(file, {one.name: one.to_numpy() for one in frame})
            return Path(path)
        _check_text(table, frame, layout)
        frame.write_csv(
            file,
            include_header=bool(layout.headings),
            separator=layout.separator,
            quote_style="necessary" if layout.separator == "," else "never",
            null_value="",
        )
    return Path(path)


def holds(path: Path, table: ScoreTable, format: str = "csv", column: str | None = None) -> bool:
    """Whether a file is just what :func:`write_table` would write."""
    fresh = write_table(path.with_name(f".{path.name}.new"), table, format, column)
    try:
        return path.is_file() and filecmp.cmp(fresh, path, shallow=False)
    finally:
        fresh.unlink(missing_ok=True)


def check_same(
    path: Path, table: ScoreTable, overwrite: bool = False, also: Sequence[str] = ()
) -> None:
    """Refuse to replace a CSV file unless it was made of the trials and scores of a table.

    Args:
        path: The file, which may not be there.
        table: The trials, their labels and both scores.
        overwrite: Replace it whatever it is.
        also: Further columns that it has to have.
    """
    import polars as pl

    if overwrite or not path.exists():
        return
    names = [name for name in _FIRST if name in table]
    now = io.BytesIO(_own(table).select(names).write_csv().encode())
    try:
        read = {"infer_schema": False, "comment_prefix": "# "}  # decisions may have a remark
        old, new = (pl.read_csv(one, **read) for one in (path, now))  # type: ignore[arg-type]
        same = old.select(*names, *also).select(names).equals(new)
    except (pl.exceptions.PolarsError, OSError, ValueError):
        same = False
    if not same:
        refuse(path, "something else, or what was made of other scores")


def _own(table: ScoreTable) -> pl.DataFrame:
    import polars as pl

    names = [name for name in _FIRST if name in table]
    names += [name for name in table.frame.columns if name not in names]
    return table.frame.select(names).with_columns(pl.col(pl.Enum).cast(pl.String))


def _arranged(table: ScoreTable, layout: Layout, column: str | None) -> pl.DataFrame:
    """The columns of a layout, as it writes them."""
    further = {name: heading for heading, name in layout.optional.items() if name in table}
    names = (*layout.columns, *further)
    frame = table.frame.select(**{name: _column(table, layout, name, column) for name in names})
    if layout.claimed:
        _check_speakers(table, layout, frame)
    if layout.of_utterances:
        frame = _one_per_utterance(frame, layout)
    headings = dict(zip(layout.columns, layout.headings, strict=False)) | further
    return frame.rename(headings)


def _one_per_utterance(frame: pl.DataFrame, layout: Layout) -> pl.DataFrame:
    """Trials of one utterance as one row; they must agree."""
    frame = frame.unique(maintain_order=True)
    twice = frame.filter(frame["utterance"].is_duplicated())
    if twice.height:
        raise InputError(
            f"format {layout.name} has one row per utterance, and the trials of "
            f"{twice['utterance'][0]!r} differ (e.g. {' '.join(map(str, twice.row(0)))} and "
            f"{' '.join(map(str, twice.row(1)))}); choose another format or --column"
        )
    return frame


def _check_speakers(table: ScoreTable, layout: Layout, frame: pl.DataFrame) -> None:
    """Refuse labels that the layout, which only has speakers and attacks, would not give back."""
    if "label" not in table:
        return
    label = table.frame["label"]
    spoof = frame["attack"] != layout.bonafide_attack if "attack" in frame else label == ""
    same = frame[layout.claimed] == frame["real_speaker"]
    wrong = (spoof != (label == "spoof")) | (~spoof & (same != (label == "target")))
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        raise InputError(
            f"{table.where(row)}: format {layout.name} cannot say that this trial is "
            f"{label[row]!r}; it only has {layout.describe()}"
        )


def _column(table: ScoreTable, layout: Layout, name: str, column: str | None) -> pl.Expr:
    import polars as pl

    if name == "score" or name in SCORES:
        return _score(table, layout, name, column)
    if name == "label":
        return pl.lit(_label(table, layout))
    if name == "attack":
        return _attack(table, layout)
    if name == STAR:
        table.need(STAR.split("*"), f"format {layout.name}")
        return pl.concat_str(STAR.split("*"), separator="*")
    if name.removeprefix("_") in table:
        return pl.col(name.removeprefix("_"))
    if name.startswith("_"):
        return pl.lit(BONAFIDE_ATTACK)
    if name in ("client", "real_speaker", "cm_label"):
        return _derived(table, layout, name)
    table.need([name], f"format {layout.name} ({layout.describe()})")
    raise AssertionError(name)


def _derived(table: ScoreTable, layout: Layout, name: str) -> pl.Expr:
    """Columns that follow from others: a model is its speaker; nontargets are from nobody known."""
    import polars as pl

    if name == "client":
        return pl.col("speaker")
    if name == "cm_label":
        spoof = pl.col("label") == "spoof"
        return pl.when(spoof).then(pl.lit("spoof")).otherwise(pl.lit("bonafide"))
    table.need(["speaker", "label"], "bob's formats")
    claimed = layout.claimed if layout.claimed in table else "speaker"
    target = pl.col("label") == "target"
    return pl.when(target).then(pl.col(claimed)).otherwise(pl.lit(UNKNOWN_SPEAKER))


def _score(table: ScoreTable, layout: Layout, name: str, column: str | None) -> pl.Expr:
    import polars as pl

    only = table.score_columns[0].partition("_")[0] if len(table.score_columns) == 1 else "sasv"
    role = name.removesuffix("_score") if name != "score" else layout.role or only
    if column is not None and role == (layout.role or role):
        table.need([column], "--column")
        if not table.frame[column].dtype.is_float():
            raise InputError(f"{table.path}: column {column!r} does not hold numbers")
        return pl.col(column)
    fitting = [f"{role}_score"] if f"{role}_score" in table else []
    if role == "sasv" and not fitting:
        fitting = [one for one in table.score_columns if one.startswith("sasv_")]
    if not fitting and name == "score" and len(table.score_columns) == 1:
        fitting = table.score_columns
    if not fitting and layout.absent:
        return pl.lit(BONAFIDE_ATTACK)
    if len(fitting) != 1:
        have = ", ".join(table.score_columns) or "none"
        raise InputError(
            f"{table.where()}: format {layout.name} takes one {role} score, the file has {have}; "
            "choose one with --column"
        )
    return pl.col(fitting[0])


def _label(table: ScoreTable, layout: Layout) -> pl.Series:
    import polars as pl

    table.need(["label"], f"format {layout.name}")
    words: dict[str, str] = {}
    for theirs, ours in layout.labels.items():
        words.setdefault(ours, theirs)
    if set(words) == {"bonafide", "spoof"}:  # a target and a nontarget are bona fide
        words |= dict.fromkeys(("target", "nontarget"), words["bonafide"])
    written = table.frame["label"].cast(pl.String).replace_strict(words, default=None)
    if written.null_count():
        row = int(written.is_null().arg_max() or 0)
        raise InputError(
            f"{table.where(row)}: format {layout.name} has no label "
            f"{table.frame['label'][row]!r}; it knows {', '.join(words)}"
        )
    return written


def _attack(table: ScoreTable, layout: Layout) -> pl.Expr:
    import polars as pl

    bonafide, attack = pl.lit(layout.bonafide_attack), pl.col("attack")
    if "attack" not in table and "label" in table and (table.frame["label"] != "spoof").all():
        return bonafide
    table.need(["attack"], f"format {layout.name}")
    return pl.when(attack == BONAFIDE_ATTACK).then(bonafide).otherwise(attack)


def _check_text(table: ScoreTable, frame: pl.DataFrame, layout: Layout) -> None:
    """Refuse names that would not read back: white space, line ends, nothing at all."""
    import polars as pl

    forbidden = {" ": r"\s|^$", "\t": r"[\t\r\n]|^$", ",": r"[\r\n]"}[layout.separator]
    for name in frame.select(pl.col(pl.String)).columns:
        bad = frame[name].str.contains(forbidden)
        if bad.any():
            row = int(bad.arg_max() or 0)
            raise InputError(
                f"{table.where(row)}: {frame[name][row]!r} cannot be written in format "
                f"{layout.name}; rename it"
            )
