"""A folder of results: the only reader and writer of what a run leaves behind.

    scores/{dev,eval}.csv          every trial with its scores, sasv_<system> for each system,
                                   cm_score_<system> where it has a network of its own
    fitted/<system>.safetensors    fitted systems
    metrics.json                   metrics of each system on each set, rates as fractions
    checkpoints/best.ckpt          the best epoch of a training, best_<system> of a system's own
    seed<N>/…                      all this for each seed of a table, and draws.json, the
                                   replicates of its intervals; the table has besides
    table.{md,csv,tex}             its means over seeds, those of metrics.json
    scores/seed<N>                 links to the score files of each seed

Nothing here imports torch or Lightning.
"""

from __future__ import annotations

import contextlib
import math
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lightning_sasv.errors import InputError, check_name
from lightning_sasv.files import (
    ensure_directory,
    finite,
    read_json,
    write_json,
    write_text,
)
from lightning_sasv.metrics.registry import DEFAULTS, explained_metrics
from lightning_sasv.metrics_file import (
    Metrics,
    as_content,
    as_version_1,
    blocks,
    check_merge,
    merged,
    parts_of,
    systems_of,
)
from lightning_sasv.places import check_links, head, refuse
from lightning_sasv.record import (
    NOT_RECORDED,
    Origin,
    Trials,
    is_part,
    set_entry,
    set_title,
    unrecorded,
)
from lightning_sasv.scores import ScoreTable, read_table, write_table
from lightning_sasv.scores.columns import score_names
from lightning_sasv.scores.table import from_scores
from lightning_sasv.trials import PAIR, SPLITS, FusedScores, Scores, TrialClass

if TYPE_CHECKING:
    from lightning_sasv.fitted import FittedSystem
    from lightning_sasv.fusion.base import Fusion
    from lightning_sasv.fusion.doubts import FitWarning
    from lightning_sasv.metrics.functional import Settings

METRICS_FILE = "metrics.json"
PAGE = "report.html"
PAGE_TITLE = "<title>SASV report: "
"""What every page has in its head."""
OLDER = "<b>Older than the scores beside it.</b> They have changed since: make the page again."
PREFIX = "sasv_"
"""Columns of fused scores are called ``sasv_<system>``."""


# metrics.json


def set_entries(
    fused: Mapping[str, FusedScores],
    trials: Trials,
    origin: Origin,
    settings: Settings | None = None,
    systems: Mapping[str, Fusion] | None = None,
    dev: Mapping[str, float] | None = None,
) -> dict[str, dict[str, Any]]:
    """What ``metrics.json`` says of fused scores of a set, by system.

    Args:
        fused: LLRs and SASV scores by system.
        trials: The trials, with labels.
        origin: Where they come from.
        settings: Costs and conventions of the metrics.
        systems: The systems, which say if their scores are LLRs: those have a policy cost, others
            no actual one; and if they are two, which alone have metrics of a pair.
        dev: Threshold of the smallest a-DCF of each system on dev, where this is another set.
    """
    found = {}
    for name, one in fused.items():
        llrs = None if systems is None else systems[name].gives_llrs
        threshold = None if dev is None else dev.get(name)
        how = replace(settings or DEFAULTS, not_llr=llrs is False, dev_threshold=threshold)
        columns = dict(zip(("asv", "cm", "sasv"), one, strict=True))
        pair = systems is None or systems[name].is_of_pair
        known = columns if pair else {"sasv": columns["sasv"]}
        values = explained_metrics(known, trials.labels, how).values
        if llrs:
            values |= explained_metrics(columns, trials.labels, how, names=("policy_a_dcf",)).values
        found[name] = set_entry(columns, values, trials, origin, how)
    return found


