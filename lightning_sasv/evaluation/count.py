"""Counting the trials of files, and evaluating the counts: what is larger than memory."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lightning_sasv.console import Begin
from lightning_sasv.counting import Counts
from lightning_sasv.counting.by_trial import is_drawn
from lightning_sasv.counting.gathered import OtherTrialsError
from lightning_sasv.counting.replicates import Drawn, drawn
from lightning_sasv.counting.state import Source, merged
from lightning_sasv.counting.views import by_group
from lightning_sasv.errors import InputError
from lightning_sasv.evaluation.compare import (
    Options,
    check_reference,
    compared_metrics,
    enough_replicates,
)
from lightning_sasv.evaluation.counted import CountedResults
from lightning_sasv.evaluation.sizes import KEY_BYTES
from lightning_sasv.metrics.binned import Bounded
from lightning_sasv.metrics.bootstrap import NOT_CLUSTERED
from lightning_sasv.metrics.bounds import available
from lightning_sasv.metrics.functional.dcf import bayes_threshold
from lightning_sasv.metrics.intervals import FEWEST_SPEAKERS, cautions, check_replicates
from lightning_sasv.metrics.registry import Settings
from lightning_sasv.places import COUNTS, is_counts, refuse
from lightning_sasv.record import Trials
from lightning_sasv.scores import ScoreTable
from lightning_sasv.scores.keys import Space
from lightning_sasv.scores.layouts import LABELS
from lightning_sasv.scores.reading import Reading
from lightning_sasv.scores.sources import Tell, parts_of, read_key, roles_of, silent
from lightning_sasv.scores.stream import key_parts, rows_of, scan
from lightning_sasv.scores.table import id_hashes
from lightning_sasv.scores.text import STDIN
from lightning_sasv.trials import TrialClass

BITS = 7
"""Bits of the grid by speaker, where none are asked for."""


class Input(NamedTuple):
    """How files are read, and the key that they share.

    Attributes:
        how: How score files are read.
        key: Trials with labels, or their file where it is too large to be held.
        key_how: How the file of the key is read.
        space: Memory and folder for keys in another order; takes notes.
    """

    how: Reading
    key: ScoreTable | Path | None
    key_how: Reading | None
    space: Space

    @classmethod
    def of(
        cls,
        how: Reading,
        key: str | None,
        key_format: str | None,
        memory: float,
        scratch: str | None,
        tell: Tell,
    ) -> Input:
        """The input of a command line; a key of one file that takes a lot of room is not held."""
        space = Space(memory, scratch)
        parts = [] if key is None else parts_of(key)
        if len(parts) == 1 and KEY_BYTES * rows_of(parts[0]) > space.memory:
            return cls(how, Path(parts[0]), how.of_key(key_format), space)
        return cls(how, read_key(key, key_format, how=how, tell=tell), None, space)

    def tables(self, source: str) -> Iterator[ScoreTable]:
        """The trials of a file, or of several that are joined, part by part."""
        files = roles_of(source)
        if wrong := [name for name, _ in files if name in LABELS]:
            raise InputError(f"{wrong[0]}=FILE: files of classes are not counted; --exact true")
        return scan(files, self.key, self.how, self.key_how, self.space)


def evaluate_counted(
    files: Mapping[str, str],
    given: Input,
    options: Options,
    *,
    grid: int | None = None,
    state: str | None = None,
    exact: bool = False,
    refine: Sequence[str] = (),
    begin: Begin | None = None,
    overwrite: bool = False,
) -> CountedResults:
    """Count the trials of files, or take states, and evaluate them.

    Args:
        files: A score file, ``-`` or a state for each system.
        given: How files are read, and their key.
        options: What is wanted.
        grid: Bins of an octave are 2^grid, by default :data:`BITS`.
        state: File to write the counts to.
        exact: Refine Cllr_min of very many trials as well.
        refine: Files of a state, for exact values.
        begin: Told of long work, for a progress bar.
        overwrite: Replace the file of counts.
    """
    _check_files(files, state, refine, overwrite)
    check_reference(list(files), options)
    states, metrics, notes = {}, {}, list[str]()
    for name, file in files.items():
        if is_counts(file):
            counts, again = Counts.load(file), list(refine)
            _check_state(file, counts, grid, exact and not refine)
            notes += _key_of_a_state(file, counts, given)
        else:
            bits = BITS if grid is None else grid
            counts, again = count_file(file, given, options, bits, begin), [file]
        states[name], twice = counts, bool(again) and STDIN not in again
        if twice:
            metrics[name] = _refined(file, counts, again, given, options, exact)
        else:
            metrics[name] = counts.metrics(options.settings)
        notes.append(f"{name}: {_said(counts, twice, options)}")
        if not metrics[name]:
            notes.append(_without(file, counts, state))
        if state is not None:
            counts.save(state)
    options, draws, way, more = _draw(states, options)
    groups = {
        column: {name: by_group(one, column, options.settings) for name, one in states.items()}
        for column in options.by
    }
    notes = [*given.space.notes, *notes, *more]
    found = CountedResults(states, options, metrics, draws, way, tuple(notes), groups)
    return replace(found, notes=(*notes, *found.coarse()))


def _check_files(
    files: Mapping[str, str], state: str | None, refine: Sequence[str], overwrite: bool
) -> None:
    """Refuse what cannot be written or refined, before anything is counted."""
    if state is not None and not is_counts(state):
        raise InputError(f"--state {state}: a file of counts is called NAME{COUNTS}")
    if state is not None and len(files) > 1:
        raise InputError(
            f"--state {state}: a state is of one system, here are {len(files)} files; count each "
            "with a --state of its own, and join those of shards with `lightning merge`"
        )
    if state is not None and Path(state).exists() and not overwrite:
        refuse(state, "counts already", "another --state")
    if refine and not any(map(is_counts, files.values())):
        raise InputError(f"--refine {','.join(refine)}: only a state of counts is refined")


def _key_of_a_state(file: str, counts: Counts, given: Input) -> list[str]:
    """Compare a state with a key: trials that two shards share show in their number alone."""
    if given.key is None:
        return []
    codes = [Trials(table).labels for table in key_parts(given.key, given.key_how)]
    found = np.bincount(np.concatenate(codes), minlength=len(TrialClass))
    known = {str(code): int(found[code]) for code in TrialClass}
    if known == counts.trials:
        return []
    words = ", ".join(
        f"{counts.trials[word]:,} {word} (key: {known[word]:,})"
        for word in known
        if counts.trials[word] != known[word]
    )
    more = any(counts.trials[word] > known[word] for word in known)
    said = f"{file}: it does not count the trials of the key, but {words}"
    if more or not given.how.allow_missing:
        why = "a shard may lack, or trials may stand in two of them"
        raise InputError(f"{said}; {why}")
    return [said]


def _check_state(file: str, counts: Counts, grid: int | None, exact: bool) -> None:
    """Refuse what only the trials of a state could give."""
    name, column = next(iter(counts.columns.items()))
    if "sasv" in counts.columns:
        name, column = "sasv", counts.columns["sasv"]
    if grid is not None and grid != column.least:
        raise InputError(
            f"--grid {grid}: {file} was counted with {column.least} bits of {name}, and a state "
            f"keeps its grid; count its files again with --grid {grid}"
        )
    if exact:
        raise InputError(
            f"--exact true: {file} holds counts, no trials; give its files as --refine FILE,FILE"
        )


def _refined(
    file: str, counts: Counts, again: list[str], given: Input, options: Options, exact: bool
) -> dict[str, Bounded]:
    """Exact values from a second reading of the files that were counted."""
    try:
        parts = _Batches(again, given, list(counts.columns))
        return counts.refine(parts, options.settings, everything=exact)
    except OtherTrialsError as error:
        counted = ",".join(one.name for one in counts.sources[:3])
        more = ",…" if len(counts.sources) > 3 else ""
        raise InputError(
            f"{error}; {file} counts {sum(counts.trials.values()):,} trials, give all its files: "
            f"--refine {counted}{more}"
        ) from None


def _without(file: str, counts: Counts, state: str | None) -> str:
    """What is said where a class is missing: an error, unless a state is to be kept."""
    missing = [word for word, number in counts.trials.items() if not number]
    said = f"{file}: no {' and no '.join(missing)} trials, and no metric without them"
    if state is None:
        raise InputError(f"{said}; give, or merge, files with all classes")
    return f"{said}; the state is kept for merging"


def _said(counts: Counts, twice: bool, options: Options) -> str:
    """One line on how the values were made."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size = peak / (1e9 if sys.platform == "darwin" else 1e6)
    values = "values exact after a second reading" if twice else "values within the bounds shown"
    ends = "" if options.ci == "none" else "; intervals within the bounds shown"
    return f"{sum(counts.trials.values()):,} rows: counted ({size:.1f} GB); {values}{ends}"


