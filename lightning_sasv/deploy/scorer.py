"""The scorer of a bundle: the scores of a trial in, a decision with its reason out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from lightning_sasv.checks import LARGEST_SCORE, Floats, is_tensor
from lightning_sasv.decisions import (
    CostModel,
    abstain_rule,
    bayes_rule,
    reason_sentences,
    threshold_sentences,
    unsure_sentences,
)
from lightning_sasv.deploy.decision import BAYES, DecisionRule, Verdict, checked_scores
from lightning_sasv.errors import InputError
from lightning_sasv.fitted import frozen
from lightning_sasv.fusion.base import Fusion
from lightning_sasv.fusion.conformal import LEVEL, Measured
from lightning_sasv.fusion.rules import rule_at
from lightning_sasv.numerics import namespace
from lightning_sasv.trials import Scores

BLOCK = 1 << 14
"""Trials that are scored together; their numbers fit into a processor's cache."""

Numbers = tuple[Any, Any, Any, Any, Any, Any, Any]
"""Of trials: both sides as they come, both as they are bounded, score, margin, and the gain of
deciding nothing."""


class Scorer:
    """A deployed fusion system: call it with an ASV and a CM score, or with arrays of them.

    One of several scores is called with a mapping from the names of its columns (``columns``) to
    scores of one trial or of several.

    Args:
        system: Fitted system, as a module or as it was read.
        rule: How it decides.
        costs: Costs and priors of the application.
        metadata: Where all this comes from.
        bounds: Whether LLRs are kept within their bounds.
        measured: What the development trials measured; trials outside are not accepted.
        level: The level at which they are outside.

    Example:
        >>> from lightning_sasv.fitted import FittedSystem
        >>> system = FittedSystem("B1", {"rule": "sum"}, {"fitted": np.array(True)})
        >>> scorer = Scorer(system, DecisionRule("threshold", 2.0, None), CostModel(), {})
        >>> scorer(0.5, 2.0).decision, scorer(0.5, 2.0).reason
        ('accept', 'accepted: score 2.5 above 2')
    """

    def __init__(
        self,
        system: Fusion,
        rule: DecisionRule,
        costs: CostModel,
        metadata: Mapping[str, Any],
        *,
        bounds: bool = True,
        measured: Measured | None = None,
        level: float = LEVEL,
    ) -> None:
        self.measured, self.level = measured, level
        self.system, self.rule, self.costs = frozen(system), rule, costs
        self.metadata, self.bounds = metadata, bounds
        self._state, self._takes_pair = self.system.arrays(), self.system.columns.is_pair
        self._single = self.system.single(self._state)
        self._fuse = rule_at(self.system.rule, self.system.rho)
        self._by_policy, (self._risk, self._limit) = rule.kind == BAYES, bayes_rule(costs)
        self._limit = self._limit if self._by_policy else rule.threshold
        self._gain = abstain_rule(costs) if self._by_policy else None
        self._judged = self.system.columns.scores  # measures of quality are not

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the scores that it takes."""
        return self.system.columns.names

    def __call__(self, asv: Any, cm: Any = None, *, bounds: bool | None = None) -> Verdict:
        """Score and decide; ``score`` is the same.

        Args:
            asv: ASV score of a trial, or scores (trials,) as list, array or tensor; or a mapping
                from the name of each column to its score, or scores, and nothing else.
            cm: CM score, or scores, of the same shape.
            bounds: Whether LLRs are kept within their bounds; by default as loaded.

        Raises:
            InputError: A score that is not a finite number, shapes that do not agree, or names
                that are missing or unknown.
        """
        held = self.bounds if bounds is None else bounds
        if (
            (type(asv) is type(cm) is float and self._takes_pair)
            and -LARGEST_SCORE <= asv <= LARGEST_SCORE
            and -LARGEST_SCORE <= cm <= LARGEST_SCORE
        ):
            return self._one((asv, cm), held)
        scores, single = self._named(asv) if isinstance(asv, Mapping) else self._pair(asv, cm)
        if single:
            return self._one(scores[:, 0].tolist(), held)
        return self._of_arrays(scores, held)

    score = __call__

    def of(self, trials: Scores) -> Verdict:
        """Score and decide trials as :func:`choose_rule` takes them."""
        return self._of_arrays(checked_scores(self.system, trials), self.bounds)

    def _named(self, named: Mapping[str, Any]) -> tuple[Floats, bool]:
        """Scores (columns, trials) by the names of columns, and whether they are of one trial."""
        _, scores = self.system.checked(*self.system.columns.take(named))
        return scores, all(np.ndim(_listed(values)) == 0 for values in named.values())

    def _pair(self, asv: Any, cm: Any) -> tuple[Floats, bool]:
        """Scores (2, trials) of a pair, and whether it is of one trial alone."""
        if not self.system.columns.is_pair:
            raise InputError(
                f"this scorer takes {', '.join(self.columns)}; give a mapping from these names "
                "to scores"
            )
        if cm is None:
            raise InputError("cm is missing: give an ASV and a CM score, or a mapping of names")
        sides = [_listed(side) for side in (asv, cm)]
        ranks = {np.ndim(side) for side in sides}
        if ranks == {0, 1}:
            raise InputError("asv and cm differ in shape: one is a number, the other is not")
        for name, side in zip(("asv", "cm"), sides, strict=True):
            if np.ndim(side) > 1:
                raise InputError(f"{name} must be one-dimensional, got shape {np.shape(side)}")
        single = ranks == {0}
        _, scores = self.system.checked(*([side] if single else side for side in sides))
        return scores, single

    def _one(self, scores: Sequence[float], bounds: bool) -> Verdict:
        """One trial, in plain floats."""
        outside = None
        if self.measured is not None:
            outside = self.measured.outside(scores[: self._judged], self.level)
        return self._verdict(self.numbers(*self._single(scores), bounds), outside)

    def _of_arrays(self, scores: Floats, bounds: bool) -> Verdict:
        """Block by block: what is computed of a block stays in the cache."""
        numbers, outside = np.empty((7, scores.shape[1])), None
        if self.measured is not None:
            outside = np.empty(scores.shape[1], dtype=bool)
        for start in range(0, scores.shape[1], BLOCK):
            place = slice(start, start + BLOCK)
            block = scores[:, place]
            sides = self.system.sides(self._state, block)
            for row, values in zip(numbers, self.numbers(*sides, bounds), strict=True):
                row[place] = values
            if self.measured is not None and outside is not None:
                outside[place] = self.measured.outside(block[: self._judged], self.level)
        return self._verdict(tuple(numbers), outside)  # type: ignore[arg-type]

    def numbers(self, own_asv: Any, own_cm: Any, bounds: bool) -> Numbers:
        """Everything that is computed of two sides: floats, arrays or tensors."""
        asv, cm = own_asv, own_cm
        if bounds and self.rule.bounds is not None:
            clip = namespace(asv).clip
            asv, cm = clip(asv, *self.rule.bounds.asv_llr), clip(cm, *self.rule.bounds.cm_llr)
        score = self._fuse(asv, cm)
        margin = (self._risk(asv, cm) if self._by_policy else score) - self._limit
        gain = -math.inf if self._gain is None else self._gain(asv, cm)
        return own_asv, own_cm, asv, cm, score, margin, gain

    def _verdict(self, numbers: Numbers, outside: Any) -> Verdict:
        _, _, asv, cm, score, margin, gain = numbers
        accepted = margin > 0
        unsure = False if accepted is True or accepted is False else np.zeros_like(accepted)
        if self._gain is not None:
            unsure = gain > 0
            accepted = accepted > unsure  # accepted and not unsure
        if outside is not None:
            unsure, accepted = unsure | (accepted & outside), accepted > outside
        words = partial(self._reasons, numbers, outside)
        if not self._by_policy:
            asv = cm = None
        return Verdict(accepted, score, asv, cm, margin, words, unsure, outside)

    def _reasons(self, numbers: Numbers, outside: Any) -> Any:
        """Why, in words, of each trial."""
        own_asv, own_cm, asv, cm, score, margin, gain = map(np.atleast_1d, numbers)
        if self._by_policy:
            moved = asv != own_asv, cm != own_cm
            said = reason_sentences(margin > 0, (asv, cm), moved, self.costs)
        else:
            said = threshold_sentences(margin > 0, score, self.rule.threshold)
        far = np.zeros(len(said), dtype=bool) if outside is None else np.atleast_1d(outside)
        return unsure_sentences(said, margin > 0, gain > 0, far)


def _listed(values: Any) -> Any:
    return values.tolist() if is_tensor(values) else values
