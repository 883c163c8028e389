"""The twin: counts and structure of the real corpus, its score statistics, and determinism."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, rankdata, skew

from lightning_sasv.data.corpus import ASV_DIM, CM_DIM, Corpus, TrainingSet, TrialSet
from lightning_sasv.data.protocols import TRAIN_PROTOCOL, read_trials, read_utterances
from lightning_sasv.data.sampler import TrialSampler
from lightning_sasv.data.twin import (
    _normal_scores,
    _rotation,
    asv_vectors,
    cm_vectors,
    draw_scores,
    make_twin,
    skewed,
)
from lightning_sasv.data.twin_layout import KNOWN_ATTACKS, PLANS, UNSEEN_ATTACKS, lay_out
from lightning_sasv.errors import InputError
from lightning_sasv.scores import read_scores
from lightning_sasv.trials import TrialClass


@pytest.fixture(scope="module")
def small() -> Corpus:
    return make_twin(scale=0.05)


@pytest.fixture(scope="module")
def full() -> Corpus:
    return make_twin()


def test_sets_names_and_attacks(small: Corpus) -> None:
    assert small.name == "twin"
    assert (small.dev.name, small.eval.name) == ("dev", "eval")
    utterances = small.train.utterances
    for letter, names in (
        ("T", utterances.utterance.tolist()),
        ("D", small.dev.probes),
        ("E", small.eval.probes),
    ):
        assert len(set(names)) == len(names)
        assert all(re.fullmatch(rf"TW_{letter}_\d{{7}}", name) for name in names)
    speakers = [set(utterances.speaker), set(small.dev.models.ids), set(small.eval.models.ids)]
    assert all(re.fullmatch(r"TW_\d{4}", name) for group in speakers for name in group)
    assert [len(group) for group in speakers] == [20, 10, 48]
    assert len(set.union(*speakers)) == 78  # no speaker is in two sets
    assert set(small.train.utterances.attack) == {"-", *KNOWN_ATTACKS}
    assert set(small.dev.trials.attack) == {"-", *KNOWN_ATTACKS}
    assert set(small.eval.trials.attack) == {"-", *UNSEEN_ATTACKS}
    assert not set(KNOWN_ATTACKS) & set(UNSEEN_ATTACKS)


@pytest.mark.parametrize("name", ["dev", "eval"])
def test_trials_are_consistent_and_have_embeddings(small: Corpus, name: str) -> None:
    trial_set: TrialSet = getattr(small, name)
    trials = trial_set.trials
    spoof = trials.label == TrialClass.SPOOF
    assert np.array_equal(trials.attack == "-", ~spoof)
    pairs = set(zip(trials.speaker.tolist(), trials.utterance.tolist(), strict=True))
    assert len(pairs) == len(trials)
    assert len(set(trials.utterance[spoof])) == spoof.sum()  # one trial per spoofed utterance
    target = set(trials.utterance[trials.label == TrialClass.TARGET])
    nontarget = trials.utterance[trials.label == TrialClass.NONTARGET]
    assert not target & set(nontarget)
    assert min(Counter(nontarget.tolist()).values()) > 1  # impostors' utterances return
    assert trial_set.asv.dim == ASV_DIM
    assert trial_set.models.dim == ASV_DIM
    assert trial_set.probe_vectors.shape == (len(trial_set.probes), CM_DIM)
    assert trial_set.probe_vectors.dtype == torch.float32
    scores = trial_set.asv_scores
    assert scores.shape == (len(trial_set.trials),)
    assert torch.isfinite(scores).all()
    assert scores.abs().max() < 1


def test_layout_claims_the_right_speakers() -> None:
    layout = lay_out(PLANS["dev"].scaled(0.03))
    actual = layout.speaker[layout.trial_utterance]
    nontarget = layout.trial_label == TrialClass.NONTARGET
    assert np.array_equal(actual[~nontarget], layout.trial_speaker[~nontarget])
    assert layout.enrolled[layout.trial_speaker].all()
    assert not layout.enrolled[actual[nontarget]].any()
    assert np.array_equal(
        layout.cohort[actual[nontarget]], layout.cohort[layout.trial_speaker[nontarget]]
    )


def test_same_arguments_same_corpus_and_global_random_states_left_alone() -> None:
    torch.manual_seed(1)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = (make_twin(0.02, seed).fingerprint for seed in (3, 3, 4))
    assert first == again != other
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(numpy_before, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("scale", [1e-6, 0.005, 0.02, 0.1])
def test_small_twins_are_complete_and_keep_proportions(scale: float) -> None:
    corpus = make_twin(scale)
    utterances = corpus.train.utterances
    bonafide = Counter(utterances.speaker[utterances.bonafide].tolist())
    assert len(bonafide) == 20
    assert min(bonafide.values()) >= 2
    cells = set(zip(utterances.speaker.tolist(), utterances.attack.tolist(), strict=True))
    assert len(cells) == 20 * 7
    for trial_set, n_attacks, n_speakers in ((corpus.dev, 6, 10), (corpus.eval, 13, 48)):
        trials = trial_set.trials
        counts = np.bincount(trials.label)
        assert counts[TrialClass.TARGET] >= 2 * n_speakers
        assert counts[TrialClass.NONTARGET] >= 2 * n_speakers
        assert counts[TrialClass.SPOOF] >= n_attacks * n_speakers
        assert len(set(trials.attack)) == n_attacks + 1
        for code in TrialClass:
            assert trial_set.asv_scores[trial_set.label == code].std() > 0.05
    if scale < 0.1:
        return
    assert np.bincount(corpus.dev.trials.label) == pytest.approx([2230, 148, 577], rel=0.05)
    assert np.bincount(corpus.eval.trials.label) == pytest.approx([6388, 537, 3333], rel=0.05)
    assert len(corpus.train.utterances) == pytest.approx(2538, rel=0.05)


@pytest.mark.parametrize("scale", [0, -0.1, float("nan"), float("inf"), 4.1, 100])
def test_absurd_scales_and_seeds_are_refused(scale: float) -> None:
    with pytest.raises(InputError, match=r"scale of the twin must lie in \(0, 4\]"):
        make_twin(scale)
    with pytest.raises(InputError, match="seed of the twin must not be negative, but is -1"):
        make_twin(0.02, seed=-1)


@settings(max_examples=60, deadline=None)
@given(st.floats(-3, 3))
def test_skewed_has_the_wanted_moments(wanted: float) -> None:
    """Moments by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    x = skewed(nodes, np.full_like(nodes, wanted))
    assert np.all(np.diff(x) > 0)
    assert weights @ x == pytest.approx(0, abs=1e-6)
    assert weights @ x**2 == pytest.approx(1, abs=1e-6)
    assert weights @ x**3 == pytest.approx(wanted, abs=2e-3)