def count_file(
    source: str, given: Input, options: Options, grid: int = 7, begin: Begin | None = None
) -> Counts:
    """The counts of one file, or of several that are joined; see :func:`evaluate_counted`."""
    paths = [path for _, path in roles_of(source)]
    counts: Counts | None = None
    rows, ids = 0, 0
    told = begin is not None and paths != [STDIN]
    step = begin(f"counting {source}", rows_of(paths[0])) if begin and told else _nothing
    for table in given.tables(source):
        table.need(["label"], "counting (or give --key)")
        columns = _columns(table)
        if counts is None:
            settings = options.settings
            counts = Counts(
                tuple(columns), grid, settings.costs, settings.tandem_costs, _cuts(settings)
            )
        elif columns.keys() != counts.columns.keys():
            raise InputError(
                f"{table.where(0)}: labels say {'bonafide' if table.has_cm_labels else 'target'} "
                "here and otherwise before; sort the file by trial, or take --exact true"
            )
        names: dict[str, Any] = {
            word: table.frame[column] if column in table else None
            for word, column in (("clusters", "speaker"), ("attacks", "attack"))
        }
        names |= columns
        counts.add(Trials(table).labels, **names)
        rows += len(table)
        if table.ids:
            ids = (ids + int(id_hashes(table, table.ids).sum(dtype=np.uint64))) % 2**64
        step(len(table))
    if counts is None:
        raise InputError(f"{source}: the file has no trials; write it again")
    size = sum(Path(path).stat().st_size for path in paths if path != STDIN)
    name = ",".join(Path(path).name for path in paths)
    counts.sources.append(Source(name, rows, size, ids))
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


