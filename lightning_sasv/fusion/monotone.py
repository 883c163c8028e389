"""Multinomial logistic regression in which no better score can ever count against a trial."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Codes, Floats
from lightning_sasv.fusion.columns import PAIR, Columns
from lightning_sasv.fusion.features import Basis, PairLoss, minimise_pair_loss
from lightning_sasv.fusion.logistic import (
    SMALL_PENALTY,
    Affine,
    multinomial_loss,
    standardised,
    unscaled,
)

Free = NDArray[np.bool_]
_UPHILL = 1e-9


def fit_monotone(
    scores: Floats, labels: Codes, penalty: float = SMALL_PENALTY, columns: Columns = PAIR
) -> Affine:
    """Class-balanced multinomial regression of each LLR on its own columns, no weight below 0.

    ``llr_tn = w·a + b`` with a the ASV scores and ``llr_ts = v·c + e`` with c the CM scores
    minimise the loss of ``fit_multinomial`` under w, v ≥ 0. Hence a trial that is at least as good
    as an accepted one in every score is accepted too, at any costs. A column whose weight would be
    negative has the weight 0.

    Args:
        scores: Scores (d, n).
        labels: ``TrialClass`` codes (n,).
        penalty: Ridge on the standardised weights.
        columns: What the scores are.
    """
    basis, centre, scale = standardised(scores, columns)
    allowed = np.full((2, basis.size), False)
    allowed[:, -1] = True
    for row, side in zip(allowed, columns.sides(), strict=True):
        row[side] = True
    return unscaled(
        _at_least_zero(basis, multinomial_loss(labels), penalty, allowed), centre, scale
    )


def _at_least_zero(basis: Basis, loss: PairLoss, penalty: float, allowed: Free) -> Floats:
    """Minimiser whose allowed weights are at least 0: an active set, for the loss is convex.

    The most negative weight is fixed at 0 until none is left; one that the loss would then raise
    again is set free, unless that was tried before.
    """
    free, tried = allowed.copy(), set[bytes]()
    while True:
        tried.add(free.tobytes())
        theta = minimise_pair_loss(basis, loss, penalty, np.zeros(free.shape), free)
        weights = theta[:, :-1]
        place = np.unravel_index(int(np.argmin(weights)), weights.shape)
        if weights[place] < 0:
            free[place] = False
            continue
        slopes = np.where(allowed & ~free, basis.pair_loss(theta, loss)[1], 0.0)
        place = np.unravel_index(int(np.argmin(slopes)), slopes.shape)
        free[place] = True
        if slopes[place] > -_UPHILL or free.tobytes() in tried:
            return theta
