"""What a network is trained for: losses of its scores, with the derivatives that training needs.

Codes as everywhere: a is the ASV cosine, c the CM score, q = σ(c), and t is 1 for a target, else 0
(the *SASV label*). A loss is Σ wᵢ ℓᵢ / Σ wᵢ over the whole batch, whatever the number of processes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax, logsigmoid, softplus

from lightning_sasv.data.loaders import IGNORE
from lightning_sasv.data.sampler import CLASS_PROBABILITIES
from lightning_sasv.decisions.costs import PRESETS, CostModel
from lightning_sasv.errors import InputError, meant
from lightning_sasv.fusion import SYSTEMS, build_system
from lightning_sasv.fusion.rules import fuse_sigmoid_product, fuse_sigmoid_sum
from lightning_sasv.trials import TrialClass

NEAREST = 1e-4
"""A probability that is a sum of scores is kept so far from 0 and 1."""


class Batch(NamedTuple):
    """Trials that a loss is of, and their shares in it; the axes before the last are free.

    Attributes:
        kind: ``TrialClass`` codes, ``IGNORE`` for padding.
        positive: 1 for trials that the score should be high of.
        weight: w / Σ w over the whole batch; 0 for padding.
        share: 1 / N of the trial's class in the whole batch; 0 for padding.
        cosine: ASV score of each trial, where the objective needs it.
    """

    kind: Tensor
    positive: Tensor
    weight: Tensor
    share: Tensor
    cosine: Tensor | None

    @property
    def target(self) -> Tensor:
        """Which trials are targets."""
        return self.kind == TrialClass.TARGET

    def step(self, number: int) -> Batch:
        """One of the steps that the first axis counts."""
        return Batch(*(None if one is None else one[number] for one in self))  # type: ignore[arg-type]


class Objective(nn.Module):
    """From scores to a loss.

    Args:
        class_weights: Weights of spoof and bona fide, or of spoof, target and nontarget; by
            default the objective's own.

    Attributes:
        monitor: What the best epoch is chosen by, unless told otherwise.
        needs_asv: Whether it looks at the cosine of a trial.
        positives: Classes that the score should be high of.
        weights: Weights of spoof, target and nontarget.
    """

    monitor = "val/sasv_eer"
    needs_asv = True
    positives: tuple[TrialClass, ...] = (TrialClass.TARGET,)
    default_weights: tuple[float, ...] = (1.0, 1.0, 1.0)

    def __init__(self, class_weights: Sequence[float] | None = None) -> None:
        super().__init__()
        given = tuple(class_weights or self.default_weights)
        self.weights = given if len(given) == 3 else (given[0], given[1], given[1])

    def losses(self, scores: Tensor, batch: Batch) -> Tensor:
        """What each trial adds to the loss, (…, batch).

        Args:
            scores: CM or SASV scores (…, batch), or logits (…, batch, 3).
            batch: The trials.
        """
        raise NotImplementedError

    def batch(
        self, kind: Tensor, counts: Tensor, cosine: Tensor | None, dtype: torch.dtype
    ) -> Batch:
        """Shares of trials in the loss.

        Args:
            kind: ``TrialClass`` codes, ``IGNORE`` for padding, (…, batch).
            counts: Trials of each code in the whole batch, (…, 3).
            cosine: ASV scores, (…, batch).
            dtype: Type of scores and weights.
        """
        known, padding = kind.clamp(min=0), kind == IGNORE
        weights = torch.tensor(self.weights, dtype=dtype, device=kind.device)
        norm = self._total(counts.to(weights), weights).unsqueeze(-1)
        share = counts.clamp(min=1).to(weights).reciprocal().gather(-1, known)
        return Batch(
            kind,
            sum(kind == code for code in self.positives).to(dtype),  # type: ignore[union-attr]
            torch.where(padding, 0, weights[known] / norm),
            torch.where(padding, 0, share),
            None if cosine is None else cosine.to(dtype),
        )

    def _total(self, counts: Tensor, weights: Tensor) -> Tensor:
        """Sum of the weights of a batch."""
        return counts @ weights

    def pair(self, scores: Tensor) -> Tensor:
        """Scores of a joint head in the places of an ASV and a CM score, (…, 2): one is both."""
        return torch.stack([scores, scores], -1)

    def of_copy(self, copy: int) -> Objective:
        """The objective of one of its stacked heads, for scores that lie on the CPU."""
        return self

    def derivative(self, scores: Tensor, batch: Batch) -> list[Tensor]:
        """Derivative of the loss to the scores, and to each parameter of the objective."""
        with torch.enable_grad():
            leaf = scores.detach().requires_grad_()
            loss = self.losses(leaf, batch).sum()
            return list(torch.autograd.grad(loss, [leaf, *self.parameters()]))


class CMObjective(Objective):
    """``cm``: is the probe bona fide? ℓ = log(1 + e^(∓c)), dℓ/dc = σ(c) − y.

    The paper's class-weighted cross-entropy of two logits, y being 1 for bona fide speech.
    """

    monitor = "val/cm_eer"
    needs_asv = False
    positives = (TrialClass.TARGET, TrialClass.NONTARGET)
    default_weights = (0.1, 0.9)

    def losses(self, scores: Tensor, batch: Batch) -> Tensor:
        """See the class."""
        return softplus(torch.where(batch.kind == TrialClass.SPOOF, scores, -scores)) * batch.weight

    def derivative(self, scores: Tensor, batch: Batch) -> list[Tensor]:
        """See the class; in closed form, which is quicker."""
        return [(scores.sigmoid() - batch.positive) * batch.weight]

    def _total(self, counts: Tensor, weights: Tensor) -> Tensor:
        if self.weights[1] != self.weights[2]:
            return super()._total(counts, weights)
        pair = torch.stack([counts[..., 0], counts[..., 1:].sum(-1)], -1)  # in the paper's order
        return pair @ weights[:2]


class Posterior(NamedTuple):
    """The probability p of a target that a rule of ``fusion.rules`` makes of a and c.

    Attributes:
        logs: From a and c to log p and log(1 − p).
        slopes: From a and c to their derivatives to c.
    """

    logs: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
    slopes: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def _product_logs(asv: Tensor, cm: Tensor) -> tuple[Tensor, Tensor]:
    """Logarithms of p = σ(a) σ(c), the rule ``sigmoid_product`` (Post).

    The logarithms are added: the product itself is 0 in float32 at c = −100, and log p infinite.
    """
    log_p = logsigmoid(asv) + logsigmoid(cm)
    near = log_p > -math.log(2)
    below, above = log_p.clamp(max=-math.log(2)), log_p.clamp(min=-math.log(2), max=-1e-30)
    return log_p, torch.where(near, (-torch.expm1(above)).log(), torch.log1p(-below.exp()))


def _product_slopes(asv: Tensor, cm: Tensor) -> tuple[Tensor, Tensor]:
    """1 − q and −p (1 − q) / (1 − p)."""
    p, rest = fuse_sigmoid_product(asv, cm), (-cm).sigmoid()
    return rest, p * rest / (p - 1)


def _sum_posterior(asv: Tensor, cm: Tensor) -> Tensor:
    return (fuse_sigmoid_sum(asv, cm) / 2).clamp(NEAREST, 1 - NEAREST)


def _sum_logs(asv: Tensor, cm: Tensor) -> tuple[Tensor, Tensor]:
    """Logarithms of p = (a + σ(c)) / 2, kept in [1e-4, 1 − 1e-4] (rule ``sigmoid_sum``, B1v2).

    Why not σ(a + q): nontargets are bona fide, and pull c down. A saturated bona fide probe must
    still be pushed up, ½ (force of targets) > ¼ (force of nontargets) at q = 1, which holds here
    (0.66 > 0.53 on the twin) and not for a + q as a logit (0.09 < 0.19), with which the network
    gives bona fide speech up.
    """
    p = _sum_posterior(asv, cm)
    return p.log(), torch.log1p(-p)


def _sum_slopes(asv: Tensor, cm: Tensor) -> tuple[Tensor, Tensor]:
    """Slopes q (1 − q) / (2p) and −q (1 − q) / (2 (1 − p)); 0 where p is cut off."""
    p, q = _sum_posterior(asv, cm), cm.sigmoid()
    half = q * (1 - q) / 2 * ((p - 0.5).abs() < 0.5 - NEAREST)
    return half / p, half / (p - 1)


POSTERIORS = {
    "sigmoid_product": Posterior(_product_logs, _product_slopes),
    "sigmoid_sum": Posterior(_sum_logs, _sum_slopes),
}
"""For the rules of ``fusion.rules`` that end in a probability, what a loss needs of them."""

OWN = Posterior(
    lambda _, s: (logsigmoid(s), logsigmoid(-s)), lambda _, s: ((-s).sigmoid(), -s.sigmoid())
)
"""p = σ(s), for a head that gives the SASV score itself."""


class FusedObjective(Objective):
    """``fused``: is the trial a target, by the score that is used?

    ℓ = −log p for t = 1 and −log(1 − p) for t = 0, p the probability that a rule makes of a and c
    (:data:`POSTERIORS`): σ(a) σ(c) for Post, (a + σ(c)) / 2 for B1v2. dℓ/dc is −(1 − q) and
    p (1 − q) / (1 − p) for Post, −q (1 − q) / (2p) and q (1 − q) / (2 (1 − p)) for B1v2, there 0
    where p is cut off. Post's is the loss of PR-S-F (Zhang et al. 2022, arXiv:2202.05253); for B1v2
    no source gives one.

    Args:
        class_weights: As for every objective; by default all trials count alike.
        rule: A key of :data:`POSTERIORS`, or ``None`` where the score is the SASV score itself.
    """

    def __init__(
        self, class_weights: Sequence[float] | None = None, rule: str | None = "sigmoid_product"
    ) -> None:
        super().__init__(class_weights)
        self.rule = rule
        self.needs_asv = rule is not None
        self.posterior = OWN if rule is None else POSTERIORS[rule]

    def losses(self, scores: Tensor, batch: Batch) -> Tensor:
        """See the class."""
        log_p, log_rest = self.posterior.logs(self._asv(scores, batch), scores)
        return -torch.where(batch.target, log_p, log_rest) * batch.weight

    def derivative(self, scores: Tensor, batch: Batch) -> list[Tensor]:
        """See the class; in closed form, which is quicker."""
        slopes = self.posterior.slopes(self._asv(scores, batch), scores)
        return [torch.where(batch.target, *slopes) * -batch.weight]

    @staticmethod
    def _asv(scores: Tensor, batch: Batch) -> Tensor:
        """The cosine, where the score is not the whole."""
        return scores if batch.cosine is None else batch.cosine


class DCFObjective(FusedObjective):
    """``a_dcf``: half the loss of ``fused``, half a soft a-DCF of the same probability p.

    The soft a-DCF is [C_m π_t P_miss + C_n π_n P_non + C_s π_s P_spf] / norm, each rate the mean of
    σ(±α (p − τ)) over the trials of a class (Kurnaz et al. 2024, arXiv:2407.04034, who have no α).
    A class that a batch lacks adds nothing. The threshold τ is learnt, one for each copy, without
    weight decay. Alone it would let the scale of the scores run away.

    Args:
        class_weights: Of the first half.
        rule: As for ``fused``.
        costs: Cost model of the a-DCF.
        copies: Stacked heads.
    """

    monitor = "val/a_dcf"
    ALPHA, START = 20.0, 0.57

    def __init__(
        self,
        class_weights: Sequence[float] | None = None,
        rule: str | None = "sigmoid_product",
        costs: CostModel = PRESETS["a-dcf1"],
        copies: int = 1,
    ) -> None:
        super().__init__(class_weights, rule)
        self.costs = costs
        self.tau = nn.Parameter(torch.full((copies, 1), self.START))

    def losses(self, scores: Tensor, batch: Batch) -> Tensor:
        """See the class."""
        p = self.posterior.logs(self._asv(scores, batch), scores)[0].exp()
        target, nontarget, spoof = self.costs.weights
        known = p.new_tensor((spoof, target, nontarget)) / self.costs.default_cost
        error = torch.sigmoid(self.ALPHA * torch.where(batch.target, self.tau - p, p - self.tau))
        soft = known[batch.kind.clamp(min=0)] * batch.share * error
        return (super().losses(scores, batch) + soft) / 2

    derivative = Objective.derivative

    def of_copy(self, copy: int) -> DCFObjective:
        """See the base class: with its threshold alone."""
        own = DCFObjective(self.weights, self.rule, self.costs)
        own.tau = nn.Parameter(self.tau.detach()[copy : copy + 1].cpu(), requires_grad=False)
        return own


class ThreeClassObjective(Objective):
    """``three_class``: spoof, target or nontarget? ℓ = −log softmax(z)_y, dℓ/dz = softmax(z) − e_y.

    For heads with three logits z, in the order of ``TrialClass``. Of class weights w and the shares
    κ of the sampler, (¼, ½, ¼), the LLRs are z₁ − z₂ − log(w₁κ₁ / w₂κ₂) and
    z₁ − z₀ − log(w₁κ₁ / w₀κ₀).
    """

    needs_asv = False

    def losses(self, scores: Tensor, batch: Batch) -> Tensor:
        """See the class."""
        known = batch.kind.clamp(min=0).unsqueeze(-1)
        return -log_softmax(scores, -1).gather(-1, known).squeeze(-1) * batch.weight

    def derivative(self, scores: Tensor, batch: Batch) -> list[Tensor]:
        """See the class; in closed form, which is quicker."""
        known = batch.kind.clamp(min=0).unsqueeze(-1)
        wrong = scores.softmax(-1).scatter_add(-1, known, -torch.ones_like(scores[..., :1]))
        return [wrong * batch.weight.unsqueeze(-1)]

    def pair(self, scores: Tensor) -> Tensor:
        """LLRs of target against nontarget, and against spoof."""
        odds = [math.log(self.weights[k] * CLASS_PROBABILITIES[k]) for k in sorted(TrialClass)]
        spoof, target, nontarget = (scores - scores.new_tensor(odds)).unbind(-1)
        return torch.stack([target - nontarget, target - spoof], -1)


OBJECTIVES = ("auto", "cm", "fused", "a_dcf", "three_class")
MONITORS = ("val/cm_eer", "val/sasv_eer", "val/a_dcf")
"""What the best epoch can be chosen by."""


def rule_of(system: str) -> str | None:
    """The rule of a system that makes a probability of raw scores, as Post and B1v2 do."""
    made = build_system(system).config if system in SYSTEMS else {}
    raw = made.get("density") is None and made.get("calibration") is None
    return made["rule"] if raw and made.get("rule") in POSTERIORS else None


def chosen(objective: str, systems: Sequence[str]) -> tuple[str, str]:
    """An objective, and the rule whose score is trained for: the first that is there, else Post's.

    Args:
        objective: One of :data:`OBJECTIVES`; ``auto`` is ``fused`` for one system with such a rule.
        systems: Names of the systems.
    """
    rule = next(filter(None, map(rule_of, systems)), None)
    if objective == "auto":
        objective = "fused" if rule is not None and len(systems) == 1 else "cm"
    return objective, rule or "sigmoid_product"


def chosen_objective(objective: str, systems: Sequence[str]) -> list[str]:
    """What is to be said of the choice of ``auto``, where systems could have been trained for.

    Example:
        >>> chosen_objective("auto", ["L3"])
        []
        >>> chosen_objective("auto", ["Post"])
        ['objective auto: the network is trained for the score of Post (fused)']
    """
    own = [name for name in systems if rule_of(name)] if objective == "auto" else []
    if not own:
        return []
    if chosen(objective, systems)[0] == "fused":
        return [f"objective auto: the network is trained for the score of {own[0]} (fused)"]
    shared = f"objective auto: one network of the CM label for all systems (cm); {own[0]} alone"
    return [f"{shared} would train its own"]


def make_objective(
    name: str,
    rule: str | None,
    class_weights: Sequence[float] | None,
    costs: CostModel,
    copies: int,
) -> Objective:
    """An objective by its name; what one does not need is ignored.

    Args:
        name: One of :data:`OBJECTIVES`, but ``auto``.
        rule: The rule whose score is trained for; ``None`` for a head that gives it itself.
        class_weights: As for every objective.
        costs: Cost model of the a-DCF.
        copies: Stacked heads.
    """
    if name == "cm":
        return CMObjective(class_weights)
    if name == "fused":
        return FusedObjective(class_weights, rule)
    if name == "a_dcf":
        return DCFObjective(class_weights, rule, costs, copies)
    if name == "three_class":
        return ThreeClassObjective(class_weights)
    listed = f"{', '.join(OBJECTIVES)}{meant(name, OBJECTIVES)}"
    raise InputError(f"model.objective: expected one of {listed}, got {name!r}")