def thresholds_in(entries: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Threshold of the smallest a-DCF of each system on a whole set, from what is said of it."""
    whole = {name: one["values"] for name, one in entries.items() if not is_part(one["of"])}
    found = {name: value_of(values, "a_dcf_threshold") for name, values in whole.items()}
    return {name: value for name, value in found.items() if not math.isnan(value)}


def dev_thresholds(path: str | Path, checkpoint: Mapping[str, Any] | None) -> dict[str, float]:
    """:func:`thresholds_in` dev of a ``metrics.json``, for systems of the same checkpoint."""
    if checkpoint is None or not Path(path).is_file():
        return {}
    with contextlib.suppress(InputError):  # whoever writes there reports it
        found = read_metrics(path)
        same = {
            name: found[name]["sets"]["dev"]
            for name, _, of in blocks(found, "dev")
            if isinstance(noted := of["checkpoint"], Mapping)
            and noted.get("sha256") == checkpoint.get("sha256")
        }
        return thresholds_in(same)
    return {}


def fit_entry(system: Fusion) -> dict[str, Any]:
    """What is written of a fit: the values found, on what, and what makes them doubtful."""
    noted = {"fitted_on": system.fitted_on or unrecorded()}
    return {"fitted": system.values(), "warnings": system.warnings} | noted


def warnings_of(metrics: Metrics) -> dict[str, list[FitWarning]]:
    """What makes the fit of each system doubtful.

    Raises:
        InputError: An entry ``warnings`` of another kind.
    """
    from lightning_sasv.fusion.doubts import as_warnings

    return {name: as_warnings(entry.get("warnings", [])) for name, entry in metrics.items()}


def read_metrics(path: str | Path) -> Metrics:
    """Content of a ``metrics.json`` of version 2 or 1, by system."""
    return systems_of(read_json(path), path)


def value_of(values: Mapping[str, Any], metric: str) -> float:
    """A metric of one system on one set, NaN where it is absent or undefined."""
    value = values.get(metric)
    return float(value) if isinstance(value, int | float) else math.nan


def write_metrics(path: str | Path, metrics: Metrics, comparisons: Sequence[Any] = ()) -> Path:
    """Write a ``metrics.json`` atomically; NaN and infinity, which JSON lacks, become null."""
    return write_json(path, as_content(metrics, comparisons))


def merge_metrics(path: str | Path, new: Metrics, overwrite: bool = False) -> Metrics:
    """Add entries to a ``metrics.json``: those of other systems and sets stay.

    Args:
        path: The file, which may not be there.
        new: What to add.
        overwrite: What does not belong beside it gives way.

    Raises:
        InputError: The file holds results of other trials, costs, conventions or data.
    """
    found = merged(check_metrics(path, new, overwrite), new)
    write_metrics(path, found)
    return found


def check_metrics(path: str | Path, new: Metrics, overwrite: bool = False) -> Metrics:
    """What of a ``metrics.json`` stays beside new entries; arguments as for :func:`merge_metrics`.

    Raises:
        InputError: As there.
    """
    try:
        there = read_metrics(path) if Path(path).exists() else {}
        check_merge(there, new, path)
    except InputError:
        if not overwrite:
            raise
        return {}
    return there


def metrics_beside(table: ScoreTable) -> Metrics:
    """What the ``metrics.json`` of a folder of results says of systems on these very trials.

    Args:
        table: Labelled trials that were read from a file.
    """
    folder = table.path.resolve().parent
    file = folder.parent / METRICS_FILE
    if folder.name != "scores" or not file.is_file() or "label" not in table:
        return {}
    try:
        found = read_metrics(file)
    except InputError:
        return {}
    mine = Trials(table).fingerprint
    own = [name for name, _, of in blocks(found, table.path.stem) if of["fingerprint"] == mine]
    return {name: found[name] for name in own}


def origin_beside(table: ScoreTable) -> Origin:
    """Where scores come from by the ``metrics.json`` of their folder of results, if they are its.

    Nothing is known of others.

    Args:
        table: Labelled trials that were read from a file.
    """
    found = metrics_beside(table)
    of = next((of for _, _, of in blocks(found, table.path.stem)), None)
    if of is None:
        return Origin(None)
    known = Origin(of["corpus"], of["simulated"], of["scale"], of["twin_seed"])
    return replace(known, expected=of["expected"], cause=of["cause"]) if is_part(of) else known


def write_version_1(file: str, out: str | None = None, overwrite: bool = False) -> Path:
    """Write a ``metrics.json`` in the shape of version 1, for scripts that know only that.

    Args:
        file: The ``metrics.json``.
        out: File to write; by default ``metrics-v1.json`` in the current folder.
        overwrite: Replace a file of another content.
    """
    target = Path(out or "metrics-v1.json")
    content = finite(as_version_1(read_metrics(file)))
    if target.exists() and not overwrite and (target.is_dir() or read_json(target) != content):
        refuse(target, "something else than what would be written")
    return write_json(target, content)


# Writing


def scores_file(folder: Path, split: str) -> Path:
    """Score file of ``dev`` or ``eval``."""
    return folder / "scores" / f"{split}.csv"


def fitted_file(folder: Path, name: str) -> Path:
    """File of a fitted system."""
    from lightning_sasv.fitted import FOLDER, SUFFIX

    return folder / FOLDER / f"{name}{SUFFIX}"


def checkpoint_file(folder: Path, network: str | None = None) -> Path:
    """Checkpoint of the best epoch, of a system's own network by its name."""
    return folder / "checkpoints" / ("best.ckpt" if network is None else f"best_{network}.ckpt")


def write_set(folder: str | Path, split: str, table: ScoreTable | Scores) -> Path:
    """Write the scores of a set.

    Args:
        folder: Folder of results.
        split: ``dev`` or ``eval``.
        table: Trials, pairs of scores, and fused scores.
    """
    path = scores_file(Path(folder), split)
    whole = from_scores(table, path) if isinstance(table, Scores) else table
    write_table(path, whole)
    for place in (Path(folder), *([Path(folder).parent] if "seed" in Path(folder).name else [])):
        _mark_page(place / PAGE, f"{split}:{_digest(whole)}")
    return path


def _digest(table: ScoreTable) -> str:
    """SHA-256 of all scores of a set."""
    return Trials(table).digest({name: table.numbers(name) for name in table.score_columns})


def _mark_page(page: Path, scores: str) -> None:
    """Let a page say that it is older than the scores beside it, unless it was made of these."""
    if PAGE_TITLE not in head(page) or any(word in head(page) for word in (scores, OLDER)):
        return
    text = page.read_text(encoding="utf-8", errors="replace")
    write_text(page, text.replace("<main>", f'<main>\n<p class="notice">{OLDER}</p>', 1))


def write_systems(
    folder: str | Path,
    systems: Mapping[str, Fusion],
    about: Mapping[str, Any],
    only: bool = False,
) -> None:
    """Write fitted systems.

    Args:
        folder: Folder of results.
        systems: The systems by name.
        about: Where they come from: corpus, seed.
        only: Remove those of an earlier run, which do not belong to the scores of this one.
    """
    from lightning_sasv.fitted import save_system

    for name, system in systems.items():
        save_system(fitted_file(Path(folder), name), system, dict(about))
    for old in fitted_file(Path(folder), "").parent.glob("*.safetensors") if only else []:
        if old.stem not in systems:
            old.unlink()


def write_folder(
    folder: str | Path,
    metrics: Metrics,
    tables: Mapping[str, ScoreTable],
    systems: Mapping[str, Fusion],
    corpus: str,
    more: Mapping[str, Any],
) -> Path:
    """Write a whole folder of results; fitted systems of an earlier run in it go.

    Args:
        folder: Where.
        metrics: Content of ``metrics.json``.
        tables: Trials of each set with their scores.
        systems: Fitted systems.
        corpus: What they were fitted on.
        more: Text or JSON of further files by name; ``None`` for one that must not be there.
    """
    folder = ensure_directory(folder)
    (folder / METRICS_FILE).unlink(missing_ok=True)  # what has none counts as unfinished
    for split, table in tables.items():
        write_set(folder, split, table)
    write_systems(folder, systems, {"corpus": corpus}, only=True)
    for name, content in more.items():
        if content is None:
            (folder / name).unlink(missing_ok=True)
        else:
            (write_text if isinstance(content, str) else write_json)(folder / name, content)
    write_metrics(folder / METRICS_FILE, metrics)
    return folder


def write_tables(
    folder: Path, texts: Mapping[str, str], metrics: Metrics, comparisons: Sequence[Any] = ()
) -> None:
    """Write ``table.md`` and its like, by suffix, and the ``metrics.json`` of their numbers."""
    for suffix, text in texts.items():
        write_text(folder / f"table.{suffix}", text)
    write_metrics(folder / METRICS_FILE, metrics, comparisons)


# Seeds of a table


def seed_folders(out: Path) -> list[Path]:
    """The folders of the seeds of a table, in the order of their numbers."""
    found = [path for path in out.glob("seed*") if path.is_dir()]
    return sorted(found, key=lambda path: (int(re.sub(r"\D", "", path.name) or 0), path.name))


def link_scores(out: Path, seeds: Sequence[int]) -> None:
    """Make ``scores/seed<N>`` lead to the score files of each seed, where links can be made."""
    for seed in seeds:
        link = out / "scores" / f"seed{seed}"
        with contextlib.suppress(OSError):
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(Path("..") / link.name / "scores", target_is_directory=True)


def clear_seeds(out: Path) -> None:
    """Remove the results of an earlier table, and nothing else, from ``out``."""
    for place in [out / "training", *out.glob("seed[0-9]*"), *out.glob("scores/seed[0-9]*")]:
        try:
            if place.is_symlink():
                place.unlink()
            elif place.is_dir():  # metrics first: what has none counts as unfinished
                (place / METRICS_FILE).unlink(missing_ok=True)
                shutil.rmtree(place)
        except OSError as error:
            raise InputError(f"cannot remove {place}: {error.strerror}") from None


# Reading


@dataclass(frozen=True)
class Results:
    """What the report is made of.

    Attributes:
        folder: The folder that was asked for.
        source: The folder that the figures come from: the same, or that of the first seed.
        split: The set that the figures show, ``eval`` where there is one.
        scores: Its trials.
        sizes: Trials of each class (``TrialClass`` order), by set.
        fused: Fused score of each trial, by system.
        systems: Fitted systems; those of a folder without any are absent.
        metrics: ``metrics.json``.
        table: ``table.md``, where there is one.
        notes: What the reader must know.
        digests: SHA-256 of the scores of each set.
        whole: ``metrics.json`` of a table: means over its seeds.
        of_seeds: The folders of these seeds.
        dev: Trials of dev, where another set is shown.
    """

    folder: Path
    source: Path
    split: str
    scores: Scores
    sizes: dict[str, list[int]]
    fused: dict[str, np.ndarray]
    systems: dict[str, FittedSystem]
    metrics: Metrics
    table: str | None = None
    notes: list[str] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)
    whole: Metrics = field(default_factory=dict)
    of_seeds: list[Path] = field(default_factory=list)
    dev: Scores | None = None

    @property
    def shown(self) -> Metrics:
        """The metrics that results are about: of a table the means over seeds."""
        return self.whole or self.metrics

    @property
    def parts(self) -> list[str]:
        """Titles of the sets that were scored in part."""
        return parts_of(self.metrics)

    @property
    def corpora(self) -> list[str]:
        """The corpora that the metrics name."""
        found = [of["corpus"] for _, _, of in blocks(self.metrics)]
        return list(dict.fromkeys(str(one) for one in found if one != NOT_RECORDED))

    @property
    def about(self) -> str:
        """The corpora, and whether they are simulated: ``twin (simulated)``."""
        named = ", ".join(self.corpora) or "corpus not named"
        return f"{named} (simulated)" if self.simulated else named

    @property
    def seeds(self) -> list[str]:
        """The training seeds that the metrics name."""
        found = [of["seeds"] for _, _, of in blocks(self.metrics)]
        known = [str(seed) for seeds in found if isinstance(seeds, list) for seed in seeds]
        return list(dict.fromkeys(known))

    def only(self, names: Sequence[str]) -> Results:
        """The same of some systems, in the order given.

        Raises:
            InputError: There is no such system.
        """
        for name in names:
            check_name(name, self.fused, "--systems: no system")
        return replace(
            self,
            fused={name: self.fused[name] for name in names},
            systems={name: self.systems[name] for name in names if name in self.systems},
            metrics={name: self.metrics[name] for name in names if name in self.metrics},
            whole={name: self.whole[name] for name in names if name in self.whole},
        )

    @property
    def simulated(self) -> bool:
        """Whether the numbers come from the twin."""
        return any(of["simulated"] is True for _, _, of in blocks(self.metrics))


