"""Scores of the twin, drawn before its embeddings: the statistics it copies, by class and attack.

The statistics stand in ``twin_scores.toml``; no real score is in it.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from lightning_sasv.data.twin_layout import Layout

_STATISTICS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

TARGET_SHARES, IMPOSTOR_SHARES, SPOOF_SHARES = (0.25, 0.2), (0.25, 0.25), (0.4, 0.2)
"""Part of the variance that belongs to the speaker: of the cosine, and of the CM position."""
SPOOF_STRAY = 0.2
"""How unequally spoofed utterances stray along the CM axis: log-normal sd of their spread."""
TRAIN_SPREAD = 0.8
"""Spread of training embeddings on the axis against dev: the CM was trained on these utterances."""
MAX_COSINE = 0.97
"""No probe is nearer to its speaker than that."""


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
