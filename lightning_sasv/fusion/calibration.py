"""Calibration: maps from a pair of scores (or LLRs) to a pair of better LLRs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from lightning_sasv.decisions.costs import CostModel
from lightning_sasv.errors import InputError
from lightning_sasv.fusion.logistic import logit, weighted_logistic
from lightning_sasv.fusion.pair_newton import Affine
from lightning_sasv.fusion.stage import Stage, store
from lightning_sasv.fusion.three_class import SMALL_PENALTY, fit_joint, fit_multinomial
from lightning_sasv.trials import TrialClass


@dataclass(frozen=True)
class CalibrationSettings:
    """What the recipes may be told.

    Attributes:
        penalty: Ridge strength; ``None`` takes the recipe's own.
        effective_prior: Prior P of the positive class at which ``effective_prior`` is trained.
        cm_positives: Positive class of the CM calibration: ``bonafide`` (target and nontarget,
            as in the paper) or ``target``.
        costs: Costs and priors at which ``joint`` is trained.
    """

    penalty: float | None = None
    effective_prior: float = 0.5
    cm_positives: str = "bonafide"
    costs: CostModel = field(default_factory=CostModel)

    def __post_init__(self) -> None:
        if self.penalty is not None and not 0 <= self.penalty < float("inf"):
            raise InputError(f"penalty must be finite and at least 0, got {self.penalty}")
        if not 0 < self.effective_prior < 1:
            raise InputError(f"effective_prior must lie in (0, 1), got {self.effective_prior}")
        if self.cm_positives not in ("bonafide", "target"):
            raise InputError(
                f"cm_positives must be 'bonafide' or 'target', got {self.cm_positives!r}"
            )

    def penalty_or(self, default: float) -> float:
        """The penalty asked for, or the recipe's own."""
        return default if self.penalty is None else self.penalty


class AffineCalibration(Stage):
    """``y = W x + b`` on score pairs, fitted by one of the recipes of :data:`AFFINE_RECIPES`.

    Args:
        recipe: Name of the recipe.
        settings: Its settings.
        copies: Number of stacked seeds.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, recipe: str, settings: CalibrationSettings, copies: int = 1) -> None:
        super().__init__()
        self.recipe = recipe
        self.settings = settings
        self.register_buffer("weight", torch.eye(2, dtype=torch.float64).repeat(copies, 1, 1))
        self.register_buffer("bias", torch.zeros(copies, 2, dtype=torch.float64))

    def fit(self, scores: Tensor, labels: Tensor) -> None:
        """Fit by the recipe; see :class:`Stage`."""
        recipe = AFFINE_RECIPES[self.recipe]
        maps = [recipe(*row, self.settings) for row in zip(scores, labels, strict=True)]
        weight, bias = map(torch.stack, zip(*maps, strict=True))
        store(self, weight=weight, bias=bias)

    def forward(self, scores: Tensor) -> Tensor:
        """Calibrated pairs of score pairs (copies, 2, trials)."""
        return self.weight @ scores + self.bias[..., None]


def split_sides(
    scores: Tensor, labels: Tensor, cm_positives: str
) -> dict[str, tuple[Tensor, Tensor]]:
    """Positives and negatives of the ASV and of the CM calibration, by the name of the side.

    ASV: target against nontarget, spoof left out. CM: bona fide (or target) against spoof.
    """
    target = labels == TrialClass.TARGET
    spoof = labels == TrialClass.SPOOF
    positive = ~spoof if cm_positives == "bonafide" else target
    asv, cm = scores
    nontarget = labels == TrialClass.NONTARGET
    return {"asv": (asv[target], asv[nontarget]), "cm": (cm[positive], cm[spoof])}


def fit_paper(scores: Tensor, labels: Tensor, settings: CalibrationSettings) -> Affine:
    """Calibration as in the paper's published numbers.

    Every positive weighs π and every negative 1 − π, π being the fraction of positives; a penalty
    of ½a² (``penalty`` 1) is on the slope; logit π is subtracted from the intercept.
    """
    maps = []
    sides = split_sides(scores, labels, settings.cm_positives)
    for name, (positives, negatives) in sides.items():
        prior = len(positives) / (len(positives) + len(negatives))
        slope, intercept = weighted_logistic(
            positives, negatives, (prior, 1 - prior), settings.penalty_or(1.0), name
        )
        maps.append((slope, intercept - logit(prior)))
    return _diagonal(maps)


def fit_effective_prior(scores: Tensor, labels: Tensor, settings: CalibrationSettings) -> Affine:
    """Prior-weighted logistic regression (Brümmer): weights P/N₊ and (1−P)/N₋, offset logit P.

    The log-loss is that of the posterior ``σ(ax + b + logit P)``, so that ax + b is an LLR
    whatever the proportions of the data. No penalty unless one is asked for.
    """
    prior = settings.effective_prior
    maps = []
    sides = split_sides(scores, labels, settings.cm_positives)
    for name, (positives, negatives) in sides.items():
        weights = (prior / len(positives), (1 - prior) / len(negatives))
        slope, intercept = weighted_logistic(
            positives, negatives, weights, settings.penalty_or(0.0), name
        )
        maps.append((slope, intercept - logit(prior)))
    return _diagonal(maps)


def _diagonal(maps: list[tuple[Tensor, Tensor]]) -> Affine:
    """Weight and bias of two separate affine maps."""
    slopes, intercepts = zip(*maps, strict=True)
    return torch.diag(torch.stack(slopes)), torch.stack(intercepts)


AffineFit = Callable[[Tensor, Tensor, CalibrationSettings], Affine]

AFFINE_RECIPES: dict[str, AffineFit] = {
    "paper": fit_paper,
    "effective_prior": fit_effective_prior,
    "multinomial": lambda scores, labels, settings: fit_multinomial(
        scores, labels, settings.penalty_or(SMALL_PENALTY)
    ),
    "joint": lambda scores, labels, settings: fit_joint(
        scores, labels, settings.costs, settings.penalty_or(SMALL_PENALTY)
    ),
}
