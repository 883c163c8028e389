"""A folder of results: the only reader and writer of what a run leaves behind.

    scores/{dev,eval}.csv          every trial with its scores, sasv_<system> for each system
    fitted/<system>.safetensors    fitted systems
    metrics.json                   metrics of each system on each set, rates as fractions
    checkpoints/best.ckpt          the best epoch of a training
    seed<N>/…                      all this for each seed of a table, which has besides
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lightning_sasv.errors import InputError
from lightning_sasv.files import check_links, read_json, write_json, write_text
from lightning_sasv.locks import owner_of
from lightning_sasv.scores import ScoreTable, read_table, write_table
from lightning_sasv.scores.table import from_scores
from lightning_sasv.trials import SPLITS, TWIN, FusedScores, Scores, TrialClass

if TYPE_CHECKING:
    from lightning_sasv.fitted import FittedSystem
    from lightning_sasv.fusion.base import Fusion
    from lightning_sasv.fusion.doubts import FitWarning
    from lightning_sasv.metrics.functional import Settings

METRICS_FILE = "metrics.json"
PREFIX = "sasv_"
"""Columns of fused scores are called ``sasv_<system>``."""

Metrics = dict[str, dict[str, Any]]
"""``{system: {"corpus": …, "dev": {metric: value}, "eval": …, "fitted": …, "warnings": […]}}``."""


# metrics.json


def fused_metrics(
    fused: Mapping[str, FusedScores], labels: Any, settings: Settings | None = None
) -> dict[str, dict[str, float]]:
    """Every metric of fused scores, by system.

    Args:
        fused: LLRs and SASV scores by system.
        labels: ``TrialClass`` codes of the trials.
        settings: Costs and conventions of the metrics.
    """
    from lightning_sasv.metrics.functional import Settings, all_metrics

    chosen = settings or Settings()
    costs, others = chosen.costs, chosen.tandem_costs
    return {
        name: all_metrics(*one, labels, costs, tandem_costs=others, convention=chosen.convention)
        for name, one in fused.items()
    }


def fit_entry(system: Fusion) -> dict[str, Any]:
    """What is written of a fit: the values found, and what makes them doubtful."""
    return {"fitted": system.values(), "warnings": system.warnings}


def warnings_of(metrics: Metrics) -> dict[str, list[FitWarning]]:
    """What makes the fit of each system doubtful.

    Raises:
        InputError: An entry ``warnings`` of another kind.
    """
    from lightning_sasv.fusion.doubts import as_warnings

    entries = {name: entry for name, entry in metrics.items() if isinstance(entry, Mapping)}
    return {name: as_warnings(entry.get("warnings", [])) for name, entry in entries.items()}


def read_metrics(path: str | Path) -> Metrics:
    """Content of a ``metrics.json``."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError(f"{path} does not hold metrics by system")
    return content


def value_of(entry: Mapping[str, Any], metric: str) -> float:
    """A metric of one system on one set, NaN where it is absent or undefined."""
    value = entry.get(metric)
    return float(value) if isinstance(value, int | float) else math.nan


def write_metrics(path: str | Path, metrics: Metrics) -> Path:
    """Write a ``metrics.json`` atomically; NaN and infinity, which JSON lacks, become null."""
    return write_json(path, metrics)


def merge_metrics(path: str | Path, new: Metrics) -> Metrics:
    """Add entries to a ``metrics.json``: those of other systems and sets stay."""
    path = Path(path)
    merged = read_metrics(path) if path.exists() else {}
    for system, entries in new.items():
        merged[system] = merged.get(system, {}) | entries
    write_metrics(path, merged)
    return merged


# Writing


def scores_file(folder: Path, split: str) -> Path:
    """Score file of ``dev`` or ``eval``."""
    return folder / "scores" / f"{split}.csv"


