"""What the commands on score files share: reading and saying how, settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_sasv.errors import InputError

if TYPE_CHECKING:
    from lightning_sasv.metrics.functional import Convention, Settings
    from lightning_sasv.scores import ScoreTable


def read_file(file: str, format: str | None, key: ScoreTable | None, missing: bool) -> ScoreTable:
    """Read a score file and say how."""
    from lightning_sasv.console import print_notes
    from lightning_sasv.scores.sources import read_source

    source = read_source(file, key, format, allow_missing=missing)
    print_notes(source.notes)
    return source.table


def read_key_file(path: str | None, format: str | None) -> ScoreTable | None:
    """Read a key, where one is given, and say how."""
    from lightning_sasv.console import print_notes
    from lightning_sasv.scores.sources import read_key

    if path is None:
        return None
    source = read_key(path, format)
    print_notes(source.notes)
    return source.table


def metric_settings(costs: str, convention: Convention = "asvspoof") -> Settings:
    """Settings of the metrics from the options."""
    from lightning_sasv.commands.export import read_costs
    from lightning_sasv.metrics.functional import Settings

    return Settings(costs=read_costs(costs), convention=convention)


def words(text: str | None) -> tuple[str, ...] | None:
    """Words of a list with commas."""
    if text is None:
        return None
    return tuple(word.strip() for word in text.split(",") if word.strip())


def where_equal(table: ScoreTable, condition: str | None) -> ScoreTable:
    """The trials of one value of a column."""
    if condition is None:
        return table
    column, sign, value = condition.partition("=")
    if not sign:
        raise InputError(f"--where {condition!r}: expected COLUMN=VALUE, e.g. subset=eval")
    table.need([column], "--where")
    rows = (table.text(column) == value).nonzero()[0]
    if not len(rows):
        known = sorted(set(table.text(column).tolist()))
        shown = ", ".join(known[:10])
        raise InputError(f"--where: {column} is never {value!r} in {table.path}; it is {shown}")
    return table.take(rows)
