"""Whether trials without labels still are what dev was: their priors, and how their scores lie.

A change of priors is no drift: the priors are estimated first (Saerens, Latinne and Decaestecker,
"Adjusting the outputs of a classifier to new a priori probabilities", Neural Computation 2002), and
the scores are compared with dev's weighted by them. Trials of one speaker are alike, so that a test
of single trials cries wolf in most cases where nothing has changed; here speakers are permuted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Floats, as_finite, as_labels, check_has_class, check_same_length
from lightning_sasv.errors import InputError
from lightning_sasv.trials import CLASS_ORDER, TrialClass

BINS = 400
"""Quantiles of the pooled scores at which the distributions of speakers are kept."""
_BATCH = 256
_MOST_STEPS = 10_000

Groups = NDArray[np.int64]
"""Number of the speaker of each trial, from 0 on."""


def class_ratios(asv_llr: Any, cm_llr: Any) -> Floats:
    """Likelihoods of each trial under spoof, target and nontarget, (3, trials), the largest 1.

    r_tar = 1, r_non = e^(−a), r_spf = e^(−c) up to a factor of each trial.

    Example:
        >>> class_ratios([np.log(2.0)], [np.log(4.0)])[:, 0]
        array([0.25, 1.  , 0.5 ])
    """
    a, c = as_finite(asv_llr, "asv_llr"), as_finite(cm_llr, "cm_llr")
    check_same_length({"asv_llr": a, "cm_llr": c})
    if not a.size:
        raise InputError("no trials: there is nothing to estimate priors from")
    logs = np.stack([-c, np.zeros_like(a), -a])
    return np.asarray(np.exp(logs - logs.max(axis=0)))


def estimate_priors(
    ratios: Floats,
    weights: Floats | None = None,
    start: Floats | None = None,
    tolerance: float = 1e-10,
) -> Floats:
    """Priors of spoof, target and nontarget under which trials are most likely, by EM.

    q_ik = π_k r_ik / Σ_j π_j r_ij, π_k the mean of q_ik, until none moves by ``tolerance``.

    Args:
        ratios: r, :func:`class_ratios`.
        weights: How often each trial counts; once by default.
        start: Priors to begin with; 1/3 each by default.
        tolerance: Where to stop.

    Returns:
        Three priors that sum to one, in the order of the codes of ``TrialClass``.

    Example:
        >>> ratios = class_ratios([9.0, 9.0, -9.0, 9.0], [9.0, 9.0, 9.0, -9.0])
        >>> estimate_priors(ratios).round(3)
        array([0.25, 0.5 , 0.25])
    """
    share = np.ones(ratios.shape[1]) if weights is None else weights
    share = share / share.sum()
    priors = np.full(len(ratios), 1 / len(ratios)) if start is None else start
    for _ in range(_MOST_STEPS):
        following = priors * (ratios @ (share / (priors @ ratios)))
        moved, priors = float(np.abs(following - priors).max()), following
        if moved <= tolerance:
            break
    return np.asarray(priors / priors.sum())


def class_weights(labels: Any, priors: Floats) -> Floats:
    """Weights π_k/N_k of labelled trials under which their classes are as frequent as ``priors``.

    Example:
        >>> class_weights([0, 1, 1, 2], np.array([0.2, 0.5, 0.3]))
        array([0.2 , 0.25, 0.25, 0.3 ])
    """
    codes = as_labels(labels)
    check_has_class(codes, *CLASS_ORDER)
    return np.asarray((priors / np.bincount(codes, minlength=len(TrialClass)))[codes])


def ks_distance(scores: Floats, reference: Floats, weights: Floats) -> float:
    """Largest distance of two distribution functions, the second one weighted.

    Example:
        >>> ks_distance(np.array([0.0, 1.0]), np.array([0.0, 2.0]), np.array([0.25, 0.75]))
        0.75
    """
    points = np.unique(np.concatenate([scores, reference]))
    new = np.searchsorted(np.sort(scores), points, side="right") / scores.size
    order = np.argsort(reference, kind="stable")
    total = np.concatenate([[0.0], np.cumsum(weights[order])])
    old = total[np.searchsorted(reference[order], points, side="right")] / total[-1]
    return float(np.abs(new - old).max())


class Speakers(NamedTuple):
    """Scores of speakers as histograms, (speakers, bins), and how many of them are new ones.

    Example:
        >>> known = Speakers.of(np.arange(9.0), np.repeat([0, 1, 2], 3))
        >>> known.histograms.sum(axis=1), known.new
        (array([3., 3., 3.]), 0)
    """

    histograms: Floats
    new: int = 0

    @classmethod
    def of(
        cls, scores: Floats, groups: Groups, weights: Floats | None = None, new: int = 0
    ) -> Speakers:
        """Histograms of the scores of each group over quantiles of them all."""
        edges = np.unique(np.quantile(scores, np.linspace(0, 1, BINS + 1)[1:-1]))
        width, count = edges.size + 1, int(groups.max()) + 1
        places = groups * width + np.searchsorted(edges, scores, side="left")
        found = np.bincount(places, weights=weights, minlength=count * width)
        return cls(found.reshape(count, width).astype(np.float64), new)

    def distance(self, chosen: NDArray[np.bool_]) -> Floats:
        """KS distance between the speakers chosen in each row, (draws, speakers), and the rest."""
        total = np.cumsum(self.histograms.sum(axis=0))
        parts = []
        for first in range(0, len(chosen), _BATCH):
            one = np.cumsum(chosen[first : first + _BATCH] @ self.histograms, axis=1)
            other = total - one
            with np.errstate(invalid="ignore", divide="ignore"):
                gap = np.abs(one / one[:, -1:] - other / other[:, -1:])
            parts.append(np.nan_to_num(gap, nan=1.0, posinf=1.0).max(axis=1))
        return np.concatenate(parts)

    def splits(self, size: int, draws: int, seed: int) -> Floats:
        """Distances of random splits into ``size`` speakers and the others."""
        ranks = np.random.default_rng(seed).random((draws, len(self.histograms))).argsort(axis=1)
        return self.distance(ranks < size)

    def p_value(self, draws: int, seed: int = 0) -> float:
        """(1 + #{random splits at least as far apart}) / (draws + 1); the new ones are last."""
        size = len(self.histograms)
        mine = self.distance(np.arange(size)[None] >= size - self.new)[0]
        others = self.splits(self.new, draws, seed)
        return (1 + int((others >= mine - 1e-12).sum())) / (draws + 1)


def compare_speakers(
    scores: tuple[Floats, Floats], groups: tuple[Groups, Groups], weights: Floats
) -> Speakers:
    """Speakers of dev, its trials weighted, and new ones, in the units of one histogram.

    A speaker of dev weighs on average as much as a new one, so that splits of both together are
    compared with the split as it is.

    Args:
        scores: Of dev, and the new ones.
        groups: Speaker of each trial, counted from 0 on both sides.
        weights: Of dev's trials, :func:`class_weights`.

    Example:
        >>> one = np.arange(8.0), np.repeat([0, 1], 4)
        >>> both = compare_speakers((one[0], one[0]), (one[1], one[1]), np.full(8, 1 / 8))
        >>> both.histograms.sum(axis=1), both.p_value(99)
        (array([4., 4., 4., 4.]), 1.0)
    """
    old, new = (int(one.max()) + 1 for one in groups)
    each = scores[1].size / new * old / weights.sum()
    together = np.concatenate([weights * each, np.ones(scores[1].size)])
    both = np.concatenate([groups[0], groups[1] + old])
    return Speakers.of(np.concatenate(scores), both, together, new)
