"""Whose errors they are: misses and false acceptances of each enrolled speaker at one threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lightning_sasv.checks import ArrayLike, as_trials, check_same_length
from lightning_sasv.metrics.functional.points import Classes
from lightning_sasv.metrics.registry import DEFAULTS, Settings, values_of
from lightning_sasv.trials import CLASS_ORDER, claimed_speakers


class SpeakerErrors(NamedTuple):
    """Trials and errors of one enrolled speaker at the threshold of all.

    Attributes:
        speaker: Name.
        targets: Target trials.
        nontargets: Nontarget trials.
        spoofs: Spoofed trials.
        misses: Targets rejected.
        accepted_nontargets: Nontargets accepted.
        accepted_spoofs: Spoofs accepted.
        eer: SASV-EER of these trials alone; NaN where a class has none.
    """

    speaker: str
    targets: int
    nontargets: int
    spoofs: int
    misses: int
    accepted_nontargets: int
    accepted_spoofs: int
    eer: float


class Concentration(NamedTuple):
    """How few speakers the misses come from.

    Attributes:
        speakers: Enrolled speakers.
        misses: Targets rejected.
        worst: Speaker with the most of them.
        worst_share: Their share of the misses; 0 where there are none.
        without_a_miss: Speakers with none.

    Example:
        >>> str(Concentration(48, 76, "LA_0038", 27 / 76, 29))
        '48 speakers; 36 % of the misses are of one (LA_0038), 29 have none'
    """

    speakers: int
    misses: int
    worst: str
    worst_share: float
    without_a_miss: int

    def __str__(self) -> str:
        if not self.misses:
            return f"{self.speakers} speakers; no misses"
        return (
            f"{self.speakers} speakers; {100 * self.worst_share:.0f} % of the misses are of one "
            f"({self.worst}), {self.without_a_miss} have none"
        )


def zoo(
    scores: ArrayLike,
    labels: ArrayLike,
    speakers: ArrayLike,
    threshold: float | None = None,
    settings: Settings = DEFAULTS,
) -> list[SpeakerErrors]:
    """The errors of each enrolled speaker at one threshold for all.

    Args:
        scores: One score per trial.
        labels: ``TrialClass`` codes or words.
        speakers: Enrolled speaker of each trial; models of one speaker are one.
        threshold: Accept iff score > threshold; by default that of the SASV-EER of all trials.
        settings: Convention of the EERs.

    Returns:
        One entry per speaker, by name.

    Example:
        >>> scores, labels = [2.0, 0.5, 1.0, 0.0], ["target", "target", "nontarget", "spoof"]
        >>> [(one.speaker, one.misses) for one in zoo(scores, labels, ["a", "b", "b", "b"], 1.0)]
        [('a', 0), ('b', 1)]
    """
    array, codes = as_trials(scores, labels)
    claimed = claimed_speakers(np.asarray(speakers).astype(str).tolist())
    names, of_trial = np.unique(claimed, return_inverse=True)
    check_same_length({"scores": array, "speakers": of_trial})
    if threshold is None:
        whole = Classes({"sasv": array}, codes)
        threshold = values_of(["sasv_threshold"], whole, settings)["sasv_threshold"]
    target, nontarget, spoof = ((codes == kind) for kind in CLASS_ORDER)
    accepted = array > threshold
    kinds = (target, nontarget, spoof, target & ~accepted, nontarget & accepted, spoof & accepted)
    counts = np.array([np.bincount(of_trial[kind], minlength=names.size) for kind in kinds])
    own = (np.flatnonzero(of_trial == number) for number in range(names.size))
    parts = (Classes({"sasv": array[rows]}, codes[rows]) for rows in own)
    eers = [values_of(["sasv_eer"], part, settings)["sasv_eer"] for part in parts]
    rows = zip(names.tolist(), *counts.tolist(), eers, strict=True)
    return [SpeakerErrors(*row) for row in rows]


def concentration(errors: Sequence[SpeakerErrors]) -> Concentration:
    """Share of the misses of the worst speaker, and how many speakers have none.

    Args:
        errors: What :func:`zoo` found.

    Example:
        >>> scores, labels = [2.0, 0.5, 1.0, 0.0], ["target", "target", "nontarget", "spoof"]
        >>> concentration(zoo(scores, labels, ["a", "b", "b", "b"], 1.0))
        Concentration(speakers=2, misses=1, worst='b', worst_share=1.0, without_a_miss=1)
    """
    worst, total = max(errors, key=lambda one: one.misses), sum(one.misses for one in errors)
    without = sum(one.misses == 0 for one in errors)
    share = worst.misses / total if total else 0.0
    return Concentration(len(errors), total, worst.speaker, share, without)