def test_normal_scores_rank_within_groups() -> None:
    rng = np.random.default_rng(0)
    values, group = rng.standard_normal(500), rng.integers(0, 4, 500)
    expected = np.empty(500)
    for k in range(4):
        inside = group == k
        expected[inside] = norm.ppf((rankdata(values[inside]) - 0.5) / inside.sum())
    np.testing.assert_allclose(_normal_scores(values, group), expected, atol=1e-12)


def test_probes_have_their_drawn_cosine() -> None:
    rng = np.random.default_rng(5)
    layout = lay_out(PLANS["dev"].scaled(0.02))
    cosine = draw_scores(layout, "dev", rng).cosine
    probes, models = asv_vectors(layout, "dev", cosine, _rotation(ASV_DIM, rng), rng)
    own = models[layout.speaker]
    measured = (probes * own).sum(1) / np.linalg.norm(probes, axis=1) / np.linalg.norm(own, axis=1)
    np.testing.assert_allclose(measured, cosine, atol=1e-5)


def test_training_utterances_have_speakers_and_nothing_else_moved(small: Corpus) -> None:
    """Made of a child of their own: what was made without them is what it was."""
    train, layout = small.train, lay_out(PLANS["train"].scaled(0.05))
    seeds = np.random.SeedSequence(0).spawn(4)
    _, score_rng, cm_rng = np.random.default_rng(seeds[1]).spawn(3)
    common = np.random.default_rng(seeds[0])
    _, basis = (_rotation(dim, common) for dim in (ASV_DIM, CM_DIM))
    draws = draw_scores(layout, "train", score_rng)
    before = cm_vectors(layout, draws.cm, basis, cm_rng)
    assert np.array_equal(train.cm.vectors.numpy(), before)
    unit = torch.nn.functional.normalize(train.asv_vectors, dim=1)
    trials = TrialSampler(train.utterances).epoch(1986, 0)
    cosine = (unit[trials.enrol] * unit[trials.probe]).sum(1).numpy()
    means = [float(cosine[trials.label == code].mean()) for code in (0, 1, 2)]
    assert means == pytest.approx([0.316, 0.516, 0.061], abs=0.05)
    again = make_twin(0.05)
    assert torch.equal(again.train.asv_vectors, train.asv_vectors)
    assert (again.fingerprint, again.train.asv_fingerprint) == (
        small.fingerprint,
        train.asv_fingerprint,
    )
    assert train.asv_fingerprint != make_twin(0.05, 1).train.asv_fingerprint