def read_results(folder: str | Path, seed: int | None = None) -> Results:
    """Read a folder that ``lightning fit``, ``fuse`` or ``table`` wrote.

    Args:
        folder: Holds ``scores/eval.csv`` or ``scores/dev.csv`` and, where there are,
            ``metrics.json`` and ``fitted/``; or it holds such folders, ``seed<N>``, one of which
            is taken.
        seed: Which; by default the first.

    Raises:
        InputError: There is no such folder, no score file, a class without trials, or a score that
            is not a finite number.
    """
    from lightning_sasv.fitted import FOLDER, read_fitted_systems
    from lightning_sasv.fusion import warning_lines
    from lightning_sasv.locks import owner_of

    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"no folder {folder}; give one that `lightning fit`, fuse or table wrote")
    source, notes = _source(check_links(folder), seed)
    if (owner := owner_of(folder) or owner_of(source)) is not None:
        notes.append(f"Still being written to ({owner}): what is complete is shown.")
    sets = _read_sets(source, notes)
    split = "eval" if "eval" in sets else "dev"
    systems = read_fitted_systems(source, notes) if any((source / FOLDER).glob("*")) else {}
    fused = _fused(sets[split], scores_file(source, split), systems, notes)
    if not systems:
        notes.append(
            f"No fitted systems in {source / FOLDER}: figures of log-likelihood ratios and the "
            "what-if panel are left out."
        )
    path, table = source / METRICS_FILE, folder / "table.md"
    if not path.exists():
        notes.append(f"No {path.name} in {source}: the run has not finished, or was broken off.")
    metrics = read_metrics(path) if path.exists() else {}
    notes += [*_said_of(metrics), *warning_lines(warnings_of(metrics))]
    whole = _whole(folder, source)
    names = {str(seed) for _, _, of in blocks(whole) for seed in of["seeds"] or ()}
    of_seeds = [path for path in seed_folders(folder) if path.name.removeprefix("seed") in names]
    return Results(
        folder,
        source,
        split,
        sets[split],
        {name: _sizes(scores) for name, scores in sets.items()},
        fused,
        {name: systems[name] for name in fused if name in systems},
        metrics,
        table.read_text(encoding="utf-8", errors="replace") if table.is_file() else None,
        notes,
        {name: _digest(from_scores(scores, source)) for name, scores in sets.items()},
        whole,
        of_seeds,
        sets.get("dev") if split != "dev" else None,
    )


