"""What a bundle keeps of dev: its trials, and the level at which others are outside of them.

Trials are kept as scores, classes and speakers by number, no names; what they measured makes the
third verdict.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lightning_sasv.checks import Codes, Floats, as_labels
from lightning_sasv.decisions import empirical_cost, worth_below
from lightning_sasv.decisions.outcome import share_of
from lightning_sasv.deploy.decision import checked_scores
from lightning_sasv.deploy.scorer import Scorer
from lightning_sasv.errors import InputError
from lightning_sasv.files import read_arrays, write_arrays
from lightning_sasv.fitted import FittedSystem
from lightning_sasv.fusion.conformal import LEVEL, Measured, measure
from lightning_sasv.trials import CLASS_ORDER, Scores, TrialClass, claimed_speakers

if TYPE_CHECKING:
    from lightning_sasv.metrics.drift import Groups

DEV, MEASURED = "dev.safetensors", "measured.safetensors"


@dataclass(frozen=True)
class Reference:
    """Dev trials that a bundle was made from.

    Attributes:
        scores: One row for each column that the system fuses, (columns, trials).
        label: ``TrialClass`` code of each trial.
        speaker: Number of the enrolled speaker of each trial; ``None`` where dev had no names.
    """

    scores: Floats
    label: Codes
    speaker: Groups | None

    @classmethod
    def of(cls, system: FittedSystem, dev: Scores) -> Reference:
        """The reference that dev trials make for a system."""
        speaker = None if dev.speaker is None else numbered(dev.speaker)
        return cls(checked_scores(system, dev), as_labels(dev.label), speaker)

    def save(self, path: Path) -> None:
        """Write it, atomically."""
        arrays = {"scores": self.scores, "label": self.label}
        known = {} if self.speaker is None else {"speaker": self.speaker}
        write_arrays(path, arrays | known)

    @classmethod
    def load(cls, bundle: str | Path, columns: int) -> Reference:
        """That of a bundle whose checksums were found right."""
        path = Path(bundle) / DEV
        if not path.is_file():
            raise InputError(
                f"bundle {bundle} does not hold its dev scores, to which new ones are compared; "
                "export it again"
            )
        try:
            found = read_arrays(path)[1]
            scores, label, speaker = found["scores"], found["label"], found.get("speaker")
            if scores.shape != (columns, len(label)) or not np.isfinite(scores).all():
                raise ValueError(f"scores of shape {scores.shape}")
            if speaker is not None and (speaker.shape != label.shape or speaker.min() < 0):
                raise ValueError(f"speakers of shape {speaker.shape}")
            return cls(scores.astype(np.float64), as_labels(label), speaker)
        except (KeyError, ValueError, TypeError, OSError) as error:
            raise InputError(f"{path} is damaged ({error}); export the bundle again") from None


def numbered(names: np.ndarray) -> Groups:
    """Speakers of enrolled models as numbers from 0 on."""
    speakers = claimed_speakers(names.astype(str).tolist())
    return np.unique(speakers, return_inverse=True)[1].astype(np.int64)


class Unsure(NamedTuple):
    """What a bundle is told of the third verdict.

    Attributes:
        measured: What dev measured; ``None`` for a bundle without the verdict.
        level: The level at which a trial is outside.
        why: Why there is no such verdict, in words.
    """

    measured: Measured | None
    level: float
    why: str | None = None

    def save(self, folder: Path) -> None:
        """Write the sorted nonconformities into the folder of a bundle."""
        if self.measured is not None:
            write_arrays(folder / MEASURED, self.measured.arrays())


def choose_level(system: FittedSystem, dev: Scores, level: float | None) -> Unsure:
    """What dev trials measured, and the level at which others are outside.

    Args:
        system: Fitted system.
        dev: Development trials.
        level: The level; by default 1 % if dev has the trials for it, 0 for no such verdict.

    Raises:
        InputError: A level for which a class of dev has too few trials, or that is none.
    """
    wanted = LEVEL if level is None else level
    if not 0 <= wanted < 1:
        raise InputError(f"--level must lie in [0, 1), got {wanted:g}")
    if wanted == 0:
        return Unsure(None, 0.0, "no level was asked for (--level 0)")
    counts = {code: int((dev.label == code).sum()) for code in TrialClass}
    code = min(counts, key=lambda one: counts[one])
    least = 1 / (counts[code] + 1)
    if least > wanted:
        needed = math.ceil(1 / wanted - 1 - 1e-9)
        why = (
            f"a level of {100 * wanted:g} % needs {needed:,} dev trials of each class, and there "
            f"are {counts[code]:,} of {code}; the least possible level is {least:.4g}"
        )
        if level is not None:
            raise InputError(f"--level {level:g}: {why}")
        return Unsure(None, 0.0, why)
    columns = system.columns.without_quality()
    try:
        scores = checked_scores(system, dev)[: columns.scores]
        return Unsure(measure(scores, np.asarray(dev.label), columns), wanted)
    except InputError as error:
        if level is not None:
            raise
        return Unsure(None, 0.0, f"what dev measured has no shape: {error}")


def read_measured(folder: Path, content: dict[str, Any], system: FittedSystem) -> Unsure:
    """The third verdict of a bundle on disk; bundles of format 1 have none."""
    about = content.get("unsure") or {"level": 0.0}
    if not about["level"]:
        return Unsure(None, 0.0, about.get("why"))
    path = folder / MEASURED
    try:
        found = Measured.of_arrays(read_arrays(path)[1], system.columns.scores)
        return Unsure(found, float(about["level"]))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is damaged ({error}); export the bundle again") from None


def no_verdict(content: Mapping[str, Any]) -> str | None:
    """What is said of a bundle that calls nothing unsure for what dev did not measure."""
    about = content.get("unsure", {"level": 0.0, "why": "the bundle is of format 1"})
    if about["level"]:
        return None
    return f"no verdict unsure for what dev did not measure: {about.get('why')}"


def describe(unsure: Unsure, scorer: Scorer, sets: dict[str, Scores]) -> dict[str, Any]:
    """What the description of a bundle says of it: level, and shares by class and set."""
    if unsure.measured is None:
        found: dict[str, Any] = {"level": 0.0, "why": unsure.why}
    else:
        percent = f"{100 * unsure.level:g} %"
        found = {
            "level": unsure.level,
            "least_level": unsure.measured.least_level,
            "meaning": "outside what dev measured: every class-conditional conformal p-value is at "
            f"most {unsure.level:g}, in about {percent} of trials of speakers like those of dev; "
            "outside and accepted is unsure, outside and rejected is a reject with a note",
        }
    acts = unsure.measured is not None or scorer.costs.c_abstain < math.inf
    return found | {"shares": {k: _shares(scorer, one) for k, one in sets.items() if acts}}


def _shares(scorer: Scorer, trials: Scores) -> dict[str, Any]:
    """Shares of each class, and what they save, on trials with labels."""
    verdict, labels = scorer.of(trials), np.asarray(trials.label)
    outside = np.zeros(len(labels), bool) if verdict.outside is None else verdict.outside
    taken = verdict.unsure & outside & (verdict.margin > 0)
    spoofs = labels == TrialClass.SPOOF
    false = int((spoofs & (verdict.margin > 0)).sum())
    flags = {"outside": outside, "unsure": verdict.unsure}
    found: dict[str, Any] = {
        name: {str(code): share_of(values, labels, code) for code in CLASS_ORDER}
        for name, values in flags.items()
    }
    known = false and verdict.outside is not None
    found["accepted_spoofs_caught"] = float((taken & spoofs).sum() / false) if known else None
    if set(np.unique(labels)) >= set(TrialClass):
        worth = worth_below(taken, labels, scorer.costs)
        cost = empirical_cost(verdict.accepted, labels, scorer.costs, verdict.unsure)
        found |= {"worth_below": None if math.isnan(worth) else worth}
        found |= {"policy_a_dcf": float(cost.normalised)}
    return found
