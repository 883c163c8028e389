"""Counting the trials of files, and evaluating the counts: what is larger than memory."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lightning_sasv.console import Begin
from lightning_sasv.counting import Counts
from lightning_sasv.counting.file import SUFFIX, is_counts
from lightning_sasv.counting.replicates import Drawn, drawn
from lightning_sasv.counting.state import Source, merged
from lightning_sasv.errors import InputError
from lightning_sasv.evaluation.compare import Options, compared_metrics
from lightning_sasv.evaluation.counted import CountedResults
from lightning_sasv.metrics.bootstrap import NOT_CLUSTERED
from lightning_sasv.metrics.bounds import available
from lightning_sasv.metrics.functional.dcf import bayes_threshold
from lightning_sasv.metrics.intervals import FEWEST_SPEAKERS
from lightning_sasv.metrics.registry import Settings
from lightning_sasv.places import refuse
from lightning_sasv.scores import ScoreTable
from lightning_sasv.scores.reading import Reading
from lightning_sasv.scores.stream import STDIN, rows_of, scan
from lightning_sasv.scores.table import id_hashes
from lightning_sasv.trials import TrialClass

ROW_BYTES = 160
"""Memory that a trial takes where all are held in it."""
MANY = 2_000_000
"""Trials above which intervals are made from counts unless --exact true."""
_SIZES = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def is_counted(
    files: Any, options: Options, exact: str | bool, state: str | None, memory: str | None
) -> str | None:
    """Why trials are to be counted rather than held in memory; nothing where they are not."""
    given = [files] if isinstance(files, str | Path) else files
    if not isinstance(given, list) or not all(isinstance(one, str | Path) for one in given):
        return None
    paths = [str(one).rpartition("=")[2] for one in given]
    states = [path for path in paths if is_counts(path)]
    if states:
        return "states"
    if state is not None or STDIN in paths or exact is False or exact == "false":
        return "asked for"
    if exact is True or exact == "true" or not all(Path(path).is_file() for path in paths):
        return None
    largest = max(Path(path).stat().st_size for path in paths)
    if largest < 10 * MANY and memory is None:
        return None  # a row has ten bytes at least
    rows = max(rows_of(path) for path in paths)
    if options.ci not in (None, "none") and rows > MANY:
        return f"{rows:,} rows with intervals"
    most = read_size(memory) if memory else available_memory()
    return f"{rows:,} rows" if ROW_BYTES * rows * 1.5 > most / 2 else None


def available_memory() -> float:
    """Bytes that this process may take."""
    found = [math.inf]
    with_limit = (("/sys/fs/cgroup/memory.max", r"(\d+)", 1),)
    for path, pattern, unit in (*with_limit, ("/proc/meminfo", r"MemAvailable:\s+(\d+)", 1024)):
        try:
            match = re.search(pattern, Path(path).read_text())
        except OSError:
            continue
        found += [int(match[1]) * unit] if match else []
    return min(found)


def read_size(text: str) -> float:
    """Bytes of a size in words.

    Example:
        >>> read_size("8GB"), read_size("500 mb")
        (8000000000.0, 500000000.0)
    """
    match = re.fullmatch(r"\s*([\d.]+)\s*([A-Za-z]*)\s*", text)
    if match is None or match[2].upper() not in _SIZES:
        raise InputError(f"--memory {text}: expected a size such as 8GB")
    return float(match[1]) * _SIZES[match[2].upper()]


def evaluate_counted(
    files: Mapping[str, str],
    key: ScoreTable | None,
    how: Reading,
    options: Options,
    *,
    grid: int = 7,
    state: str | None = None,
    exact: bool = False,
    refine: Sequence[str] = (),
    begin: Begin | None = None,
    overwrite: bool = False,
) -> CountedResults:
    """Count the trials of files, or take states, and evaluate them.

    Args:
        files: A score file, ``-`` or a state for each system.
        key: Trials with labels, in the order of the files.
        how: How files are read.
        options: What is wanted.
        grid: Bins of an octave are 2^grid.
        state: File to write the counts to.
        exact: Refine Cllr_min of very many trials as well.
        refine: Files of a state, for exact values.
        begin: Told of long work, for a progress bar.
        overwrite: Replace the file of counts.
    """
    states, metrics, notes = {}, {}, []
    for name, file in files.items():
        role, path = _role(file)
        if is_counts(path):
            counts, again = Counts.load(path), list(refine)
        else:
            counts, again = count_file(path, key, how, options, grid, role, begin), [path]
        states[name] = counts
        found = counts.metrics(options.settings)
        if again and STDIN not in again:
            parts = _batches(again, key, how, role, list(counts.columns))
            found = counts.refine(parts, options.settings, everything=exact)
        metrics[name] = found
        how_read = (
            "values exact after a second reading" if again and STDIN not in again else "bounds"
        )
        notes.append(f"{name}: {sum(counts.trials.values()):,} trials counted; {how_read}")
    if state is not None:
        if Path(state).exists() and not overwrite:
            refuse(state, "counts already", "another --state")
        merged(states.values()).save(state)
    draws, way, more = _draw(states, options)
    return CountedResults(states, options, metrics, draws, way, (*notes, *more))


def _role(text: str) -> tuple[str | None, str]:
    role, sign, path = text.partition("=")
    if sign and role in ("asv", "cm", "sasv") and not Path(text).exists():
        return role, path
    return None, text


def count_file(
    path: str,
    key: ScoreTable | None,
    how: Reading,
    options: Options,
    grid: int = 7,
    role: str | None = None,
    begin: Begin | None = None,
) -> Counts:
    """The counts of one file; arguments as for :func:`evaluate_counted`."""
    counts: Counts | None = None
    rows, ids = 0, 0
    step = begin(f"counting {path}", rows_of(path)) if begin and path != STDIN else _nothing
    for table in scan(path, key, how, role):
        table.need(["label"], "counting (or give --key)")
        columns = _columns(table)
        if counts is None:
            settings = options.settings
            counts = Counts(
                tuple(columns), grid, settings.costs, settings.tandem_costs, _cuts(settings)
            )
        names: dict[str, Any] = {
            word: table.frame[column] if column in table else None
            for word, column in (("clusters", "speaker"), ("attacks", "attack"))
        }
        names |= columns
        counts.add(_codes(table), **names)
        rows += len(table)
        hashed = id_hashes(table, table.ids) if table.ids else np.empty(0, np.uint64)
        ids = (ids + int(hashed.astype(object).sum() if hashed.size else 0)) % 2**64
        step(len(table))
    if counts is None:
        raise InputError(f"{path}: the file has no trials; write it again")
    size = Path(path).stat().st_size if path != STDIN else 0
    counts.sources.append(Source(Path(path).name, rows, size, ids))
    return counts


def _cuts(settings: Settings) -> dict[str, list[float]]:
    """Bayes thresholds of the detectors' own operating points."""
    points = [(miss * p, fa * (1 - p)) for p, miss, fa in settings.asv_points]
    return {
        "cm": [bayes_threshold(settings.cm_weights)],
        "asv": [bayes_threshold(one) for one in points],
    }


