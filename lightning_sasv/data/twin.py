"""The twin: a seeded statistical copy of SASV 2022, so that everything runs without its data.

``make_twin()`` has the real numbers of speakers, utterances, trials and attacks, embeddings of the
real sizes, and score statistics near the real ones. It holds no real speech and no real names;
results from it are results about the twin.

ASV scores are built: a probe is its speaker's direction, turned away by an angle whose cosine is
drawn. CM scores are the answer of a head that is trained later, so the generator places each CM
embedding along one axis, at the point where the head of the default recipe answers with the wanted
score, and adds what is particular to attack, speaker and utterance at right angles to that axis.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import ndtri

from lightning_sasv.data.corpus import ASV_DIM, CM_DIM, Corpus, TrainingSet, TrialSet
from lightning_sasv.data.embeddings import EmbeddingStore
from lightning_sasv.data.twin_layout import (
    KNOWN_ATTACKS,
    PLANS,
    UNSEEN_ATTACKS,
    Layout,
    lay_out,
    speaker_names,
    trial_list,
    utterance_list,
    utterance_names,
)
from lightning_sasv.errors import InputError
from lightning_sasv.trials import TWIN, TrialClass

MAX_SCALE = 4.0
"""Largest corpus: four times the real one takes about 0.7 GB of embeddings."""

PAIR_COSINE = {"train": (0.257, 0.150), "dev": (0.257, 0.150), "eval": (0.227, 0.139)}
"""Mean and standard deviation of the cosine between an enrolled speaker and an impostor.

A nontarget trial's score is about 0.72 times as large, since probes stray from their speaker.
Train has no nontarget trials to go by: there it is that of two speakers of a cohort, as in dev.
"""
SPEAKER_DRAWS = 64
"""Draws of the speakers of which the nearest to ``PAIR_COSINE`` is taken."""
SPEAKER_DECAY, RESIDUAL_DECAY = 15.0, 100.0
"""Dimensions over which the variance of speakers and of utterances falls by e."""
ASV_NORM, MODEL_NORM = 300.0, 250.0
"""Lengths of ECAPA embeddings and of the mean of an enrolment."""

GAIN_BONAFIDE, GAIN_SPOOF = 1.5, 0.72
"""Aimed CM score per unit of length along the bona fide axis, on either side of the origin.

The answer of a head of the default recipe along the axis is linear on either side, with a knee at
the origin as leaky rectifiers with small biases have it. The two slopes bring the answer of the
first epochs to the aimed scores; the longer the axis, the faster the head learns.
"""
ATTACK_OFFSET = 1.5
"""Length of an attack's own direction."""
SPEAKER_OFFSET = 1.0
"""Length of a speaker's own direction in the CM space."""
NUISANCE, NUISANCE_DECAY, NUISANCE_FLOOR = 1.2, 12.0, 0.1
"""Standard deviation of an utterance in its widest direction at right angles to the axis, the
dimensions over which the variance falls by e, and the standard deviation no direction falls below.
"""

_STATISTICS = tomllib.loads(
    Path(__file__).with_name("twin_scores.toml").read_text(encoding="utf-8")
)
"""Statistics of the scores, by class and attack; no real score is among them."""

TARGET_SHARES, IMPOSTOR_SHARES, SPOOF_SHARES = (0.25, 0.2), (0.25, 0.25), (0.4, 0.2)
"""Part of the variance that belongs to the speaker: of the cosine, and of the CM position."""
SPOOF_STRAY = 0.2
"""How unequally spoofed utterances stray along the CM axis: log-normal sd of their spread."""
TRAIN_SPREAD = 0.8
"""Spread of training embeddings on the axis against dev: the CM was trained on these utterances."""
MAX_COSINE = 0.97
"""No probe is nearer to its speaker than that."""


