"""The published score files of SASV 2022, joined with the protocols that say what they score."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lightning_sasv.data.protocols import TrialList
from lightning_sasv.errors import InputError
from lightning_sasv.trials import Scores

COLUMNS = ("asv_score", "cm_score", "sasv_label")
"""Header of a published file; the one of the evaluation set has no labels."""


def read_published_scores(path: str | Path, trials: TrialList) -> Scores:
    """Scores of a published file with the trials of its protocol.

    The file has no trial ids: its rows follow the order of the protocol. Their numbers must agree,
    and so must the labels, where the file has them.

    Args:
        path: Comma-separated file with the header ``asv_score,cm_score[,sasv_label]``.
        trials: The trials of the protocol.

    Raises:
        InputError: Another header, a value that is no finite number, or rows that do not belong to
            these trials.
    """
    path = Path(path)
    try:
        with path.open(encoding="utf-8") as file:
            header = tuple(file.readline().strip().split(","))
            if header not in (COLUMNS, COLUMNS[:2]):
                raise InputError(f"{path} has the columns {header}, expected {COLUMNS}")
            values = np.loadtxt(file, delimiter=",", dtype=np.float64, ndmin=2)
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read published scores {path}: {error}") from None
    _check_rows(path, values, header, trials)
    return Scores(
        values[:, 0].copy(),
        values[:, 1].copy(),
        trials.label.astype(np.int64),
        speaker=trials.speaker,
        utterance=trials.utterance,
        attack=trials.attack,
    )


def _check_rows(path: Path, values: np.ndarray, header: tuple[str, ...], trials: TrialList) -> None:
    """Raise unless the rows are those of the trials."""
    if values.shape != (len(trials), len(header)):
        raise InputError(
            f"{path} has {values.shape[0]:,} rows of {values.shape[1]} columns, the protocol "
            f"{len(trials):,} trials: they do not belong together"
        )
    if not np.isfinite(values).all():
        row = int(np.argmax(~np.isfinite(values).all(axis=1)))
        raise InputError(f"{path}, line {row + 2}: a score is not a finite number")
    if len(header) == len(COLUMNS) and (values[:, 2] != trials.label).any():
        row = int(np.argmax(values[:, 2] != trials.label))
        raise InputError(
            f"{path}, line {row + 2}: label {values[row, 2]:g} where the protocol has "
            f"{trials.label[row]}: they do not belong together"
        )
