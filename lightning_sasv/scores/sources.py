"""What a command line names: score files (``FILE``, ``asv=FILE``, ``asv=A,cm=B``), keys, costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from lightning_sasv.decisions import PRESETS, CostModel, as_cost_model
from lightning_sasv.errors import InputError, meant
from lightning_sasv.files import is_file, read_yaml
from lightning_sasv.scores.join import join_key
from lightning_sasv.scores.layouts import LAYOUTS, ROLES, layout_named
from lightning_sasv.scores.read import read_table
from lightning_sasv.scores.table import ScoreTable
from lightning_sasv.scores.write import write_new

Tell = Callable[[Sequence[str]], object]
"""Told how files were read and what was left out."""


def silent(notes: Sequence[str]) -> None:
    """Who does not want to be told."""


def read_source(
    text: str,
    key: ScoreTable | None = None,
    format: str | None = None,
    *,
    allow_missing: bool = False,
    mend: bool = False,
    tell: Tell = silent,
) -> ScoreTable:
    """Read a score file, or several that are joined by trial id, and a key.

    Args:
        text: A file; or a role and a file, ``cm=FILE``, where its scores speak for another side
            than its layout says; or several of these, separated by commas.
        key: Trials with labels, which the scores are joined to.
        format: Layout of the files; recognised when not given.
        allow_missing: Leave out trials without a score instead of raising.
        mend: Accept a byte-order mark and Windows line ends.
        tell: Told the layout of each file, and what was left out.
    """
    parts = [_part(part) for part in _parts(text)]
    tables = [read_table(path, format, role=role, mend=mend) for role, path in parts]
    notes = [_read_as(table) for table in tables]
    tables.sort(key=lambda table: -len(table.ids))  # trials before utterances
    joined = tables[0]
    for table in tables[1:]:
        _refuse_same_score(joined, table)
        found = join_key(table, joined, allow_missing)
        joined, notes = found.table, [*notes, *found.notes]
    if key is not None:
        found = join_key(joined, key, allow_missing)
        joined, notes = found.table, [*notes, *found.notes]
    tell(notes)
    return joined


def read_key(
    path: str | None, format: str | None = None, *, tell: Tell = silent
) -> ScoreTable | None:
    """Read a key, a file with labels, where one is given."""
    if path is None:
        return None
    table = read_table(path, format)
    table.need(["label"], "a key")
    tell([_read_as(table)])
    return table.without_scores()


def convert(
    file: str,
    to: str | None = None,
    out: str | None = None,
    format: str | None = None,
    column: str | None = None,
    key: str | None = None,
    key_format: str | None = None,
    allow_missing: bool = False,
    overwrite: bool = False,
    *,
    tell: Tell = silent,
) -> Path:
    """Turn a score file or key into another format.

    A byte-order mark and Windows line ends, which the other commands refuse, are mended on the
    way.

    Args:
        file: File of any known format (docs/formats.md), or ROLE=FILE, or asv=FILE,cm=FILE.
        to: Format to write.
        out: File to write; by default beside FILE, named after the format.
        format: Format of FILE; recognised when not given.
        column: Score to write, where FILE has several and the format has room for one.
        key: Key to join by trial id, for formats with labels.
        key_format: Format of the key; recognised when not given.
        allow_missing: Leave out trials of the key without a score instead of stopping.
        overwrite: Replace a file of another content.
        tell: Told how each file was read and what was left out.

    Returns:
        The file that was written.
    """
    if to is None:
        raise InputError(f"--to FORMAT is needed, one of {', '.join(LAYOUTS)}")
    layout, labels = layout_named(to), read_key(key, key_format, tell=tell)
    table = read_source(file, labels, format, allow_missing=allow_missing, mend=True, tell=tell)
    path = table.path
    target = Path(out) if out else path.with_name(f"{path.stem}.{layout.name}{layout.suffix}")
    if target.resolve() == path.resolve():
        raise InputError(f"--out {target} is the file that is read; choose another one")
    return write_new(target, table, layout.name, column, overwrite)


def _parts(text: str) -> list[str]:
    return [text] if Path(text).exists() else [part for part in text.split(",") if part] or [text]


def _part(text: str) -> tuple[str | None, str]:
    role, sign, path = text.partition("=")
    if sign and role in ROLES and not Path(text).exists():
        return role, path
    return None, text


def _read_as(table: ScoreTable) -> str:
    if not table.guessed:
        return f"{table.path}: {len(table):,} rows, read as {table.layout}"
    about = LAYOUTS[table.layout].about
    return f"{table.path}: {len(table):,} rows, looks like {table.layout} ({about})"


def _refuse_same_score(first: ScoreTable, second: ScoreTable) -> None:
    same = [name for name in second.score_columns if name in first]
    if same:
        raise InputError(
            f"{second.where()}: {same[0]} is in {first.path} already; say whose scores they are, "
            "as in asv=FILE,cm=FILE"
        )


def names_of_files(files: list[str]) -> dict[str, str]:
    """A short name for each file: its stem, with as many folders as it takes to be unique.

    A file that is given again gets a number.
    """
    parts = [_name_parts(text) for text in files]
    different = len({tuple(part) for part in parts})
    depth = 1
    while len({tuple(part[-depth:]) for part in parts}) < different:
        depth += 1
    names: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for part, text in zip(parts, files, strict=True):
        name = str(Path(*part[-depth:]))
        seen[name] += 1
        names[name if seen[name] == 1 else f"{name}#{seen[name]}"] = text
    return names


def _name_parts(text: str) -> list[str]:
    if Path(text).exists() or "," not in text:
        path = Path(text if Path(text).exists() else text.rpartition("=")[2])
        return [*path.parts[:-1], path.stem]
    return ["+".join(_name_parts(part)[-1] for part in text.split(",") if part)]


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


def read_costs(text: str) -> CostModel:
    """Costs and priors from a preset's name or a JSON or YAML file.

    Example:
        >>> read_costs("a-dcf1").c_fa_spoof
        20.0
    """
    if text in PRESETS:
        return PRESETS[text]
    if not is_file(text):
        listed = f"({', '.join(PRESETS)}) nor a file{meant(text, PRESETS)}"
        raise InputError(f"--costs {text} is neither a preset {listed}")
    try:
        content = read_yaml(text)
        if not isinstance(content, dict):
            raise InputError("expected lines like `c_miss: 1.0`, one number per name")
        return as_cost_model(content)
    except ValueError as error:
        raise InputError(f"cannot use the costs in {text}: {error}") from None
