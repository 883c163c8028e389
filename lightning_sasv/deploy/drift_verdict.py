"""What drift was found, and the verdict on it in words."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

TRUSTED = "thresholds can be trusted"
PRIORS = "priors differ: new threshold"
SCORES = "scores differ: measure again with labels"
TOO_LITTLE = "too little to tell"

FEWEST_SPEAKERS, FEWEST_TRIALS = 5, 200
ORDINARY = 0.1
"""KS distance that ordinary speakers reach from others."""
NEAR = 0.05
"""Priors this near to those of the costs are taken for them: EM is right to 0.034, and estimates of
1,000 trials vary by 0.016."""
ALPHA = 0.05


class Estimate(NamedTuple):
    """A share with its 95 % interval, NaN where there is none."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        bracket = f" [{100 * self.low:.1f}, {100 * self.high:.1f}]" if self.low == self.low else ""
        return f"{100 * self.value:.1f}{bracket} %"


class Shift(NamedTuple):
    """How far a score has moved from dev.

    Attributes:
        distance: KS distance D to dev weighted by the estimated priors.
        p: Share of permutations of speakers that are as far apart; ``None`` without their names.
        adjusted: The same adjusted by Holm over the scores.
        dev_halves: What 95 % of random halves of dev's own speakers stay below.
    """

    distance: float
    p: float | None
    adjusted: float | None
    dev_halves: float | None


@dataclass(frozen=True)
class Drift:
    """What new trials say of a bundle.

    Attributes:
        verdict: One of the four in words.
        reasons: What it rests on.
        trials: New trials.
        speakers: New speakers; ``None`` where they are not named.
        priors: Estimated prior of each class.
        cost_priors: Priors of the bundle's costs.
        outside: Share of trials outside what dev measured, at ``level``; ``None`` where dev has too
            few trials to say.
        level: Its level.
        scores: How far each score has moved.
        threshold: Threshold of the bundle's costs.
        new_threshold: That of the same costs at the estimated priors, −log β.

    Example:
        >>> shown = {"target": Estimate(0.9, 0.85, 0.93)}, {"target": 0.9}
        >>> found = Drift("", [], 150, 4, *shown, None, 0.01, {}, 0.5, 0.4)
        >>> judge(found)[0]
        'too little to tell'
    """

    verdict: str
    reasons: list[str]
    trials: int
    speakers: int | None
    priors: dict[str, Estimate]
    cost_priors: dict[str, float]
    outside: Estimate | None
    level: float
    scores: dict[str, Shift]
    threshold: float
    new_threshold: float

    def as_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        found = asdict(self)
        found["priors"] = {name: one._asdict() for name, one in self.priors.items()}
        found["outside"] = None if self.outside is None else self.outside._asdict()
        return found | {"scores": {name: one._asdict() for name, one in self.scores.items()}}

    def lines(self) -> list[str]:
        """The same in words, the verdict last."""
        whose = "no speakers named" if self.speakers is None else f"{self.speakers:,} speakers"
        priors = ", ".join(
            f"{name} {one} (costs: {100 * self.cost_priors[name]:g} %)"
            for name, one in self.priors.items()
        )
        far = "dev has too few trials to say" if self.outside is None else str(self.outside)
        lines = [
            f"{self.trials:,} trials, {whose}",
            f"priors: {priors}",
            f"outside what dev measured at {100 * self.level:g} %: {far}",
        ]
        for name, one in self.scores.items():
            said = f"{name}: KS distance to dev at these priors {one.distance:.3f}"
            if one.dev_halves is not None:
                said += f" (95 % of dev's own halves: {one.dev_halves:.3f})"
            if one.p is not None:
                said += f", p {one.p:.3g} by permuting speakers, {one.adjusted:.3g} by Holm"
            lines.append(said)
        return [*lines, f"{self.verdict} ({'; '.join(self.reasons)})"]


def judge(found: Drift) -> tuple[str, list[str]]:
    """The verdict on measured values, and the reasons in words."""
    few = []
    if found.trials < FEWEST_TRIALS:
        few.append(f"{found.trials} trials, at least {FEWEST_TRIALS} are needed")
    if found.speakers is not None and found.speakers < FEWEST_SPEAKERS:
        few.append(f"{found.speakers} speakers, at least {FEWEST_SPEAKERS} are needed")
    if few:
        return TOO_LITTLE, few
    moved = _moved(found)
    apart = {
        name: one.value
        for name, one in found.priors.items()
        if abs(one.value - found.cost_priors[name]) > NEAR
    }
    notes = (
        []
        if found.speakers is not None and None not in (one.p for one in found.scores.values())
        else [_no_p(found)]
    )
    if moved:
        return SCORES, moved + notes
    if apart:
        shown = ", ".join(
            f"{name} {100 * value:.1f} % (costs: {100 * found.cost_priors[name]:g} %)"
            for name, value in apart.items()
        )
        return PRIORS, [
            f"{shown}: same LLRs, threshold {_plain(found.new_threshold)} instead of "
            f"{_plain(found.threshold)}",
            *notes,
        ]
    return TRUSTED, ["no score has moved, and the priors are near those of the costs", *notes]


def _plain(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "none (a class has no share)"


def _moved(found: Drift) -> list[str]:
    """Signs that scores are others than on dev."""
    signs = []
    for name, one in found.scores.items():
        if one.adjusted is not None and one.adjusted <= ALPHA:
            signs.append(f"{name}: permuting speakers gives p = {one.adjusted:.3g} (Holm)")
        if one.distance > ORDINARY:
            signs.append(
                f"{name}: KS distance {one.distance:.3f}, ordinary speakers stay below {ORDINARY}"
            )
    if found.outside is not None and found.outside.low > found.level:
        signs.append(
            f"{found.outside} of the trials are outside what dev measured, "
            f"{100 * found.level:g} % would be usual"
        )
    return signs


def _no_p(found: Drift) -> str:
    whose = "the trials name no speakers"
    if found.speakers is not None:
        whose = "dev's trials name no speakers, or one alone"
    return (
        f"no p-values: {whose}, and a test of single trials cries wolf, because those of one "
        "speaker are alike"
    )
