"""What the settings of a fusion system may be, and its parts: ours, and those of others.

Theirs take and give numpy arrays. Where tensors pass through they are turned into arrays and back,
so that no gradient comes through a stage of others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from lightning_sasv.checks import Codes, Floats, is_tensor
from lightning_sasv.errors import InputError, meant
from lightning_sasv.fusion.calibration import CALIBRATIONS
from lightning_sasv.fusion.densities import DENSITIES, Config, Stage, State
from lightning_sasv.fusion.logistic import ORDERS
from lightning_sasv.fusion.rules import PLAIN_RULES, call_other, shaped
from lightning_sasv.fusion.transforms import CHOSEN
from lightning_sasv.plugins import Other, Registry, as_other
from lightning_sasv.trials import TrialClass


class Density(Protocol):
    """Density of the scores of one class; made anew with the settings that a file gives."""

    def start(self, columns: int) -> State:
        """Values before any fit, by name and of the shapes that ``fit`` gives."""

    def fit(self, points: Floats) -> State:
        """Values from the points (columns, trials) of one class."""

    def log_prob(self, state: State, points: Floats) -> Floats:
        """Log density (trials,) of points (columns, trials), up to what all classes share."""


class Calibration(Protocol):
    """Map of scores to two LLRs: target against nontarget, and target against spoof."""

    def start(self, columns: int) -> State:
        """Values before any fit, by name and of the shapes that ``fit`` gives."""

    def fit(self, scores: Floats, labels: Codes) -> State:
        """Values from scores (columns, trials) and ``TrialClass`` codes (trials,)."""

    def apply(self, state: State, scores: Floats) -> Floats:
        """LLRs (2, trials) of scores (columns, trials)."""


def as_density(thing: Any, **settings: Any) -> Stage:
    """A density of others as a stage: a :class:`Density`, or a class of them, or a stage.

    Raises:
        InputError: It is none.

    Example:
        >>> as_density(dict)
        Traceback (most recent call last):
        lightning_sasv.errors.InputError: it lacks start, fit, log_prob
    """
    if isinstance(thing, Stage):
        return thing
    one: Density = _made(thing, ("start", "fit", "log_prob"), settings)

    def start(columns: int) -> State:
        return _stacked([one.start(columns)] * len(TrialClass))

    def fit(points: Floats, codes: Codes) -> State:
        return _stacked([call_other(one.fit, points[:, codes == code]) for code in TrialClass])

    def apply(state: State, points: Floats) -> Floats:
        states = [{name: state[name][code] for name in state} for code in TrialClass]
        found = [call_other(one.log_prob, own, points) for own in states]
        spoof, target, nontarget = (shaped(own, points.shape[1:]) for own in found)
        return np.stack([target - nontarget, target - spoof])

    return _stage(start, fit, apply)


def as_calibration(thing: Any, **settings: Any) -> Stage:
    """A calibration of others as a stage: a :class:`Calibration`, a class of them, or a stage.

    Raises:
        InputError: It is none.

    Example:
        >>> as_calibration(dict)
        Traceback (most recent call last):
        lightning_sasv.errors.InputError: it lacks start, fit, apply
    """
    if isinstance(thing, Stage):
        return thing
    one: Calibration = _made(thing, ("start", "fit", "apply"), settings)
    return _stage(
        one.start,
        lambda scores, codes: call_other(one.fit, scores, codes),
        lambda state, scores: shaped(call_other(one.apply, state, scores), (2, *scores.shape[1:])),
    )


def _made(thing: Any, names: tuple[str, ...], settings: dict[str, Any]) -> Any:
    """An object with these methods, of a class or as it is."""
    lacking = [name for name in names if not callable(getattr(thing, name, None))]
    if lacking:
        raise InputError(f"it lacks {', '.join(lacking)}")
    if settings and not isinstance(thing, type):
        raise InputError("it is no class, and takes no init_args")
    return thing(**settings) if isinstance(thing, type) else thing


def _stacked(states: list[State]) -> State:
    """States of the classes as one."""
    return {name: np.stack([np.asarray(own[name], float) for own in states]) for name in states[0]}


def _stage(
    start: Callable[[int], State],
    fit: Callable[[Floats, Codes], State],
    apply: Callable[[State, Floats], Floats],
) -> Stage:
    """A stage of functions of arrays that takes tensors as well, and gives what it was given."""

    def in_floats(state: State) -> State:
        return {name: np.asarray(value, float) for name, value in state.items()}

    def on_arrays(state: State, scores: Any, _: Config) -> Any:
        if not is_tensor(scores):
            return apply(state, scores)
        arrays = {name: value.numpy(force=True) for name, value in state.items()}
        return scores.new_tensor(apply(arrays, scores.numpy(force=True)))

    return Stage(
        lambda config: in_floats(start(len(config["columns"].names))),
        lambda scores, codes, _: in_floats(fit(scores, codes)),
        on_arrays,
    )


PARTS: dict[str, Registry[Any]] = {
    "density": Registry(DENSITIES, "densities", "density", as_density),
    "calibration": Registry(CALIBRATIONS, "calibrations", "calibration", as_calibration),
    "rule": PLAIN_RULES,
}
"""What a system is made of, by the names of its settings: ours, and those of others."""

MOST_COMPONENTS = 1000

USUAL: dict[str, Any] = {"trim": None, "order": "linear", "transform": "none"}
"""Settings that a configuration holds only where they are something else."""


def check_settings(config: Config) -> None:
    """Raise at numbers out of range, and at orders and choices that nothing uses.

    Raises:
        InputError: Of such a setting.
    """
    if config["components"] > MOST_COMPONENTS:
        raise InputError(
            f"components must be at most {MOST_COMPONENTS}, got {config['components']}"
        )
    penalty, prior = config["penalty"], config["effective_prior"]
    if isinstance(penalty, float) and not 0 <= penalty < float("inf"):
        raise InputError(f"penalty must be finite and at least 0, got {penalty}")
    if not 0 < prior < 1:
        raise InputError(f"effective_prior must lie in (0, 1), got {prior}")
    if config["cm_positives"] not in ("bonafide", "target"):
        raise InputError(
            f"cm_positives must be 'bonafide' or 'target', got {config['cm_positives']!r}"
        )
    _check_order(config)


def _check_order(config: Config) -> None:
    """Raise at an order, or a choice by cross-validation, that the stages have no use for."""
    order, known = config["order"], (*ORDERS, CHOSEN)
    if order not in known:
        hint = meant(order, known) if isinstance(order, str) else ""
        raise InputError(f"unknown order {order!r}; expected one of {', '.join(known)}{hint}")
    if order != "linear" and config["calibration"] != "multinomial":
        raise InputError(f"order: {order} needs calibration: multinomial")
    for name in chosen_by_cv(config):
        if config["calibration"] != "multinomial" or config["density"] is not None:
            raise InputError(f"{name}: cv needs calibration: multinomial without a density")


def chosen_by_cv(config: Config) -> list[str]:
    """Names of the settings that are chosen by cross-validation."""
    transform = config["transform"]
    words = [transform] if isinstance(transform, str) else transform.values()
    asked = {"order": [config["order"]], "penalty": [config["penalty"]], "transform": words}
    return [name for name, own in asked.items() if CHOSEN in own]


def named_parts(**given: Any) -> dict[str, str | Other | None]:
    """What a system is made of, each by its name; an error where there is none such."""
    found: dict[str, str | Other | None] = {}
    for place, name in given.items():
        try:
            found[place] = part = as_other(name)
        except InputError as error:
            raise InputError(f"{place}: {error}, got {str(name)[:100]}") from None
        if part is None and place == "rule":
            raise InputError("unknown rule None; a system needs one")
        if part is not None and (place, part) != ("rule", "nonlinear"):
            PARTS[place].find(part)
    return found