def _columns(table: ScoreTable) -> dict[str, np.ndarray]:
    """Scores by column; labels that say bona fide or spoof judge the countermeasure alone."""
    if table.has_cm_labels and "cm_score" in table:
        return {"cm": table.numbers("cm_score")}
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


class _Batches:
    """The trials of files, read as often as they are asked for."""

    def __init__(self, paths: Sequence[str], given: Input, names: Sequence[str]) -> None:
        self._paths, self._given, self._names = paths, given, names

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for path in self._paths:
            for table in self._given.tables(path):
                columns = _columns(table)
                if lacking := [name for name in self._names if name not in columns]:
                    raise InputError(
                        f"{table.where()}: no {lacking[0]} scores, which were counted; give the "
                        "files of the state"
                    )
                own = {name: columns[name] for name in self._names}
                yield {"labels": Trials(table).labels, **own}


def _draw(
    states: Mapping[str, Counts], options: Options
) -> tuple[Options, dict[str, dict[str, Drawn]], tuple[str, ...], list[str]]:
    """Replicates of each system, as far as speakers are known and wanted; what was really done."""
    known = all({*one.speakers} - {NOT_CLUSTERED} for one in states.values())
    attacks = all({row.attack for row in one.rows} - {NOT_CLUSTERED} for one in states.values())
    if options.ci == "none" or (options.ci is None and not known):
        return options, {}, (), []
    if options.ci == "trial":
        return _draw_trials(states, options)
    if options.ci in (None, "known"):
        way = "speaker-attack" if attacks else "speaker"
    else:
        way = str(options.ci)
    check_replicates(options.replicates)
    speakers = min(len({*one.speakers} - {NOT_CLUSTERED}) for one in states.values())
    if speakers < FEWEST_SPEAKERS:
        return options, {}, (), cautions(options.replicates, speakers)[-1:]
    paired, notes = _paired(states)
    number, raised = enough_replicates(len(states) if paired else 0, options)
    options = replace(options, replicates=number, compare=paired)
    found: dict[str, dict[str, Drawn]] = {}
    for name, state in states.items():
        names = available(state.columns, options.settings)
        if options.ci is None:
            names = [one for one in names if one in {*compared_metrics(), "act_a_dcf"}]
        found[name] = drawn(state, names, way, number, options.seed, options.settings)
    notes += [*raised, *cautions(number, speakers)]
    return options, found, tuple(way.split("-")), notes