def test_a_corpus_without_speakers_of_its_training_set(small: Corpus) -> None:
    bare = TrainingSet(small.train.utterances, small.train.cm)
    with pytest.raises(InputError, match=r"no ASV embeddings of its training set.*--train_asv"):
        _ = bare.asv_vectors


def _miss_rate(positive: np.ndarray, negative: np.ndarray) -> float:
    """Share of negatives above the 1 % quantile of the positives."""
    return float((negative > np.quantile(positive, 0.01)).mean())


def test_linear_probe_separates_eval_is_harder_and_rank_is_full(small: Corpus) -> None:
    x = small.train.vectors.double().numpy()
    y = np.where(small.train.utterances.bonafide, 1.0, -1.0)
    weight = np.where(y > 0, 0.5 / (y > 0).mean(), 0.5 / (y < 0).mean()) ** 0.5
    design = np.c_[x, np.ones(len(x))]
    solution = np.linalg.lstsq(design * weight[:, None], y * weight, rcond=None)[0]
    misses = []
    for trial_set in (small.dev, small.eval):
        probe = trial_set.probe_vectors.double().numpy() @ solution[:-1] + solution[-1]
        scores = probe[trial_set.probe_of_trial.numpy()]
        target, spoof = (
            scores[trial_set.trials.label == code] for code in (TrialClass.TARGET, TrialClass.SPOOF)
        )
        assert target.mean() > 0 > spoof.mean()
        misses.append(_miss_rate(target, spoof))
    assert misses[0] < 0.03
    assert misses[0] < misses[1] < 0.15
    eigenvalues = torch.linalg.eigvalsh(torch.cov(small.train.vectors.double().T))
    assert eigenvalues[0] > 1e-3
    assert eigenvalues[-1] > 10 * eigenvalues[-2]  # the bona fide axis dominates


@pytest.mark.slow
def test_full_scale_counts(full: Corpus) -> None:
    utterances = full.train.utterances
    assert Counter(utterances.bonafide.tolist()) == {True: 2580, False: 22800}
    assert Counter(utterances.attack.tolist()) == {"-": 2580, **dict.fromkeys(KNOWN_ATTACKS, 3800)}
    for trial_set, classes, probes, bonafide, attacks in (
        (full.dev, [22296, 1484, 5768], 24844, 2548, dict.fromkeys(KNOWN_ATTACKS, 3716)),
        (full.eval, [63882, 5370, 33327], 71237, 7355, dict.fromkeys(UNSEEN_ATTACKS, 4914)),
    ):
        trials = trial_set.trials
        assert np.bincount(trials.label).tolist() == classes
        assert len(trial_set.probes) == len(trial_set.asv) == len(trial_set.cm) == probes
        assert len(set(trials.utterance[trials.attack == "-"])) == bonafide
        assert Counter(trials.attack[trials.attack != "-"].tolist()) == attacks


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dev", "eval"])
def test_full_scale_structure_is_the_real_one(full: Corpus, shared: Path, name: str) -> None:
    """Trials per enrolled speaker, and utterances per training speaker, as in the real lists."""

    def counts(speakers: np.ndarray) -> list[int]:
        return sorted(Counter(speakers.tolist()).values())

    protocols = shared / "data" / "sasv2022" / "protocols"
    real = read_trials(protocols / f"ASVspoof2019.LA.asv.{name}.gi.trl.txt")
    twin = getattr(full, name).trials
    for code in TrialClass:
        assert counts(real.speaker[real.label == code]) == counts(twin.speaker[twin.label == code])
    train, own = read_utterances(protocols / TRAIN_PROTOCOL), full.train.utterances
    for bonafide in (True, False):
        mine, theirs = (counts(u.speaker[u.bonafide == bonafide]) for u in (own, train))
        assert mine == theirs


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dev", "eval"])
def test_full_scale_asv_statistics_are_the_real_ones(full: Corpus, shared: Path, name: str) -> None:
    """Mean within 0.012, sd within 0.012, skewness within 0.25 of the real scores."""
    real = read_scores(shared / "data" / "sasv2022" / f"{name}_scores.csv")
    trial_set: TrialSet = getattr(full, name)
    trials, scores = trial_set.trials, trial_set.asv_scores.numpy()
    groups = [(real.label == code, trials.label == code) for code in TrialClass]
    attacks = sorted(set(real.attack) - {"-"})
    groups += [(real.attack == attack, trials.attack == attack) for attack in attacks]
    for there, here in groups:
        assert scores[here].mean() == pytest.approx(real.asv[there].mean(), abs=0.012)
        assert scores[here].std() == pytest.approx(real.asv[there].std(), abs=0.012)
        assert skew(scores[here]) == pytest.approx(skew(real.asv[there]), abs=0.25)
