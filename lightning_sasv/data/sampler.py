"""Training trials, drawn anew for every epoch as a pure function of seed and epoch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightning_sasv.data.protocols import UtteranceList
from lightning_sasv.errors import InputError
from lightning_sasv.trials import TrialClass

CLASS_PROBABILITIES = {TrialClass.TARGET: 0.5, TrialClass.NONTARGET: 0.25, TrialClass.SPOOF: 0.25}


class TrainingTrials(NamedTuple):
    """Drawn trials; ``enrol`` and ``probe`` are rows of the utterance list."""

    enrol: np.ndarray
    probe: np.ndarray
    label: np.ndarray


class _Pool:
    """Utterances of one kind grouped by speaker, so that one can be drawn for any speaker."""

    def __init__(self, speaker: np.ndarray, keep: np.ndarray, speakers: int) -> None:
        rows = np.flatnonzero(keep)
        self.rows = rows[np.argsort(speaker[rows], kind="stable")]
        self.count = np.bincount(speaker[rows], minlength=speakers)
        self.start = np.concatenate([[0], np.cumsum(self.count)[:-1]])

    def draw(self, rng: np.random.Generator, speaker: np.ndarray) -> np.ndarray:
        """One uniform random utterance of each speaker."""
        return self.rows[self.start[speaker] + rng.integers(self.count[speaker])]

    def draw_pair(
        self, rng: np.random.Generator, speaker: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Two different uniform random utterances of each speaker."""
        first = rng.integers(self.count[speaker])
        step = rng.integers(1, self.count[speaker])
        second = (first + step) % self.count[speaker]
        start = self.start[speaker]
        return self.rows[start + first], self.rows[start + second]


class TrialSampler:
    """Draws training trials with the class and speaker distribution of the paper's recipe.

    Each item is a target with probability 1/2, a nontarget or a spoof with 1/4 each. Target: a
    uniform random speaker and two different bona fide utterances of it. Nontarget: two different
    speakers with one bona fide utterance each. Spoof: a uniform random speaker that has spoofed
    utterances, a bona fide one as enrolment and a spoofed one as probe.

    Args:
        utterances: The training protocol.
    """

    def __init__(self, utterances: UtteranceList) -> None:
        names, speaker = np.unique(utterances.speaker, return_inverse=True)
        speaker = speaker.reshape(-1)
        self.size = len(utterances)
        self._bonafide = _Pool(speaker, utterances.bonafide, len(names))
        self._spoof = _Pool(speaker, ~utterances.bonafide, len(names))
        self._speakers = np.flatnonzero(self._bonafide.count >= 1)
        self._paired = np.flatnonzero(self._bonafide.count >= 2)
        self._attacked = np.flatnonzero((self._bonafide.count >= 1) & (self._spoof.count >= 1))
        if len(self._speakers) < 2 or not len(self._paired) or not len(self._attacked):
            raise InputError(
                "the training protocol needs two speakers with bona fide speech, one with two "
                "bona fide utterances, and one with spoofed speech; found "
                f"{len(self._speakers)}, {len(self._paired)} and {len(self._attacked)}"
            )

    def epoch(self, seed: int, epoch: int) -> TrainingTrials:
        """The trials of one epoch: as many as there are training utterances."""
        rng = np.random.default_rng([seed, epoch])
        codes, shares = (list(one) for one in zip(*CLASS_PROBABILITIES.items(), strict=True))
        label = rng.choice(np.array(codes), size=self.size, p=shares)
        enrol, probe = np.empty(self.size, np.int64), np.empty(self.size, np.int64)
        kinds = (self._targets, self._nontargets, self._spoofs)
        for code, draw in zip(CLASS_PROBABILITIES, kinds, strict=True):
            where = label == code
            enrol[where], probe[where] = draw(rng, int(where.sum()))
        return TrainingTrials(enrol, probe, label)

    def _targets(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        return self._bonafide.draw_pair(rng, rng.choice(self._paired, n))

    def _nontargets(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        first = rng.integers(len(self._speakers), size=n)
        step = rng.integers(1, len(self._speakers), size=n)
        second = (first + step) % len(self._speakers)
        enrol = self._bonafide.draw(rng, self._speakers[first])
        return enrol, self._bonafide.draw(rng, self._speakers[second])

    def _spoofs(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        speaker = rng.choice(self._attacked, n)
        return self._bonafide.draw(rng, speaker), self._spoof.draw(rng, speaker)