def make_twin(scale: float = 1.0, seed: int = 0) -> Corpus:
    """Make the twin of SASV 2022.

    Args:
        scale: Utterances per speaker against the real corpus. The speakers and attacks are always
            all there, with two bona fide utterances per speaker and one spoofed utterance per
            speaker and attack at the least.
        seed: Seed of the corpus. It is no training seed: all trainings see the same corpus.

    Returns:
        The corpus, a pure function of the two arguments.

    Raises:
        InputError: ``scale`` is not in (0, 4], or ``seed`` is negative.
    """
    if not (math.isfinite(scale) and 0 < scale <= MAX_SCALE):
        raise InputError(f"scale of the twin must lie in (0, {MAX_SCALE:g}], not {scale}")
    if seed < 0:
        raise InputError(f"seed of the twin must not be negative, but is {seed}")
    common, *rngs = (np.random.default_rng(key) for key in np.random.SeedSequence(seed).spawn(4))
    asv_basis, cm_basis = (_rotation(dim, common) for dim in (ASV_DIM, CM_DIM))  # of all sets
    train = _training_set(scale, (asv_basis, cm_basis), rngs[0])
    first = PLANS["train"].n_speakers + 1
    dev = _trial_set("dev", scale, first, (asv_basis, cm_basis), rngs[1])
    first += PLANS["dev"].n_speakers
    evaluation = _trial_set("eval", scale, first, (asv_basis, cm_basis), rngs[2])
    sets = (replace(one, twin=(scale, seed)) for one in (dev, evaluation))
    return Corpus(TWIN, train, *sets)


def _store(kind: str, names: np.ndarray, vectors: np.ndarray) -> EmbeddingStore:
    return EmbeddingStore(names.tolist(), torch.from_numpy(vectors), f"{kind} of the {TWIN}")


def _training_set(
    scale: float, spaces: tuple[np.ndarray, np.ndarray], rng: np.random.Generator
) -> TrainingSet:
    name_rng, score_rng, cm_rng, asv_rng = rng.spawn(4)
    layout = lay_out(PLANS["train"].scaled(scale))
    names = utterance_names(layout, name_rng)
    draws = draw_scores(layout, "train", score_rng)
    vectors = cm_vectors(layout, draws.cm, spaces[1], cm_rng)
    utterances = utterance_list(layout, speaker_names(layout, 1), names)
    asv = partial(_training_asv, layout, names, draws.cosine, spaces[0], asv_rng)
    return TrainingSet(utterances, _store("CM embeddings (train)", names, vectors), asv)


def _training_asv(
    layout: Layout,
    names: np.ndarray,
    cosine: np.ndarray,
    basis: np.ndarray,
    rng: np.random.Generator,
) -> EmbeddingStore:
    """ASV embeddings of the training set, made when a training needs them."""
    vectors, _ = asv_vectors(layout, "train", cosine, basis, rng)
    return _store("ASV embeddings (train)", names, vectors)


def _trial_set(
    name: str,
    scale: float,
    first_speaker: int,
    spaces: tuple[np.ndarray, np.ndarray],
    rng: np.random.Generator,
) -> TrialSet:
    name_rng, score_rng, asv_rng, cm_rng = rng.spawn(4)
    layout = lay_out(PLANS[name].scaled(scale))
    speakers, names = speaker_names(layout, first_speaker), utterance_names(layout, name_rng)
    draws = draw_scores(layout, name, score_rng)
    asv, models = asv_vectors(layout, name, draws.cosine, spaces[0], asv_rng)
    cm = cm_vectors(layout, draws.cm, spaces[1], cm_rng)
    return TrialSet(
        name,
        trial_list(layout, speakers, names),
        _store(f"ASV embeddings ({name})", names, asv),
        _store(f"CM embeddings ({name})", names, cm),
        _store(f"speaker models ({name})", speakers[layout.enrolled], models[layout.enrolled]),
    )


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def _rotation(dim: int, rng: np.random.Generator) -> np.ndarray:
    """A random orthonormal basis, rows float32."""
    return np.linalg.qr(rng.standard_normal((dim, dim)))[0].astype(np.float32)


