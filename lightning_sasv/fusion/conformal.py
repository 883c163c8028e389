"""What development trials measured, and which trials lie outside of it, at a stated level.

Class-conditional conformal p-values: for class k with location m_k and scatter S_k of the Student-t
(ν = 4) of its development trials, the nonconformity of a trial is its squared distance
``δ_k(x) = (x − m_k)ᵀ S_k⁻¹ (x − m_k)``, and ``p_k(x) = (1 + #{i of class k: δ_k(x_i) ≥ δ_k(x)}) /
(N_k + 1)``. A trial is outside at the level α iff every p_k is at most α. A trial of any class that
is like those of development is outside in about α of the cases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lightning_sasv.checks import Codes, Floats
from lightning_sasv.errors import InputError
from lightning_sasv.fusion.columns import PAIR, Columns
from lightning_sasv.fusion.densities import State, fit_student_t, in_floats, squared_distance
from lightning_sasv.trials import TrialClass

LEVEL = 0.01
"""The level unless another is asked for."""
DEGREES_OF_FREEDOM = 4.0


def outside_in_words(level: float) -> str:
    """What it means to be outside at a level, and how often that is.

    Example:
        >>> outside_in_words(0.01).partition(", ")[2]
        'in about 1 % of trials of speakers like those of dev'
    """
    share = f"{100 * level:g} %"
    often = f"in about {share} of trials of speakers like those of dev"
    return f"outside what dev measured at the level {share}, {often}"


class Measured:
    """What the development trials of each class measured; classes ordered as ``TrialClass``.

    Args:
        mean: Location of each class, (3, columns).
        scatter: Scatter of each class, (3, columns, columns).
        distances: Squared distances of the development trials of each class, ascending.

    Example:
        >>> random, labels = np.random.default_rng(0), np.arange(600) % 3
        >>> found = measure(random.normal(size=(2, 600)), labels)
        >>> found.outside(np.array([[0.0, 9.0], [0.0, 9.0]]), 0.01).tolist()
        [False, True]
        >>> found.outside((0.0, 0.0), 0.01), float(found.p_values((9.0, 9.0))[0])
        (False, 0.004975124378109453)
    """

    def __init__(self, mean: Floats, scatter: Floats, distances: Sequence[Floats]) -> None:
        self.mean, self.scatter, self.distances = mean, scatter, list(distances)
        self._classes = [(centre, rows) for centre, rows, _ in in_floats(mean, scatter)]
        self._known: tuple[float, list[tuple[float, Any]]] = (math.nan, [])

    @property
    def least_level(self) -> float:
        """The least level at which anything can be outside: ``max_k 1/(N_k + 1)``."""
        return 1 / (min(map(len, self.distances)) + 1)

    def p_values(self, scores: Any) -> list[Any]:
        """p_k of each class; scores as for :meth:`outside`."""
        found = []
        for own, (mean, rows) in zip(self.distances, self._classes, strict=True):
            below = np.searchsorted(own, squared_distance(scores, mean, rows), side="left")
            found.append((1 + len(own) - below) / (len(own) + 1))
        return found

    def outside(self, scores: Any, level: float) -> Any:
        """Whether every p_k is at most the level.

        Args:
            scores: Scores (columns, trials), or those of one trial in plain floats.
            level: The level α.
        """
        if level != self._known[0]:
            limits = (_largest_inside(own, level) for own in self.distances)
            self._known = level, [*zip(limits, self._classes, strict=True)]
        if type(scores[0]) is float:  # one class that it is inside of settles it
            for limit, (mean, rows) in self._known[1]:
                if squared_distance(scores, mean, rows) <= limit:
                    return False
            return True
        far = [squared_distance(scores, *own) > limit for limit, own in self._known[1]]
        return far[0] & far[1] & far[2]

    def arrays(self) -> State:
        """Everything by name."""
        own = zip(TrialClass, self.distances, strict=True)
        return {"mean": self.mean, "scatter": self.scatter} | {str(k): one for k, one in own}

    @classmethod
    def of_arrays(cls, arrays: State, columns: int) -> Measured:
        """What :meth:`arrays` gave.

        Raises:
            InputError: It is of another number of columns, or makes no sense.
        """
        names = {"mean", "scatter", *map(str, TrialClass)}
        if arrays.keys() != names:
            raise InputError(f"missing or unknown values {sorted(arrays.keys() ^ names)}")
        distances = [np.asarray(arrays[str(code)]) for code in TrialClass]
        shapes = arrays["mean"].shape == (3, columns) and all(own.ndim == 1 for own in distances)
        if not (shapes and arrays["scatter"].shape == (3, columns, columns)):
            raise InputError(f"it is not of {columns} columns and three classes")
        for value in arrays.values():
            if value.dtype != np.float64 or not np.isfinite(value).all():
                raise InputError("its values must be finite, in float64")
        if any(not own.size or (np.diff(own) < 0).any() for own in distances):
            raise InputError("distances must ascend")
        with np.errstate(invalid="ignore"):
            found = cls(arrays["mean"], arrays["scatter"], distances)
        if not all(row[-1] > 0 for _, rows in found._classes for row in rows):
            raise InputError("a scatter is not positive definite")
        return found


def measure(scores: Floats, codes: Codes, columns: Columns = PAIR) -> Measured:
    """What development trials measured.

    Args:
        scores: Scores (columns, trials) as they come in, measures of quality left out.
        codes: ``TrialClass`` codes (trials,), every class among them.
        columns: What the scores are.

    Raises:
        InputError: Columns are collinear in a class.
    """
    settings = {"dof": DEGREES_OF_FREEDOM, "columns": columns}
    moments = [fit_student_t(scores[:, codes == code], code, settings) for code in TrialClass]
    mean, scatter = (np.stack(part) for part in zip(*moments, strict=True))
    distances = []
    for code, (centre, rows, _) in zip(TrialClass, in_floats(mean, scatter), strict=True):
        own = squared_distance(scores[:, codes == code], centre, rows)
        distances.append(np.sort(own))
    return Measured(mean, scatter, distances)


def _largest_inside(distances: Floats, level: float) -> float:
    """The largest distance whose p is above a level; infinite where every p is."""
    count = len(distances)
    beyond = math.floor(level * (count + 1)) + 1  # so many at least as far are too many
    while beyond > 0 and beyond / (count + 1) > level:
        beyond -= 1
    if beyond == 0:
        return math.inf
    return -math.inf if beyond > count else float(distances[count - beyond])
