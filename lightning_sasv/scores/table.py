"""A table of trials in memory, whatever file it came from, and what every table must satisfy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lightning_sasv.checks import LARGEST_SCORE
from lightning_sasv.errors import InputError, meant
from lightning_sasv.limits import TEXT_CELLS
from lightning_sasv.scores.layouts import LABELS, SCORES, is_fusible, is_number
from lightning_sasv.scores.text import not_a_number
from lightning_sasv.trials import CLASS_ORDER, Scores

if TYPE_CHECKING:
    import polars as pl

SHOWN = 10
"""How many trials a message lists."""

IDS = ("speaker", "utterance")
TEXT = (*IDS, "attack")
"""Columns of names, which stay text whatever they look like."""


@dataclass(frozen=True)
class ScoreTable:
    """Trials with their scores or labels.

    Attributes:
        frame: One row per trial, with our names of columns (see ``layouts``); ``label`` is an
            enumeration whose physical codes are those of ``TrialClass`` (and 3 for ``bonafide``).
        path: The file it came from.
        layout: Name of its layout.
        line: The line in the file of a row.
        guessed: Whether the layout was recognised rather than named.
        joined: File and line of a row in columns that were joined from another file; without a
            name in all others, where rows are of several files.
        by_row: Whether rows are trials, whatever names they carry.
        unpaired: Whether it is of trials with an ASV score and of others with a CM score; where a
            trial has none, it is NaN.
        notes: How it was read, for the user.
        hint: What to add where labels are asked for and there are none.
        expected: Trials of each class that should be there, where some were left out.
        cause: Why they were.
    """

    frame: pl.DataFrame
    path: Path
    layout: str = "csv"
    line: Callable[[int], int] = int
    guessed: bool = False
    joined: Mapping[str, Callable[[int], str]] = field(default_factory=dict)
    by_row: bool = False
    unpaired: bool = False
    notes: tuple[str, ...] = ()
    hint: str = ""
    expected: Mapping[str, int] | None = None
    cause: str | None = None

    def __len__(self) -> int:
        return self.frame.height

    def __contains__(self, column: str) -> bool:
        return column in self.frame.columns

    @property
    def ids(self) -> tuple[str, ...]:
        """The columns that name a row: a trial (speaker, utterance), one of these, or nothing."""
        if self.by_row or "utterance" not in self:
            return ()
        if "speaker" not in self or self.has_cm_labels:
            return ("utterance",)
        return IDS

    @property
    def has_cm_labels(self) -> bool:
        """Whether labels only say bona fide or spoof."""
        return "label" in self and bool((self.frame["label"] == "bonafide").any())

    @property
    def score_columns(self) -> list[str]:
        """Columns of scores: ``asv_score``, ``cm_score``, ``sasv_score`` and ``sasv_<system>``."""
        return [name for name in self.frame.columns if name in SCORES or name.startswith("sasv_")]

    def counts(self) -> dict[str, int]:
        """Trials of each class, in the order target, nontarget, spoof."""
        words = ("bonafide", "spoof") if self.has_cm_labels else tuple(map(str, CLASS_ORDER))
        return {word: int((self.frame["label"] == word).sum()) for word in words}

    def part_of(self, whole: ScoreTable, cause: str) -> ScoreTable:
        """These trials as a part of others, which were left out for some cause."""
        expected = whole.expected
        if expected is None and "label" in whole:
            expected = whole.counts()
        elif expected is None:
            known = self.counts() if "label" in self else {}
            expected = known | {"unknown": len(whole) - len(self)}
        said = ", ".join(filter(None, (whole.cause, cause)))
        return replace(self, expected=expected, cause=said)

    def with_system(self, name: str) -> ScoreTable:
        """The same with its one fused score, if it has one, under the name of a system."""
        fused = [column for column in self.score_columns if column.startswith("sasv_")]
        if len(fused) != 1:
            return self
        return replace(self, frame=self.frame.rename({fused[0]: f"sasv_{name}"}))

    def with_word(self, column: str, word: str) -> ScoreTable:
        """The same with one word in every row of a column; one that is there is replaced."""
        import polars as pl

        kind = pl.Enum(LABELS) if column == "label" else pl.String
        return replace(self, frame=self.frame.with_columns(pl.lit(word, kind).alias(column)))

    def without_scores(self) -> ScoreTable:
        """The trials alone."""
        return replace(self, frame=self.frame.drop(self.score_columns))

    def where(self, row: int | None = None, column: str = "") -> str:
        """File and line of a row (in a column), of the first line without one."""
        place = self.joined.get(column) or self.joined.get("")
        if row is not None and place is not None:
            return place(row)
        return f"{self.path}, line {1 if row is None else self.line(row)}"

    def need(self, columns: Sequence[str], what: str) -> None:
        """Raise unless the columns are there.

        Args:
            columns: Names of columns.
            what: What they are needed for.
        """
        missing = [name for name in columns if name not in self]
        if missing:
            raise InputError(
                f"{self.where()}: no column {', '.join(map(repr, missing))} (read as "
                f"{self.layout}: {', '.join(self.frame.columns)}); {what} needs it"
                f"{self.hint if 'label' in missing else meant(missing[0], self.frame.columns)}"
            )

    def numbers(self, column: str) -> np.ndarray:
        """A column of numbers as float64."""
        return self.frame[column].to_numpy(writable=True)

    def text(self, column: str) -> np.ndarray:
        """A column of text."""
        import polars as pl

        cells = self.frame[column]
        widest = cells.cast(pl.String).str.len_chars().max()
        wide = len(cells) * (widest if isinstance(widest, int) else 0)
        TEXT_CELLS.check(f"{self.path}, column {column}", wide)
        return np.array(cells.to_list(), dtype=np.str_)

    def labels(self) -> np.ndarray:
        """``TrialClass`` codes, int64."""
        self.need(["label"], "this")
        if self.has_cm_labels:
            raise InputError(
                f"{self.where()}: labels say bonafide or spoof, not target or nontarget; give a "
                "key of trials"
            )
        return self.frame["label"].to_physical().to_numpy().astype(np.int64)

    def take(self, rows: np.ndarray) -> ScoreTable:
        """Some of the rows, in the order given."""
        lines, joined = self.line, self.places(self.joined, rows)
        line = lambda row: lines(int(rows[row]))  # noqa: E731
        return replace(self, frame=self.frame[rows], line=line, joined=joined)

    def places(self, columns: Iterable[str], rows: np.ndarray) -> dict[str, Callable[[int], str]]:
        """File and line of some columns, for a table that is made of these rows."""

        def places_of(column: str) -> Callable[[int], str]:
            return lambda row: self.where(int(rows[row]), column)

        return {column: places_of(column) for column in columns}

    def score_pair(self) -> tuple[np.ndarray, np.ndarray]:
        """ASV and CM scores.

        Raises:
            InputError: One is too large to compute with; with its line.
        """
        sides = self.numbers(SCORES[0]), self.numbers(SCORES[1])
        for name, scores in zip(SCORES, sides, strict=False):
            size = np.abs(scores)
            if scores.size and size.max() > LARGEST_SCORE:
                row = int(size.argmax())
                raise InputError(
                    f"{self.where(row, name)}: {name} is {scores[row]}, too large to compute "
                    f"with (at most {LARGEST_SCORE:.0e}); correct it"
                )
        return sides

    def to_scores(self) -> Scores:
        """The table as plain arrays; it must have scores of both kinds and labels.

        Of several scores of a kind ``asv`` and ``cm`` are the mean; all are in ``extra``.
        """
        floats = [name for name, kind in self.frame.schema.items() if kind.is_float()]
        fused = [name for name in floats if is_fusible(name)]
        several = bool(set(fused) - set(SCORES))
        sides = [[name for name in fused if name.startswith(f"{kind}_")] for kind in ("asv", "cm")]
        if not all(sides):
            self.need(SCORES[:2], "this")
        asv, cm = (np.mean([self.numbers(n) for n in side], axis=0) for side in sides)
        return Scores(
            asv=asv if several else self.numbers("asv_score"),
            cm=cm if several else self.numbers("cm_score"),
            label=self.labels(),
            **{name: self.text(name) if name in self else None for name in TEXT},
            extra={
                name: self.numbers(name) if kind.is_float() else self.text(name)
                for name, kind in self.frame.schema.items()
                if name not in (*TEXT, "label", *(() if several else SCORES[:2]))
            },
        )


def from_scores(scores: Scores, path: Path) -> ScoreTable:
    """The table of plain arrays."""
    import polars as pl

    columns, label = {name: getattr(scores, name) for name in TEXT}, np.asarray(scores.label)
    columns |= {"label": None if (label < 0).any() else np.asarray(LABELS)[label.astype(int)]}
    columns |= {"asv_score": scores.asv, "cm_score": scores.cm} | scores.extra
    present = {name: values for name, values in columns.items() if values is not None}
    series = [
        pl.Series(name, np.asarray(values, dtype=np.float64))
        if np.asarray(values).dtype.kind == "f"
        else pl.Series(name, [str(value) for value in np.asarray(values).tolist()], pl.String)
        for name, values in present.items()
    ]
    return ScoreTable(pl.DataFrame(series), path)


def check_numbers(table: ScoreTable, allow_missing: bool = False) -> ScoreTable:
    """Raise where a number is NaN, or an ASV or CM score infinite; with the line.

    Args:
        table: The table.
        allow_missing: Leave out rows whose score is NaN instead, with a note.
    """
    import polars as pl

    for name, kind in table.frame.schema.items():
        if not kind.is_float() or not is_number(name):
            continue
        column = pl.col(name)
        nan = table.frame.select(column.is_nan().fill_null(value=True)).to_series()
        if allow_missing and nan.any() and not nan.all():
            note = f"{table.path}: {int(nan.sum()):,} rows without a number in {name} are left out"
            table = table.take((~nan).arg_true().to_numpy())
            table = replace(table, notes=(*table.notes, note))
        finite = not (name.startswith("sasv_") or name == "score")
        bad = ~column.is_finite() if finite else column.is_nan()
        rows = table.frame.select(bad.fill_null(value=True).arg_true()).to_series()
        refuse_cells(table, name, rows)
    return table


def refuse_cells(table: ScoreTable, name: str, rows: pl.Series) -> None:
    """Raise where there are rows of a column that hold no number; with the line of the first."""
    if len(rows):
        more = f" ({len(rows)} such rows)" if len(rows) > 1 else ""
        cell, where = str(table.frame[name][rows[0]]), table.where(rows[0], name)
        raise InputError(not_a_number(where, name, cell) + more)


def refuse_mixture(table: ScoreTable, labels: pl.Series) -> None:
    """Raise where some labels say bona fide and others target or nontarget; with the line."""
    bonafide = labels == "bonafide"
    verified = (labels == "target") | (labels == "nontarget")
    if bonafide.any() and verified.any():
        row = int((bonafide if verified[0] else verified).arg_max() or 0)
        raise InputError(
            f"{table.where(row)}: label {labels[row]!r} beside {labels[0]!r}; a file says either "
            "bonafide/spoof or target/nontarget/spoof"
        )


_OF_PATH = r"((?:a\d\d/[^/]+|id\d{5}/[^/]+)/[^/]+)$"
"""Ids that are paths: ``a00/speaker/name`` of SpoofCeleb, ``id10270/video/00001`` of VoxCeleb."""
_ENDING = r"(?i)\.(wav|flac)$|-[a-z0-9]+-[a-z]+_tx$"
"""Endings of audio files, and of the ids of ASVspoof 2021: codec and transmission."""


def plain_names(frame: pl.DataFrame) -> pl.DataFrame:
    """Ids without folders that are no part of them, and without endings."""
    import polars as pl

    for name in (name for name in IDS if name in frame.columns):
        whole = pl.col(name).str.extract(_OF_PATH)
        plain = pl.coalesce(whole, pl.col(name).str.replace(r"^.*[/\\]", ""))
        frame = frame.with_columns(plain.str.replace(_ENDING, "").str.replace("^LA2021-", ""))
    return frame


def id_hashes(table: ScoreTable, ids: Sequence[str]) -> np.ndarray:
    """A 64-bit number for each row that is the same for the same id."""
    return table.frame.select(ids).hash_rows(seed=0).to_numpy()


def names_of(table: ScoreTable, ids: Sequence[str], rows: Sequence[int] | np.ndarray) -> str:
    """The first few of some trials, for a message."""
    shown = table.frame.select(ids)[list(rows[:SHOWN])].rows()
    more = ", …" if len(rows) > SHOWN else ""
    return ", ".join(" ".join(row) for row in shown) + more


def check_duplicates(table: ScoreTable, ids: Sequence[str]) -> None:
    """Raise where an id stands more than once; says how many, and lists the first ten."""
    import polars as pl

    if not ids:
        return
    hashes = np.sort(id_hashes(table, ids))
    if not (hashes[1:] == hashes[:-1]).any():
        return
    frame = table.frame.select(ids).with_row_index("row")
    seen = pl.struct(ids).is_first_distinct()
    again = frame.filter(~seen)["row"].to_numpy()
    if not len(again):  # two trials of one hash
        return
    first = frame.join(frame[int(again[0]) : int(again[0]) + 1], on=ids, how="semi")["row"]
    scored = "score" in table or table.score_columns
    raise InputError(
        f"{table.where(int(again[0]))}: the trial of line {table.line(first[0])} stands again; "
        f"{len(again):,} repetition(s): {names_of(table, ids, again)}; remove them"
        + (", or take rows for trials: --ids none" if scored else "")
    )
