"""Development trials that mislead a fit: what is said of them, in words and as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.errors import InputError

LISTED = 100
"""So many trials of a warning are kept."""
SIDES = ("asv", "cm")
FAILED = "failed"
"""Code of the one warning of a system that could not be fitted: its reason."""

Where = Callable[[int, str], str]
"""Names a trial: ``where(row, column)``, the columns of the pair being ``asv`` and ``cm``."""


class TrialScore(TypedDict):
    """A trial that a warning is about: where it is found, and its score."""

    at: str
    score: float


class FitWarning(TypedDict):
    """What makes a fit doubtful, plain enough for JSON.

    ``code`` is ``trimmed``, ``constant``, ``copy``, ``few``, ``dominated``, ``narrow``, ``slope``,
    ``fixed`` or ``order``, or ``failed`` where there is no fit; ``text`` says in words what was
    found, of which trials, and what to do; ``value`` is the number found: of trials, the constant,
    the variance, the slope, or the EER.

    Example:
        >>> from lightning_sasv.fusion import build_system
        >>> asv, cm, labels = [0.1, 0.6, 0.2, 0.3], [1.0, 2.0, -3.0, -2.0], [2, 1, 0, 0]
        >>> build_system("L2").fit(asv, cm, labels).warnings[0]["text"][:48]
        'class spoof has 2 dev trial(s), fewer than the 5'
    """

    code: str
    text: str
    value: float
    trials: list[TrialScore]


class Doubt(NamedTuple):
    """A warning before its trials have names: ``cells`` are (column, row) of their scores."""

    code: str
    value: float
    found: str
    remedy: str
    cells: NDArray[np.intp] = np.empty((0, 2), np.intp)


def numbered(row: int, side: str) -> str:
    """Names a trial by its place in what was given to ``fit``."""
    return f"trial {row}"


def warning_lines(found: Mapping[str, Sequence[FitWarning]]) -> list[str]:
    """Warnings of systems by name, each said once for all systems that it is of.

    Example:
        >>> few: FitWarning = {"code": "few", "text": "too few trials", "value": 2, "trials": []}
        >>> warning_lines({"L2": [few], "L3": [few], "B1": []})
        ['warning: L2, L3: too few trials']
    """
    systems: dict[tuple[str, str], list[str]] = {}
    for name, warnings in found.items():
        for one in warnings:
            kind = "note" if one["code"] == "trimmed" else "warning"
            text = f"not fitted: {one['text']}" if one["code"] == FAILED else one["text"]
            systems.setdefault((kind, text), []).append(name)
    return [f"{kind}: {', '.join(names)}: {text}" for (kind, text), names in systems.items()]


def reason_of(warnings: Iterable[FitWarning]) -> str | None:
    """Why a system could not be fitted; nothing if it could."""
    return next((one["text"] for one in warnings if one["code"] == FAILED), None)


def is_doubtful(warnings: Iterable[FitWarning]) -> bool:
    """Whether they say more than what was left out."""
    return any(one["code"] != "trimmed" for one in warnings)


def marked(name: str, doubtful: bool) -> str:
    """The name of a system as tables have it: with a sign of exclamation if its fit is doubtful."""
    return f"{name} !" if doubtful else name


def as_warnings(value: Any) -> list[FitWarning]:
    """Warnings as a file has them.

    Raises:
        InputError: They are something else.
    """
    try:
        return [
            {
                "code": str(one["code"]),
                "text": str(one["text"]),
                "value": float(one["value"]),
                "trials": [{"at": str(t["at"]), "score": float(t["score"])} for t in one["trials"]],
            }
            for one in value
        ]
    except (TypeError, KeyError, ValueError, OverflowError):
        raise InputError("its warnings are not a list of code, text, value and trials") from None
