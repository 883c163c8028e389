"""The state of a system: fitted values by name, each with its place."""

from __future__ import annotations

from typing import Any

import numpy as np

from lightning_sasv.errors import InputError
from lightning_sasv.fusion.columns import PAIR, Columns, from_bytes
from lightning_sasv.fusion.densities import Config, Stage, State
from lightning_sasv.fusion.transforms import WORDS
from lightning_sasv.numerics import namespace


def columns_of(state: State) -> Columns:
    """The columns that a state is of."""
    return from_bytes(state["names"]) if "names" in state else PAIR


def layout_of(state: State, columns: Columns) -> tuple[Columns, list[str]]:
    """Columns of a state, and the transform of each."""
    if "transform.word" not in state:
        return columns, ["none"] * len(columns.names)
    return columns, [WORDS[number] for number in state["transform.word"].tolist()]


def sized_by_data(state: State) -> State:
    """Values of shapes that no setting says: knots, which ascend, and values of transforms."""
    sized = {name: state[name] for name in state if name == "transform.value"}
    if "calibration.knots" in state:
        knots = state["calibration.knots"]
        if knots.ndim != 2 or (np.diff(knots) < 0).any():
            raise InputError("calibration.knots must ascend on both sides")
        sized |= dict.fromkeys(("calibration.knots", "calibration.llrs"), knots[:2])
    return sized


def check_shapes(state: State, expected: State) -> None:
    """Raise unless a state has the names and shapes of another, and finite values.

    Raises:
        InputError: A value is missing, unknown, of another shape, or not finite.
    """
    if state.keys() != expected.keys():
        odd = sorted(state.keys() ^ expected.keys())
        raise InputError(f"missing or unknown values {odd}")
    expected = expected | sized_by_data(state)
    for name, value in state.items():
        if value.shape != expected[name].shape or not np.isfinite(value).all():
            raise InputError(
                f"{name} must be finite and of shape {expected[name].shape}, got {value.shape}"
            )


def of_place(place: str, state: State) -> State:
    """The values of one place, by their own names."""
    start = f"{place}."
    return {name[len(start) :]: value for name, value in state.items() if name.startswith(start)}


def at_place(place: str, values: State) -> State:
    """Values of a place by their names in a state."""
    return {f"{place}.{name}": np.asarray(value) for name, value in values.items()}


def given_to(place: str, scores: Any, settings: Config) -> Any:
    """What a stage is given: a density the scores, without measures of quality."""
    return scores[: settings["columns"].scores] if place == "density" else scores


def after_stage(place: str, stage: Stage, values: State, scores: Any, settings: Config) -> Any:
    """What comes out of a stage; measures of quality pass a density by."""
    result = stage.apply(values, given_to(place, scores, settings), settings)
    quality = scores[settings["columns"].scores :] if place == "density" else scores[:0]
    return namespace(scores).concatenate([result, quality]) if len(quality) else result
