"""Who speaks what in the twin: speakers, utterances and trials in the proportions of SASV 2022.

Each set has two cohorts (the real corpus compares speakers of the same sex only). Enrolled speakers
give target trials with their bona fide utterances, and every attack imitates every one of them;
further speakers, never enrolled, give the nontarget trials: each enrolled speaker is compared with
all utterances of some of them, so these utterances return in many trials.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lightning_sasv.data.protocols import TrialList, UtteranceList
from lightning_sasv.scores.layouts import BONAFIDE_ATTACK
from lightning_sasv.trials import TrialClass

KNOWN_ATTACKS = tuple(f"A{number:02d}" for number in range(1, 7))
"""Attacks of the training and development sets."""
UNSEEN_ATTACKS = tuple(f"A{number:02d}" for number in range(7, 20))
"""Attacks of the evaluation set."""


@dataclass(frozen=True)
class Cohort:
    """Speakers that are compared with each other.

    Attributes:
        speakers: Enrolled (or training) speakers.
        bonafide: Bona fide utterances of each of them.
        spoofed: Spoofed utterances of each of them by each attack.
        impostors: Speakers who are never enrolled.
        impostor_utterances: Bona fide utterances of each impostor.
        opponents: Impostors each enrolled speaker is compared with.
    """

    speakers: int
    bonafide: int
    spoofed: int
    impostors: int = 0
    impostor_utterances: int = 0
    opponents: int = 0

    def scaled(self, scale: float) -> Cohort:
        """The same speakers with ``scale`` times the utterances, but never fewer than it takes.

        Two bona fide utterances per speaker (a training trial of a target needs two different
        ones), one spoofed per speaker and attack.
        """
        return replace(
            self,
            bonafide=max(2, round(scale * self.bonafide)),
            spoofed=max(1, round(scale * self.spoofed)),
            impostor_utterances=max(2, round(scale * self.impostor_utterances)),
        )


@dataclass(frozen=True)
class SetPlan:
    """One set of the corpus: its letter in utterance names, its attacks and its two cohorts."""

    letter: str
    attacks: tuple[str, ...]
    cohorts: tuple[Cohort, Cohort]

    def scaled(self, scale: float) -> SetPlan:
        """The plan with ``scale`` times the utterances."""
        first, second = self.cohorts
        return replace(self, cohorts=(first.scaled(scale), second.scaled(scale)))

    @property
    def n_speakers(self) -> int:
        """All speakers, impostors included."""
        return sum(cohort.speakers + cohort.impostors for cohort in self.cohorts)


PLANS = {
    "train": SetPlan("T", KNOWN_ATTACKS, (Cohort(12, 127, 186), Cohort(8, 132, 196))),
    "dev": SetPlan(
        "D", KNOWN_ATTACKS, (Cohort(6, 154, 414, 6, 126, 6), Cohort(4, 140, 308, 4, 77, 4))
    ),
    "eval": SetPlan(
        "E", UNSEEN_ATTACKS, (Cohort(27, 146, 126, 10, 113, 7), Cohort(21, 68, 72, 9, 95, 6))
    ),
}
"""The numbers of SASV 2022 (ASVspoof 2019 LA)."""


@dataclass(frozen=True)
class Layout:
    """Utterances and trials of one set as integers.

    Attributes:
        plan: What was laid out.
        cohort: Cohort of each speaker.
        enrolled: True for speakers with a model (or training speakers), False for impostors.
        speaker: Speaker of each utterance (for spoofed speech the imitated one).
        attack: Attack of each utterance as a number in ``plan.attacks``, -1 for bona fide speech.
        trial_speaker: Enrolled speaker of each trial.
        trial_utterance: Probe of each trial.
        trial_label: ``TrialClass`` code of each trial.
    """

    plan: SetPlan
    cohort: np.ndarray
    enrolled: np.ndarray
    speaker: np.ndarray
    attack: np.ndarray
    trial_speaker: np.ndarray
    trial_utterance: np.ndarray
    trial_label: np.ndarray


def lay_out(plan: SetPlan) -> Layout:
    """Place the speakers, utterances and trials of a set.

    Per cohort the speakers come first and its impostors after them; utterances are in the order
    bona fide, impostors', spoofed. The opponents of an enrolled speaker are drawn in turn, so every
    impostor meets as many speakers as every other, give or take one.
    """
    parts = [_lay_out_cohort(cohort, len(plan.attacks)) for cohort in plan.cohorts]
    n_speakers = np.cumsum([0] + [c.speakers + c.impostors for c in plan.cohorts])
    n_utterances = np.cumsum([0] + [len(part[0]) for part in parts])
    ranks = np.concatenate([np.arange(c.speakers + c.impostors) for c in plan.cohorts])
    cohort = np.repeat([0, 1], np.diff(n_speakers))
    shifts = (n_speakers, None, n_speakers, n_utterances, None)
    columns = [
        np.concatenate([part[i] + (0 if by is None else by[k]) for k, part in enumerate(parts)])
        for i, by in enumerate(shifts)
    ]
    enrolled = ranks < np.array([c.speakers for c in plan.cohorts])[cohort]
    return Layout(plan, cohort, enrolled, *columns)


def _lay_out_cohort(cohort: Cohort, n_attacks: int) -> tuple[np.ndarray, ...]:
    """Speaker and attack of each utterance; speaker, utterance and label of each trial."""
    own = np.repeat(np.arange(cohort.speakers), cohort.bonafide)
    impostor = np.repeat(np.arange(cohort.impostors), cohort.impostor_utterances)
    imitated = np.repeat(np.arange(cohort.speakers), n_attacks * cohort.spoofed)
    attack = np.tile(np.repeat(np.arange(n_attacks), cohort.spoofed), cohort.speakers)
    speaker = np.concatenate([own, cohort.speakers + impostor, imitated])
    bonafide = np.full(len(own) + len(impostor), -1)

    pairs = np.arange(cohort.speakers * cohort.opponents)
    opponent = pairs % max(1, cohort.impostors)
    first = len(own) + opponent * cohort.impostor_utterances
    nontarget = (first[:, None] + np.arange(cohort.impostor_utterances)).reshape(-1)
    claimed = np.repeat(pairs // max(1, cohort.opponents), cohort.impostor_utterances)
    spoof = len(bonafide) + np.arange(len(imitated))
    label = np.repeat(
        np.array([TrialClass.TARGET, TrialClass.NONTARGET, TrialClass.SPOOF], dtype=np.int8),
        [len(own), len(nontarget), len(spoof)],
    )
    return (
        speaker,
        np.concatenate([bonafide, attack]),
        np.concatenate([own, claimed, imitated]),
        np.concatenate([np.arange(len(own)), nontarget, spoof]),
        label,
    )


def speaker_names(layout: Layout, first: int) -> np.ndarray:
    """Names ``TW_0001`` … of the speakers of a set, counted from ``first``."""
    return _numbered("TW_", np.arange(len(layout.cohort)) + first, 4)


def utterance_names(layout: Layout, rng: np.random.Generator) -> np.ndarray:
    """Names ``TW_D_0000001`` … of the utterances, numbered in an order that tells nothing."""
    numbers = rng.permutation(len(layout.speaker)) + 1
    return _numbered(f"TW_{layout.plan.letter}_", numbers, 7)


def _numbered(prefix: str, numbers: np.ndarray, digits: int) -> np.ndarray:
    return np.char.add(prefix, np.char.zfill(numbers.astype(str), digits))


def trial_list(layout: Layout, speakers: np.ndarray, utterances: np.ndarray) -> TrialList:
    """The trials of a set under the given names."""
    return TrialList(
        speakers[layout.trial_speaker],
        utterances[layout.trial_utterance],
        _attack_names(layout)[layout.trial_utterance],
        layout.trial_label,
    )


def utterance_list(layout: Layout, speakers: np.ndarray, utterances: np.ndarray) -> UtteranceList:
    """The utterances of a set under the given names."""
    return UtteranceList(
        speakers[layout.speaker], utterances, _attack_names(layout), layout.attack < 0
    )


def _attack_names(layout: Layout) -> np.ndarray:
    return np.array([*layout.plan.attacks, BONAFIDE_ATTACK])[layout.attack]