def _speaker_directions(layout: Layout, name: str, rng: np.random.Generator) -> np.ndarray:
    """Unit direction of each speaker, √g e_k + √(1−g) z_s in cohort k.

    Two speakers of a cohort have the mean cosine g. There are few pairs of enrolled speaker and
    impostor (in train: of speakers of a cohort), so the best of several draws is taken: that whose
    pairs are nearest to the wanted mean, standard deviation and (zero) skewness.
    """
    wanted_mean, wanted_sd = PAIR_COSINE[name]
    centres = np.eye(ASV_DIM)[[-1, -2]]  # two axes along which speakers hardly differ
    decay = np.exp(-np.arange(ASV_DIM) / SPEAKER_DECAY / 2)
    own = _unit(rng.standard_normal((SPEAKER_DRAWS, len(layout.cohort), ASV_DIM)) * decay)
    draws = _unit(np.sqrt(wanted_mean) * centres[layout.cohort] + np.sqrt(1 - wanted_mean) * own)
    claimed, actual = _compared(layout)
    cosines = np.einsum("kpd,kpd->kp", draws[:, claimed], draws[:, actual])
    mean, sd = cosines.mean(1), cosines.std(1)
    skew = ((cosines - mean[:, None]) ** 3).mean(1) / sd**3
    miss = ((mean - wanted_mean) / 0.01) ** 2 + ((sd - wanted_sd) / 0.01) ** 2 + (skew / 0.2) ** 2
    return draws[np.argmin(miss)].astype(np.float32)


def _compared(layout: Layout) -> np.ndarray:
    """Pairs of speakers in nontarget trials, (2, pairs); without such trials those of a cohort."""
    nontarget = layout.trial_label == TrialClass.NONTARGET
    if not nontarget.any():
        first, second = np.triu_indices(len(layout.cohort), 1)
        same = layout.cohort[first] == layout.cohort[second]
        return np.stack([first[same], second[same]])
    claimed = layout.trial_speaker[nontarget]
    actual = layout.speaker[layout.trial_utterance[nontarget]]
    return np.unique(np.stack([claimed, actual]), axis=1)


