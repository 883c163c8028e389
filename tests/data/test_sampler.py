"""The training sampler has the class and speaker distribution of the recipe."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from lightning_sasv.data.protocols import UtteranceList
from lightning_sasv.data.sampler import TrialSampler
from lightning_sasv.errors import InputError
from lightning_sasv.trials import TrialClass


def protocol(bonafide: list[int], spoof: list[int]) -> UtteranceList:
    """Speakers with the given numbers of utterances, in a shuffled order."""
    rows = [(f"S{n}", True) for n, count in enumerate(bonafide) for _ in range(count)]
    rows += [(f"S{n}", False) for n, count in enumerate(spoof) for _ in range(count)]
    order = np.random.default_rng(0).permutation(len(rows))
    speaker = np.array([rows[i][0] for i in order])
    genuine = np.array([rows[i][1] for i in order])
    names = np.array([f"U{i}" for i in range(len(rows))])
    return UtteranceList(speaker, names, np.where(genuine, "-", "A01"), genuine)


@pytest.fixture(scope="module")
def utterances() -> UtteranceList:
    # speaker 3 has one bona fide utterance (no targets), speaker 4 is never spoofed,
    # speaker 5 has spoofed speech only
    return protocol([900, 300, 600, 1, 50, 0], [5_000, 8_000, 2_000, 3_000, 0, 4_000])


def test_class_proportions(utterances: UtteranceList) -> None:
    drawn = [TrialSampler(utterances).epoch(0, epoch).label for epoch in range(20)]
    counts = np.bincount(np.concatenate(drawn))
    assert chisquare(counts, counts.sum() * np.array([0.25, 0.5, 0.25])).pvalue > 1e-3


def test_each_class_is_what_it_says(utterances: UtteranceList) -> None:
    trials = TrialSampler(utterances).epoch(1986, 3)
    assert len(trials.label) == len(utterances)
    speaker, genuine = utterances.speaker, utterances.bonafide
    assert genuine[trials.enrol].all()
    same = speaker[trials.enrol] == speaker[trials.probe]
    target, nontarget, spoof = (
        trials.label == c for c in (TrialClass.TARGET, TrialClass.NONTARGET, TrialClass.SPOOF)
    )
    assert same[target].all()
    assert same[spoof].all()
    assert not same[nontarget].any()
    assert genuine[trials.probe][target | nontarget].all()
    assert not genuine[trials.probe][spoof].any()
    assert (trials.enrol != trials.probe).all()


@pytest.mark.parametrize(
    ("code", "speakers"),
    [
        (TrialClass.TARGET, ["S0", "S1", "S2", "S4"]),
        (TrialClass.NONTARGET, ["S0", "S1", "S2", "S3", "S4"]),
        (TrialClass.SPOOF, ["S0", "S1", "S2", "S3"]),
    ],
)
def test_speakers_are_uniform(
    utterances: UtteranceList, code: TrialClass, speakers: list[str]
) -> None:
    for column in ("enrol", "probe"):
        trials = TrialSampler(utterances).epoch(7, 0)
        rows = getattr(trials, column)[trials.label == code]
        names, counts = np.unique(utterances.speaker[rows], return_counts=True)
        assert names.tolist() == speakers
        assert chisquare(counts).pvalue > 1e-3


def pairs_of(utterances: UtteranceList, code: TrialClass, seed: int, epochs: int) -> np.ndarray:
    """Rows of enrolment and probe of every trial of a class, (2, trials)."""
    drawn = [TrialSampler(utterances).epoch(seed, epoch) for epoch in range(epochs)]
    return np.concatenate([np.stack([t.enrol, t.probe])[:, t.label == code] for t in drawn], axis=1)


def test_pairs_of_speakers_are_uniform(utterances: UtteranceList) -> None:
    """Nontarget: every ordered pair of two different speakers alike, not only each side alone."""
    pairs = pairs_of(utterances, TrialClass.NONTARGET, 5, 5)
    names, counts = np.unique(utterances.speaker[pairs], axis=1, return_counts=True)
    assert names.shape[1] == 5 * 4
    assert chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize(
    ("code", "speakers", "seed"),
    [
        (TrialClass.SPOOF, ("S0", "S1"), 9),
        (TrialClass.NONTARGET, ("S0", "S1"), 9),
        (TrialClass.TARGET, ("S0", "S4"), 3),
    ],
)
def test_every_utterance_of_a_speaker_is_as_likely(
    utterances: UtteranceList, code: TrialClass, speakers: tuple[str, str], seed: int
) -> None:
    pairs = pairs_of(utterances, code, seed, 30)
    for column, bonafide in zip(pairs, (True, code != TrialClass.SPOOF), strict=True):
        counts = np.bincount(column, minlength=len(utterances))
        for speaker in speakers:
            own = (utterances.speaker == speaker) & (utterances.bonafide == bonafide)
            assert chisquare(counts[own]).pvalue > 1e-3


def test_every_ordered_pair_of_different_utterances_can_come(utterances: UtteranceList) -> None:
    pairs = pairs_of(utterances, TrialClass.TARGET, 3, 30)
    fourth = pairs[:, utterances.speaker[pairs[0]] == "S4"]
    assert len({tuple(pair) for pair in fourth.T.tolist()}) > 0.99 * 50 * 49


def test_pure_function_of_seed_and_epoch(utterances: UtteranceList) -> None:
    first, second = TrialSampler(utterances), TrialSampler(utterances)
    first.epoch(1, 0)
    for column, again in zip(first.epoch(1, 4), second.epoch(1, 4), strict=True):
        np.testing.assert_array_equal(column, again)
    assert (first.epoch(1, 4).probe != first.epoch(1, 5).probe).any()
    assert (first.epoch(1, 4).probe != first.epoch(2, 4).probe).any()


@pytest.mark.parametrize(
    ("bonafide", "spoof"), [([5], [5]), ([1, 1], [3, 3]), ([5, 5], [0, 0]), ([0, 0], [4, 4])]
)
def test_protocols_that_cannot_be_sampled(bonafide: list[int], spoof: list[int]) -> None:
    with pytest.raises(InputError, match="training protocol needs two speakers"):
        TrialSampler(protocol(bonafide, spoof))
