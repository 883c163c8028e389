"""What a command line names: score files (``FILE``, ``asv=FILE``, ``asv=A,cm=B``), keys, costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from lightning_sasv.decisions import PRESETS, CostModel, as_cost_model
from lightning_sasv.errors import InputError, meant
from lightning_sasv.files import is_file, read_yaml
from lightning_sasv.places import refuse
from lightning_sasv.scores.join import join_key, stacked, unpaired
from lightning_sasv.scores.layouts import (
    LABELS,
    LAYOUTS,
    ROLES,
    layout_named,
)
from lightning_sasv.scores.read import read_plain
from lightning_sasv.scores.reading import (
    Reading,
    ReadingOptions,
    layout_of,
    reading,
    takes_reading_options,
    turned,
    with_role,
)
from lightning_sasv.scores.table import ScoreTable, check_numbers, refuse_mixture
from lightning_sasv.scores.write import holds, write_table

Tell = Callable[[Sequence[str]], object]
"""Told how files were read and what was left out."""


def silent(notes: Sequence[str]) -> None:
    """Who does not want to be told."""


def read_source(
    text: str,
    key: ScoreTable | None = None,
    *,
    how: Reading | None = None,
    tell: Tell = silent,
) -> ScoreTable:
    """Read a score file, or several that are joined by trial id, and a key.

    Args:
        text: A file; or a role and a file, ``cm=FILE``, where its scores speak for another side
            than its layout says; or several of these, separated by commas; or a file for each
            class, ``target=FILE,nontarget=FILE``.
        key: Trials with labels, which the scores are joined to.
        how: How the files are read.
        tell: Told the layout of each file, and what was left out.
    """
    how = how or Reading()
    parts = roles_of(text)
    if any(name in LABELS for name, _ in parts):
        tables = [_of_classes(text, parts, how)]
        notes = list(tables[0].notes)
    else:
        alone = len(parts) == 1 and key is not None  # then the key tells whose the scores are
        tables = [_with_role(read_plain(Path(path), how), role, alone) for role, path in parts]
        notes = [note for table in tables for note in told(table)]
    apart = _unpaired(tables) if key is None else None
    if apart is not None:
        tell([*notes, *apart.notes])
        return turned(replace(apart, notes=()), how)
    joined, more = join_all(tables, key, how)
    joined = check_numbers(turned(with_role(joined, None), how))
    tell([*notes, *more, *joined.notes])
    return joined


def join_all(
    tables: Sequence[ScoreTable], key: ScoreTable | None, how: Reading
) -> tuple[ScoreTable, list[str]]:
    """Tables of scores and a key joined by trial, and what is to be said of it."""
    first, *others = sorted(tables, key=lambda table: -len(table.ids))  # trials before utterances
    joined, notes = replace(first, notes=()), list[str]()
    for table in [*others, *([] if key is None else [key])]:
        sides = (joined, table) if table is key else (table, joined)
        if table is not key:
            _refuse_same_score(joined, table)
        found = join_key(*sides, how.allow_missing)
        joined, notes = replace(found.table, notes=()), [*notes, *found.notes]
    return joined, notes


def _refuse_same_score(first: ScoreTable, second: ScoreTable) -> None:
    """Refuse two files of scores of one side."""
    same = [name for name in second.score_columns if name in first]
    if same:
        raise InputError(
            f"{second.where()}: {same[0]} is in {first.path} already; say whose scores they are, "
            "as in asv=FILE,cm=FILE"
        )


def _unpaired(tables: Sequence[ScoreTable]) -> ScoreTable | None:
    """A verifier and a countermeasure on different trials."""
    roles = [(["asv_score"], ["cm_score"]), (["cm_score"], ["asv_score"])]
    if tuple(table.score_columns for table in tables) not in roles:
        return None
    first, second = sorted(tables, key=lambda table: table.score_columns)
    return unpaired(first, second)


def joined_key(table: ScoreTable, key: ScoreTable | None, how: Reading, tell: Tell) -> ScoreTable:
    """A table with the labels of a key, if there is one."""
    if key is None:
        return table
    found = join_key(table, key, how.allow_missing)
    tell(found.notes)
    return replace(found.table, notes=())


def _with_role(table: ScoreTable, role: str | None, alone: bool) -> ScoreTable:
    open_role = role is None and alone and "score" in table and layout_of(table).role_by_labels
    return table if open_role else with_role(table, role)


def _of_classes(text: str, parts: Sequence[tuple[str | None, str]], how: Reading) -> ScoreTable:
    """Files of one class each, one below the other."""
    wrong = [path for name, path in parts if name not in LABELS]
    if wrong:
        raise InputError(f"{text}: {wrong[0]} stands without a class beside files that have one")
    tables = [read_plain(Path(path), how) for _, path in parts]
    labelled = [
        table.with_word("label", str(label))
        for (label, _), table in zip(parts, tables, strict=True)
    ]
    notes = tuple(note for table in tables for note in told(table))
    # the classes say whose the scores are
    joined = replace(stacked(labelled), layout="scores", by_row=True, notes=notes)
    refuse_mixture(joined, joined.frame["label"])
    return joined


def read_key(
    path: str | None,
    format: str | None = None,
    *,
    how: Reading | None = None,
    labelled: bool = True,
    tell: Tell = silent,
) -> ScoreTable | None:
    """Read a key, a file with labels, where one is given; several are joined.

    Args:
        path: The file; of several, separated by commas, the first says which trials count, the
            others bring columns.
        format: Layout of the files; recognised when not given.
        how: What labels and ids are, for files of any layout.
        labelled: Whether there must be labels.
        tell: Told how each file was read.
    """
    key: ScoreTable | None = None
    how = (how or Reading()).of_key(format)
    for one in parts_of(path) if path else ():
        table = read_plain(Path(one), how)
        tell(told(table))
        table = table.without_scores()
        key = table if key is None else key_beside(table, key)
    if key is not None and labelled:
        key.need(["label"], "a key")
    return replace(key, notes=()) if key else None


def key_beside(more: ScoreTable, key: ScoreTable) -> ScoreTable:
    """The trials of a key with the columns that another one has besides."""
    own = [name for name in more.frame.columns if name in key and name not in (*key.ids, "label")]
    joined = join_key(replace(more, frame=more.frame.drop(own)), key, allow_missing=True)
    if joined.missing:
        there = set(joined.rows.tolist())
        first = next(row for row in range(len(key)) if row not in there)
        raise InputError(
            f"{more.path}: {joined.missing:,} of {len(key):,} trials of {key.path} are not in it, "
            f"the first of them in line {key.line(first)} there; give the keys of one set"
        )
    table, columns = joined.table, [name for name in more.frame.columns if name not in key]
    others = {**table.places(columns, joined.rows), **table.joined}
    return replace(table, path=key.path, layout=key.layout, line=key.line, joined=others)


@takes_reading_options
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
    **said: Unpack[ReadingOptions],
) -> Path:
    """Turn a score file or key into another format.

    With a key, every trial of it must have a score, and is written in its order: a submission is
    checked against its trial list.

    Args:
        file: File of any known format (docs/formats.md), or ROLE=FILE, or asv=FILE,cm=FILE.
        to: Format to write; metrics-v1 gives a metrics.json the shape of version 1.
        out: File to write; by default in the current folder, named after FILE and the format.
        format: Format of FILE; recognised when not given.
        column: Score to write, where FILE has several and the format has room for one.
        key: Key or trial list to join by trial id; given again, further columns of its trials.
        key_format: Format of the key; recognised when not given.
        allow_missing: Leave out trials of the key without a score instead of stopping.
        overwrite: Replace a file of another content.
        tell: Told how each file was read and what was left out.
        **said: What is said of the files, :class:`.reading.ReadingOptions`.

    Returns:
        The file that was written.
    """
    if to is None:
        raise InputError(f"--to FORMAT is needed, one of {', '.join(LAYOUTS.all())}")
    layout = layout_named(to)
    how = reading(format, allow_missing, **said)
    trials = read_key(key, key_format, how=how, labelled=False, tell=tell)
    table = read_source(file, trials, how=how, tell=tell)
    path = table.path
    target = Path(out or f"{stem_of(path)}.{layout.name}{layout.suffix}")
    if target.resolve() == path.resolve():
        raise InputError(f"--out {target} is the file that is read; choose another one")
    if overwrite or not target.exists():
        return write_table(target, table, layout.name, column)
    if not holds(target, table, layout.name, column):
        refuse(target, "something else than what would be written")
    return target


def parts_of(text: str) -> list[str]:
    """The files of ``A,B``; a file whose own name has a comma is one."""
    return [text] if Path(text).exists() else [part for part in text.split(",") if part] or [text]


def roles_of(text: str) -> list[tuple[str | None, str]]:
    """The files of ``asv=A,cm=B``, each with its role or class, if it has one."""
    return [_part(part) for part in parts_of(text)]


def _part(text: str) -> tuple[str | None, str]:
    role, sign, path = text.partition("=")
    if sign and role in (*ROLES, *LABELS) and not Path(text).exists():
        return role, path
    return None, text


def told(table: ScoreTable) -> list[str]:
    """How a file was read, what speaks for it, and how to say otherwise."""
    if not table.guessed:
        read = f"read as {table.layout}"
    else:
        layout = LAYOUTS.all().get(table.layout)
        named = f"{layout.name} ({layout.about})" if layout else "columns"
        columns = ", ".join(table.frame.columns)
        read = f"looks like {named}: {columns}; --format or --columns says otherwise"
    return [f"{table.path}: {len(table):,} rows, {read}", *table.notes]


def names_of_files(files: list[str]) -> dict[str, str]:
    """A short name for each file: its stem, with as many folders as it takes to be unique.

    ``NAME=FILE`` names it; a file or name that is given again gets a number.
    """
    named = [_named(text) for text in files]
    parts = [[name] if name else _name_parts(text) for name, text in named]
    different = len({tuple(part) for part in parts})
    depth = 1
    while len({tuple(part[-depth:]) for part in parts}) < different:
        depth += 1
    names: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for part, (_, text) in zip(parts, named, strict=True):
        name = str(Path(*part[-depth:]))
        seen[name] += 1
        names[name if seen[name] == 1 else f"{name}#{seen[name]}"] = text
    return names


def _named(text: str) -> tuple[str, str]:
    """The name that a file is given, if any, and the file."""
    name, sign, file = text.partition("=")
    is_name = sign and name and not {*",/\\"} & {*name} and name not in (*ROLES, *LABELS)
    return (name, file) if is_name and not Path(text).exists() else ("", text)


def stem_of(path: Path) -> str:
    """Name of a file without its ending, of ``a.csv.gz`` without both."""
    return Path(path.name.removesuffix(".gz")).stem


def _name_parts(text: str) -> list[str]:
    if Path(text).exists() or "," not in text:
        path = Path(text if Path(text).exists() else text.rpartition("=")[2])
        return [*path.parts[:-1], stem_of(path).removesuffix(".counts")]
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
    return table.take(rows).part_of(table, f"--where {condition}")


def read_costs(text: str, tell: Tell = silent) -> CostModel:
    """Costs and priors from a preset's name or a JSON or YAML file; defaults it takes are told.

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
        model = as_cost_model(content)
        missing = {k: v for k, v in CostModel().as_dict().items() if k not in content}
        if missing:
            taken = ", ".join(f"{name} {value:.4g}" for name, value in missing.items())
            tell([f"{text} does not say all: taken are the defaults {taken}"])
        return model
    except ValueError as error:
        raise InputError(f"cannot use the costs in {text}: {error}") from None