def asv_vectors(
    layout: Layout, name: str, cosine: np.ndarray, basis: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """ASV embeddings of the utterances, and the speakers' models.

    A probe is x = c m + √(1−c²) r with its speaker's direction m, its drawn cosine c and a random
    direction r at right angles to m.
    """
    models = _speaker_directions(layout, name, rng)
    spread = np.exp(-np.arange(ASV_DIM) / RESIDUAL_DECAY / 2).astype(np.float32)
    residual = rng.standard_normal((len(cosine), ASV_DIM), dtype=np.float32) * spread
    direction = models[layout.speaker]
    residual -= np.einsum("ij,ij->i", residual, direction)[:, None] * direction
    c = cosine.astype(np.float32)[:, None]
    probes = c * direction + np.sqrt(1 - c**2) * _unit(residual)
    return (ASV_NORM * probes) @ basis, (MODEL_NORM * models) @ basis


def cm_vectors(
    layout: Layout, cm: np.ndarray, basis: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """CM embeddings of the utterances.

    Coordinates in ``basis``: 0 the bona fide axis, then one direction per attack A01–A19, then
    directions of falling variance in which utterances and speakers differ.
    """
    n_attacks = len(KNOWN_ATTACKS) + len(UNSEEN_ATTACKS)
    spread = np.full(CM_DIM, NUISANCE_FLOOR, dtype=np.float32)
    rest = np.arange(CM_DIM - 1 - n_attacks)
    spread[1 + n_attacks :] += NUISANCE * np.exp(-rest / NUISANCE_DECAY / 2)
    spread[0] = 0.0
    out = rng.standard_normal((len(cm), CM_DIM), dtype=np.float32) * spread
    speakers = _unit(rng.standard_normal((len(layout.cohort), CM_DIM), dtype=np.float32) * spread)
    out += SPEAKER_OFFSET * speakers[layout.speaker]
    out[:, 0] = cm / np.where(cm > 0, GAIN_BONAFIDE, GAIN_SPOOF)
    spoofed = np.flatnonzero(layout.attack >= 0)
    first = int(layout.plan.attacks[0][1:])  # A01 lies on coordinate 1
    out[spoofed, first + layout.attack[spoofed]] += ATTACK_OFFSET
    return out @ basis


def skewed(z: np.ndarray, skew: np.ndarray) -> np.ndarray:
    """Turn standard normal values into ones of mean 0, variance 1 and the given skewness.

    A shifted log-normal, sign(γ)·(e^(s z) − e^(s²/2)) / sd, mirrored for γ < 0. With w = e^(s²) its
    skewness is (w + 2)√(w − 1); the cubic for w has the root y + 1/y − 1 with
    y³ = 1 + γ²/2 + |γ|√(1 + γ²/4) (Johnson, Kotz and Balakrishnan, Continuous Univariate
    Distributions 1, ch. 14).
    """
    gamma = np.maximum(np.abs(skew), 1e-3)
    y = np.cbrt(1 + gamma**2 / 2 + gamma * np.sqrt(1 + gamma**2 / 4))
    w = y + 1 / y - 1
    s = np.sqrt(np.log(w))
    sign = np.where(skew < 0, -1.0, 1.0)
    return sign * (np.exp(s * sign * z) - np.sqrt(w)) / np.sqrt(w * (w - 1))


class Draws(NamedTuple):
    """What was drawn for each utterance: its cosine and its aimed CM score."""

    cosine: np.ndarray
    cm: np.ndarray


def draw_scores(layout: Layout, name: str, rng: np.random.Generator) -> Draws:
    """Draw the cosine and the aimed CM score of each utterance of the set ``name``.

    Both are skewed normals with a part that belongs to the speaker (one value per speaker and
    attack) and a part of the utterance; ASV and CM parts are correlated.
    """
    n_kinds = len(layout.plan.attacks) + 2
    kind = np.where(layout.enrolled[layout.speaker], layout.attack, n_kinds - 2)
    kind = np.where(kind < 0, n_kinds - 1, kind)  # attacks, then impostors, then own bona fide
    shapes = [_STATISTICS["attacks"][attack] for attack in layout.plan.attacks]
    own = _STATISTICS["bonafide"][name]
    table = np.array([*shapes, _STATISTICS["impostor"].get(name, own), own])
    rho = table[:, 6]
    shares = np.array([SPOOF_SHARES] * len(shapes) + [IMPOSTOR_SHARES, TARGET_SHARES]).T

    speaker_part = _speaker_effects(layout, kind, rho, rng)[:, layout.speaker, kind]
    own_part = rng.standard_normal((2, len(kind)))
    own_part[1] = rho[kind] * own_part[0] + np.sqrt(1 - rho[kind] ** 2) * own_part[1]
    asv_z, cm_z = np.sqrt(shares)[:, kind] * speaker_part + np.sqrt(1 - shares)[:, kind] * own_part

    asv_z, cm_z = _normal_scores(asv_z, kind), _normal_scores(cm_z, kind)
    stray = np.where(layout.attack >= 0, SPOOF_STRAY, 0.0)
    cm_z *= np.exp(stray * rng.standard_normal(len(kind)) - stray**2)  # keeps the variance

    row = table[kind].T
    cosine = row[0] + row[1] * skewed(asv_z, row[2])
    spread = TRAIN_SPREAD if name == "train" else 1.0
    cm = row[3] + spread * row[4] * skewed(cm_z, row[5])
    return Draws(np.clip(cosine, -MAX_COSINE, MAX_COSINE), cm)


def _normal_scores(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Replace each value by the normal quantile of its rank within its group.

    Every group then has exactly the normal shape, whatever chance gave to its few speakers.
    """
    size = np.bincount(group)
    order = np.lexsort((values, group))
    rank = np.empty(len(values))
    rank[order] = np.arange(len(values)) - (np.cumsum(size) - size)[group[order]]
    return ndtri((rank + 0.5) / size[group])


def _speaker_effects(
    layout: Layout, kind: np.ndarray, rho: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """(2, speakers, kinds) standard normal effects with correlation ``rho`` between the two scores.

    Few speakers make chance large, so each kind's effects are brought to mean 0, variance 1 and
    the wanted correlation over its utterances.
    """
    effects = rng.standard_normal((2, len(layout.cohort), len(rho)))
    weight = np.zeros(effects.shape[1:])
    np.add.at(weight, (layout.speaker, kind), 1.0)
    weight /= np.maximum(weight.sum(0), 1.0)

    def standardised(x: np.ndarray) -> np.ndarray:
        x = x - (weight * x).sum(0)
        return x / np.sqrt(np.maximum((weight * x**2).sum(0), 1e-12))

    asv = standardised(effects[0])
    free = standardised(effects[1])
    free = standardised(free - (weight * asv * free).sum(0) * asv)
    return np.stack([asv, rho * asv + np.sqrt(1 - rho**2) * free])
