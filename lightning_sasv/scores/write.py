"""Writing score files and keys of any layout, atomically."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lightning_sasv.errors import InputError
from lightning_sasv.files import atomic_path
from lightning_sasv.scores.layouts import BONAFIDE_ATTACK, Layout, layout_named
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
    frame = _own(table) if layout.name in ("csv", "parquet") else _arranged(table, layout, column)
    with atomic_path(path) as temporary:
        if layout.name == "parquet":
            frame.write_parquet(temporary)
            return Path(path)
        _check_text(table, frame, layout)
        frame.write_csv(
            temporary,
            include_header=bool(layout.headings),
            separator=layout.separator,
            quote_style="necessary" if layout.separator == "," else "never",
            null_value="",
        )
    return Path(path)


def _own(table: ScoreTable) -> pl.DataFrame:
    import polars as pl

    names = [name for name in _FIRST if name in table]
    names += [name for name in table.frame.columns if name not in names]
    return table.frame.select(names).with_columns(pl.col(pl.Enum).cast(pl.String))


def _arranged(table: ScoreTable, layout: Layout, column: str | None) -> pl.DataFrame:
    """The columns of a layout, as it writes them."""
    import polars as pl

    headings = layout.headings or [f"column_{place}" for place in range(len(layout.columns))]
    wanted = dict(zip(headings, layout.columns, strict=True))
    wanted |= {heading: name for heading, name in layout.optional.items() if name in table}
    columns = [
        _column(table, layout, name, column).alias(heading) for heading, name in wanted.items()
    ]
    if layout.claimed:
        _check_speakers(table, layout, dict(zip(layout.columns, columns, strict=True)))
    frame = pl.DataFrame(columns)
    if layout.of_utterances:
        frame = _one_per_utterance(frame, headings[layout.columns.index("utterance")], layout)
    return frame


def _one_per_utterance(frame: pl.DataFrame, utterance: str, layout: Layout) -> pl.DataFrame:
    """Trials of one utterance as one row; they must agree."""
    frame = frame.unique(maintain_order=True)
    twice = frame.filter(frame[utterance].is_duplicated())
    if twice.height:
        raise InputError(
            f"format {layout.name} has one row per utterance, and the trials of "
            f"{twice[utterance][0]!r} differ (e.g. {' '.join(map(str, twice.row(0)))} and "
            f"{' '.join(map(str, twice.row(1)))}); choose another format or --column"
        )
    return frame


def _check_speakers(table: ScoreTable, layout: Layout, columns: dict[str, pl.Series]) -> None:
    """Refuse labels that the layout, which only has speakers and attacks, would not give back."""
    if "label" not in table:
        return
    label = table.frame["label"]
    spoof = columns["attack"] != layout.bonafide_attack if "attack" in columns else label == ""
    same = columns[layout.claimed] == columns["real_speaker"]
    wrong = (spoof != (label == "spoof")) | (~spoof & (same != (label == "target")))
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        raise InputError(
            f"{table.where(row)}: format {layout.name} cannot say that this trial is "
            f"{label[row]!r}; it only has {layout.describe()}"
        )


def _column(table: ScoreTable, layout: Layout, name: str, column: str | None) -> pl.Series:
    import polars as pl

    if name.startswith("_"):
        return _filler(table, name.removeprefix("_"))
    if name == "score" or name in ("asv_score", "cm_score", "sasv_score"):
        return _score(table, layout, name, column)
    if name == "label":
        return _label(table, layout)
    if name == "attack":
        return _attack(table, layout)
    if name == "real_speaker" and name not in table:
        return _real_speaker(table, layout.claimed)
    if name == "client" and name not in table:
        return table.frame["speaker"]
    if name == "cm_label" and name not in table:
        spoof = table.frame["label"] == "spoof"
        return pl.select(
            pl.when(spoof).then(pl.lit("spoof")).otherwise(pl.lit("bonafide"))
        ).to_series()
    table.need([name], f"format {layout.name} ({layout.describe()})")
    return table.frame[name]


def _filler(table: ScoreTable, name: str) -> pl.Series:
    """What the table has under this name, else ``-``."""
    import polars as pl

    if name in table:
        return table.frame[name].cast(pl.String)
    return pl.Series([BONAFIDE_ATTACK]).new_from_index(0, len(table))


def _score(table: ScoreTable, layout: Layout, name: str, column: str | None) -> pl.Series:
    import polars as pl

    role = name.removesuffix("_score") if name != "score" else layout.role
    if column is not None and role == layout.role:
        table.need([column], "--column")
        if not table.frame[column].dtype.is_float():
            raise InputError(f"{table.path}: column {column!r} does not hold numbers")
        return table.frame[column]
    fitting = [f"{role}_score"] if f"{role}_score" in table else []
    if role == "sasv" and not fitting:
        fitting = [one for one in table.score_columns if one.startswith("sasv_")]
    if not fitting and name == "score" and len(table.score_columns) == 1:
        fitting = table.score_columns
    if not fitting and layout.absent:
        return pl.Series([BONAFIDE_ATTACK]).new_from_index(0, len(table))
    if len(fitting) != 1:
        have = ", ".join(table.score_columns) or "none"
        raise InputError(
            f"{table.where()}: format {layout.name} takes one {role} score, the file has {have}; "
            "choose one with --column"
        )
    return table.frame[fitting[0]]


def _label(table: ScoreTable, layout: Layout) -> pl.Series:
    import polars as pl

    table.need(["label"], f"format {layout.name}")
    words = {ours: theirs for theirs, ours in reversed(list(layout.labels.items()))}
    if set(words) == {"bonafide", "spoof"}:  # a target and a nontarget are bona fide
        words |= {"target": "bonafide", "nontarget": "bonafide"}
    written = table.frame["label"].cast(pl.String).replace_strict(words, default=None)
    if written.null_count():
        row = int(written.is_null().arg_max() or 0)
        raise InputError(
            f"{table.where(row)}: format {layout.name} has no label "
            f"{table.frame['label'][row]!r}; it knows {', '.join(words)}"
        )
    return written


def _attack(table: ScoreTable, layout: Layout) -> pl.Series:
    import polars as pl

    if "attack" not in table:
        if "label" in table and not (table.frame["label"] == "spoof").any():
            return pl.Series([layout.bonafide_attack]).new_from_index(0, len(table))
        table.need(["attack"], f"format {layout.name}")
    attack = pl.col("attack")
    written = pl.when(attack == BONAFIDE_ATTACK).then(pl.lit(layout.bonafide_attack))
    return table.frame.select(written.otherwise(attack)).to_series()


def _real_speaker(table: ScoreTable, claimed: str) -> pl.Series:
    """The claimed speaker in targets, nobody in nontargets."""
    import polars as pl

    table.need(["speaker", "label"], "bob's formats")
    claimed = claimed if claimed in table else "speaker"
    target = pl.col("label") == "target"
    return table.frame.select(
        pl.when(target).then(pl.col(claimed)).otherwise(pl.lit(UNKNOWN_SPEAKER))
    ).to_series()


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