def fitted_file(folder: Path, name: str) -> Path:
    """File of a fitted system."""
    from lightning_sasv.fitted import FOLDER, SUFFIX

    return folder / FOLDER / f"{name}{SUFFIX}"


def checkpoint_file(folder: Path) -> Path:
    """Checkpoint of the best epoch."""
    return folder / "checkpoints" / "best.ckpt"


def write_set(folder: str | Path, split: str, table: ScoreTable | Scores) -> Path:
    """Write the scores of a set.

    Args:
        folder: Folder of results.
        split: ``dev`` or ``eval``.
        table: Trials, pairs of scores, and fused scores.
    """
    path = scores_file(Path(folder), split)
    return write_table(path, from_scores(table, path) if isinstance(table, Scores) else table)


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


def write_tables(folder: Path, texts: Mapping[str, str], metrics: Metrics) -> None:
    """Write ``table.md`` and its like, by suffix, and the ``metrics.json`` of their numbers."""
    for suffix, text in texts.items():
        write_text(folder / f"table.{suffix}", text)
    write_metrics(folder / METRICS_FILE, metrics)


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

    @property
    def corpora(self) -> list[str]:
        """The corpora that the metrics name."""
        return _values(self.metrics, "corpus")

    @property
    def seeds(self) -> list[str]:
        """The training seeds that the metrics name."""
        return _values(self.metrics, "seed")

    @property
    def simulated(self) -> bool:
        """Whether the numbers come from the twin."""
        return TWIN in self.corpora


def _values(metrics: Mapping[str, Any], key: str) -> list[str]:
    found = (entry.get(key) for entry in metrics.values() if isinstance(entry, Mapping))
    return list(dict.fromkeys(str(value) for value in found if value is not None))


def read_results(folder: str | Path) -> Results:
    """Read a folder that ``lightning fit``, ``fuse`` or ``table`` wrote.

    Args:
        folder: Holds ``scores/eval.csv`` or ``scores/dev.csv`` and, where there are,
            ``metrics.json`` and ``fitted/``; or it holds such folders, ``seed<N>``, of which the
            first is taken.

    Raises:
        InputError: There is no such folder, no score file, a class without trials, or a score that
            is not a finite number.
    """
    from lightning_sasv.fitted import FOLDER, read_fitted_systems
    from lightning_sasv.fusion import warning_lines

    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"no folder {folder}; give one that `lightning fit`, fuse or table wrote")
    source, notes = _source(check_links(folder))
    if (owner := owner_of(folder) or owner_of(source)) is not None:
        notes.append(f"Still being written to ({owner}): what is complete is shown.")
    sets = _read_sets(source, notes)
    split = "eval" if "eval" in sets else "dev"
    systems = read_fitted_systems(source) if any((source / FOLDER).glob("*")) else {}
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
    notes += warning_lines(warnings_of(metrics))
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
    )


def _has_scores(folder: Path) -> bool:
    return any(scores_file(folder, split).is_file() for split in SPLITS)


def _source(folder: Path) -> tuple[Path, list[str]]:
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
    first, lacking = (done or seeds)[0], [path.name for path in seeds if path not in done]
    notes = [f"Figures and numbers below are those of {first.name}, one of {len(seeds)} seeds."]
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
        table.need(["label", "asv_score", "cm_score"], "a report")
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
    from lightning_sasv.fusion import SYSTEMS

    names = [name for name in scores.extra if name.startswith(PREFIX)]
    found = {name.removeprefix(PREFIX): scores.extra[name] for name in names}
    for name, column in found.items():
        if column.dtype.kind != "f" or not np.isfinite(column).all():
            raise InputError(
                f"{path}, column {PREFIX}{name}: not finite numbers throughout; a report needs "
                "them, fuse the scores again"
            )
    for name, system in systems.items():
        own = system(scores.asv, scores.cm).sasv
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
    order = [*(name for name in SYSTEMS if name in found), *sorted(found.keys() - SYSTEMS.keys())]
    return {name: found[name] for name in order}
