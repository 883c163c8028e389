"""The twin: a seeded statistical copy of SASV 2022, so that everything runs without its data.

``make_twin()`` has the real numbers of speakers, utterances, trials and attacks, embeddings of the
real sizes, and score statistics near the real ones. It holds no real speech and no real names;
results from it are results about the twin.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from lightning_sasv.data.corpus import Corpus, TrainingSet, TrialSet
from lightning_sasv.data.embeddings import EmbeddingStore
from lightning_sasv.data.twin_embeddings import asv_vectors, bases, cm_vectors
from lightning_sasv.data.twin_layout import (
    PLANS,
    lay_out,
    speaker_names,
    trial_list,
    utterance_list,
    utterance_names,
)
from lightning_sasv.data.twin_scores import draw_scores
from lightning_sasv.errors import InputError

NAME = "twin"
MAX_SCALE = 4.0
"""Largest corpus: four times the real one takes about 0.7 GB of embeddings."""


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
    asv_basis, cm_basis = bases(common)
    train = _training_set(scale, cm_basis, rngs[0])
    first = PLANS["train"].n_speakers + 1
    dev = _trial_set("dev", scale, first, (asv_basis, cm_basis), rngs[1])
    first += PLANS["dev"].n_speakers
    evaluation = _trial_set("eval", scale, first, (asv_basis, cm_basis), rngs[2])
    return Corpus(NAME, train, dev, evaluation)


def _store(kind: str, names: np.ndarray, vectors: np.ndarray) -> EmbeddingStore:
    return EmbeddingStore(names.tolist(), torch.from_numpy(vectors), f"{kind} of the {NAME}")


def _training_set(scale: float, cm_basis: np.ndarray, rng: np.random.Generator) -> TrainingSet:
    name_rng, score_rng, cm_rng = rng.spawn(3)
    layout = lay_out(PLANS["train"].scaled(scale))
    names = utterance_names(layout, name_rng)
    draws = draw_scores(layout, "train", score_rng)
    vectors = cm_vectors(layout, draws.cm, cm_basis, cm_rng)
    utterances = utterance_list(layout, speaker_names(layout, 1), names)
    return TrainingSet(utterances, _store("CM embeddings (train)", names, vectors))


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
