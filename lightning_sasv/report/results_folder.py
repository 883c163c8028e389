"""A folder of results, read and checked: scores, metrics and fitted systems for the report."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lightning_sasv.errors import InputError
from lightning_sasv.fitted import FOLDER, load_systems
from lightning_sasv.fusion import SYSTEMS, FusionSystem
from lightning_sasv.report.metrics_file import METRICS_FILE, Metrics, read_metrics
from lightning_sasv.scores import read_table
from lightning_sasv.trials import Scores, TrialClass

PREFIX = "sasv_"
"""Columns of fused scores are called ``sasv_<system>``."""

TWIN = "twin"
SPLITS = ("dev", "eval")


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
    systems: dict[str, FusionSystem]
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
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"no folder {folder}; give one that `lightning fit`, fuse or table wrote")
    source, notes = _source(folder)
    sets = _read_sets(source, notes)
    split = "eval" if "eval" in sets else "dev"
    systems = load_systems(source) if any((source / FOLDER).glob("*")) else {}
    fused = _fused(sets[split], source, split, systems, notes)
    if not systems:
        notes.append(
            f"No fitted systems in {source / FOLDER}: figures of log-likelihood ratios and the "
            "what-if panel are left out."
        )
    path, table = source / METRICS_FILE, folder / "table.md"
    return Results(
        folder,
        source,
        split,
        sets[split],
        {name: _sizes(scores) for name, scores in sets.items()},
        fused,
        {name: systems[name] for name in fused if name in systems},
        read_metrics(path) if path.exists() else {},
        table.read_text(encoding="utf-8", errors="replace") if table.is_file() else None,
        notes,
    )


def _has_scores(folder: Path) -> bool:
    return any((folder / "scores" / f"{split}.csv").is_file() for split in SPLITS)


def _source(folder: Path) -> tuple[Path, list[str]]:
    """The folder with the scores, and what to say when it is that of one seed."""
    if _has_scores(folder):
        return folder, []
    seeds = [path for path in folder.glob("seed*") if _has_scores(path)]
    if not seeds:
        raise InputError(
            f"{folder} has no scores/eval.csv or scores/dev.csv, and no folder seed<N> with them; "
            "give a folder that `lightning fit`, fuse or table wrote"
        )
    seeds.sort(key=lambda path: (int(re.sub(r"\D", "", path.name) or 0), path.name))
    note = f"Figures and numbers below are those of {seeds[0].name}, one of {len(seeds)} seeds."
    return seeds[0], [note]


def _read_sets(source: Path, notes: list[str]) -> dict[str, Scores]:
    """The labelled sets; an eval set that was fused without labels is left out with a note."""
    paths = {split: source / "scores" / f"{split}.csv" for split in SPLITS}
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
    scores: Scores,
    source: Path,
    split: str,
    systems: Mapping[str, FusionSystem],
    notes: list[str],
) -> dict[str, np.ndarray]:
    """Fused scores of the file, of fitted systems where the file lacks them; known names first."""
    path = source / "scores" / f"{split}.csv"
    found = {
        name.removeprefix(PREFIX): column
        for name, column in scores.extra.items()
        if name.startswith(PREFIX)
    }
    for name, column in found.items():
        if column.dtype.kind != "f" or not np.isfinite(column).all():
            raise InputError(
                f"{path}, column {PREFIX}{name}: not finite numbers throughout; a report needs "
                "them, fuse the scores again"
            )
    for name, system in systems.items():
        own = system(scores.asv, scores.cm).sasv.numpy()
        if name not in found:
            found[name] = own
        elif not np.allclose(own, found[name], rtol=1e-6, atol=1e-6):
            notes.append(
                f"The fitted system {name} does not give the scores of {path.name} (largest "
                f"difference {np.abs(own - found[name]).max():.3g}): they are of different runs."
            )
    if not found:
        raise InputError(
            f"{path} has no column {PREFIX}<system> and {source / FOLDER} no fitted system; "
            "fuse the scores first with `lightning fuse`"
        )
    order = [*(name for name in SYSTEMS if name in found), *sorted(found.keys() - SYSTEMS.keys())]
    return {name: found[name] for name in order}