def _nothing(_: int) -> None:
    """Nobody is told."""


def _codes(table: ScoreTable) -> np.ndarray:
    codes = table.frame["label"].to_physical().to_numpy().astype(np.int64)
    return np.where(codes == len(TrialClass), int(TrialClass.TARGET), codes)


def _columns(table: ScoreTable) -> dict[str, np.ndarray]:
    fused = [name for name in table.score_columns if name.startswith("sasv_")]
    if len(fused) > 1:
        raise InputError(
            f"{table.where()}: {len(fused)} fused scores ({', '.join(fused[:3])}, …); counting "
            "takes files of one system: write one with `lightning convert --column NAME`"
        )
    found = {"sasv": table.numbers(fused[0])} if fused else {}
    for role in ("asv", "cm"):
        if f"{role}_score" in table:
            found[role] = table.numbers(f"{role}_score")
    if not found:
        raise InputError(f"{table.where()}: no scores among {', '.join(table.frame.columns)}")
    return found


def _batches(
    paths: Iterable[str], key: ScoreTable | None, how: Reading, role: str | None, names: list[str]
) -> Iterator[dict[str, Any]]:
    for path in paths:
        for table in scan(path, key, how, role):
            columns = _columns(table)
            yield {"labels": _codes(table), **{name: columns[name] for name in names}}


def _draw(
    states: Mapping[str, Counts], options: Options
) -> tuple[dict[str, dict[str, Drawn]], tuple[str, ...], list[str]]:
    """Replicates of each system, as far as speakers are known and wanted."""
    known = all({row.speaker for row in one.rows} - {NOT_CLUSTERED} for one in states.values())
    attacks = all({row.attack for row in one.rows} - {NOT_CLUSTERED} for one in states.values())
    if options.ci == "none" or (options.ci is None and not known):
        return {}, (), []
    if options.ci == "trial":
        raise InputError("counts do not know single trials: --ci speaker, or --exact true")
    if options.ci in (None, "known"):
        way = "speaker-attack" if attacks else "speaker"
    else:
        way = str(options.ci)
    found: dict[str, dict[str, Drawn]] = {}
    for name, state in states.items():
        speakers = {row.speaker for row in state.rows} - {NOT_CLUSTERED}
        if len(speakers) < FEWEST_SPEAKERS:
            return {}, (), [f"{len(speakers)} speakers are too few for intervals"]
        names = available(state.columns, options.settings)
        if options.ci is None:
            names = [one for one in names if one in {*compared_metrics(), "act_a_dcf"}]
        found[name] = drawn(state, names, way, options.replicates, options.seed, options.settings)
    return found, tuple(way.split("-")), []


def merge(states: list[str], out: str | None = None, overwrite: bool = False) -> Path:
    """Add states of counts, as array jobs write them, to one.

    Args:
        states: Files of counts, NAME.counts.safetensors.
        out: File to write, NAME.counts.safetensors.
        overwrite: Replace it.

    Returns:
        The file that was written.
    """
    if not states or out is None:
        raise InputError("lightning merge STATE… --out FILE: give states, and the file to write")
    if not is_counts(out):
        raise InputError(f"--out {out}: a file of counts is called NAME{SUFFIX}")
    if Path(out).exists() and not overwrite:
        refuse(out, "counts already")
    return merged(Counts.load(path) for path in states).save(out)