def _whole(folder: Path, source: Path) -> Metrics:
    """Means over the seeds of a table, where the folder is one that says of which seeds."""
    file = folder / METRICS_FILE
    found = read_metrics(file) if source != folder and file.is_file() else {}
    return found if all(isinstance(of["seeds"], list) for _, _, of in blocks(found)) else {}


def _said_of(metrics: Metrics) -> list[str]:
    """What results are of, where it is not what a reader takes for granted."""
    lines = []
    for _, split, of in blocks(metrics):
        if is_part(of):
            because = f" ({of['cause']})" if of["cause"] else ""
            lines.append(f"{set_title(split, of)}{because}. No value is marked as best.")
        if of["fingerprint"] == NOT_RECORDED:
            lines.append(
                f"{METRICS_FILE} is of version 1: what its numbers on {split} are of (trials, "
                "costs, conventions, checkpoint, software, device) is not recorded."
            )
    for entry in metrics.values():
        if is_part(on := entry.get("fitted_on", {})):
            lines.append(f"The systems were fitted on {set_title('dev', on)}.")
    return [line[0].upper() + line[1:] for line in dict.fromkeys(lines)]


def _has_scores(folder: Path) -> bool:
    return any(scores_file(folder, split).is_file() for split in SPLITS)


def _source(folder: Path, seed: int | None = None) -> tuple[Path, list[str]]:
    """The folder with the scores, and what to say when it is that of one seed."""
    if _has_scores(folder):
        return folder, []
    seeds = [path for path in seed_folders(folder) if _has_scores(path)]
    done = [path for path in seeds if (path / METRICS_FILE).is_file()]
    if not seeds:
        raise InputError(
            f"{folder} has no scores/eval.csv or scores/dev.csv, and no folder seed<N> with them; "
            "give a folder that `lightning fit`, fuse or table wrote"
        )
    named = [path for path in seeds if seed is None or path.name == f"seed{seed}"]
    if not named:
        there = ", ".join(path.name.removeprefix("seed") for path in seeds)
        raise InputError(f"--seed: {folder} has no seed {seed}; there are {there}")
    first = next((path for path in named if path in done), named[0])
    lacking = [path.name for path in seeds if path not in done]
    said = "Figures are" if (folder / METRICS_FILE).is_file() else "Figures and numbers below are"
    others = "--seed chooses, --seed all makes a page of each"
    notes = [f"{said} those of {first.name}, one of {len(seeds)} seeds ({others})."]
    if lacking:
        notes.append(f"Not finished: {', '.join(lacking)}.")
    return first, notes