def _draw_trials(
    states: Mapping[str, Counts], options: Options
) -> tuple[Options, dict[str, dict[str, Drawn]], tuple[str, ...], list[str]]:
    """Replicates that draw trials, of metrics that are no sums and of one column."""
    if len(states) > 1:
        raise InputError(
            "--ci trial: counts do not pair the trials of several systems; --ci speaker, or "
            "--exact true of files"
        )
    check_replicates(options.replicates)
    how = options.replicates, options.seed, options.settings
    found = {
        name: drawn(state, [m for m in available(state.columns, how[2]) if is_drawn(m)], None, *how)
        for name, state in states.items()
    }
    return options, found, ("trial",), cautions(options.replicates, None)


def _paired(states: Mapping[str, Counts]) -> tuple[bool, list[str]]:
    """Whether systems have the same trials of each speaker, so that draws of both are one."""
    if len(states) < 2:
        return False, []
    first, *others = (one.trials_by_row for one in states.values())
    if all(other == first for other in others):
        return True, []
    return False, ["not compared: the systems were counted on other trials of some speakers"]


def merge(
    states: list[str], out: str | None = None, overwrite: bool = False, *, tell: Tell = silent
) -> Path:
    """Add states of counts, as array jobs write them, to one.

    Args:
        states: Files of counts, NAME.counts.safetensors.
        out: File to write, NAME.counts.safetensors.
        overwrite: Replace it.
        tell: Takes remarks, of grids that became coarser and of costs that became bounds.

    Returns:
        The file that was written.
    """
    if not states or out is None:
        raise InputError("lightning merge STATE… --out FILE: give states, and the file to write")
    if not is_counts(out):
        raise InputError(f"--out {out}: a file of counts is called NAME{COUNTS}")
    if Path(out).exists() and not overwrite:
        refuse(out, "counts already")
    before = list[tuple[str, int, tuple[float, ...]]]()

    def loaded() -> Iterator[Counts]:
        for path in states:
            state = Counts.load(path)
            if state.rows:
                before.extend((k, one.least, one.cuts) for k, one in state.columns.items())
            yield state

    whole = merged(loaded())
    tell(_lost(whole, before))
    return whole.save(out)


def _lost(whole: Counts, before: Sequence[tuple[str, int, tuple[float, ...]]]) -> list[str]:
    """What merging made less exact: column, least bits and cuts of each state before it."""
    notes = []
    for name, column in whole.columns.items():
        finest = max((bits for own, bits, _ in before if own == name), default=column.least)
        if finest > column.least:
            notes.append(
                f"{name}: the grid by speaker is the coarsest of the states, {column.least} bits "
                f"in place of {finest}"
            )
        cuts = {cut for own, _, some in before if own == name for cut in some}
        if dropped := sorted(cuts - set(column.cuts)):
            words = ", ".join(f"{cut:.4g}" for cut in dropped)
            notes.append(
                f"{name}: costs at the thresholds {words} become bounds, which not all states "
                "counted; count with the same --costs"
            )
    return notes