def _read_sets(source: Path, notes: list[str]) -> dict[str, Scores]:
    """The labelled sets; an eval set that was fused without labels is left out with a note."""
    paths = {split: scores_file(source, split) for split in SPLITS}
    tables = {split: read_table(path) for split, path in paths.items() if path.is_file()}
    sets = {}
    for split, table in tables.items():
        if "label" not in table and len(tables) > 1:
            notes.append(f"scores/{split}.csv has no labels and is left out.")
            continue
        several = set(score_names(table)) - set(PAIR)
        table.need(["label", *(() if several else PAIR)], "a report")
        sets[split] = table.to_scores()
        for code, count in zip(TrialClass, _sizes(sets[split]), strict=True):
            if count == 0:
                raise InputError(
                    f"{paths[split]} has no {code} trial; a report needs all three classes"
                )
    if not sets:
        raise InputError(f"{source / 'scores'} has no labels; fuse with --dev-key and --eval-key")
    return sets


def _sizes(scores: Scores) -> list[int]:
    return [int(count) for count in np.bincount(scores.label, minlength=len(TrialClass))]


def _fused(
    scores: Scores, path: Path, systems: Mapping[str, FittedSystem], notes: list[str]
) -> dict[str, np.ndarray]:
    """Fused scores of the file, of fitted systems where the file lacks them; known names first."""
    from lightning_sasv.fusion import KNOWN

    names = [name for name in scores.extra if name.startswith(PREFIX)]
    found = {name.removeprefix(PREFIX): scores.extra[name] for name in names}
    for name, column in found.items():
        if column.dtype.kind != "f" or not np.isfinite(column).all():
            raise InputError(
                f"{path}, column {PREFIX}{name}: not finite numbers throughout; a report needs "
                "them, fuse the scores again"
            )
    for name, system in systems.items():
        own = system.of(scores).sasv
        if name not in found:
            found[name] = own
        elif not np.allclose(own, found[name], rtol=1e-6, atol=1e-6):
            notes.append(
                f"The fitted system {name} does not give the scores of {path.name} (largest "
                f"difference {np.abs(own - found[name]).max():.3g}): they are of different runs."
            )
    if not found:
        raise InputError(
            f"{path} has no column {PREFIX}<system> and {path.parents[1] / 'fitted'} no fitted "
            "system; fuse the scores first with `lightning fuse`"
        )
    order = [*(name for name in KNOWN if name in found), *sorted(found.keys() - KNOWN.keys())]
    return {name: found[name] for name in order}
